# Compilers, languages, third-party packages: everything every target shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Executables too, so that they can reuse the precompiled header.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE "-fPIC")
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

set(KNAPPER_LLVM "shared" CACHE STRING "How LLVM is linked: shared or static")
set(KNAPPER_SANITIZE "" CACHE STRING "Value for -fsanitize, empty for none")

set(CMAKE_CXX_FLAGS_DEV "-O1 -gline-tables-only" CACHE STRING "" FORCE)
set(CMAKE_C_FLAGS_DEV "-O1 -gline-tables-only" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)

add_compile_options(-Wall -Wextra -Wno-unused-parameter
                    -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
# ccache keeps objects made with a precompiled header only if the header's own time is not part of it.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
add_link_options(-fuse-ld=lld-22)
if(KNAPPER_SANITIZE)
  add_compile_options(-fsanitize=${KNAPPER_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KNAPPER_SANITIZE})
endif()

find_package(Threads REQUIRED)
set(LLVM_DIR /usr/lib/llvm-22/lib/cmake/llvm CACHE PATH "")
set(MLIR_DIR /usr/lib/llvm-22/lib/cmake/mlir CACHE PATH "")
find_package(LLVM 22.1 REQUIRED CONFIG)
find_package(MLIR REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR} ${MLIR_CMAKE_DIR})
set(KNAPPER_MLIR_TBLGEN /usr/lib/llvm-22/bin/mlir-tblgen)
find_program(KNAPPER_FLATC flatc REQUIRED)
