// What this machine's processor is and may be used for.
#pragma once

#include <string>
#include <string_view>

namespace knapper::cpu {

/// What code may be used, each level with all below it.
enum class IsaLevel { belowV3, v3, v4, v4Vnni, v4Bf16 };
/// What this machine's processor and system support.
IsaLevel machineLevel();

/// 0: code for `isa` cannot run at `level`; greater is better. Knows
/// "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni" (AVX512-VNNI too) and
/// "x86-64-v4-bf16" (AVX512-BF16 as well).
int isaRank(std::string_view isa, IsaLevel level = machineLevel());
/// As "x86-64-v4, x86-64-v3"; "" below x86-64-v3.
std::string runnableIsas(IsaLevel level = machineLevel());
/// "AMD EPYC"; "unknown processor" if the system does not say.
std::string processorName();
/// Cores this process may use now: its affinity mask, bounded by its control
/// group's share. At least 1.
int availableCores();

} // namespace knapper::cpu
