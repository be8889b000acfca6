//===- TransposeProblem.h - What the schedules of transposes share -------===//
#pragma once

#include "codegen/schedule/core/Schedules.h"

namespace knapper {

struct TransposeProblem {
  ts::TransposeOp op;
  unsigned rowDim; ///< of the result: innermost in the operand
};

/// The region's only transpose. Nothing unless it moves the innermost dim, and
/// all other ops are elementwise, with operands of the full shape or of one
/// element.
std::optional<TransposeProblem> transposeOf(ts::KernelOp kernel);

} // namespace knapper
