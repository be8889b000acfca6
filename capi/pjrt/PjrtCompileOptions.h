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
/// replica; arguments in a tuple. `devices`: the ids of those that are asked
/// for, one a partition, left as they are where none are.
PjrtError *readCompileOptions(std::string_view bytes, Settings &settings,
                              std::vector<int64_t> &devices);

} // namespace knapper::pjrt
