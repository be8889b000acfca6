# LLVM, MLIR and lld from their archives, into binaries that need libc only.
#
# The archives' members that are referred to are taken, and --gc-sections drops what is not reached.

set(KNAPPER_LLVM_LIB /usr/lib/llvm-22/lib)
set(KNAPPER_LLVM_TARGETS X86 NVPTX CACHE STRING "Targets of LLVM that release binaries contain")

# lld initialises every target that LLVM was built with, and its link-time optimisation asks for
# Polly. We use neither; empty functions keep their archives (half of the size) out.
set(ABSENT "// Generated: what lld refers to and release binaries leave out.
#include \"llvm/Plugins/PassPlugin.h\"
llvm::PassPluginLibraryInfo getPollyPluginInfo() { return {}; }
")
foreach(BACKEND ${LLVM_TARGETS_TO_BUILD})
  if(NOT BACKEND IN_LIST KNAPPER_LLVM_TARGETS)
    foreach(PART TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler)
      string(APPEND ABSENT "extern \"C\" __attribute__((weak)) void LLVMInitialize${BACKEND}${PART}() {}\n")
    endforeach()
  endif()
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cmake/llvm_absent.cpp CONTENT "${ABSENT}" @ONLY)
add_library(knapper_llvm_support OBJECT ${CMAKE_BINARY_DIR}/cmake/llvm_absent.cpp
                                        ${CMAKE_SOURCE_DIR}/cmake/arc4random.cpp)
target_include_directories(knapper_llvm_support SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
target_compile_options(knapper_llvm_support PRIVATE -fno-rtti)

file(GLOB KNAPPER_LLVM_ARCHIVES ${KNAPPER_LLVM_LIB}/libMLIR*.a ${KNAPPER_LLVM_LIB}/libLLVM*.a
                                ${KNAPPER_LLVM_LIB}/liblld*.a)
# C bindings and test helpers: nothing refers to them, some have needs of their own.
list(FILTER KNAPPER_LLVM_ARCHIVES EXCLUDE REGEX "libMLIRCAPI|Test|libLLVMExegesis")
target_link_options(knapper_llvm INTERFACE -Wl,--gc-sections)
target_link_libraries(knapper_llvm INTERFACE
  $<TARGET_OBJECTS:knapper_llvm_support> -Wl,--start-group ${KNAPPER_LLVM_ARCHIVES} -Wl,--end-group
  -l:libz.a -l:libzstd.a)
