//===- AttentionMask.h - Taking attention masks apart ---------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/IR/PatternMatch.h"

namespace knapper {

/// A value inside a mask: `dims[i]` is the dim of the scores [B, H, S, T] that
/// its dim i runs along, -1 for a dim of size 1 that is gone.
struct MaskPart {
  mlir::Value value;
  llvm::SmallVector<int64_t> dims;
  bool negated = false; ///< i1 only: true means excluded
};

enum class Causality { none, bottomRight, topLeft };

/// What a mask does to the scores.
struct MaskParts {
  Causality causality = Causality::none;
  llvm::SmallVector<MaskPart> allowed; ///< i1, all must hold
  llvm::SmallVector<MaskPart> added;   ///< floats

  /// `condition` (negated: its opposite) allows a key; `rowsMayBeEmpty`: a row
  /// without an allowed key may give 0 (see FindComposites.h). Otherwise only a
  /// mask that is nothing but causal is taken. Changes nothing on failure.
  bool takeCondition(mlir::Value condition, llvm::ArrayRef<int64_t> dims,
                     bool negated, bool rowsMayBeEmpty);
  /// `mask` is added to the scores.
  void takeAdded(mlir::Value mask, bool guarded);

  /// The operand of ts.attention: dims of four, 1 or the scores'; null when
  /// nothing is left.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location location) const;
};

/// Whether a number added to a score, or put in its place, excludes the key.
bool isExcluding(std::optional<double> fill);

} // namespace knapper
