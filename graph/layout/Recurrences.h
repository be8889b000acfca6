//===- Recurrences.h - Loops over a cell's steps as ts.recurrence ---------===//
//
//   ts.loop @cell carried(h, c) captures(x, R), whose step t reads x[t]
//
//   becomes  ts.recurrence states(h, c) sequences(x) weights(R)
//
// where each row of the states runs through the steps on its own
// (ir/tensor/Recurrence.td, C3). A target whose schedule keeps the weights in
// one kernel then pays a launch a sequence instead of one a step.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Recurrence.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Of the function's loops, those for whose recurrence `takes` holds. The
/// matmul of all gates becomes one of each. Bodies that are no longer used are
/// erased.
void formRecurrences(mlir::func::FuncOp function,
                     llvm::function_ref<bool(ts::RecurrenceOp)> takes);

/// The other way round: those for which `takes` does not hold become loops.
void expandRecurrences(mlir::func::FuncOp function,
                       llvm::function_ref<bool(ts::RecurrenceOp)> takes);

} // namespace knapper
