//===- AttentionScores.h - What stands before an attention's softmax ------===//
#pragma once

#include "graph/simplify/AttentionMask.h"

namespace knapper {

/// A number that q, k or their matmul is multiplied with.
struct Factor {
  double number;
  mlir::Type type; ///< of the elements
  bool divides;
};

/// What stands between the matmul of q and k and the softmax.
struct Scores {
  /// [B, H, S, T], or with the heads of a group as a dim of their own:
  /// [B, K, S, G, T] or [B, K, G, S, T].
  ts::DotOp dot;
  llvm::SmallVector<Factor> factors;
  double softcap = 0;
  llvm::SmallVector<MaskStep> steps; ///< in the program's order

  bool masked() const { return !steps.empty(); }
};

/// Whether `value` is scores under a mask, which `scores` then describes.
bool parseScores(mlir::Value value, Scores &scores, int depth = 0);

/// Takes products with numbers out of a value, through movement.
mlir::Value withoutScale(mlir::PatternRewriter &rewriter, mlir::Value value,
                         llvm::SmallVectorImpl<Factor> &factors);

/// Exporters round 1 / sqrt(depth) or its root to the type of q and k, models
/// do not mean that rounding: 1 / sqrt(96) of bf16, as two roots, is off by
/// half a percent. Such a number becomes what it was before, any other stays.
double unrounded(double number, mlir::Type type, int64_t depth);

} // namespace knapper
