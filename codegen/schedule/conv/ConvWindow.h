//===- ConvWindow.h - What schedules of convolutions share ----------------===//
#pragma once

#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Knobs.h"
#include "codegen/schedule/core/Schedule.h"
#include "ir/config/ConvConfig.h"

namespace knapper {

/// A convolution of one to three spatial dims in the form that the CPU's
/// builders take; a 1-D one is a single row, a 2-D one a single plane. Sizes
/// are in elements: images x depth x height x width x channels.
struct ConvWindow {
  ts::ConvOp op;
  mlir::BlockArgument input, filter;
  ts::PadOp pad;        ///< gives the border's value; null: zeros
  unsigned spatial = 2; ///< spatial dims of the op
  /// Groups of a grouped convolution: each has channels / groups channels and
  /// features / groups features.
  int64_t groups = 1;
  /// The filter is a constant. It is packed at compile time (PackedOperand).
  bool isConstant = false;
  /// Features of a panel, if a kernel packs the filter at run time
  /// (PackFilters.h). 0: the filter is a constant, or has the layout of its
  /// type.
  int64_t panel = 0;
  /// Its panels are not packed: [features, channels, window] as it lies.
  bool inPlace = false;
  bool rowsAsColumns =
      false; ///< the image has one column: rows and columns are swapped
  ts::Dim images, height, width, channels, features, outHeight, outWidth;
  int64_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  // Planes of a 3-D one; of others there is one.
  ts::Dim depth, outDepth, lowD, highD;
  int64_t kd = 1, sd = 1, dd = 1;
  /// Input dilation, which is the stride of a transposed convolution: the
  /// window sees the input's elements this far apart, with zeros between them.
  /// If it is above 1, strides and dilations are 1.
  int64_t spreadH = 1, spreadW = 1;
  ts::Dim lowH, highH, lowW, highW;

  bool hasPlanes() const { return spatial == 3; }
  /// Planes of all images that are computed.
  ts::Dim outPlanes() const { return images * outDepth; }
  /// Rows of the window, of all of its planes.
  int64_t windowRows() const { return kd * kh; }
  /// u8 by i8, summed in i32; else floats.
  bool isBytes() const { return ts::elementTypeOf(input).isInteger(8); }
  /// Bytes of an element of the input, at most.
  int64_t elementBytes() const { return isBytes() ? 1 : 4; }
  bool hasBorder() const {
    return !llvm::all_of(
        llvm::ArrayRef<ts::Dim>{lowD, highD, lowH, highH, lowW, highW},
        [](ts::Dim border) { return border.isConstant(0); });
  }
  /// Channels that a feature reads.
  ts::Dim groupChannels() const {
    return channels.floorDiv(channels.like(groups));
  }
  bool spreads() const { return spreadH > 1 || spreadW > 1; }
  /// Whether the input is read from a copy: with its border, and with the
  /// channels of one group next to each other.
  bool copies() const { return hasBorder() || groups > 1 || spreads(); }

  // Phase r of P has the output rows r, r + P, r + 2P, ... The rows of one
  // phase are an ordinary convolution: with dilation P it reads every P-th
  // input row, with input dilation P it has every P-th tap.
  int64_t rowPhases() const { return spreadH > 1 ? spreadH : rowStep(); }
  int64_t columnPhases() const { return spreadW; }
  /// Input rows from one that a phase reads to the next.
  int64_t rowStep() const { return sh == 1 ? dh : 1; }
  /// Output rows and columns of a phase, at most.
  ts::Dim phaseHeight() const {
    return outHeight.ceilDiv(outHeight.like(rowPhases()));
  }
  ts::Dim phaseWidth() const {
    return outWidth.ceilDiv(outWidth.like(columnPhases()));
  }
  /// Input columns that `columns` output columns of a phase span.
  ts::Dim inputColumns(ts::Dim columns) const {
    return (columns - 1) * sw + tapColumns() * dw - dw + 1;
  }
  /// Input rows that `rows` output rows of a phase span, in steps of rowStep().
  int64_t inputRows(int64_t rows) const {
    return (rows - 1) * sh + (tapRows() - 1) * (dh / rowStep()) + 1;
  }
  /// Window rows and columns that a phase has, at most.
  int64_t tapRows() const { return (kh + spreadH - 1) / spreadH; }
  int64_t tapColumns() const { return (kw + spreadW - 1) / spreadW; }
  /// Whether the taps of a window row are one run of the input and the filter.
  bool rowIsRun() const { return tapColumns() == kw && (dw == 1 || kw == 1); }
};

/// The convolution of a kernel if it has channels last, a filter that is read
/// once (a constant, in panels of PackFilters.h, or neither), floats of at most
/// 32 bits or u8 by i8, sizes and borders of the window that are numbers. The
/// border is its own, of zeros, or that of a ts.pad. Nothing otherwise.
std::optional<ConvWindow> analyseConv(ts::KernelOp kernel);

/// Builds the kernel by `Builder(context, config, window, epilogue).build()`,
/// where `takes` the window; else an error at the kernel.
template <typename Builder>
llvm::LogicalResult buildConvBy(
    BuildContext &context, llvm::function_ref<bool(const ConvWindow &)> takes =
                               [](const ConvWindow &) { return true; }) {
  std::optional<ConvWindow> w = analyseConv(context.kernel);
  if (!w || !takes(*w))
    return context.kernel.emitOpError(
        "is no convolution that this schedule knows");
  mlir::FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, w->op.getResult());
  if (mlir::failed(epilogue))
    return mlir::failure();
  auto config = configOf<typename Builder::Config>(context);
  if (mlir::failed(config))
    return mlir::failure();
  return Builder(context, *config, std::move(*w), std::move(*epilogue)).build();
}

/// A piece of an image with its border: of each plane of the window some rows.
struct ConvRows {
  mlir::Value source;      ///< buffer
  mlir::Value base;        ///< element of the first row's first column
  mlir::Value rowStride;   ///< elements from one row to the next
  mlir::Value pixelStride; ///< and from one column to the next
  mlir::Value planeStride; ///< and from one plane of the window to the next
};

/// Channels `first` .. first + count - 1, fewer where the image has no more.
struct ChannelSlice {
  mlir::Value first;
  int64_t count;
};

/// Stores `vector` in buffer[from .. from + count), again and again: a border.
void fillRun(ElementEmitter &emitter, mlir::Value vector, mlir::Value buffer,
             mlir::Value from, mlir::Value count);

/// Copies `rows` x `columns` pixels of an image, of every `rowStep()`th row
/// from `top` on and every column from `left` on, to scratch at byte `at`,
/// the border for what lies outside. Of a 3-D one those of each plane that
/// output plane `plane` reads. `top` and `left` may be negative. With a
/// slice only its channels; what lies behind the image's last one is
/// unspecified.
ConvRows copyConvRows(ElementEmitter &emitter, const ConvWindow &window,
                      mlir::Value image, mlir::Value top, mlir::Value rows,
                      mlir::Value left, ts::Dim columns, int64_t at,
                      std::optional<ChannelSlice> slice = std::nullopt,
                      mlir::Value plane = {});

/// The epilogue of `lanes` features of one output pixel; `plane`: of a 3-D one.
llvm::LogicalResult
storeConvPixel(ElementEmitter &emitter, const ConvWindow &window,
               const Epilogue &epilogue, mlir::Value tile, mlir::Value image,
               mlir::Value row, mlir::Value column, mlir::Value feature,
               int64_t lanes, mlir::Value valid, mlir::Value plane = {});

/// Rows of a block, at most `rows`, so that two threads share an even number of
/// blocks.
int64_t evenRows(int64_t height, int64_t rows);

/// Sets the panel of features to the widest that wastes least, or what is
/// recorded. `runDivisor`: as in Epilogue.
void chooseConvPanel(const ConvWindow &window, int64_t runDivisor,
                     config::ConvCpuBlock &config, Knobs &knobs);

} // namespace knapper
