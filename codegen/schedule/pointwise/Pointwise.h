// What the choice and the builder of pointwise kernels share.
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// The region's one concatenation along the lane dim of what has the results'
/// dims, if there are few operands.
ts::ConcatOp concatAlong(ts::KernelOp kernel, unsigned lane);

} // namespace knapper
