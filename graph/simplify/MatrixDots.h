//===- MatrixDots.h - Contractions as matmuls -----------------------------===//
//
//   dot [b.., M.., K..] x [b.., K.., N..]   with several N, or K that do not
//                                           follow one another in memory
//   becomes dot [b.., M.., K] x [b.., K, N] and a reshape of its result.
//
// Schedules of matmuls take one dim of columns, along which their tiles
// run, and one depth. Where dims follow one another the merge is a view; else a
// transpose puts them together, a pass over the operand (JAX writes the
// projections of an attention as [S, D] x [D, heads, head]).
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void makeMatrixDots(mlir::func::FuncOp function);

} // namespace knapper
