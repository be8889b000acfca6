//===- Selections.h - ts.true_places, ts.non_max_suppression expanded -----===//
//
// For targets that have no schedules for these two ops.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// ts.true_places becomes a prefix sum and a scatter. ts.non_max_suppression
/// becomes a loop. Each iteration keeps the best remaining box of every class
/// and drops the boxes that overlap it. The number of iterations is the largest
/// number of boxes that one class keeps.
void expandSelections(mlir::func::FuncOp function);

} // namespace knapper
