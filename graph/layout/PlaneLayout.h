//===- PlaneLayout.h - Convolutions and pools whose lanes are pixels ------===//
//
// A convolution with channels last has its features in the lanes of a vector
// register. With few features most lanes are empty. On CPUs such a convolution
// keeps its channels first, so that pixels are the lanes
// (codegen/schedule/conv/CpuPlaneConv.cpp). A transposed convolution with few
// features is split into phases (ConvPhases.h), which are the features of one
// ordinary convolution. Pools and depthwise convolutions whose input lies in
// planes anyway keep them (CpuPlanePool.cpp and CpuPlaneDepthwise.cpp there),
// and so do groups that are matmuls.
//
// Callers: ChannelsLast.cpp, SplitPools.cpp, SimplifyModel.cpp,
// CpuPlaneConv.cpp, CpuPlaneDepthwise.cpp and CpuPlanePool.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// A convolution of planes: channels first, two spatial dims, one group,
/// strides of 1. The sizes below are constants of the op.
struct PlaneConv {
  ts::ConvOp op;
  int64_t channels = 0, features = 0;
  int64_t kh = 0, kw = 0, dh = 1, dw = 1;
  int64_t lowH = 0, lowW = 0;
  int64_t width = 0, outWidth = 0;

  /// Columns, and rows for `rows` output rows, of a plane with its border.
  int64_t paddedWidth() const { return outWidth + (kw - 1) * dw; }
  int64_t paddedRows(int64_t rows) const { return rows + (kh - 1) * dh; }
};

/// Nothing if the convolution has another form.
std::optional<PlaneConv> planeConvOf(ts::ConvOp op);

/// A pool of planes whose rows are formed first, then their columns: channels
/// first, two spatial dims, or one, which is a plane of one row, or three, of
/// which the first counts planes. The sizes below are constants of the op.
struct PlanePool {
  /// A dim along which whole rows are combined. Without it: one tap.
  struct Taps {
    int64_t taps = 1, stride = 1, dilation = 1;
    int64_t low = 0; ///< the border before
    ts::Dim high;    ///< and behind
    ts::Dim size, outSize;

    /// Whether windows lie inside, as far as is known.
    bool areInside() const { return low == 0 && high.isConstant(0); }
    /// How many taps an average counts, if that is one number.
    std::optional<int64_t> everywhere(bool countsBorder) const;
  };

  ts::PoolOp op;
  Taps planes, rows;
  int64_t kw = 1, sw = 1, dw = 1;
  int64_t lowW = 0;
  int64_t width = 0, outWidth = 0;
  /// Columns that an average counts are from `countedFrom` on, before
  /// `countedTo`; -lowW and more if it counts the border.
  int64_t countedFrom = 0, countedTo = 0;
  unsigned spatial = 2;
  bool averages = false, countsBorder = false;

  /// Columns of a row with its border.
  int64_t paddedWidth() const {
    return (outWidth - 1) * sw + (kw - 1) * dw + 1;
  }
  /// Columns of the window at output column `column` that an average counts.
  int64_t columnsAt(int64_t column) const;
  /// The same, if all output columns have one number of them.
  std::optional<int64_t> columnsEverywhere() const;
};

/// Nothing if the pool has another form.
std::optional<PlanePool> planePoolOf(ts::PoolOp op);

/// A convolution of planes with a filter for each of its features, which read
/// one channel: channels first, two spatial dims, or one, which is a plane of
/// one row. The sizes below are constants of the op.
struct PlaneDepthwise {
  ts::ConvOp op;
  int64_t perChannel = 1; ///< features
  int64_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  int64_t lowH = 0, lowW = 0;
  int64_t width = 0, outWidth = 0;
  bool hasRows = false;
  ts::Dim height, outHeight;

  /// Columns of a row with its border.
  int64_t paddedWidth() const {
    return (outWidth - 1) * sw + (kw - 1) * dw + 1;
  }
};

/// Nothing if the convolution has another form.
std::optional<PlaneDepthwise> planeDepthwiseOf(ts::ConvOp op);

/// Whether pixels fill the vector registers better than the features of `op`,
/// and the rows that a program reads fit a cache.
bool prefersPlanes(ts::ConvOp op);
bool prefersPlanes(ts::PoolOp op);
bool depthwisePrefersPlanes(ts::ConvOp op);
/// Whether `op`, with a window of one pixel, is better computed so than as a
/// matmul: few channels, and few features or those of phases (ConvPhases.h).
bool pointPrefersPlanes(ts::ConvOp op);
/// Whether `op` is a matmul of each group's channels with its pixels.
bool groupsPreferPlanes(ts::ConvOp op);
/// The same for a transposed convolution: its phases count as features.
bool phasesPreferPlanes(ts::ConvOp op);

} // namespace knapper
