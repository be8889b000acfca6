//===- PjrtCompileOptions.h - What a compile was asked for ----------------===//
#pragma once

#include "capi/pjrt/PjrtError.h"
#include <utility>
#include <vector>

namespace knapper::pjrt {

/// Rows of the compiler's table of options, as knapper_compile takes them.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Reads a serialised CompileOptionsProto; empty bytes ask for nothing. The
/// user's `compiler_options` are the names that knapper.compile takes. XLA's
/// own debug options, which every caller sends, mean nothing here. Errors:
/// damaged bytes; an option that there is not, with the nearest; more than one
/// replica or partition; arguments in a tuple. `device`: the id of the device
/// that is asked for, left as it is where none is.
PjrtError *readCompileOptions(std::string_view bytes, Settings &settings,
                              int64_t &device);

} // namespace knapper::pjrt
