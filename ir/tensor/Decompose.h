//===- Decompose.h - Composite ops in terms of primitive ones -------------===//
//
// Each composite keeps its meaning in one more form: the same result from
// elementwise, reduction and movement ops. Schedules that have no builder for a
// composite of its own use it, and tests compare the two.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::ts {

/// Builds the decomposition of a composite op (softmax, layer_norm, rope, gelu,
/// attention, paged_attention) at the builder's insertion point and returns
/// values for the op's results, in order; the op itself stays. Fails, without a
/// diagnostic, for other ops. Attention becomes matmuls with the S x T scores
/// in f32.
llvm::FailureOr<llvm::SmallVector<mlir::Value>>
decompose(mlir::OpBuilder &builder, mlir::Operation *op);

/// What a row of an attention that sees no key is: the op's attribute
/// `ts.empty_row`, a string; 0 without it.
enum class EmptyRow {
  zero,
  nan,
  mean ///< of all T values
};
EmptyRow emptyRowOf(AttentionOp op);
void setEmptyRow(AttentionOp op, EmptyRow row);

/// Replaces every composite in the region that `decompose` knows, for which
/// `wanted` holds (null: all but elementwise ones, which have a scalar function
/// of their own).
void decomposeAll(mlir::Region &region,
                  llvm::function_ref<bool(mlir::Operation *)> wanted = nullptr);

/// A splat constant of the tensor type: for floats the number, for integers the
/// number truncated. Symbolic shapes become a broadcast of a 0-d constant.
mlir::Value splatConstant(mlir::OpBuilder &builder, mlir::Location location,
                          mlir::Type type, double number);

} // namespace knapper::ts
