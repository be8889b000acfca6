//===- MergeDots.h - One product for several weights ----------------------===//
//
//   dot(x, Wq) + bq, dot(x, Wk), dot(x, Wv) + bv
//     to   y = dot(x, concat(Wq, Wk, Wv)) + concat(bq, 0, bv),  slices of y
//
// for weights that are constant expressions: x is read once, the columns are
// one larger product. Order: query, key, value where an attention follows, else
// program order.
//
// Products whose results meet in one elementwise op (gate and up projection)
// stay apart unless `mergeMeeting`: the second's kernel takes the first's
// result in its epilogue, which slices of one wide result would not allow.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void mergeDots(mlir::func::FuncOp function, bool mergeMeeting = false);

} // namespace knapper
