// Which matmuls with packed integers a schedule takes as they are.
#pragma once

#include "ir/tensor/PackedDot.h"

namespace knapper {

/// Rows up to which a matmul is computed from the integers: of more, of a
/// matrix of floats made of them (expandForManyRows).
inline constexpr int64_t kMostPackedRows = 32;

/// Whether GPUs read the integers of this matmul where they lie: the depth is
/// known and accesses of 4 bytes or more reach each column and each group. Else
/// it is to be taken apart before kernels are formed.
bool takesPackedDot(ts::PackedDotOp op);

} // namespace knapper
