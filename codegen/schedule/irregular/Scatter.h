// What the choice and the builder of scatters know of their updates.
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// How the updates are divided among programs. A program has one position along
/// each dim of `own` and loops over `loops`. So it meets the updates of one
/// element in their order.
struct ScatterSplit {
  llvm::SmallVector<ts::Dim> dims; ///< of the updates
  llvm::SmallVector<unsigned> own; ///< dims that a program has one position of
  llvm::SmallVector<unsigned> loops;

  explicit ScatterSplit(mlir::Operation *scatter);
  /// Whether the lanes of a tile may run along the last dim.
  bool hasLanes() const {
    return !own.empty() && own.back() + 1 == dims.size();
  }
  /// Elements of the updates; `one` is the size 1.
  ts::Dim updates(ts::Dim one) const;
  /// Programs of the launch. A program has `lanes` neighbouring updates at a
  /// time (0: one).
  ts::Dim programs(ts::Dim one, int64_t lanes) const;
};

/// The dim of the result along which the first index counts, if any.
std::optional<unsigned> indexedDim(mlir::Operation *scatter);
/// Whether all elements along the value's last dim are equal.
bool isSameAlongLast(mlir::Value value);
/// The reduction that combines updates with the result. Nothing: an update
/// replaces the element.
std::optional<ts::ReduceKind> scatterReduction(mlir::Operation *scatter);

} // namespace knapper
