//===- Views.h - Which ops only look at their operand differently ---------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::fusion {

/// A result that is a byte range of the operand's memory, so it costs no launch
/// when it stays outside kernels: reshape, dim_cast, and slices that take one
/// contiguous run whose start is 16-byte aligned.
bool isView(mlir::Operation *op);
/// Where a view begins in its operand, in bytes.
ts::Dim viewByteOffset(mlir::Operation *op);

/// Only moves, repeats or renames elements: reshape, dim_cast, transpose,
/// slice, broadcast.
bool isReindex(mlir::Operation *op);

/// The innermost dim of more than one element is another one afterwards.
bool movesInnermost(ts::TransposeOp transpose);

/// Dims of `value` as (size, element stride) into `base`, which it reaches
/// through reindexing and conversions, ending at the first op that `through`
/// does not admit; nothing when some reshape merges dims that do not follow
/// one another in memory. Broadcast dims have stride 0.
struct StridedDim {
  ts::Dim size, stride;
};
struct StridedView {
  mlir::Value base;
  llvm::SmallVector<StridedDim> dims;
  ts::Dim offset; ///< in elements of the base
};
std::optional<StridedView>
stridedView(mlir::Value value,
            llvm::function_ref<bool(mlir::Operation *)> through);

/// Whether `stridedView` gives a view, without making one.
bool isStrided(mlir::Value value,
               llvm::function_ref<bool(mlir::Operation *)> through);

/// The other way round: where the dense `result` has the elements of `hero`,
/// from which it follows by reshapes, transposes and dim_casts alone. Base is
/// `result`; nothing where it follows otherwise or has no such strides.
std::optional<StridedView> placesIn(mlir::Value result, mlir::Value hero);

} // namespace knapper::fusion
