//===- StepViews.h - Layouts of a loop body's values, moved up ------------===//
//
//   reshape(f(x [1, B, H]) to [B, H])   becomes  f(reshape(x))
//   transpose(f(x [H, B]))              becomes  f(transpose(x))
//
// through elementwise ops, broadcasts, slices and matmuls, up to what the body
// reads. transpose(dot(w, h)) becomes dot(h, w): a cell under `vmap` multiplies
// its weights from the left. Caller: Recurrences.h, on a copy of the body.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Erases what nobody reads afterwards.
void moveStepViewsUp(mlir::func::FuncOp body);

} // namespace knapper
