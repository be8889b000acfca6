//===- Depthwise.h - What schedules of depthwise convolutions share -------===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

/// A depthwise convolution over two dims, of floats of one type: a feature for
/// each channel, a window of known size of at least one tap, strides and
/// dilations of any size, an input that is not empty.
struct Depthwise {
  ts::ConvOp op;
  /// [image, row, column, channel], or with channels first
  /// [image, channel, row, column].
  llvm::SmallVector<ts::Dim> input, output;
  int64_t kh, kw; ///< taps: rows, columns
  int64_t sh, sw; ///< strides
  int64_t dh, dw; ///< dilations
};

/// The kernel's only convolution, if it is one with channels last or first as
/// asked for.
std::optional<Depthwise> depthwiseOf(ts::KernelOp kernel, bool channelsLast);

/// How many neighbours of a dim of the input so many of the output see.
inline int64_t neighboursSeen(int64_t outputs, int64_t stride, int64_t taps,
                              int64_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

/// The nearest position (index) of a dim of `size` elements, and whether (i1)
/// it is the one asked for.
std::pair<mlir::Value, mlir::Value>
nearestInside(ElementEmitter &e, mlir::Value position, ts::Dim size);

} // namespace knapper
