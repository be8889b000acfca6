# Precompiled headers, each parsed once for the whole build: a target that owns it, every other
# target reuses it by knapper_precompiled(). They hold what is stable: the standard library, LLVM,
# MLIR, our dialects. A file still includes what it uses.
#
#   compiler       over MLIR, code that the tests run thousands of times
#   compiler_cold  over MLIR, code that runs once a model or once a test: -O0 in the developer's build
#   runtime        no LLVM, optimised in every preset (knapper_small_code)
#   runtime_cold   the same, for size (knapper_small_code COLD)
#   plain          no LLVM, no optimisation in the developer's build: HTTP, reports
#   test           as plain, with GoogleTest

# What the developer's build leaves as it is written.
set(KNAPPER_COLD_OPTIONS $<$<CONFIG:Dev>:-O0>)

# knapper_precompiled(TARGET NAME): TARGET's files use the precompiled header NAME, and are
# optimised as it is.
function(knapper_precompiled TARGET NAME)
  target_precompile_headers(${TARGET} REUSE_FROM knapper_pch_${NAME})
  if(NAME MATCHES "^(compiler_cold|plain|test)$")
    target_compile_options(${TARGET} PRIVATE ${KNAPPER_COLD_OPTIONS})
  endif()
endfunction()

set(OWNER ${CMAKE_BINARY_DIR}/pch/owner.cpp)
file(CONFIGURE OUTPUT ${OWNER} CONTENT "// Owns a precompiled header.\n")

# knapper_precompiled_owner(NAME HEADER [OPTIONS option...] [LINK lib...])
function(knapper_precompiled_owner NAME HEADER)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LINK" ${ARGN})
  set(TARGET knapper_pch_${NAME})
  add_library(${TARGET} STATIC ${OWNER})
  target_include_directories(${TARGET} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include
                                              ${CMAKE_BINARY_DIR})
  target_compile_options(${TARGET} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${TARGET} PUBLIC ${ARG_LINK})
  target_precompile_headers(${TARGET} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${HEADER})
  add_dependencies(${TARGET} knapper_artefact_header)
endfunction()

find_package(GTest REQUIRED)
knapper_precompiled_owner(compiler compiler_pch.h)
knapper_precompiled_owner(compiler_cold compiler_cold_pch.h OPTIONS ${KNAPPER_COLD_OPTIONS})
foreach(NAME compiler compiler_cold)
  target_include_directories(knapper_pch_${NAME} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS})
  # What ODS generates for the dialects' headers.
  add_dependencies(knapper_pch_${NAME} knapper_tensor_tablegen knapper_tile_inc
                   knapper_block_ops_inc)
endforeach()
knapper_precompiled_owner(runtime runtime_pch.h)
knapper_small_code(knapper_pch_runtime)
knapper_precompiled_owner(runtime_cold runtime_pch.h)
knapper_small_code(knapper_pch_runtime_cold COLD)
knapper_precompiled_owner(plain plain_pch.h OPTIONS ${KNAPPER_COLD_OPTIONS})
knapper_precompiled_owner(test test_pch.h OPTIONS ${KNAPPER_COLD_OPTIONS} LINK GTest::gmock)
