//===- InspectStableHlo.h - What a StableHLO program has and needs --------===//
#pragma once

#include "runtime/base/Error.h"
#include <string>
#include <string_view>

namespace knapper {

/// A JSON object with the fields of inspectOnnx, of domain "stablehlo": the
/// opset is the version in the op's name (dot_general_v2), constants count as
/// initializers, and an input says whether callers give it away: "donated". A
/// supported op may still have a form that import refuses. A program for
/// several devices has "devices" and, where its parts are known,
/// "argument_tiles" and "result_tiles" (HloSharding::tiles), by argument and
/// result of main. `path` is the file,
/// empty for a program in memory.
/// Errors: UserError for what is no program.
Expected<std::string> inspectStableHlo(std::string_view bytes,
                                       const std::string &path);

} // namespace knapper
