//===- AttentionMask.h - Taking attention masks apart ---------------------===//
#pragma once

#include "ir/tensor/Decompose.h"
#include "mlir/IR/PatternMatch.h"

namespace knapper {

using ts::Dim;
using ts::EmptyRow;

/// Where the heads of the scores are two dims, H = K * G: K heads of keys, each
/// read by G heads of queries. What MaskPart::dims calls them.
enum : int64_t { kKeyHeads = 4, kHeadsOfGroup = 5 };

/// A value inside a mask: `dims[i]` is the dim of the scores [B, H, S, T] that
/// its dim i runs along, -1 for a dim of size 1 that is gone.
struct MaskPart {
  mlir::Value value;
  llvm::SmallVector<int64_t> dims;
  bool negated = false; ///< i1 only: true means excluded
};

/// What a mask does to the scores.
struct MaskStep {
  mlir::Value value; ///< added; with a fill: a condition
  /// Takes the score's place where the condition (negated: its opposite) does
  /// not hold.
  std::optional<double> fill;
  bool negated = false;
};

enum class Causality { none, bottomRight, topLeft };

/// What a mask does to the scores.
struct MaskParts {
  Causality causality = Causality::none;
  llvm::SmallVector<MaskPart> allowed; ///< i1, all must hold
  llvm::SmallVector<MaskPart> added;   ///< floats

  /// One after the other instead of `added`, where finite fills meet other
  /// masks: what a row without a key is depends on all of them.
  struct Step {
    MaskPart part;              ///< added; with a fill: a condition
    std::optional<double> fill; ///< where the condition does not hold
  };
  llvm::SmallVector<Step> steps;

  /// Sizes of K and G, where the dims of parts name them.
  Dim keyHeads, headsOfGroup;

  /// What a row without a key is, should `allowed` or `causality` leave one.
  EmptyRow empty = EmptyRow::zero;

  /// What stands between the scores and the softmax. A row that has a key gets
  /// the same result from conditions and from fills, which are too large for a
  /// score to show beside them. A row without one is the mean of the keys whose
  /// fill is the largest.
  void takeSteps(llvm::ArrayRef<MaskStep> given, llvm::ArrayRef<int64_t> dims);
  /// `condition` (negated: its opposite) allows a key.
  void takeCondition(mlir::Value condition, llvm::ArrayRef<int64_t> dims,
                     bool negated);
  /// Whether some row may be without a key.
  bool mayEmptyRows(Dim queries, Dim keys) const;

  /// The operand of ts.attention: dims of four, 1 or the scores'; null when
  /// nothing is left.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location location) const;

private:
  /// `part` is added to the scores. It is taken apart when its fill is -inf, or
  /// finite and `alone`: then a row without a key is the mean.
  void takeAdded(const MaskPart &part, bool alone);
};

/// Whether the elements of `mask` may differ along one of its dims.
bool runsAlong(mlir::Value mask, int64_t dim);

/// Whether `condition` (of the scores' dims) says that a row of `mask`, which
/// is added to the scores, is -inf throughout.
bool findsEmptyRows(mlir::Value condition, mlir::Value mask);
/// Whether the condition is true where all scores [B, H, S, T] of a row are
/// -inf.
bool findsExcludedRows(mlir::Value condition, mlir::Value scores);

/// Whether a number added to a score, or put in its place, excludes the key.
bool isExcluding(std::optional<double> fill);

} // namespace knapper
