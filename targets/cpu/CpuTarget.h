// The instruction sets that we emit for, as TargetDescs.
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"

#include <span>
#include <string_view>

namespace knapper {

/// All instruction sets, best first: "x86-64-v4-amx", ... "x86-64-v3".
std::span<const std::string_view> cpuIsas();

/// That instruction set on the machine of CpuMachine.h; UserError for a name
/// that is not in cpuIsas().
Expected<TargetDesc> cpuTarget(std::string_view isa);

} // namespace knapper
