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
  Value filter, fetched; ///< that is multiplied, and read ahead
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
  /// The taps of a window row are one run, of a chunk as well.
  bool rowIsRun;
  bool adds;        ///< a tile's sums come in parts, which are added in scratch
  int64_t fetchRow; ///< elements that the taps of a window row fetch
  Value nextChunk;  ///< what is read ahead of a filter that is in place

  explicit Matmul(ConvBuilder &c)
      : c(c), e(c.e), b(c.b), w(c.w), filter(e.inputBuffer(w.filter)),
        fetched(filter), panel(c.panel), step(convGroup(w)),
        features(*w.features.asConstant()), run(convRun(w)),
        packed(packedConvRun(w)), rowIsRun(w.rowIsRun()), adds(c.split) {
    if (c.chunk) {
      rowIsRun = w.kw == 1;
      run = packed = c.chunk;
      adds = c.chunk < *w.channels.asConstant();
    }
    depth = rowIsRun ? packed : packed * w.kw;
    all = w.windowRows() * depth;
    piece = c.split ? depth * panel : all * panel;
  }

  void sizes();
  void fetching();
  LogicalResult panelOf(Value number);
  LogicalResult panelInPlace(Value number);
  LogicalResult transposeChunk(Value from);
  LogicalResult storeRows(Value feature);
  LogicalResult rowsOf(Value base, Value windowRow, Value feature);
  LogicalResult multiply(Value weights, Value inputRow, Value r, Value feature);
  LogicalResult sums(Value a, Value weights, Value valid, int64_t size,
                     Value to, Value fetch);
  Value multiplyTaps(VectorType type, Value a, Value from, Value valid,
                     Value fetch);
  Value multiplyPlane(VectorType type, Value a, Value from, Value valid,
                      Value fetch, Value init);
  Value inputOfRow(Value windowRow);
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
  int64_t filterBytes = all * features * bytes;
  fetchRow = share / w.windowRows();
  if (c.chunk) {
    // Features whose taps lie as far apart as all channels; a tile's taps read
    // ahead as many lines as those of some features take, of one at least.
    int64_t channels = *w.channels.asConstant(),
            feature = channels * w.kh * w.kw;
    filterBytes = feature * features * bytes;
    fetchRow = std::max<int64_t>(1, fetchRow / feature) * feature;
    share = fetchRow * w.kh * (panel / shape.width);
  }
  fetches = !w.spreads() && filterBytes > c.target.l2Bytes / 4;
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
    loop.getPrefetchMutable().assign(fetched);
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
  if (!rowIsRun)
    several(loop, c.tapColumns.count, e.mul(e.constant(w.dw), c.pixelStride),
            w.spreadW * packed * panel);
  return loop.getAcc();
}

/// Of a register tile: all of a phase's taps, or those of a window row
/// (`split`), plane by plane.
Value ConvBuilder::Matmul::multiplyTaps(VectorType type, Value a, Value from,
                                        Value valid, Value fetch) {
  if (c.split)
    return windowRow(type, a, from, valid, fetch, {});
  if (w.kd == 1)
    return multiplyPlane(type, a, from, valid, fetch, {});
  Value zero = arith::ConstantOp::create(b, c.loc, b.getZeroAttr(type));
  LogicalResult never = success();
  return forEach(
      e, e.constant(0), e.constant(w.kd), zero,
      [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value ahead;
        if (fetch)
          ahead = e.add(fetch, e.mul(i, e.constant(w.kh * fetchRow)));
        return SmallVector<Value>{multiplyPlane(
            type, e.add(a, e.mul(i, c.planeStep)),
            e.add(from, e.mul(i, e.constant(w.kh * depth * panel))), valid,
            ahead, carried[0])};
      },
      never)[0];
}

/// The taps of a plane of the window. Those that are one run are one matmul.
Value ConvBuilder::Matmul::multiplyPlane(VectorType type, Value a, Value from,
                                         Value valid, Value fetch, Value init) {
  if (w.kh == 1)
    return windowRow(type, a, from, valid, fetch, init);
  if (rowIsRun) {
    auto loop = runs(type, a, from, valid, fetch, init);
    several(loop, c.tapRows.count, tapDown, w.spreadH * depth * panel);
    return loop.getAcc();
  }
  if (!init)
    init = arith::ConstantOp::create(b, c.loc, b.getZeroAttr(type));
  LogicalResult never = success();
  return forEach(
      e, e.constant(0), c.tapRows.count, init,
      [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value ahead;
        if (fetch)
          ahead = e.add(fetch, e.mul(i, e.constant(fetchRow)));
        Value at = e.add(a, e.mul(i, tapDown));
        Value row =
            e.add(from, e.mul(i, e.constant(w.spreadH * depth * panel)));
        return SmallVector<Value>{
            windowRow(type, at, row, valid, ahead, carried[0])};
      },
      never)[0];
}

/// The sums of a tile of `size` rows, stored at `to` or (`adds`) added there.
LogicalResult ConvBuilder::Matmul::sums(Value a, Value weights, Value valid,
                                        int64_t size, Value to, Value fetch) {
  return forParts(e, shape, panel, [&](Value part) {
    auto type = VectorType::get({size, shape.width}, c.sumType);
    Value from = e.add(weights, e.mul(part, e.constant(step)));
    Value ahead = fetch;
    if (fetch && c.chunk) // each part reads other features ahead
      ahead = e.add(fetch, e.mul(e.div(part, e.constant(shape.width)),
                                 e.constant(fetchRow * w.kh)));
    Value acc = multiplyTaps(type, a, from, valid, ahead);
    for (int64_t i = 0; i < size; ++i) {
      Value at = e.add(to, e.add(e.constant(i * panel), part));
      Value sum =
          vector::ExtractOp::create(b, c.loc, acc, ArrayRef<int64_t>{i});
      if (adds) {
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
  if (!adds)
    finish = store;
  return forRowTiles(
      e, c.columns, tileRows,
      [&](Value column, Value valid, int64_t size, Value number) {
        Value a = e.add(row, e.mul(column, pixel)), fetch, to;
        to = e.constant(0);
        if (adds) {
          to = e.mul(column, e.constant(panel));
          to = e.add(to, e.mul(r, rowSums));
        }
        if (fetches && c.chunk) {
          fetch =
              e.add(nextChunk, e.mul(e.add(before, number), e.constant(share)));
        } else if (fetches) {
          Value place = e.mul(e.add(before, number), e.constant(share));
          fetch = e.add(next, e.min(place, e.constant(piece)));
        }
        return sums(a, weights, valid, size, to, fetch);
      },
      finish, pixels);
}

/// From the first window row's input to that of `windowRow`, counted through
/// all planes.
Value ConvBuilder::Matmul::inputOfRow(Value windowRow) {
  if (w.kd == 1)
    return e.mul(windowRow, tapDown);
  Value rows = e.constant(w.kh);
  return e.add(e.mul(e.div(windowRow, rows), c.planeStep),
               e.mul(e.rem(windowRow, rows), tapDown));
}

/// All output rows by the taps that begin at window row `windowRow`.
LogicalResult ConvBuilder::Matmul::rowsOf(Value base, Value windowRow,
                                          Value feature) {
  Value weights = e.add(base, e.mul(windowRow, e.constant(piece)));
  Value inputRow = e.add(c.sourceBase, inputOfRow(windowRow));
  return forEach(e, e.constant(0), c.rows, [&](Value r) {
    return multiply(weights, inputRow, r, feature);
  });
}

/// The epilogue of a block whose sums are in scratch.
LogicalResult ConvBuilder::Matmul::storeRows(Value feature) {
  return forEach(e, e.constant(0), c.rows, [&](Value r) {
    Value from = e.mul(r, rowSums), row = e.add(c.firstRow, r);
    return storePixels(from, row, e.constant(0), feature, c.columns);
  });
}

/// Of a panel whose element 0 is at `from` in the filter, [panel][C][taps]: the
/// channels of a chunk, to [taps][chunk][panel] in scratch. Blocks of as many
/// features as a register has lanes, and as many runs of that length as there
/// are taps, so that each row of a block has a known place.
LogicalResult ConvBuilder::Matmul::transposeChunk(Value from) {
  int64_t size = c.target.lanes(DType::f32), taps = w.kh * w.kw;
  Value stride = e.constant(*w.channels.asConstant() * taps),
        whole = e.constant(size);
  auto block = [&](Value feature, Value channel, int64_t part) {
    Value at = e.add(
        from, e.add(e.mul(feature, stride), e.mul(channel, e.constant(taps))));
    at = e.add(at, e.constant(part * size));
    transposeBlock(
        e, size, fetched, at, stride, whole, whole, filter, [&](int64_t r) {
          int64_t element = part * size + r;
          int64_t place = (element % taps * c.chunk + element / taps) * panel;
          Value row = e.add(e.mul(channel, e.constant(panel)), feature);
          return e.add(row, e.constant(place));
        });
  };
  return forEach(
      e, e.constant(0), e.constant(panel),
      [&](Value feature) {
        return forEach(
            e, e.constant(0), e.constant(c.chunk),
            [&](Value channel) -> LogicalResult {
              for (int64_t part = 0; part < taps; ++part)
                block(feature, channel, part);
              return success();
            },
            size);
      },
      size);
}

/// All pixels by a panel of a filter that is in place, chunk by chunk.
LogicalResult ConvBuilder::Matmul::panelInPlace(Value number) {
  int64_t taps = w.kh * w.kw, channels = *w.channels.asConstant();
  Value feature = e.mul(number, e.constant(panel));
  Value base = e.mul(number, e.constant(panel * taps * channels));
  if (adds && failed(clear()))
    return failure();
  if (failed(forEach(
          e, e.constant(0), e.constant(channels),
          [&](Value channel) {
            Value from = e.add(base, e.mul(channel, e.constant(taps)));
            // The next chunk; behind the last one, the next panel.
            Value next = e.add(channel, e.constant(c.chunk));
            Value isLast = e.less(e.constant(channels - 1), next);
            nextChunk = arith::SelectOp::create(
                b, c.loc, isLast,
                e.add(base, e.constant(panel * taps * channels)),
                e.add(from, e.constant(c.chunk * taps)));
            if (failed(transposeChunk(from)))
              return failure();
            Value input = e.add(c.sourceBase, channel);
            return forEach(e, e.constant(0), c.rows, [&](Value r) {
              return multiply(e.constant(0), input, r, feature);
            });
          },
          c.chunk)))
    return failure();
  return adds ? storeRows(feature) : success();
}

LogicalResult ConvBuilder::Matmul::panelOf(Value number) {
  if (c.chunk)
    return panelInPlace(number);
  Value base = e.mul(number, e.constant(all * panel)),
        feature = e.mul(number, e.constant(panel));
  base = e.add(base, e.mul(c.tapRows.first, e.constant(depth * panel)));
  base = e.add(base, e.mul(c.tapColumns.first, e.constant(packed * panel)));
  if (!c.split)
    return rowsOf(base, e.constant(0), feature);
  if (failed(clear()) ||
      failed(forEach(e, e.constant(0), e.constant(w.windowRows()),
                     [&](Value i) { return rowsOf(base, i, feature); })))
    return failure();
  return storeRows(feature);
}

LogicalResult ConvBuilder::matmul(Value firstPanel, Value endPanel) {
  Matmul matmul(*this);
  matmul.sizes();
  matmul.fetching();
  matmul.accumulators = tile::ScratchOp::create(
      b, loc, tile::BufferType::get(sumType), e.constant(0));
  if (chunk)
    matmul.filter = tile::ScratchOp::create(
        b, loc, tile::BufferType::get(sumType), e.constant(sumBytes));
  matmul.tapDown = e.mul(e.constant(w.dh / w.rowStep()), rowStride);
  matmul.rowSums = e.mul(columns, e.constant(panel));
  return forEach(e, firstPanel, endPanel,
                 [&](Value number) { return matmul.panelOf(number); });
}

} // namespace knapper
