//===- MergeReducedDims.h - Neighbouring dims of a reduction as one ------===//
//
//   reduce of x [n, a, b, c] along a and b
//   becomes a reduce of x as [n, a * b, c] along one dim.
//
// A program's tile of a row lies along the last dim: of [2560, 3] three of its
// lanes would have work. The programs that share out the rows of columns share
// out one dim. What is elementwise before the reduction is computed with the
// merged dims, so that it still fuses (GPUs).
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Dims that are numbers. They stay where a broadcast before the reduction has
/// some of them only, and where the result meets the reduction's input again,
/// as in a normalisation, which is one kernel.
void mergeReducedDims(mlir::func::FuncOp function);

} // namespace knapper
