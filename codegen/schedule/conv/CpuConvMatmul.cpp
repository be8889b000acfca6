// The matmuls of a program of a convolution (CpuConv.cpp): for each panel,
// output row and register tile a main loop over the window's taps, then the
// epilogue of its pixels.
#include "codegen/schedule/conv/CpuConv.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

/// Of the rows of the filter, a window row has `depth` as they are packed, of
/// which `packed` hold a run of `run` that meets a run of the input.
struct ConvBuilder::Matmul {
  ConvBuilder &c;
  ElementEmitter &e;
  OpBuilder &b;
  const ConvWindow &w;
  Value filter;
  int64_t panel, step, features, run, packed, depth, all;
  int64_t piece; ///< elements that are read at once: a panel, or a window row
  Value pixel;   ///< from one output pixel to the next
  RegisterTile shape;
  std::optional<int64_t> pixels; ///< of an image row, or of a block of columns
  int64_t tileRows;
  Value tilesOfRow;
  int64_t line, share; ///< elements of a cache line; that a tile fetches
  bool fetches;
  Value accumulators;
  Value tapDown; ///< from a window row's input to the next one's
  Value rowSums; ///< accumulators of an output row

  explicit Matmul(ConvBuilder &c)
      : c(c), e(c.e), b(c.b), w(c.w), filter(e.inputBuffer(w.filter)),
        panel(c.panel), step(convGroup(w)), features(*w.features.asConstant()),
        run(convRun(w)), packed(packedConvRun(w)),
        depth(w.rowIsRun() ? packed : packed * w.kw), all(w.kh * depth),
        piece(c.split ? depth * panel : all * panel) {}

  void sizes();
  void fetching();
  LogicalResult panelOf(Value number);
  LogicalResult rowsOf(Value base, Value windowRow, Value feature);
  LogicalResult multiply(Value weights, Value inputRow, Value r, Value feature);
  LogicalResult sums(Value a, Value weights, Value valid, int64_t size,
                     Value to, Value fetch);
  Value multiplyTaps(VectorType type, Value a, Value from, Value valid,
                     Value fetch);
  tile::MainloopOp runs(VectorType type, Value a, Value from, Value valid,
                        Value fetch, Value init);
  void several(tile::MainloopOp loop, Value count, Value aOuter,
               int64_t bOuter);
  Value windowRow(VectorType type, Value a, Value from, Value valid,
                  Value fetch, Value init);
  LogicalResult storePixels(Value from, Value row, Value column, Value feature,
                            Value count);
  LogicalResult clear();
};

/// Tiles of equal size along the image row.
void ConvBuilder::Matmul::sizes() {
  pixel = e.size(w.groupChannels() * w.sw);
  shape = groupTile(c.target, panel, step);
  pixels = w.outWidth.asConstant();
  if (pixels)
    pixels = *pixels % w.columnPhases() == 0
                 ? std::optional(*pixels / w.columnPhases())
                 : std::nullopt;
  if (c.blockColumns)
    pixels = pixels && *pixels % c.blockColumns == 0
                 ? std::optional(c.blockColumns)
                 : std::nullopt;
  tileRows = shape.rows;
  if (c.blockColumns && !pixels) {
    int64_t tiles = (c.blockColumns + tileRows - 1) / tileRows;
    tileRows = (c.blockColumns + tiles - 1) / tiles;
  }
  tilesOfRow =
      e.div(e.add(c.columns, e.constant(tileRows - 1)), e.constant(tileRows));
}

/// Each tile fetches its share of what is read next. Weights that stay in the
/// second-level cache need none of it.
void ConvBuilder::Matmul::fetching() {
  Type element = cast<tile::BufferType>(filter.getType()).getElementType();
  int64_t bytes = ts::elementBytes(element);
  line = 64 / bytes;
  share = (c.split ? depth : all) / (4 * step) * line;
  fetches = !w.spreads() && all * features * bytes > c.target.l2Bytes / 4;
}

/// A matmul of one run of taps; `init` may be null.
tile::MainloopOp ConvBuilder::Matmul::runs(VectorType type, Value a, Value from,
                                           Value valid, Value fetch,
                                           Value init) {
  auto loop = tile::MainloopOp::create(
      b, c.loc, type, c.source, a, pixel, e.constant(1), filter, from,
      e.constant(step * panel), e.constant(run), init);
  loop.setPairs(step == 2);
  loop.getRowsMutable().assign(valid);
  if (fetch) {
    loop.getPrefetchMutable().assign(filter);
    loop.getPrefetchOffsetMutable().assign(fetch);
    loop.getPrefetchStepMutable().assign(e.constant(line));
  }
  return loop;
}

void ConvBuilder::Matmul::several(tile::MainloopOp loop, Value count,
                                  Value aOuter, int64_t bOuter) {
  loop.getOuterMutable().assign(count);
  loop.getAOuterMutable().assign(aOuter);
  loop.getBOuterMutable().assign(e.constant(bOuter));
}

/// The taps of a window row.
Value ConvBuilder::Matmul::windowRow(VectorType type, Value a, Value from,
                                     Value valid, Value fetch, Value init) {
  auto loop = runs(type, a, from, valid, fetch, init);
  if (!w.rowIsRun())
    several(loop, c.tapColumns.count, e.mul(e.constant(w.dw), c.pixelStride),
            w.spreadW * packed * panel);
  return loop.getAcc();
}

/// Of a register tile: all of a phase's taps, or those of a window row
/// (`split`). Taps that are one run are one matmul.
Value ConvBuilder::Matmul::multiplyTaps(VectorType type, Value a, Value from,
                                        Value valid, Value fetch) {
  if (c.split || w.kh == 1)
    return windowRow(type, a, from, valid, fetch, {});
  if (w.rowIsRun()) {
    auto loop = runs(type, a, from, valid, fetch, {});
    several(loop, c.tapRows.count, tapDown, w.spreadH * depth * panel);
    return loop.getAcc();
  }
  Value zero = arith::ConstantOp::create(b, c.loc, b.getZeroAttr(type));
  LogicalResult never = success();
  return forEach(
      e, e.constant(0), c.tapRows.count, zero,
      [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value ahead;
        if (fetch)
          ahead = e.add(fetch, e.mul(i, e.constant(share / w.kh)));
        Value at = e.add(a, e.mul(i, tapDown));
        Value row =
            e.add(from, e.mul(i, e.constant(w.spreadH * depth * panel)));
        return SmallVector<Value>{
            windowRow(type, at, row, valid, ahead, carried[0])};
      },
      never)[0];
}

/// The sums of a tile of `size` rows, stored at `to` or (`split`) added there.
LogicalResult ConvBuilder::Matmul::sums(Value a, Value weights, Value valid,
                                        int64_t size, Value to, Value fetch) {
  return forParts(e, shape, panel, [&](Value part) {
    auto type = VectorType::get({size, shape.width}, c.sumType);
    Value from = e.add(weights, e.mul(part, e.constant(step)));
    Value acc = multiplyTaps(type, a, from, valid, fetch);
    for (int64_t i = 0; i < size; ++i) {
      Value at = e.add(to, e.add(e.constant(i * panel), part));
      Value sum =
          vector::ExtractOp::create(b, c.loc, acc, ArrayRef<int64_t>{i});
      if (c.split) {
        Value before =
            tile::LoadOp::create(b, c.loc, sum.getType(), accumulators, at);
        if (w.isBytes())
          sum = arith::AddIOp::create(b, c.loc, before, sum);
        else
          sum = arith::AddFOp::create(b, c.loc, before, sum);
      }
      tile::StoreOp::create(b, c.loc, sum, accumulators, at);
    }
    return success();
  });
}

/// The epilogue of `count` pixels, whose sums lie at `from`. Of a panel that
/// groups share, the own features.
LogicalResult ConvBuilder::Matmul::storePixels(Value from, Value row,
                                               Value column, Value feature,
                                               Value count) {
  Value first = c.firstFeature ? e.max(c.firstFeature, feature) : feature, end;
  if (c.endFeature)
    end = e.min(c.endFeature, e.add(feature, e.constant(panel)));
  else if (features % panel)
    end = e.size(w.features);
  Value skipped = e.add(from, e.sub(first, feature));
  return forEach(e, e.constant(0), count, [&](Value i) {
    Value at = e.add(skipped, e.mul(i, e.constant(panel)));
    Value pixelColumn = e.add(c.firstColumn, e.add(column, i));
    return forParts(e, shape, panel, [&](Value part) {
      Value sum = tile::LoadOp::create(b, c.loc,
                                       VectorType::get(shape.width, c.sumType),
                                       accumulators, e.add(at, part));
      Value n = e.add(first, part), rest;
      if (end)
        rest = e.sub(end, n);
      return c.storePixel(sum, row, pixelColumn, n, shape.width, rest);
    });
  });
}

/// The accumulators of a block.
LogicalResult ConvBuilder::Matmul::clear() {
  constexpr int64_t lanes = 16;
  Value zero = e.splat(c.sumType, lanes, 0);
  return forEach(
      e, e.constant(0), e.mul(c.rows, rowSums),
      [&](Value i) {
        tile::StoreOp::create(b, c.loc, zero, accumulators, i);
        return success();
      },
      lanes);
}

/// Output row `r` of the block, tile by tile; `inputRow` is row 0's.
LogicalResult ConvBuilder::Matmul::multiply(Value weights, Value inputRow,
                                            Value r, Value feature) {
  Value row = e.add(inputRow, e.mul(e.mul(r, e.constant(w.sh)), c.rowStride));
  Value next = e.add(weights, e.constant(piece));
  Value before = e.mul(r, tilesOfRow);
  auto store = [&](Value column, Value valid) {
    return storePixels(e.constant(0), e.add(c.firstRow, r), column, feature,
                       valid);
  };
  llvm::function_ref<LogicalResult(Value, Value)> finish;
  if (!c.split)
    finish = store;
  return forRowTiles(
      e, c.columns, tileRows,
      [&](Value column, Value valid, int64_t size, Value number) {
        Value a = e.add(row, e.mul(column, pixel)), fetch, to;
        to = e.constant(0);
        if (c.split) {
          to = e.mul(column, e.constant(panel));
          to = e.add(to, e.mul(r, rowSums));
        }
        if (fetches) {
          Value place = e.mul(e.add(before, number), e.constant(share));
          fetch = e.add(next, e.min(place, e.constant(piece)));
        }
        return sums(a, weights, valid, size, to, fetch);
      },
      finish, pixels);
}

/// All output rows by the taps that begin at window row `windowRow`.
LogicalResult ConvBuilder::Matmul::rowsOf(Value base, Value windowRow,
                                          Value feature) {
  Value weights = e.add(base, e.mul(windowRow, e.constant(piece)));
  Value inputRow = e.add(c.sourceBase, e.mul(windowRow, tapDown));
  return forEach(e, e.constant(0), c.rows, [&](Value r) {
    return multiply(weights, inputRow, r, feature);
  });
}

LogicalResult ConvBuilder::Matmul::panelOf(Value number) {
  Value base = e.mul(number, e.constant(all * panel)),
        feature = e.mul(number, e.constant(panel));
  base = e.add(base, e.mul(c.tapRows.first, e.constant(depth * panel)));
  base = e.add(base, e.mul(c.tapColumns.first, e.constant(packed * panel)));
  if (!c.split)
    return rowsOf(base, e.constant(0), feature);
  if (failed(clear()) ||
      failed(forEach(e, e.constant(0), e.constant(w.kh),
                     [&](Value i) { return rowsOf(base, i, feature); })))
    return failure();
  return forEach(e, e.constant(0), c.rows, [&](Value r) {
    Value from = e.mul(r, rowSums), row = e.add(c.firstRow, r);
    return storePixels(from, row, e.constant(0), feature, c.columns);
  });
}

LogicalResult ConvBuilder::matmul(Value firstPanel, Value endPanel) {
  Matmul matmul(*this);
  matmul.sizes();
  matmul.fetching();
  matmul.accumulators = tile::ScratchOp::create(
      b, loc, tile::BufferType::get(sumType), e.constant(0));
  matmul.tapDown = e.mul(e.constant(w.dh / w.rowStep()), rowStride);
  matmul.rowSums = e.mul(columns, e.constant(panel));
  return forEach(e, firstPanel, endPanel,
                 [&](Value number) { return matmul.panelOf(number); });
}

} // namespace knapper
