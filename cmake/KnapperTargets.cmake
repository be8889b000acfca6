# How a folder becomes a library. Sources are globbed: a new file needs no list.

# knapper_runtime_library(NAME [COLD | PLAIN] [LINK lib...]): the folder's *.cpp, no LLVM anywhere.
# PLAIN: no part of the runtime library; the developer's build does not optimise it.
function(knapper_runtime_library NAME)
  cmake_parse_arguments(ARG "COLD;PLAIN" "" "LINK" ${ARGN})
  file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER SOURCES EXCLUDE REGEX "_(test|bench)\\.cpp$")
  add_library(${NAME} STATIC ${SOURCES})
  target_include_directories(${NAME} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include
                                            ${CMAKE_BINARY_DIR})
  target_link_libraries(${NAME} PUBLIC ${ARG_LINK} Threads::Threads)
  if(ARG_PLAIN)
    target_compile_options(${NAME} PRIVATE -ffunction-sections -fdata-sections)
    knapper_precompiled(${NAME} plain)
  elseif(ARG_COLD)
    knapper_small_code(${NAME} COLD)
    knapper_precompiled(${NAME} runtime_cold)
  else()
    knapper_small_code(${NAME})
    knapper_precompiled(${NAME} runtime)
  endif()
endfunction()

# knapper_small_code(NAME [COLD]): code of the runtime library, optimised in every preset: it is
# little, timed by benchmarks, and bounded in size. COLD: no run waits for it.
function(knapper_small_code NAME)
  cmake_parse_arguments(ARG "COLD" "" "" ${ARGN})
  target_compile_options(${NAME} PRIVATE -O2 $<$<BOOL:${ARG_COLD}>:-Os> -ffunction-sections
                                         -fdata-sections)
endfunction()

# knapper_compiler_library(NAME [COLD | PLAIN] [FOLDERS folder...] [LINK lib...]): the folder's *.cpp,
# or those of the FOLDERS in it, over MLIR. COLD: runs once a model, so that the developer's build does
# not optimise it. PLAIN: the same for folders that need no MLIR.
function(knapper_compiler_library NAME)
  cmake_parse_arguments(ARG "COLD;PLAIN" "" "FOLDERS;LINK;DEPENDS" ${ARGN})
  set(PATTERNS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(FOLDER ${ARG_FOLDERS})
    list(APPEND PATTERNS ${CMAKE_CURRENT_SOURCE_DIR}/${FOLDER}/*.cpp)
  endforeach()
  file(GLOB SOURCES CONFIGURE_DEPENDS ${PATTERNS})
  list(FILTER SOURCES EXCLUDE REGEX "_(test|bench)\\.cpp$")
  add_library(${NAME} STATIC ${SOURCES})
  target_include_directories(${NAME} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include
                                            ${CMAKE_BINARY_DIR})
  target_include_directories(${NAME} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${NAME} PUBLIC ${ARG_LINK} Threads::Threads)
  if(ARG_PLAIN)
    knapper_precompiled(${NAME} plain)
  elseif(ARG_COLD)
    knapper_precompiled(${NAME} compiler_cold)
  else()
    knapper_precompiled(${NAME} compiler)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${NAME} ${ARG_DEPENDS})
  endif()
endfunction()

# knapper_tablegen(TARGET FILE.td out1 flag1 [out2 flag2 ...]): mlir-tblgen into the build tree,
# at the same relative path as the source folder.
function(knapper_tablegen TARGET TD)
  set(OUTPUTS)
  file(RELATIVE_PATH REL ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${REL})
  file(GLOB_RECURSE TDS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ir/*.td)
  set(ARGS ${ARGN})
  while(ARGS)
    list(POP_FRONT ARGS OUT FLAGS)
    separate_arguments(FLAGS)
    add_custom_command(
      OUTPUT ${CMAKE_BINARY_DIR}/${REL}/${OUT}
      COMMAND ${KNAPPER_MLIR_TBLGEN} ${FLAGS} -I ${CMAKE_SOURCE_DIR} -I /usr/lib/llvm-22/include
              ${CMAKE_CURRENT_SOURCE_DIR}/${TD} -o ${CMAKE_BINARY_DIR}/${REL}/${OUT}
              --write-if-changed
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${TD} ${TDS})
    list(APPEND OUTPUTS ${CMAKE_BINARY_DIR}/${REL}/${OUT})
  endwhile()
  add_custom_target(${TARGET} DEPENDS ${OUTPUTS})
endfunction()

# knapper_op_shards(TARGET OPS COUNT HEADER...): the definitions of a dialect's ops, generated with
# --op-shard-count=COUNT, as files of TARGET. One file alone would be the longest of the build.
function(knapper_op_shards TARGET OPS COUNT)
  file(RELATIVE_PATH REL ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  list(JOIN ARGN "\"\n#include \"" HEADERS)
  set(SHARDS)
  math(EXPR LAST "${COUNT} - 1")
  foreach(INDEX RANGE ${LAST})
    set(SHARD ${CMAKE_CURRENT_BINARY_DIR}/${OPS}.${INDEX}.cpp)
    file(CONFIGURE OUTPUT ${SHARD} @ONLY CONTENT "// Generated: a part of the ops of @REL@/@OPS@.
#include \"@HEADERS@\"
using namespace mlir;
#define GET_OP_DEFS_@INDEX@
#include \"@REL@/@OPS@.cpp.inc\"
")
    list(APPEND SHARDS ${SHARD})
  endforeach()
  add_library(${TARGET}_shards OBJECT ${SHARDS})
  target_include_directories(${TARGET}_shards PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_include_directories(${TARGET}_shards SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  knapper_precompiled(${TARGET}_shards compiler_cold)
  target_sources(${TARGET} PRIVATE $<TARGET_OBJECTS:${TARGET}_shards>)
endfunction()

# What a program that contains the compiler links for LLVM and MLIR.
add_library(knapper_llvm INTERFACE)
if(KNAPPER_LLVM STREQUAL "shared")
  # The compression libraries are for lld, which comes as archives here too.
  target_link_libraries(knapper_llvm INTERFACE /usr/lib/llvm-22/lib/libMLIR.so
                                               /usr/lib/llvm-22/lib/libLLVM.so z zstd)
else()
  include(KnapperStaticLLVM)
endif()

# knapper_compiler_test(NAME [LINK lib...]): NAME.cpp as a GoogleTest program over MLIR, known to
# ctest under its folder's path.
function(knapper_compiler_test NAME)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${NAME} ${NAME}.cpp)
  target_link_libraries(${NAME} PRIVATE ${ARG_LINK} knapper_llvm GTest::gtest_main)
  knapper_precompiled(${NAME} compiler_cold)
  file(RELATIVE_PATH REL ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  add_test(NAME ${REL}/${NAME} COMMAND ${NAME})
endfunction()
