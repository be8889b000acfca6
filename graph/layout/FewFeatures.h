//===- FewFeatures.h - Convolutions whose lanes are pixels ----------------===//
//
// A convolution with channels last has its features in the lanes of a register,
// most of which stay empty where there are few. On CPUs such a one keeps its
// channels first (codegen/schedule/conv/CpuPlaneConv.cpp), and a transposed one
// is split in phases (ConvPhases.h), which are features of one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// A convolution of planes: channels first, two spatial dims, one group, no
/// strides. What is a number here is one in the op.
struct PlaneConv {
  ts::ConvOp op;
  int64_t channels = 0, features = 0;
  int64_t kh = 0, kw = 0, dh = 1, dw = 1;
  int64_t lowH = 0, lowW = 0;
  int64_t width = 0, outWidth = 0;

  /// Of the planes with their border.
  int64_t paddedWidth() const { return outWidth + (kw - 1) * dw; }
  int64_t paddedRows(int64_t rows) const { return rows + (kh - 1) * dh; }
};

/// Nothing: another convolution.
std::optional<PlaneConv> planeConvOf(ts::ConvOp op);

/// Whether `op` has so few features that pixels fill registers better, and rows
/// that fit a cache.
bool prefersPlanes(ts::ConvOp op);
bool prefersPlanes(ts::PoolOp op);
/// Likewise for a transposed one, whose phases are features.
bool phasesPreferPlanes(ts::ConvOp op);

} // namespace knapper
