// The instruction sets that we emit for, as TargetDescs.
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"

#include <span>
#include <string_view>

namespace knapper {

/// All instruction sets, best first: "x86-64-v4-amx", ... "x86-64-v3".
std::span<const std::string_view> cpuIsas();

/// A core with that instruction set and middling caches; UserError for a name
/// that is not in cpuIsas(). The figures are estimates for cost models: the
/// same on every machine, so that what is compiled does not depend on where.
Expected<TargetDesc> cpuTarget(std::string_view isa);

} // namespace knapper
