//===- HloIndices.h - Where the windows of gathers and scatters begin ----===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// The windows that a gather reads or a scatter writes, of one tensor.
struct HloWindows {
  llvm::SmallVector<int64_t> operand; ///< shape
  llvm::SmallVector<int64_t> sizes;   ///< of a window, an entry a dim
  /// Dims that the indices name; `begins` has where windows begin along them,
  /// i64 of the shape `batch`.
  llvm::SmallVector<int64_t> indexed;
  llvm::SmallVector<mlir::Value> begins;
  llvm::SmallVector<int64_t> batch;
  /// Of `indexed`, those that entries of the index vectors name; what follows
  /// are batching dims, whose windows lie inside by form.
  size_t named = 0;

  /// Dims of a window that are not all of the operand's: the indices say where
  /// each element lies along them. First the indexed ones.
  llvm::SmallVector<int64_t> placed() const;
};

/// Reads what gathers and scatters have in common. `batchOfOperand` and
/// `batchOfIndices` name attributes that pair dims, `map` the one that says
/// which dims the index vector's entries mean; `indexOperand` is the operand
/// with the index vectors. Nothing after an error.
std::optional<HloWindows>
readHloWindows(HloNode &n, llvm::ArrayRef<int64_t> sizes,
               llvm::StringRef batchOfOperand, llvm::StringRef batchOfIndices,
               llvm::StringRef map, unsigned indexOperand = 1);

/// Where every element of the windows lies along the dims `placed`, as a tensor
/// [batch..., sizes of those dims..., one entry a dim]. `begins` are used as
/// they are.
mlir::Value hloPlaces(HloNode &n, const HloWindows &w);

} // namespace knapper
