//===- TransposeProblem.h - What the schedules of transposes share -------===//
#pragma once

#include "codegen/schedule/core/Schedules.h"

namespace knapper {

struct TransposeProblem {
  ts::TransposeOp op;
  unsigned rowDim; ///< of the result: innermost in the operand
};

/// The region's one transpose, if that exchanges the innermost dim and only
/// elementwise ops of whole operands or single elements stand around it.
std::optional<TransposeProblem> transposeOf(ts::KernelOp kernel);

} // namespace knapper
