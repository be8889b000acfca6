// Shared by the files of the schedule of convolutions with few channels a group
// (CpuGroupedConv.cpp).
#pragma once

#include "codegen/schedule/conv/ConvWindow.h"

namespace knapper {

/// How groups lie in a register.
struct GroupLanes {
  int64_t lanes = 0;    ///< of a register
  int64_t channels = 0; ///< of a group
  int64_t each = 0;     ///< features of a group
  int64_t side = 0;     ///< groups in a register; 0: none fits
  int64_t tiles = 0;    ///< registers for all groups
  int64_t features() const { return side * each; }
  int64_t inputs() const { return side * channels; }

  GroupLanes(const ConvWindow &w, int64_t lanes)
      : lanes(lanes), channels(*w.channels.asConstant() / w.groups),
        each(*w.features.asConstant() / w.groups) {
    if (!channels || !each)
      return;
    // At most two registers of channels feed one of features.
    side = std::min({lanes / each, 2 * lanes / channels, w.groups});
    if (side)
      tiles = (w.groups + side - 1) / side;
  }
};

/// Fours of window rows, the last one filled up.
inline int64_t foursOf(const ConvWindow &w) { return (w.kh + 3) / 4; }

/// Whether window rows are multiplied four at a time: then a program keeps its
/// weights, as long as they are few.
inline bool inFours(const ConvWindow &w, const GroupLanes &g) {
  constexpr int64_t most = 32;
  return w.isBytes() && !w.hasPlanes() && g.channels == 1 &&
         w.kw * foursOf(w) <= most;
}

/// Makes the tile program.
class ConvLanesBuilder {
public:
  using Config = config::GroupedConvCpuConfig;
  ConvLanesBuilder(BuildContext &context, const Config &config,
                   ConvWindow window, Epilogue epilogue);

  mlir::LogicalResult build();

private:
  /// Pixels side by side.
  struct Run {
    mlir::Value column; ///< the first one
    int64_t size;
    /// `column` as a number: what it reads outside of the image is left out.
    std::optional<int64_t> known;
    bool checked = false; ///< else it reads nothing outside
  };
  /// A column of the input that some pixel of a run sees.
  struct SeenColumn {
    int64_t place;      ///< counted from the first
    bool isOutside;     ///< known to be
    mlir::Value valid;  ///< how much of it is read; null: all
    mlir::Value inside; ///< null: known
  };
  struct Seen {
    mlir::Value first; ///< where the first column's channels lie, of line 0
    llvm::SmallVector<SeenColumn> columns;
  };
  Seen seenBy(const Run &run);
  /// Columns that a line has to be read.
  mlir::Value reach();
  /// The pixel of the run whose window's column `j` is that column.
  std::optional<int64_t> pixelOf(const SeenColumn &column, int64_t j,
                                 const Run &run);
  /// Each lane's channel `k` of its group.
  mlir::Value arranged(mlir::Value column, int64_t k);
  mlir::LogicalResult outputRow(mlir::Value row);
  /// Of a row whose width is a number. Nothing: it did not emit any of it.
  std::optional<mlir::LogicalResult> knownRow();
  llvm::SmallVector<mlir::Value> sumsOf(const Run &run);
  /// What the rows of a plane of the window add to them: its weights begin at
  /// `weights`, its lines `away` from those of plane 0.
  llvm::SmallVector<mlir::Value> sumsOfPlane(const Run &run, const Seen &seen,
                                             mlir::ValueRange begin,
                                             mlir::Value weights,
                                             mlir::Value away);
  /// Of `count` taps from `base` on, `step` apart, those in [0, size).
  std::pair<mlir::Value, mlir::Value> tapsInside(mlir::Value base, int64_t step,
                                                 int64_t count, ts::Dim size);
  llvm::SmallVector<mlir::Value> sumsInFours(const Run &run);
  /// Gives `fours` and the border.
  mlir::LogicalResult prepareFours();
  /// Gives `lines`, `rowFours` and `firstSum` of an output row whose window
  /// begins at input row `base`.
  void rowInFours(mlir::Value base);
  mlir::Value word(uint32_t number);
  /// `x` as that byte of each lane of `word`; null: the others are zero.
  mlir::Value inWord(mlir::Value word, mlir::Value x, int64_t byte);
  void keep(llvm::ArrayRef<mlir::Value> results);
  /// Epilogue of what was kept.
  mlir::LogicalResult storeKept(mlir::Value column, mlir::Value count);
  mlir::LogicalResult storePixel(mlir::Value sum, mlir::Value column);
  mlir::Value load(mlir::BlockArgument tensor, int64_t count, mlir::Value at,
                   mlir::Value valid);
  /// In i32.
  mlir::Value loadBytes(mlir::BlockArgument tensor, int64_t count,
                        mlir::Value at, mlir::Value valid);
  /// Bytes in i32, as the type of sums.
  mlir::Value fromBytes(mlir::Value wide);
  mlir::Value mad(mlir::Value x, mlir::Value weight, mlir::Value sum);
  /// Gives `outside` and `firstSum`.
  mlir::LogicalResult readBorder();
  /// From one row of the filter, (window, channel), to the next.
  int64_t filterRow() const {
    return w.isConstant ? g.features() : *w.features.asConstant();
  }

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Location loc;
  ConvWindow w;
  Epilogue epilogue;
  GroupLanes g;
  int64_t blockRows, pixels;
  bool isShort;       ///< the epilogue, so that each pixel may have its own
  mlir::Type sumType; ///< element type

  mlir::Value image, tile;
  // Of several planes: of the output; where window plane 0 lies in the input,
  // and the window planes inside the image.
  mlir::Value plane, firstPlane, firstPlaneTap, endPlaneTap;
  mlir::Value firstChannel, firstFeature;
  mlir::Value validInputs, validFeatures; ///< of the tile; null: all
  mlir::Value sums;                       ///< scratch
  mlir::Value weights;                    ///< of the tile: where they begin
  mlir::Value someFeatures; ///< that a row of them has; null: `lanes`
  mlir::Value outside;      ///< in lanes for the channels; null: zeros
  mlir::Value firstSum;     ///< what a sum begins with
  mlir::Value row;          ///< of the output
  // Of that row: where window row 0 lies in the input, and the window rows
  // inside the image.
  mlir::Value lineBase, firstTap, endTap;
  // Of bytes in fours: weights, a byte a window row, of each window column;
  // likewise without those of rows outside of the image; where a window row
  // begins in the image; the border in each byte, null: zeros.
  llvm::SmallVector<mlir::Value> fours, rowFours, lines;
  mlir::Value borderWord;
};

} // namespace knapper
