//===- AttentionMask.h - Taking attention masks apart ---------------------===//
#pragma once

#include "ir/tensor/Decompose.h"
#include "mlir/IR/PatternMatch.h"

namespace knapper {

using ts::Dim;
using ts::EmptyRow;

/// Numbers of two dims in MaskPart::dims, for scores whose heads H = K * G are
/// two dims: K heads of keys, and for each of them G heads of queries.
enum : int64_t { kKeyHeads = 4, kHeadsOfGroup = 5 };

/// A tensor of which a mask consists. Its dim i runs along dim `dims[i]` of the
/// scores [B, H, S, T]. -1: the dim has size 1.
struct MaskPart {
  mlir::Value value;
  llvm::SmallVector<int64_t> dims;
  bool negated = false; ///< i1 only: true excludes the key
};

/// One op of a mask on the scores.
struct MaskStep {
  mlir::Value value; ///< is added to the scores; with a fill: a condition
  /// Replaces the score if the condition (`negated`: its opposite) is false.
  std::optional<double> fill;
  bool negated = false;
};

enum class Causality { none, bottomRight, topLeft };

/// A whole mask, taken apart into what ts.attention has operands and attributes
/// for.
struct MaskParts {
  Causality causality = Causality::none;
  llvm::SmallVector<MaskPart> allowed; ///< i1; a key is read if all are true
  llvm::SmallVector<MaskPart> added;   ///< floats, added to the scores

  /// Used instead of `added` if finite fills and other masks come together.
  /// They apply in order. The result of a row without a key depends on all of
  /// them.
  struct Step {
    MaskPart part;              ///< is added; with a fill: a condition
    std::optional<double> fill; ///< replaces the score if that is false
  };
  llvm::SmallVector<Step> steps;

  /// Sizes of K and G, if `dims` of a part has kKeyHeads or kHeadsOfGroup.
  Dim keyHeads, headsOfGroup;

  /// The result of a row for which `allowed` and `causality` leave no key.
  EmptyRow empty = EmptyRow::zero;

  /// Takes the ops between the scores and the softmax. Fills become conditions.
  /// A row with a key keeps its result: a fill is so large that no score
  /// changes it. The result of a row without a key is the mean of the values of
  /// the keys with the largest fill.
  void takeSteps(llvm::ArrayRef<MaskStep> given, llvm::ArrayRef<int64_t> dims);
  /// Adds a condition: a key is read if it (`negated`: its opposite) is true.
  void takeCondition(mlir::Value condition, llvm::ArrayRef<int64_t> dims,
                     bool negated);
  /// Whether `allowed` and `causality` may leave some row without a key.
  bool mayEmptyRows(Dim queries, Dim keys) const;

  /// Builds the mask operand of ts.attention: four dims, each 1 or that of the
  /// scores. Null if the mask is empty.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location location) const;

private:
  /// Takes a tensor that is added to the scores. If it is a select with the
  /// fill -inf it becomes a condition. So it does with a finite fill if `alone`
  /// (no other mask); the result of a row without a key is then the mean.
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
