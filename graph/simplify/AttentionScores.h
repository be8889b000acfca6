//===- AttentionScores.h - What stands before an attention's softmax ------===//
#pragma once

#include "graph/simplify/AttentionMask.h"

namespace knapper {

/// A number by which q, k or the scores are multiplied (`divides`: divided).
struct Factor {
  double number;
  mlir::Type type; ///< of the elements
  bool divides;
};

/// The ops between the matmul of q and k and the softmax.
struct Scores {
  /// The matmul. Its result is [B, H, S, T]; with grouped heads (H = K * G) it
  /// is [B, K, S, G, T] or [B, K, G, S, T].
  ts::DotOp dot;
  llvm::SmallVector<Factor> factors;
  double softcap = 0;
  llvm::SmallVector<MaskStep> steps; ///< in the program's order

  bool masked() const { return !steps.empty(); }
};

/// Whether `value` is a matmul's scores, scaled, capped and masked in any
/// order. Then fills `scores`.
bool parseScores(mlir::Value value, Scores &scores, int depth = 0);

/// `value` without its multiplications by numbers, also if movement ops stand
/// between them. Appends the numbers to `factors`.
mlir::Value withoutScale(mlir::PatternRewriter &rewriter, mlir::Value value,
                         llvm::SmallVectorImpl<Factor> &factors);

/// Undoes the rounding of an attention's scale. Exporters round 1 /
/// sqrt(depth), or its square root, to the type of q and k, which the model
/// does not intend: 1 / sqrt(96) as two bf16 roots is off by half a percent.
/// Returns the number before the rounding, or `number` if it is no such scale.
double unrounded(double number, mlir::Type type, int64_t depth);

} // namespace knapper
