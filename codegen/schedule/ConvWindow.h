//===- ConvWindow.h - What schedules of convolutions share ----------------===//
#pragma once

#include "codegen/schedule/Emitter.h"
#include "codegen/schedule/Epilogue.h"
#include "codegen/schedule/Knobs.h"

namespace knapper {

/// A 2-D (or 1-D, as one row) convolution in the form that the builder takes.
struct ConvWindow {
  ts::ConvOp op;
  mlir::BlockArgument input, filter;
  unsigned spatial = 2; ///< spatial dims of the op
  bool depthwise = false;
  /// Each of so many equal shares of the features reads its own share of the
  /// channels; 1 of depthwise ones.
  int64_t groups = 1;
  bool turned = false; ///< one column: its rows are taken for the columns
  ts::Dim images, height, width, channels, features, outHeight, outWidth;
  int64_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1;
  ts::Dim lowH, highH, lowW, highW;

  bool hasBorder() const {
    return !(lowH.isConstant(0) && highH.isConstant(0) && lowW.isConstant(0) &&
             highW.isConstant(0));
  }
  /// Channels that a feature reads.
  ts::Dim groupChannels() const {
    return channels.floorDiv(channels.like(groups));
  }
  /// Whether the input is read from a copy: with its border, and with the
  /// channels of one group next to each other.
  bool copies() const { return hasBorder() || groups > 1; }
  /// Input columns that `columns` output columns read.
  ts::Dim inputColumns(ts::Dim columns) const {
    return (columns - 1) * sw + kw;
  }
  /// Input rows that `rows` output rows read.
  int64_t inputRows(int64_t rows) const {
    return (rows - 1) * sh + (kh - 1) * dh + 1;
  }
};

/// The convolution of a kernel if it has channels last, a constant filter that
/// is read once, floats of at most 32 bits, sizes and borders of the window
/// that are numbers, and, if it is grouped, is depthwise or has features enough
/// in a group. Nothing otherwise.
std::optional<ConvWindow> analyseConv(ts::KernelOp kernel);

/// A piece of an image with its zero border.
struct ConvRows {
  mlir::Value source;      ///< buffer
  mlir::Value base;        ///< element of the first row's first column
  mlir::Value rowStride;   ///< elements from one row to the next
  mlir::Value pixelStride; ///< and from one column to the next
};

/// Channels `first` .. first + count - 1, fewer where the image has no more.
struct ChannelSlice {
  mlir::Value first;
  int64_t count;
};

/// Copies `rows` x `columns` pixels of an image from input row `top`, column
/// `left` on to scratch at byte `at`, zeros for what lies outside. `top` and
/// `left` may be negative. With a slice only its channels; what lies behind the
/// image's last one is unspecified.
ConvRows copyConvRows(Emitter &emitter, const ConvWindow &window,
                      mlir::Value image, mlir::Value top, mlir::Value rows,
                      mlir::Value left, ts::Dim columns, int64_t at,
                      std::optional<ChannelSlice> slice = std::nullopt);

/// The epilogue of `lanes` features of one output pixel.
llvm::LogicalResult storeConvPixel(Emitter &emitter, const ConvWindow &window,
                                   const Epilogue &epilogue, mlir::Value tile,
                                   mlir::Value image, mlir::Value row,
                                   mlir::Value column, mlir::Value feature,
                                   int64_t lanes, mlir::Value valid);

/// The widest panel of features that wastes least. `runDivisor`: as in
/// Epilogue.
int64_t chooseConvPanel(const ConvWindow &window, int64_t runDivisor,
                        Knobs &knobs);

} // namespace knapper
