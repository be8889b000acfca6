//===- MergeReducedDims.h - Inner dims that a reduction takes together -----===//
//
//   reduce of x [.., a, b] along the last two dims
//   becomes a reduce of x as [.., a * b] along the last.
//
// A program's tile of a row lies along the last dim: of [2560, 3] three of its
// lanes would have work. What is elementwise before the reduction is computed
// with the merged dims, so that it still fuses (GPUs).
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Dims that are numbers; where a broadcast of more than one number is before
/// the reduction, its dims stay.
void mergeReducedDims(mlir::func::FuncOp function);

} // namespace knapper
