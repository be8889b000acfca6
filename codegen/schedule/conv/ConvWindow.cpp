#include "codegen/schedule/conv/ConvWindow.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "graph/layout/PackFilters.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

std::optional<ConvWindow> analyseConv(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (ops.empty())
    return std::nullopt;
  ConvWindow w;
  w.op = *ops.begin();
  unsigned spatial = w.spatial = w.op.getStrides().size();
  Value image = w.op.getInput();
  if ((w.pad = image.getDefiningOp<ts::PadOp>()))
    image = w.pad.getInput();
  w.input = dyn_cast<BlockArgument>(image);
  w.filter = dyn_cast<BlockArgument>(w.op.getFilter());
  if (!w.filter)
    if (std::optional<PackedFilter> packed = packedFilter(w.op.getFilter())) {
      w.filter = packed->panels;
      w.panel = packed->panel;
      w.inPlace = packed->inPlace;
    }
  Type element = ts::elementTypeOf(image),
       weight = ts::elementTypeOf(w.op.getFilter());
  bool bytes = element.isUnsignedInteger(8) && weight.isSignlessInteger(8);
  auto constants = kernel->getAttrOfType<DenseBoolArrayAttr>("ts.constants");
  if (!w.op.getChannelsLast() || spatial < 1 || spatial > 3 || !w.input ||
      !w.filter || !w.filter.hasOneUse() || !constants ||
      (!bytes &&
       (!isa<FloatType>(element) || element.isF64() || element != weight)))
    return std::nullopt;
  w.isConstant = constants[w.filter.getArgNumber()];
  if (bytes && !w.isConstant)
    return std::nullopt;
  SmallVector<Dim> in = ts::dimsOf(image), out = ts::dimsOf(w.op.getResult()),
                   filter = ts::dimsOf(w.op.getFilter()),
                   low = ts::dimsOf(w.op.getLow()),
                   high = ts::dimsOf(w.op.getHigh());
  Dim one = in[0].like(1), zero = in[0].like(0);
  if (w.pad) {
    // A border of each kind would be two.
    SmallVector<Dim> padLow = ts::dimsOf(w.pad.getLow()),
                     padHigh = ts::dimsOf(w.pad.getHigh());
    auto isZero = [](Dim dim) { return dim.isConstant(0); };
    if (!w.pad.getValue() || !llvm::all_of(low, isZero) ||
        !llvm::all_of(high, isZero) || !isZero(padLow[0]) ||
        !isZero(padHigh[0]) || !isZero(padLow.back()) ||
        !isZero(padHigh.back()))
      return std::nullopt;
    low.assign(padLow.begin() + 1, padLow.end() - 1);
    high.assign(padHigh.begin() + 1, padHigh.end() - 1);
  }
  bool flat = spatial == 1;
  unsigned h = flat ? 0 : spatial - 2; // the dim of rows
  auto number = [](Dim dim) { return dim.asConstant().value_or(0); };
  w.images = in[0];
  w.height = flat ? one : in[h + 1];
  w.width = in[spatial];
  w.channels = in.back();
  w.outHeight = flat ? one : out[h + 1];
  w.outWidth = out[spatial];
  w.features = out.back();
  w.kh = flat ? 1 : number(filter[h]);
  w.kw = number(filter[spatial - 1]);
  w.sh = flat ? 1 : w.op.getStrides()[h];
  w.sw = w.op.getStrides()[spatial - 1];
  w.dh = flat ? 1 : w.op.getDilations()[h];
  w.dw = w.op.getDilations()[spatial - 1];
  w.spreadH = flat ? 1 : w.op.getInputDilations()[h];
  w.spreadW = w.op.getInputDilations()[spatial - 1];
  w.lowH = flat ? zero : low[h];
  w.highH = flat ? zero : high[h];
  w.lowW = low[spatial - 1];
  w.highW = high[spatial - 1];
  w.depth = w.outDepth = one;
  w.lowD = w.highD = zero;
  if (w.hasPlanes()) {
    w.depth = in[1];
    w.outDepth = out[1];
    w.kd = number(filter[0]);
    w.sd = w.op.getStrides()[0];
    w.dd = w.op.getDilations()[0];
    w.lowD = low[0];
    w.highD = high[0];
    // (Phases of planes are left to loops.)
    if (w.spreads() || w.op.getInputDilations()[0] != 1)
      return std::nullopt;
  }
  // An image of one column is as well one row, in which a register tile finds
  // more than one pixel.
  auto zeroBorder = [](Dim low, Dim high) {
    return low.isConstant(0) && high.isConstant(0);
  };
  if (!flat && w.width.isConstant(1) && w.kw == 1 && w.spreadW == 1 &&
      zeroBorder(w.lowW, w.highW)) {
    w.rowsAsColumns = true;
    std::swap(w.height, w.width);
    std::swap(w.outHeight, w.outWidth);
    std::swap(w.kh, w.kw);
    std::swap(w.lowH, w.lowW);
    std::swap(w.highH, w.highW);
    w.sw = std::exchange(w.sh, 1);
    w.dw = std::exchange(w.dh, 1);
    w.spreadW = std::exchange(w.spreadH, 1);
  }
  // A phase of a spread one has a tap at least.
  if (w.spreads() && (w.pad || w.kh < w.spreadH || w.kw < w.spreadW ||
                      w.sh != 1 || w.sw != 1 || w.dh != 1 || w.dw != 1))
    return std::nullopt;
  // Without channels or features there is nothing to share out: loops write
  // what is left, if anything.
  if (w.kd < 1 || w.kh < 1 || w.kw < 1 || number(w.channels) < 1 ||
      number(w.features) < 1)
    return std::nullopt;
  // A negative border (cropping) is not what the copy does.
  for (Dim border : {w.lowD, w.highD, w.lowH, w.highH, w.lowW, w.highW})
    if (!border.asConstant() || *border.asConstant() < 0)
      return std::nullopt;
  w.groups = w.op.getGroups();
  return w;
}

void fillRun(ElementEmitter &e, Value vector, Value buffer, Value from,
             Value count) {
  int64_t lanes = cast<VectorType>(vector.getType()).getNumElements();
  LogicalResult never = success();
  forLanes(
      e, e.constant(0), count, lanes, false, {},
      [&](Value i, Value valid, ValueRange) -> FailureOr<SmallVector<Value>> {
        tile::StoreOp::create(e.builder, e.location, vector, buffer,
                              e.add(from, i), valid);
        return SmallVector<Value>();
      },
      never);
}

ConvRows copyConvRows(ElementEmitter &e, const ConvWindow &w, Value image,
                      Value top, Value rows, Value left, Dim columns,
                      int64_t at, std::optional<ChannelSlice> slice,
                      Value plane) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Value input = e.inputBuffer(w.input);
  Type element = cast<tile::BufferType>(input.getType()).getElementType();
  // Few channels of each pixel are one tile.
  int64_t lanes = slice ? std::min<int64_t>(slice->count, 64) : 64;
  Value source = tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                                         e.constant(at));
  constexpr int64_t wide = 64;
  Value border =
      w.pad ? e.widen(e.emit(ts::PadOp(w.pad).getValue(), Coord()), wide)
            : e.splat(element, wide, 0);
  Value channels = e.size(w.channels);
  Value pixel = slice ? e.constant(slice->count) : channels;
  Value rowStride = e.mul(e.size(columns), pixel);
  // Of columns left .. past, begin .. end are in the input.
  Value past = e.add(left, e.size(columns));
  Value begin = e.min(e.max(left, e.constant(0)), past);
  Value end = e.max(e.min(past, e.size(w.width)), begin);
  Value before = e.mul(e.sub(begin, left), pixel);
  Value run = e.mul(e.sub(end, begin), pixel);
  Value after = e.sub(rowStride, e.add(before, run));
  // Slices of the same size, and of whole tiles.
  bool divides = slice && slice->count % lanes == 0 &&
                 w.channels.knownDivisor() % slice->count == 0;
  auto copy = [&](Value from, Value to, Value elements) {
    LogicalResult never = success();
    forLanes(
        e, e.constant(0), elements, lanes, divides, {},
        [&](Value i, Value valid, ValueRange) -> FailureOr<SmallVector<Value>> {
          Value tile =
              tile::LoadOp::create(b, loc, VectorType::get(lanes, element),
                                   input, e.add(from, i), valid);
          tile::StoreOp::create(b, loc, tile, source, e.add(to, i), valid);
          return SmallVector<Value>();
        },
        never);
  };
  Value some = slice ? e.min(pixel, e.sub(channels, slice->first)) : Value();
  LogicalResult status = success();
  // Of plane `image` of all, from row `top` on.
  auto copyPlane = [&](Value image, Value top, Value start) {
    forEach(
        e, e.constant(0), rows, {},
        [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
          Value from = e.add(top, e.mul(r, e.constant(w.rowStep())));
          Value to = e.add(start, e.mul(r, rowStride));
          Value inside = arith::CmpIOp::create(
              b, loc, arith::CmpIPredicate::ult, from, e.size(w.height));
          auto branch =
              scf::IfOp::create(b, loc, inside, /*withElseRegion=*/true);
          {
            OpBuilder::InsertionGuard guard(b);
            b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
            e.scoped([&] {
              fillRun(e, border, source, to, before);
              Value base =
                  e.mul(e.add(e.mul(e.add(e.mul(image, e.size(w.height)), from),
                                    e.size(w.width)),
                              begin),
                        channels);
              Value pixels = e.add(to, before);
              if (slice) {
                forEach(
                    e, begin, end, {},
                    [&](Value column,
                        ValueRange) -> FailureOr<SmallVector<Value>> {
                      Value at = e.sub(column, begin);
                      copy(
                          e.add(e.add(base, slice->first), e.mul(at, channels)),
                          e.add(pixels, e.mul(at, pixel)), some);
                      return SmallVector<Value>();
                    },
                    status);
              } else {
                copy(base, pixels, run);
              }
              fillRun(e, border, source, e.add(pixels, run), after);
            });
          }
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
          e.scoped([&] { fillRun(e, border, source, to, rowStride); });
          return SmallVector<Value>();
        },
        status);
  };
  Value planeStride = e.mul(rows, rowStride);
  if (!w.hasPlanes()) {
    copyPlane(image, top, e.constant(0));
    return {source, e.constant(0), rowStride, pixel, planeStride};
  }
  Value first = e.sub(e.mul(plane, e.constant(w.sd)), e.size(w.lowD));
  forEach(
      e, e.constant(0), e.constant(w.kd), {},
      [&](Value i, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value from = e.add(first, e.mul(i, e.constant(w.dd)));
        // All rows of a plane outside are border.
        Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                             from, e.size(w.depth));
        copyPlane(
            e.add(e.mul(image, e.size(w.depth)), from),
            arith::SelectOp::create(b, loc, inside, top, e.size(w.height)),
            e.mul(i, planeStride));
        return SmallVector<Value>();
      },
      status);
  return {source, e.constant(0), rowStride, pixel, planeStride};
}

LogicalResult storeConvPixel(ElementEmitter &e, const ConvWindow &w,
                             const Epilogue &epilogue, Value tile, Value image,
                             Value row, Value column, Value feature,
                             int64_t lanes, Value valid, Value plane) {
  Coord coord;
  coord.lanes = lanes;
  coord.valid = valid;
  coord.dims.push_back({image});
  if (w.rowsAsColumns)
    std::swap(row, column);
  if (w.hasPlanes())
    coord.dims.push_back({plane});
  if (w.spatial > 1)
    coord.dims.push_back({row});
  coord.dims.push_back({column});
  coord.dims.push_back({feature, 1, {}, lanes});
  return epilogue.store(e, tile, coord);
}

int64_t evenRows(int64_t height, int64_t rows) {
  int64_t blocks = (height + rows - 1) / rows;
  if (blocks > 1 && blocks % 2)
    ++blocks;
  return (height + blocks - 1) / blocks;
}

void chooseConvPanel(const ConvWindow &w, int64_t runDivisor,
                     config::ConvCpuBlock &config, Knobs &knobs) {
  int64_t share = *w.features.asConstant() / w.groups;
  config.panel =
      cheapestPanel({{32, 1.0}, {48, 1.0}, {64, 1.02}, {16, 1.6}}, runDivisor,
                    [&](int64_t panel) {
                      // A panel counts once for each group that has features in
                      // it.
                      int64_t count = 0;
                      for (int64_t group = 0; group < w.groups; ++group)
                        count += ((group + 1) * share + panel - 1) / panel -
                                 group * share / panel;
                      return count;
                    });
  knobs.tune(config, config.panel,
             [&](int64_t panel) { return keepsRuns(panel, runDivisor); });
}

} // namespace knapper
