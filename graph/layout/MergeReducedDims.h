//===- MergeReducedDims.h - Neighbouring dims of a reduction as one ------===//
//
//   reduce of x [n, a, b, c] along a and b
//   becomes a reduce of x as [n, a * b, c] along one dim.
//
// For GPUs. A program's tile of a row lies along the last dim: with dims
// [2560, 3] only three of its lanes would have work. Programs that share the
// rows of a column reduction can share one dim. Elementwise ops before the
// reduction are computed with the merged dims, so that they still fuse.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Merges dims of constant size. Two cases stay as they are: a broadcast before
/// the reduction that has some of the dims only, and a result that is combined
/// with the reduction's input again (a normalisation), since that is one
/// kernel.
void mergeReducedDims(mlir::func::FuncOp function);

} // namespace knapper
