//===- CutRuns.h - Runs of a tensor along one dim -------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// `size` positions of `x` along a dim, from `first` on.
mlir::Value runOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x,
                  unsigned dim, int64_t first, int64_t size);

/// The first `whole` positions along a dim of `x`, which has the shape `flat`
/// in memory, and the `rest` behind them; null if there is none. Elementwise
/// ops that nothing but `last` reads are made for each: what both read would be
/// stored. Ops that may be a hero's epilogue, or read a broadcast of more than
/// a scalar, stay in the dims that they have.
std::pair<mlir::Value, mlir::Value>
cutInTwo(mlir::OpBuilder &b, mlir::Operation *last, mlir::Value x,
         llvm::ArrayRef<ts::Dim> flat, unsigned dim, int64_t whole,
         int64_t rest);

} // namespace knapper
