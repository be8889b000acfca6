//===- Depthwise.h - What schedules of depthwise convolutions share -------===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

/// A depthwise convolution over two spatial dims: one feature for each channel,
/// floats of one type, a window of constant size with at least one tap, any
/// strides and dilations, an input with elements.
struct Depthwise {
  ts::ConvOp op;
  /// [image, row, column, channel], or with channels first
  /// [image, channel, row, column].
  llvm::SmallVector<ts::Dim> input, output;
  int64_t kh, kw; ///< taps: rows, columns
  int64_t sh, sw; ///< strides
  int64_t dh, dw; ///< dilations
};

/// The kernel's only convolution. Nothing unless it is depthwise and has
/// channels last (`channelsLast`) or first.
std::optional<Depthwise> depthwiseOf(ts::KernelOp kernel, bool channelsLast);

/// Neighbouring input elements of a dim that `outputs` neighbouring output
/// elements read.
inline int64_t neighboursSeen(int64_t outputs, int64_t stride, int64_t taps,
                              int64_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

/// The index of a dim of `size` elements that is nearest to `position`, and an
/// i1: whether `position` itself is inside.
std::pair<mlir::Value, mlir::Value>
nearestInside(ElementEmitter &e, mlir::Value position, ts::Dim size);

} // namespace knapper
