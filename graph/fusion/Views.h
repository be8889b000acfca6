//===- Views.h - Which ops only look at their operand differently ---------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::fusion {

/// Whether the op's result is a byte range of its operand's memory: reshape,
/// dim_cast, and a slice of one contiguous run that starts at a multiple of 16
/// bytes. Outside kernels such an op needs no launch.
bool isView(mlir::Operation *op);
/// Byte offset of a view in its operand.
ts::Dim viewByteOffset(mlir::Operation *op);

/// Whether the op only moves, repeats or renames elements: reshape, dim_cast,
/// transpose, slice, broadcast.
bool isReindex(mlir::Operation *op);

/// Whether the transpose changes which dim is the innermost one, not counting
/// dims of size 1.
bool movesInnermost(ts::TransposeOp transpose);

/// One dim of a strided view; the stride is in elements, 0 for a broadcast dim.
struct StridedDim {
  ts::Dim size, stride;
};
struct StridedView {
  mlir::Value base;
  llvm::SmallVector<StridedDim> dims;
  ts::Dim offset; ///< in elements of the base
};
/// `value` as a strided view of the tensor `base`. The walk from `value` to its
/// operands passes reindexing ops and conversions, and ends at the first op
/// that `through` refuses. Nothing if a reshape merges dims that are not
/// contiguous.
std::optional<StridedView>
stridedView(mlir::Value value,
            llvm::function_ref<bool(mlir::Operation *)> through);

/// Whether `stridedView` gives a view, without making one.
bool isStrided(mlir::Value value,
               llvm::function_ref<bool(mlir::Operation *)> through);

/// The reverse: the dims of `hero` as strides into the dense tensor `result`.
/// `base` is `result`. Nothing unless `result` follows from `hero` by reshapes,
/// transposes and dim_casts alone, and such strides exist.
std::optional<StridedView> placesIn(mlir::Value result, mlir::Value hero);

} // namespace knapper::fusion
