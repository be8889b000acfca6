//===- Recurrences.h - Loops over a cell's steps as ts.recurrence ---------===//
//
//   ts.loop @cell carried(h, c) captures(x, R), whose step t reads x[t]
//
//   becomes  ts.recurrence states(h, c) sequences(x) weights(R)
//
// In a ts.recurrence each row of the states runs through the steps
// independently (ir/tensor/Recurrence.td, C3). A target whose kernel keeps the
// weights on chip launches once for a sequence instead of once for a step.
// Callers: the target plug-ins (targets/).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Recurrence.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Replaces each loop of the function whose recurrence `takes` accepts. The
/// matmul of all gates becomes one matmul for each gate. Erases loop bodies
/// that have no user left.
void formRecurrences(mlir::func::FuncOp function,
                     llvm::function_ref<bool(ts::RecurrenceOp)> takes);

/// The reverse: replaces each recurrence that `takes` refuses by a loop.
void expandRecurrences(mlir::func::FuncOp function,
                       llvm::function_ref<bool(ts::RecurrenceOp)> takes);

} // namespace knapper
