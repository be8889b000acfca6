// What the choice and the builder of scatters know of their updates.
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// How updates are shared out: by programs along some of their dims; loops over
/// the others meet the updates of one element in order.
struct ScatterSplit {
  llvm::SmallVector<ts::Dim> dims; ///< of the updates
  llvm::SmallVector<unsigned> own; ///< dims that a program has one position of
  llvm::SmallVector<unsigned> loops;

  explicit ScatterSplit(mlir::Operation *scatter);
  /// Whether lanes may run along the last dim.
  bool hasLanes() const {
    return !own.empty() && own.back() + 1 == dims.size();
  }
  /// How many elements there are.
  ts::Dim updates(ts::Dim one) const;
  /// How many programs there are, of `lanes` updates side by side (0: of one).
  ts::Dim programs(ts::Dim one, int64_t lanes) const;
};

/// The dim of the result that the first index counts along, if there is one.
std::optional<unsigned> indexedDim(mlir::Operation *scatter);
/// Whether a value of the region is the same along its last dim.
bool isSameAlongLast(mlir::Value value);
/// How updates are combined; none: they replace what is there.
std::optional<ts::ReduceKind> scatterReduction(mlir::Operation *scatter);

} // namespace knapper
