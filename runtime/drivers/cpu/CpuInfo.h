// What this machine's processor is and may be used for.
#pragma once

#include <string>
#include <string_view>

namespace knapper::cpu {

/// What code may be used, each level with all below it.
enum class IsaLevel { belowV3, v3, v4, v4Vnni, v4Bf16, v4Amx };
/// What this machine's processor and system support. The first call asks the
/// system for the tile registers, once a process (tileRegisters).
IsaLevel machineLevel();

/// 0: code for `isa` cannot run at `level`; greater is better. Knows
/// "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni" (AVX512-VNNI too),
/// "x86-64-v4-bf16" (AVX512-BF16 as well) and "x86-64-v4-amx" (tile registers
/// with matmuls of bf16 and bytes).
int isaRank(std::string_view isa, IsaLevel level = machineLevel());

/// Tile registers (AMX) are used by leave of the system, which a process asks
/// for once; threads made afterwards and forked processes have it too.
enum class TileRegisters { absent, refused, granted };
TileRegisters tileRegisters();
/// What a system said that refused them, "Operation not permitted"; "" else.
std::string tileRefusal();

/// As "x86-64-v4, x86-64-v3"; "" below x86-64-v3.
std::string runnableIsas(IsaLevel level = machineLevel());
/// "AMD EPYC"; "unknown processor" if the system does not say.
std::string processorName();
/// Cores this process may use now: its affinity mask, bounded by its control
/// group's share. At least 1.
int availableCores();

} // namespace knapper::cpu
