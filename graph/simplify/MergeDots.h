//===- MergeDots.h - One matmul for several weights -----------------------===//
//
//   dot(x, Wq) + bq, dot(x, Wk), dot(x, Wv) + bv
//     to   y = dot(x, concat(Wq, Wk, Wv)) + concat(bq, 0, bv),  slices of y
//
// for weights that are constant expressions: x is read once, the columns are
// one larger matmul. Order: query, key, value where an attention follows, else
// program order.
//
// Matmuls whose results go into an elementwise op (gate and up projection, two
// convolutions of one input) stay apart unless `all`: their kernels do that
// work in the epilogue, on results that were never stored, which slices of one
// wide result would not allow.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void mergeDots(mlir::func::FuncOp function, bool all = false);

} // namespace knapper
