// A program of a convolution on CPUs (CpuConv.cpp), and what its choice, its
// copies and its matmuls know of the filter's packed rows.
#pragma once

#include "codegen/schedule/conv/ConvWindow.h"

namespace knapper {

/// Bytes of scratch for the accumulators of a register tile (at most 12 x 64
/// f32), or of all tiles of a block. They are at the start of scratch.
int64_t convSumBytes(const config::ConvCpuConfig &config, const ConvWindow &w);
/// Rows of the filter matrix (taps x channels) that are contiguous both in the
/// filter and in the input.
int64_t convRun(const ConvWindow &w);
/// Rows of the filter matrix that one step of the matmul takes: 4 bytes, 2
/// bf16, else 1.
int64_t convGroup(const ConvWindow &w);
/// Rows of such a run in a packed panel, with its padding.
int64_t packedConvRun(const ConvWindow &w);

/// Bytes of scratch behind them for the chunk of a panel that a program
/// transposes.
int64_t convChunkBytes(const config::ConvCpuConfig &config,
                       const ConvWindow &w);

/// Emits one program: a block of output rows and columns times a group of
/// panels of features.
class ConvBuilder {
public:
  using Config = config::ConvCpuConfig;
  ConvBuilder(BuildContext &context, const Config &config, ConvWindow window,
              Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location),
        target(context.target), w(std::move(window)),
        epilogue(std::move(epilogue)), panel(config.panel),
        blockRows(config.rows), blockColumns(config.columns),
        groups(config.groups), split(config.split),
        sumType(w.isBytes() ? mlir::Type(b.getI32Type()) : b.getF32Type()),
        sumBytes(convSumBytes(config, w)),
        chunkBytes(convChunkBytes(config, w)), chunk(config.chunk) {}

  mlir::LogicalResult build();

private:
  /// What the steps of `matmul` share (CpuConvMatmul.cpp).
  struct Matmul;
  mlir::LogicalResult matmul(mlir::Value firstPanel, mlir::Value endPanel);
  /// `row` and `column`: of the phase.
  mlir::LogicalResult storePixel(mlir::Value tile, mlir::Value row,
                                 mlir::Value column, mlir::Value feature,
                                 int64_t lanes, mlir::Value valid) {
    row = e.add(e.mul(row, e.constant(w.rowPhases())), rowPhase);
    column = e.add(e.mul(column, e.constant(w.columnPhases())), columnPhase);
    return storeConvPixel(e, w, epilogue, tile, image, row, column, feature,
                          lanes, valid, plane);
  }
  /// The taps of a phase along one dim of the window.
  struct Taps {
    mlir::Value first; ///< of the window
    mlir::Value count;
    mlir::Value input; ///< of output 0: where the first one meets the input
  };
  Taps taps(mlir::Value phase, int64_t window, int64_t spread, ts::Dim low);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const TargetDesc &target;
  ConvWindow w;
  Epilogue epilogue;
  int64_t panel, blockRows, blockColumns, groups;
  bool split;
  mlir::Type sumType; ///< element type of the accumulators
  int64_t sumBytes;   ///< scratch for accumulators
  int64_t chunkBytes; ///< likewise for a chunk of the filter
  int64_t chunk;      ///< its channels; 0: the filter is packed

  mlir::Value image, firstRow, rows; ///< of the block, in output rows
  mlir::Value plane;                 ///< of the output, if it has several
  mlir::Value firstColumn, columns;  ///< likewise
  mlir::Value rowPhase, columnPhase;
  Taps tapRows, tapColumns;
  mlir::Value source;     ///< input buffer, or scratch with the padded rows
  mlir::Value sourceBase; ///< of the block's first row
  mlir::Value rowStride;  ///< from one input row to the next
  mlir::Value planeStep;  ///< from one plane of the window to the next
  /// Of the group; null: all of its panels.
  mlir::Value firstFeature, endFeature;
  // Of those whose programs copy channels of their own:
  mlir::Value pixelStride;  ///< from one input column to the next
  mlir::Value firstChannel; ///< in `source`
};

} // namespace knapper
