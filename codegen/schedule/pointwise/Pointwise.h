// What the choice and the builder of pointwise kernels share.
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// The region's only concatenation along the lane dim whose result has the dims
/// of the kernel's results. Null if there is none, or if it has many operands.
ts::ConcatOp concatAlong(ts::KernelOp kernel, unsigned lane);

} // namespace knapper
