//===- Selections.h - ts.true_places, ts.non_max_suppression by others ----===//
//
// For targets without schedules of these.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// ts.true_places becomes a running sum and a scatter. ts.non_max_suppression
/// becomes a loop, an iteration of which takes the best box of every class and
/// drops what overlaps it: as many run as the fullest class keeps boxes.
void expandSelections(mlir::func::FuncOp function);

} // namespace knapper
