// Convolutions with channels last: implicit matrix products, no im2col.
//
// Of a kernel row, (window column, channel) is one consecutive run of the
// input, so a kh x kw convolution is kh accumulated products whose A rows
// (output pixels of one image row) lie stride * C elements apart and overlap.
//
//   program = (image, block of output rows, block of output columns, group of
//              panels of output channels)
//     the input that the block needs, with their zero border, go to scratch
//     (only when there is a border; otherwise they are read in place)
//     for each panel, output row and register tile: one main loop, its sums
//     to scratch, from where one epilogue takes them pixel by pixel
//
// Depthwise convolutions take the same rows, then run channel tile by channel
// tile with the window's weights in registers.
//
// The filter [kh, kw, C, F] is a constant packed in panels; its rows are the
// window and channel, its columns the output channels.
//
// Parameters: panel, rows and columns of a block of outputs (columns 0: all),
// groups (programs that share a block's panels).
#include "codegen/schedule/Emitter.h"
#include "codegen/schedule/Epilogue.h"
#include "codegen/schedule/Lanes.h"
#include "codegen/schedule/RowTiles.h"
#include "codegen/schedule/Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Scratch for the accumulators of a register tile: at most 12 x 64 f32. What
/// else is in scratch comes after it.
constexpr int64_t kAccumulatorBytes = 4096;

/// A 2-D (or 1-D, as one row) convolution in the form that the builder takes.
struct Window {
  ts::ConvOp op;
  BlockArgument input, filter;
  bool depthwise = false;
  bool turned = false; ///< one column: its rows are taken for the columns
  Dim images, height, width, channels, features, outHeight, outWidth;
  int64_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1;
  Dim lowH, highH, lowW, highW;

  bool hasBorder() const {
    return !(lowH.isConstant(0) && highH.isConstant(0) && lowW.isConstant(0) &&
             highW.isConstant(0));
  }
  /// Input columns that `columns` output columns read.
  Dim inputColumns(Dim columns) const { return (columns - 1) * sw + kw; }
  /// Input rows that `rows` output rows read.
  int64_t inputRows(int64_t rows) const {
    return (rows - 1) * sh + (kh - 1) * dh + 1;
  }
};

std::optional<Window> analyse(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (ops.empty())
    return std::nullopt;
  Window w;
  w.op = *ops.begin();
  unsigned spatial = w.op.getStrides().size();
  w.input = dyn_cast<BlockArgument>(w.op.getInput());
  w.filter = dyn_cast<BlockArgument>(w.op.getFilter());
  Type element = ts::elementTypeOf(w.op.getInput());
  auto constants = kernel->getAttrOfType<DenseBoolArrayAttr>("ts.constants");
  if (!w.op.getChannelsLast() || spatial < 1 || spatial > 2 || !w.input ||
      !w.filter || !w.filter.hasOneUse() || !constants ||
      !constants[w.filter.getArgNumber()] || !isa<FloatType>(element) ||
      element.isF64() || element != ts::elementTypeOf(w.op.getFilter()))
    return std::nullopt;
  if (llvm::any_of(w.op.getInputDilations(), [](int64_t d) { return d != 1; }))
    return std::nullopt;
  SmallVector<Dim> in = ts::dimsOf(w.op.getInput()),
                   out = ts::dimsOf(w.op.getResult()),
                   filter = ts::dimsOf(w.op.getFilter()),
                   low = ts::dimsOf(w.op.getLow()),
                   high = ts::dimsOf(w.op.getHigh());
  Dim one = in[0].like(1), zero = in[0].like(0);
  bool flat = spatial == 1;
  auto number = [](Dim dim) { return dim.asConstant().value_or(0); };
  w.images = in[0];
  w.height = flat ? one : in[1];
  w.width = in[spatial];
  w.channels = in.back();
  w.outHeight = flat ? one : out[1];
  w.outWidth = out[spatial];
  w.features = out.back();
  w.kh = flat ? 1 : number(filter[0]);
  w.kw = number(filter[spatial - 1]);
  w.sh = flat ? 1 : w.op.getStrides()[0];
  w.sw = w.op.getStrides()[spatial - 1];
  w.dh = flat ? 1 : w.op.getDilations()[0];
  int64_t dw = w.op.getDilations()[spatial - 1];
  w.lowH = flat ? zero : low[0];
  w.highH = flat ? zero : high[0];
  w.lowW = low[spatial - 1];
  w.highW = high[spatial - 1];
  // An image of one column is as well one row, in which a register tile finds
  // more than one pixel.
  auto zeroBorder = [](Dim low, Dim high) {
    return low.isConstant(0) && high.isConstant(0);
  };
  if (!flat && w.width.isConstant(1) && w.kw == 1 && w.dh == 1 &&
      zeroBorder(w.lowW, w.highW)) {
    w.turned = true;
    std::swap(w.height, w.width);
    std::swap(w.outHeight, w.outWidth);
    std::swap(w.kh, w.kw);
    std::swap(w.lowH, w.lowW);
    std::swap(w.highH, w.highW);
    w.sw = std::exchange(w.sh, 1);
    dw = 1;
  }
  // Along the width a dilated window is no consecutive run. A negative border
  // (cropping) is not what the copy does.
  if ((dw != 1 && w.kw != 1) || w.kh < 1 || w.kw < 1 ||
      !w.channels.asConstant() || !w.features.asConstant())
    return std::nullopt;
  for (Dim border : {w.lowH, w.highH, w.lowW, w.highW})
    if (!border.asConstant() || *border.asConstant() < 0)
      return std::nullopt;
  int64_t groups = w.op.getGroups();
  if (groups != 1) {
    w.depthwise =
        w.channels.isConstant(groups) && w.features.isConstant(groups);
    if (!w.depthwise || w.kh * w.kw > 25)
      return std::nullopt;
  }
  return w;
}

class ConvBuilder {
public:
  ConvBuilder(BuildContext &context, Window window, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location),
        target(context.target), w(std::move(window)),
        epilogue(std::move(epilogue)), panel(context.schedule.at("panel")),
        blockRows(context.schedule.at("rows")),
        blockColumns(context.schedule.at("columns")),
        groups(context.schedule.at("groups")) {}

  LogicalResult build();

private:
  void copyRows();
  void fill(Value from, Value count, Value zero, int64_t lanes);
  LogicalResult product(Value firstPanel, Value endPanel);
  LogicalResult depthwise(Value firstTile, Value endTile);
  LogicalResult storePixel(Value tile, Value row, Value column, Value feature,
                           int64_t lanes, Value valid);

  Emitter &e;
  OpBuilder &b;
  Location loc;
  const TargetDesc &target;
  Window w;
  Epilogue epilogue;
  int64_t panel, blockRows, blockColumns, groups;

  Value image, firstRow, rows; ///< of the block, in output rows
  Value firstColumn, columns;  ///< likewise
  Value source;     ///< input buffer, or scratch with the padded rows
  Value sourceBase; ///< of the block's first row
  Value rowStride;  ///< from one input row to the next
};

/// Zeros in source[from .. from + count).
void ConvBuilder::fill(Value from, Value count, Value zero, int64_t lanes) {
  LogicalResult status = success();
  forLanes(
      e, e.constant(0), count, lanes, false, {},
      [&](Value i, Value valid, ValueRange) -> FailureOr<SmallVector<Value>> {
        tile::StoreOp::create(b, loc, zero, source, e.add(from, i), valid);
        return SmallVector<Value>();
      },
      status);
}

/// The block's input rows with their zero border, to scratch.
void ConvBuilder::copyRows() {
  Value input = e.inputBuffer(w.input);
  Type element = cast<tile::BufferType>(input.getType()).getElementType();
  constexpr int64_t lanes = 64;
  Value zero = e.splat(element, lanes, 0);
  source = tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                                   e.constant(kAccumulatorBytes));
  sourceBase = e.constant(0);
  Dim widest =
      w.inputColumns(blockColumns ? w.width.like(blockColumns) : w.outWidth);
  rowStride = e.size(widest * w.channels);
  Value channels = e.size(w.channels), zeroIndex = e.constant(0);
  // Columns start .. start + widest, of which begin .. end are in the input.
  Value start = e.sub(e.mul(firstColumn, e.constant(w.sw)), e.size(w.lowW));
  Value begin = e.min(e.max(start, zeroIndex), e.size(w.width));
  Value end =
      e.max(e.min(e.add(start, e.size(widest)), e.size(w.width)), begin);
  Value left = e.mul(e.sub(begin, start), channels);
  Value run = e.mul(e.sub(end, begin), channels);
  Value right = e.sub(rowStride, e.add(left, run));
  // Row r of scratch is input row firstRow * sh - lowH + r.
  Value top = e.sub(e.mul(firstRow, e.constant(w.sh)), e.size(w.lowH));
  Value needed = e.add(e.mul(e.sub(rows, e.constant(1)), e.constant(w.sh)),
                       e.constant((w.kh - 1) * w.dh + 1));
  LogicalResult status = success();
  forEach(
      e, e.constant(0), needed, {},
      [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value from = e.add(top, r);
        Value to = e.mul(r, rowStride);
        Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                             from, e.size(w.height));
        auto branch =
            scf::IfOp::create(b, loc, inside, /*withElseRegion=*/true);
        {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
          e.scoped([&] {
            fill(to, left, zero, lanes);
            Value base =
                e.mul(e.add(e.mul(e.add(e.mul(image, e.size(w.height)), from),
                                  e.size(w.width)),
                            begin),
                      channels);
            Value at = e.add(to, left);
            LogicalResult inner = success();
            forLanes(
                e, e.constant(0), run, lanes, false, {},
                [&](Value i, Value valid,
                    ValueRange) -> FailureOr<SmallVector<Value>> {
                  Value row = tile::LoadOp::create(
                      b, loc, VectorType::get(lanes, element), input,
                      e.add(base, i), valid);
                  tile::StoreOp::create(b, loc, row, source, e.add(at, i),
                                        valid);
                  return SmallVector<Value>();
                },
                inner);
            fill(e.add(at, run), right, zero, lanes);
          });
        }
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
        e.scoped([&] { fill(to, rowStride, zero, lanes); });
        return SmallVector<Value>();
      },
      status);
}

LogicalResult ConvBuilder::storePixel(Value tile, Value row, Value column,
                                      Value feature, int64_t lanes,
                                      Value valid) {
  Coord coord;
  coord.lanes = lanes;
  coord.valid = valid;
  coord.dims.push_back({image});
  if (w.turned)
    std::swap(row, column);
  if (w.op.getStrides().size() == 2)
    coord.dims.push_back({row});
  coord.dims.push_back({column});
  coord.dims.push_back({feature, 1, {}, lanes});
  return epilogue.store(e, tile, coord);
}

LogicalResult ConvBuilder::product(Value firstPanel, Value endPanel) {
  Dim channels = w.channels, depth = channels * (w.kh * w.kw);
  Value filter = e.inputBuffer(w.filter);
  Value panelSize = e.size(depth * panel);
  Value pixel = e.size(channels * w.sw); // from one output pixel to the next
  int64_t known = *w.features.asConstant();
  RegisterTile shape = registerTile(target, panel);
  int64_t tileRows = shape.rows;
  // Tiles of equal size along the image row.
  std::optional<int64_t> pixels = w.outWidth.asConstant();
  if (blockColumns)
    pixels = blockColumns;
  if (pixels && *pixels) {
    int64_t tiles = (*pixels + tileRows - 1) / tileRows;
    tileRows = (*pixels + tiles - 1) / tiles;
  }
  Value accumulators = tile::ScratchOp::create(
      b, loc, tile::BufferType::get(b.getF32Type()), e.constant(0));
  auto sums = [&](Value a, Value weights, Value valid,
                  int64_t size) -> LogicalResult {
    return forParts(e, shape, panel, [&](Value part) {
      Value aOuter = e.mul(e.constant(w.dh), rowStride);
      Value bOuter = e.size(channels * (w.kw * panel));
      auto type = VectorType::get({size, shape.width}, b.getF32Type());
      auto loop = tile::MainloopOp::create(
          b, loc, type, source, a, pixel, e.constant(1), filter,
          e.add(weights, part), e.constant(panel), e.size(channels * w.kw));
      loop.getRowsMutable().assign(valid);
      if (w.kh > 1) {
        loop.getOuterMutable().assign(e.constant(w.kh));
        loop.getAOuterMutable().assign(aOuter);
        loop.getBOuterMutable().assign(bOuter);
      }
      for (int64_t i = 0; i < size; ++i)
        tile::StoreOp::create(b, loc,
                              vector::ExtractOp::create(b, loc, loop.getAcc(),
                                                        ArrayRef<int64_t>{i}),
                              accumulators, e.add(e.constant(i * panel), part));
      return success();
    });
  };
  // The pixels of a tile from where their sums lie.
  auto storeTile = [&](Value row, Value column, Value feature, Value valid) {
    LogicalResult status = success();
    forEach(
        e, e.constant(0), valid, {},
        [&](Value i, ValueRange) -> FailureOr<SmallVector<Value>> {
          Value at = e.mul(i, e.constant(panel));
          Value pixelColumn = e.add(firstColumn, e.add(column, i));
          LogicalResult stored = forParts(e, shape, panel, [&](Value part) {
            Value sum = tile::LoadOp::create(
                b, loc, VectorType::get(shape.width, b.getF32Type()),
                accumulators, e.add(at, part));
            Value n = e.add(feature, part), rest;
            if (known % panel)
              rest = e.sub(e.size(w.features), n);
            return storePixel(sum, row, pixelColumn, n, shape.width, rest);
          });
          if (failed(stored))
            return failure();
          return SmallVector<Value>();
        },
        status);
    return status;
  };
  LogicalResult status = success();
  forEach(
      e, firstPanel, endPanel, {},
      [&](Value p, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value base = e.mul(p, panelSize), feature = e.mul(p, e.constant(panel));
        forEach(
            e, e.constant(0), rows, {},
            [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
              Value row = e.add(sourceBase,
                                e.mul(e.mul(r, e.constant(w.sh)), rowStride));
              if (failed(forRowTiles(
                      e, columns, tileRows,
                      [&](Value column, Value valid, int64_t size, Value) {
                        return sums(e.add(row, e.mul(column, pixel)), base,
                                    valid, size);
                      },
                      [&](Value column, Value valid) {
                        return storeTile(e.add(firstRow, r), column, feature,
                                         valid);
                      })))
                return failure();
              return SmallVector<Value>();
            },
            status);
        return SmallVector<Value>();
      },
      status);
  return status;
}

LogicalResult ConvBuilder::depthwise(Value firstTile, Value endTile) {
  Value filter = e.inputBuffer(w.filter);
  int64_t count = *w.channels.asConstant();
  Type stored = cast<tile::BufferType>(filter.getType()).getElementType();
  auto load = [&](Value buffer, Value at, Value valid) -> Value {
    Value value = tile::LoadOp::create(b, loc, VectorType::get(panel, stored),
                                       buffer, at, valid);
    if (!stored.isF32())
      value = arith::ExtFOp::create(
          b, loc, VectorType::get(panel, b.getF32Type()), value);
    return value;
  };
  LogicalResult status = success();
  forEach(
      e, firstTile, endTile, {},
      [&](Value t, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value channel = e.mul(t, e.constant(panel));
        Value valid;
        if (count % panel)
          valid = e.sub(e.constant(count), channel);
        SmallVector<Value> weights;
        for (int64_t k = 0; k < w.kh * w.kw; ++k)
          weights.push_back(
              load(filter, e.add(e.constant(k * count), channel), valid));
        LogicalResult inner = success();
        forEach(
            e, e.constant(0), rows, {},
            [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
              Value row = e.add(e.add(sourceBase, channel),
                                e.mul(e.mul(r, e.constant(w.sh)), rowStride));
              LogicalResult pixels = success();
              forEach(
                  e, e.constant(0), columns, {},
                  [&](Value column,
                      ValueRange) -> FailureOr<SmallVector<Value>> {
                    Value at =
                        e.add(row, e.mul(column, e.constant(w.sw * count)));
                    Value sum = e.splat(b.getF32Type(), panel, 0);
                    for (int64_t i = 0; i < w.kh; ++i)
                      for (int64_t j = 0; j < w.kw; ++j) {
                        Value x =
                            load(source,
                                 e.add(e.add(at, e.mul(e.constant(i * w.dh),
                                                       rowStride)),
                                       e.constant(j * count)),
                                 valid);
                        sum = vector::FMAOp::create(b, loc, x,
                                                    weights[i * w.kw + j], sum);
                      }
                    if (failed(storePixel(sum, e.add(firstRow, r),
                                          e.add(firstColumn, column), channel,
                                          panel, valid)))
                      return failure();
                    return SmallVector<Value>();
                  },
                  pixels);
              if (failed(pixels))
                return failure();
              return SmallVector<Value>();
            },
            inner);
        if (failed(inner))
          return failure();
        return SmallVector<Value>();
      },
      status);
  return status;
}

LogicalResult ConvBuilder::build() {
  Value id = tile::ProgramIdOp::create(b, loc);
  Dim one = w.images.like(1);
  Dim rowBlocks = w.outHeight.ceilDiv(one * blockRows);
  Dim columnBlocks =
      blockColumns ? w.outWidth.ceilDiv(one * blockColumns) : one;
  SmallVector<Value> index =
      e.delinearize(id, {w.images, rowBlocks, columnBlocks, one * groups});
  image = index[0];
  firstRow = e.mul(index[1], e.constant(blockRows));
  rows = e.min(e.constant(blockRows), e.sub(e.size(w.outHeight), firstRow));
  firstColumn = e.mul(index[2], e.constant(blockColumns));
  columns = blockColumns ? e.min(e.constant(blockColumns),
                                 e.sub(e.size(w.outWidth), firstColumn))
                         : e.size(w.outWidth);
  if (w.hasBorder()) {
    copyRows();
  } else {
    source = e.inputBuffer(w.input);
    rowStride = e.size(w.width * w.channels);
    sourceBase = e.add(e.mul(e.add(e.mul(image, e.size(w.height)),
                                   e.mul(firstRow, e.constant(w.sh))),
                             rowStride),
                       e.mul(firstColumn, e.size(w.channels * w.sw)));
  }
  // This program's share of the panels.
  int64_t panels = (*w.features.asConstant() + panel - 1) / panel;
  Value first = e.div(e.mul(index[3], e.constant(panels)), e.constant(groups));
  Value end = e.div(e.mul(e.add(index[3], e.constant(1)), e.constant(panels)),
                    e.constant(groups));
  return w.depthwise ? depthwise(first, end) : product(first, end);
}

/// The widest panel that wastes least (see Matmul.cpp).
int64_t choosePanel(const Window &w, int64_t runDivisor, Knobs &knobs) {
  int64_t features = *w.features.asConstant();
  if (w.depthwise) {
    // The window's weights stay in registers: 25 taps of 16, 9 of 32.
    bool wide = w.kh * w.kw * 2 <= 20 && features >= 32;
    return knobs.pick("panel", wide ? 32 : 16, {16, 32});
  }
  int64_t best = 16;
  double bestCost = 1e30;
  SmallVector<int64_t> all;
  for (auto [panel, cost] : {std::pair<int64_t, double>{32, 1.0},
                             {48, 1.0},
                             {64, 1.02},
                             {16, 1.6}}) {
    if (panel != 16 && runDivisor && runDivisor % panel)
      continue;
    all.push_back(panel);
    double total = cost * ((features + panel - 1) / panel) * panel;
    if (total < bestCost) {
      bestCost = total;
      best = panel;
    }
  }
  return knobs.pick("panel", best, all);
}

} // namespace

LogicalResult chooseConv(ts::KernelOp kernel, const TargetDesc &target,
                         Knobs &knobs, SmallVectorImpl<Schedule> &schedules) {
  std::optional<Window> w = analyse(kernel);
  if (!w)
    return success(); // the loop schedule takes it
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, w->op.getResult());
  if (failed(epilogue))
    return failure();
  int64_t panel = choosePanel(*w, epilogue->runDivisor(), knobs);
  int64_t channels = *w->channels.asConstant(),
          features = *w->features.asConstant();
  int64_t panels = (features + panel - 1) / panel;
  // As many output rows, or columns of one, as keep the input of a block in
  // about a quarter of L2.
  int64_t budget = (target.l2Bytes ? target.l2Bytes : 1 << 20) / 4;
  int64_t height = std::max<int64_t>(1, representative(w->outHeight)),
          width = std::max<int64_t>(1, representative(w->outWidth));
  int64_t pixelBytes = channels * 4;
  int64_t rowBytes = ((width - 1) * w->sw + w->kw) * pixelBytes;
  int64_t columns = 0;
  // A quarter or double of the block.
  if (int64_t share = knobs.pick("share", 4, {2, 8, 1}); share != 4)
    budget = budget * 4 / share;
  if (rowBytes * w->inputRows(1) > budget) {
    columns = (budget / (w->inputRows(1) * pixelBytes) - w->kw) / w->sw + 1;
    columns = std::max<int64_t>(24, columns / 24 * 24);
    if (columns >= width)
      columns = 0;
  }
  int64_t columnBlocks = columns ? (width + columns - 1) / columns : 1;
  int64_t rows = 1;
  while (!columns && rows < height &&
         w->inputRows(rows + 1) * rowBytes <= budget && rows < 16)
    ++rows;
  // Blocks of equal height.
  int64_t blocks = (height + rows - 1) / rows;
  if (w->outHeight.asConstant())
    rows = (height + blocks - 1) / blocks;
  blocks *= columnBlocks;
  int64_t groups = std::clamp<int64_t>((8 + blocks - 1) / blocks, 1, panels);
  SmallVector<int64_t> otherGroups;
  for (int64_t other : {2 * groups, groups / 2, int64_t(1), panels})
    if (other >= 1 && other <= std::min<int64_t>(panels, 64))
      otherGroups.push_back(other);
  groups = knobs.pick("groups", groups, otherGroups);
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "conv";
  schedule.parameters = {{"panel", panel},
                         {"rows", rows},
                         {"columns", columns},
                         {"groups", groups}};
  schedule.grid = w->images * w->outHeight.ceilDiv(one * rows) *
                  (columns ? w->outWidth.ceilDiv(one * columns) : one) * groups;
  int64_t flops = 2 * rows * (columns ? columns : width) * w->kh * w->kw *
                  (w->depthwise ? 4 : channels) * features / groups;
  schedule.grain =
      one * std::max<int64_t>(1, 400000 / std::max<int64_t>(1, flops));
  schedule.scratch =
      w->hasBorder() ? w->inputColumns(columns ? one * columns : w->outWidth) *
                               (pixelBytes * w->inputRows(rows)) +
                           256 + kAccumulatorBytes
                     : one * kAccumulatorBytes;
  if (!w->depthwise)
    schedule.packed.push_back({w->filter.getArgNumber(),
                               w->kh * w->kw * channels, features,
                               /*transposed=*/false, panel});
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildConv(BuildContext &context) {
  std::optional<Window> w = analyse(context.kernel);
  if (!w)
    return context.kernel.emitOpError(
        "is no convolution that this schedule knows");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, w->op.getResult());
  if (failed(epilogue))
    return failure();
  return ConvBuilder(context, std::move(*w), std::move(*epilogue)).build();
}

} // namespace knapper
