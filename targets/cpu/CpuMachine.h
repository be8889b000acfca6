// The machine that code for CPUs is planned for.
#pragma once

#include "ir/config/Machine.h"

namespace knapper {

/// Bytes of L2 that one side of a matmul in tile registers may take.
inline constexpr int64_t kAmxCacheBytes =
    (2 << 20) * 3 / 4; // L2 of Sapphire Rapids (Intel's data sheet), 3/4 of it

/// One machine for all CPUs with registers of so many bytes: what is compiled
/// does not depend on where (docs/decisions/one-model-of-the-cpu.md).
config::Machine cpuMachine(unsigned registerBytes);

} // namespace knapper
