//===- Windows.h - Convolutions and pools of tensor IR --------------------===//
//
// What the front ends build of sliding windows. Inputs are [N, C, spatial...].
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/NodeBuilder.h"

namespace knapper {

/// Sliding windows; one entry a spatial dim. `low` and `high` are the pads
/// before and after the input.
struct Windows {
  llvm::SmallVector<int64_t> window, strides, dilations;
  llvm::SmallVector<ts::Dim> low, high;

  /// Elements of the input that a window spans.
  int64_t extent(size_t i) const { return (window[i] - 1) * dilations[i] + 1; }
};

/// x with `channels` channels, where that does not follow by form: the run
/// checks it.
mlir::Value fitChannels(NodeBuilder &n, mlir::Value x, ts::Dim channels);

/// x convolved with a filter [F, C/groups, window...]. Channels of x that do
/// not agree by form are checked by the run.
mlir::Value convolve(NodeBuilder &n, mlir::Value x, mlir::Value filter,
                     const Windows &w, int64_t groups);

/// The transposed convolution with a filter [C, F/groups, window...]: each
/// element of x adds the filter to the result, `w.strides` apart. The pads are
/// cut off the result, where `extra` adds zeros at the end.
mlir::Value convolveTransposed(NodeBuilder &n, mlir::Value x,
                               mlir::Value filter, const Windows &w,
                               llvm::ArrayRef<int64_t> extra, int64_t groups);

/// Adds a value a channel; `bias` may be null.
mlir::Value addBias(NodeBuilder &n, mlir::Value y, mlir::Value bias);

/// Drops what of the windows lies in the padding wherever they stand: exporters
/// write windows far larger than an image.
void clampToImage(mlir::Value x, Windows &w);

/// A pool. With `countPadding` an average counts the pads too.
mlir::Value pool(NodeBuilder &n, ts::PoolKind kind, mlir::Value x, Windows w,
                 bool countPadding);

/// What the index of a pooled element counts in.
enum class PoolIndex {
  tensor,      ///< all elements of the input, row-major
  columnMajor, ///< the same, each plane with its first dim fastest
  plane        ///< the plane's elements, row-major
};
/// Where the largest element of each window of x lies, as i64. `out` are the
/// dims of the pool's result. Of NaNs the first, or the last with `lastNan`.
mlir::Value poolIndices(NodeBuilder &n, mlir::Value x, const Windows &w,
                        llvm::ArrayRef<ts::Dim> out, PoolIndex kind,
                        bool lastNan = false);

/// The index along `dim` of the largest element of x where `inside` (bool, of
/// x's dims) is: of equal ones the first, of NaNs the last, which are above all
/// numbers. The index of one outside where none is inside.
mlir::Value largestInside(NodeBuilder &n, mlir::Value x, mlir::Value inside,
                          int64_t dim);

} // namespace knapper
