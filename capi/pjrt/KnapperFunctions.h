//===- KnapperFunctions.h - The C API of libknapper, found at run time ----===//
//
// The plugin is small: it loads libknapper.so, which a Python process may have
// loaded already, when its first client is made.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "knapper/device.h"
#include <string>

namespace knapper::pjrt {

#define KNAPPER_PJRT_LIBRARY(F)                                                \
  F(version)                                                                   \
  F(has_compiler)                                                              \
  F(error_get_kind)                                                            \
  F(error_get_message)                                                         \
  F(error_release)                                                             \
  F(dtype_size)                                                                \
  F(device_open)                                                               \
  F(device_release)                                                            \
  F(device_describe)                                                           \
  F(device_addresses_host)                                                     \
  F(device_free_bytes)                                                         \
  F(device_allocate)                                                           \
  F(device_free)                                                               \
  F(device_write)                                                              \
  F(device_read)                                                               \
  F(stream_create)                                                             \
  F(stream_release)                                                            \
  F(stream_handle)                                                             \
  F(stream_wait_for_others)                                                    \
  F(stream_mark)                                                               \
  F(mark_wait)                                                                 \
  F(mark_release)                                                              \
  F(compile)                                                                   \
  F(inspect)                                                                   \
  F(register_operator)                                                         \
  F(load_memory)                                                               \
  F(module_release)                                                            \
  F(module_save)                                                               \
  F(module_num_inputs)                                                         \
  F(module_num_outputs)                                                        \
  F(module_input)                                                              \
  F(module_output)                                                             \
  F(module_may_replace)                                                        \
  F(module_peak_memory)                                                        \
  F(module_describe)                                                           \
  F(run)                                                                       \
  F(run_with)                                                                  \
  F(result_release)                                                            \
  F(string_release)

struct KnapperFunctions {
#define KNAPPER_PJRT_MEMBER(name) decltype(&knapper_##name) name = nullptr;
  KNAPPER_PJRT_LIBRARY(KNAPPER_PJRT_MEMBER)
#undef KNAPPER_PJRT_MEMBER
};

/// The functions; valid after loadKnapper has succeeded once.
const KnapperFunctions &knapper();

/// Loads the library that `path` names, or if it is empty $KNAPPER_LIBRARY, or
/// libknapper.so in the plugin's own folder. It stays loaded; a second call
/// does nothing. Empty: done; else what is wrong. Thread-safe.
std::string loadKnapper(const std::string &path);

} // namespace knapper::pjrt
