// Convolutions whose groups have few channels, depthwise ones above all, with
// channels last: the lanes of a register are the features of groups side by
// side, so nothing is multiplied for another group.
//
//   program = (image, output plane, block of output rows, tile of features)
//     for each output row and run of its pixels, a sum each in a register:
//       for each window row that lies in the image, channel k of a group:
//         for each input column that the run sees: its channels, arranged so
//         that each lane has channel k of its own group, times the window's
//         columns that see it
//     one epilogue takes the sums pixel by pixel
//
// The input is read where it lies: window rows outside of it are left out. So
// are the columns outside of it where the width is a number, at the first and
// the last run of a row; else those runs read their columns under masks. What a
// column gives is loaded once for all pixels of a run that see it.
//
// Bytes of groups of one channel: four window rows at a time. Of a column a
// lane has its channel of those rows, a byte each, which one instruction
// multiplies by the weights of a window's column. Rows outside of the image
// are read from one inside, their weights zero, and the sums begin with what
// the border gives there.
//
// Bytes of other groups, and of large windows, multiply in float32 where it
// holds every sum of the window, else in i32. A border that holds a number p:
// the sums begin with what a window of nothing but p gives, and p is taken from
// each element of the image, so that what lies outside of it still adds
// nothing.
//
// The filter [kh, kw, C, F] is a constant packed in panels of a tile's
// features; one that is none is read where it lies, a tile of each of its rows.
//
// Parameters: lanes, pixels of a run (at most: targets with fewer registers
// take fewer), rows of a block.
#include "codegen/schedule/conv/CpuGroupedConv.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "codegen/schedule/core/Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// The most FMAs in the code of a run.
constexpr int64_t kMostSteps = 1024;

/// Pixels of a run; 0 where the window is too wide.
int64_t runPixels(const ConvWindow &w, const GroupLanes &g,
                  const TargetDesc &target) {
  // A sum for each, and with several channels the columns that they see.
  bool wide = target.vectorRegisters >= 32;
  int64_t pixels = g.channels == 1 ? (wide ? 14 : 8)
                   : w.sw == 1     ? (wide ? 10 : 4)
                                   : (wide ? 6 : 3);
  int64_t fours = inFours(w, g) ? foursOf(w) : 1;
  pixels = std::min(pixels, kMostSteps / (w.kw * g.channels * fours));
  if (pixels < 3)
    return 0;
  return std::max<int64_t>(1, pixels * target.lanes(DType::f32) / g.lanes);
}

/// What sums are formed in. Those of bytes are exact in f32, whatever the
/// order, as long as none leaves 24 bits.
Type sumTypeOf(const ConvWindow &w, const GroupLanes &g) {
  constexpr int64_t largest = 255 * 128;
  MLIRContext *context = w.op->getContext();
  if (inFours(w, g) ||
      (w.isBytes() &&
       w.windowRows() * w.kw > (int64_t(1) << 24) / largest / g.channels))
    return IntegerType::get(context, 32);
  return Float32Type::get(context);
}

/// Groups that fill a register are left to blocked matmuls.
bool takesLanes(const ConvWindow &w, const GroupLanes &g,
                const TargetDesc &target) {
  return w.groups > 1 && !w.spreads() && g.each < g.lanes && g.side &&
         runPixels(w, g, target) &&
         2 * g.features() >= std::min(g.lanes, g.each * w.groups);
}

/// Whether the code of an epilogue is a few instructions.
bool isShortEpilogue(ts::KernelOp kernel) {
  int64_t ops = 0;
  return llvm::all_of(kernel.getBody().front(), [&](Operation &op) {
    return ++ops <= 12 && isa<ts::ConvOp, ts::YieldOp, ts::ConstantOp,
                              ts::BroadcastOp, ts::ReshapeOp, ts::AddOp,
                              ts::SubOp, ts::MulOp, ts::MaxOp, ts::MinOp>(op);
  });
}

} // namespace

ConvLanesBuilder::ConvLanesBuilder(BuildContext &context, const Config &config,
                                   ConvWindow window, Epilogue epilogue)
    : e(context.emitter), b(e.builder), loc(e.location), w(std::move(window)),
      epilogue(std::move(epilogue)), g(w, config.lanes), blockRows(config.rows),
      pixels(std::min(config.pixels, runPixels(w, g, context.target))),
      isShort(isShortEpilogue(context.kernel)), sumType(sumTypeOf(w, g)) {}

LogicalResult ConvLanesBuilder::storePixel(Value sum, Value column) {
  if (w.isBytes() && sumType.isF32())
    sum = arith::FPToSIOp::create(
        b, loc, VectorType::get(g.lanes, b.getI32Type()), sum);
  return storeConvPixel(e, w, epilogue, sum, image, row, column, firstFeature,
                        g.lanes, validFeatures, plane);
}

/// As the type of sums.
Value ConvLanesBuilder::load(BlockArgument tensor, int64_t count, Value at,
                             Value valid) {
  Value buffer = e.inputBuffer(tensor);
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  Value value = tile::LoadOp::create(b, loc, VectorType::get(count, stored),
                                     buffer, at, valid);
  if (stored.isF32())
    return value;
  if (w.isBytes()) {
    Type wide = VectorType::get(count, b.getI32Type());
    return fromBytes(
        tensor == w.input
            ? arith::ExtUIOp::create(b, loc, wide, value).getResult()
            : arith::ExtSIOp::create(b, loc, wide, value));
  }
  return arith::ExtFOp::create(b, loc, VectorType::get(count, b.getF32Type()),
                               value);
}

Value ConvLanesBuilder::fromBytes(Value wide) {
  if (!sumType.isF32())
    return wide;
  Type type = sumType;
  if (auto vector = dyn_cast<VectorType>(wide.getType()))
    type = VectorType::get(vector.getShape(), sumType);
  return arith::SIToFPOp::create(b, loc, type, wide);
}

Value ConvLanesBuilder::mad(Value x, Value weight, Value sum) {
  if (sumType.isF32())
    return vector::FMAOp::create(b, loc, x, weight, sum);
  Value matmul = arith::MulIOp::create(b, loc, x, weight);
  return arith::AddIOp::create(b, loc, sum, matmul);
}

LogicalResult ConvLanesBuilder::readBorder() {
  firstSum = e.splat(sumType, g.lanes, 0);
  if (!w.pad)
    return success();
  Value held = e.emit(w.pad.getValue(), Coord());
  if (!held)
    return failure();
  held = fromBytes(arith::ExtUIOp::create(b, loc, b.getI32Type(), held));
  outside = e.widen(held, llvm::PowerOf2Ceil(g.inputs()));
  Value each = e.widen(held, g.lanes);
  LogicalResult never = success();
  firstSum = forEach(
      e, e.constant(0), e.constant(w.windowRows() * w.kw * g.channels),
      firstSum,
      [&](Value k, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value weight = load(w.filter, g.lanes,
                            e.add(weights, e.mul(k, e.constant(filterRow()))),
                            someFeatures);
        return SmallVector<Value>{mad(each, weight, carried[0])};
      },
      never)[0];
  return success();
}

ConvLanesBuilder::Seen ConvLanesBuilder::seenBy(const Run &run) {
  int64_t border = *w.lowW.asConstant();
  Value firstColumn =
      e.sub(e.mul(run.column, e.constant(w.sw)), e.constant(border));
  Seen seen;
  seen.first = e.add(e.mul(firstColumn, e.constant(*w.channels.asConstant())),
                     firstChannel);
  SmallVector<int64_t> places;
  for (int64_t p = 0; p < run.size; ++p)
    for (int64_t j = 0; j < w.kw; ++j)
      places.push_back(p * w.sw + j * w.dw);
  llvm::sort(places);
  places.erase(llvm::unique(places), places.end());
  for (int64_t place : places) {
    SeenColumn c{place, false, validInputs, Value()};
    if (run.known) {
      int64_t column = *run.known * w.sw - border + place;
      c.isOutside = column < 0 || column >= *w.width.asConstant();
    }
    if (run.checked) {
      Value column = e.add(firstColumn, e.constant(place));
      c.inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                       column, reach());
      Value all = validInputs ? validInputs
                              : e.constant(llvm::PowerOf2Ceil(g.inputs()));
      c.valid = arith::SelectOp::create(b, loc, c.inside, all, e.constant(0));
    }
    seen.columns.push_back(c);
  }
  return seen;
}

Value ConvLanesBuilder::reach() {
  Value width = e.size(w.width);
  if (!inFours(w, g) || w.height.asConstant())
    return width;
  return arith::SelectOp::create(
      b, loc, e.less(e.constant(0), e.size(w.height)), width, e.constant(0));
}

SmallVector<Value> ConvLanesBuilder::sumsOf(const Run &run) {
  if (inFours(w, g))
    return sumsInFours(run);
  Seen seen = seenBy(run);
  llvm::erase_if(seen.columns, [](const SeenColumn &c) { return c.isOutside; });
  SmallVector<Value> begin(run.size, firstSum);
  if (!w.hasPlanes())
    return sumsOfPlane(run, seen, begin, weights, {});
  Value distance =
      e.mul(e.size(w.height * w.width * w.channels), e.constant(w.dd));
  LogicalResult never = success();
  return forEach(
      e, firstPlaneTap, endPlaneTap, begin,
      [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        int64_t size = w.kh * w.kw * g.channels * filterRow();
        return sumsOfPlane(run, seen, carried,
                           e.add(weights, e.mul(i, e.constant(size))),
                           e.mul(i, distance));
      },
      never);
}

SmallVector<Value> ConvLanesBuilder::sumsOfPlane(const Run &run,
                                                 const Seen &seen,
                                                 ValueRange begin,
                                                 Value weights, Value away) {
  int64_t inputs = llvm::PowerOf2Ceil(g.inputs());
  int64_t imageChannels = *w.channels.asConstant();
  Value line = e.mul(e.size(w.width), e.constant(imageChannels * w.dh));
  int64_t taps = w.kw * g.channels; // of a window row
  Value base = away ? e.add(lineBase, away) : lineBase;
  auto lessBorder = [&](Value x, Value inside) -> Value {
    if (!outside)
      return x;
    if (sumType.isF32())
      x = arith::SubFOp::create(b, loc, x, outside);
    else
      x = arith::SubIOp::create(b, loc, x, outside);
    if (inside)
      x = arith::SelectOp::create(b, loc, inside, x,
                                  e.splat(sumType, inputs, 0));
    return x;
  };
  LogicalResult never = success();
  return forEach(
      e, firstTap, endTap, begin,
      [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> acc(carried);
        Value from = e.add(seen.first, e.add(base, e.mul(i, line)));
        Value row = e.add(weights, e.mul(i, e.constant(taps * filterRow())));
        SmallVector<Value> columns(seen.columns.size());
        for (int64_t k = 0; k < g.channels; ++k) {
          SmallVector<Value> window;
          for (int64_t j = 0; j < w.kw; ++j)
            window.push_back(
                load(w.filter, g.lanes,
                     e.add(row, e.constant((j * g.channels + k) * filterRow())),
                     someFeatures));
          for (auto [n, c] : llvm::enumerate(seen.columns)) {
            if (!columns[n])
              columns[n] = lessBorder(
                  load(w.input, inputs,
                       e.add(from, e.constant(c.place * imageChannels)),
                       c.valid),
                  c.inside);
            Value x = arranged(columns[n], k);
            for (int64_t j = 0; j < w.kw; ++j)
              if (std::optional<int64_t> p = pixelOf(c, j, run))
                acc[*p] = mad(x, window[j], acc[*p]);
          }
        }
        return acc;
      },
      never);
}

std::optional<int64_t> ConvLanesBuilder::pixelOf(const SeenColumn &column,
                                                 int64_t j, const Run &run) {
  int64_t ahead = column.place - j * w.dw, p = ahead / w.sw;
  if (ahead < 0 || ahead % w.sw || p >= run.size)
    return std::nullopt;
  return p;
}

Value ConvLanesBuilder::arranged(Value x, int64_t k) {
  if (g.channels == 1 && g.each == 1 &&
      cast<VectorType>(x.getType()).getNumElements() == g.lanes)
    return x;
  SmallVector<int64_t> lanes(g.lanes, 0);
  for (int64_t l = 0; l < g.features(); ++l)
    lanes[l] = l / g.each * g.channels + k;
  return vector::ShuffleOp::create(b, loc, x, x, lanes);
}

void ConvLanesBuilder::keep(ArrayRef<Value> results) {
  for (auto [p, sum] : llvm::enumerate(results))
    tile::StoreOp::create(b, loc, sum, sums, e.constant(p * g.lanes));
}

LogicalResult ConvLanesBuilder::storeKept(Value column, Value count) {
  return forEach(e, e.constant(0), count, [&](Value i) {
    Value sum = tile::LoadOp::create(b, loc, VectorType::get(g.lanes, sumType),
                                     sums, e.mul(i, e.constant(g.lanes)));
    return storePixel(sum, e.add(column, i));
  });
}

std::optional<LogicalResult> ConvLanesBuilder::knownRow() {
  std::optional<int64_t> width = w.outWidth.asConstant(),
                         inputWidth = w.width.asConstant();
  if (!width || !inputWidth || *width < 1)
    return std::nullopt;
  // There may be no line to read.
  if (inFours(w, g) && w.height.asConstant().value_or(0) < 1)
    return std::nullopt;
  // Runs of `large` pixels, then of one less.
  int64_t runs = (*width + pixels - 1) / pixels,
          large = (*width + runs - 1) / runs,
          manyLarge = *width - runs * (large - 1);
  auto sizeOf = [&](int64_t i) { return i < manyLarge ? large : large - 1; };
  auto start = [&](int64_t i) {
    return i * large - std::max<int64_t>(0, i - manyLarge);
  };
  auto isInside = [&](int64_t i) {
    int64_t left = start(i) * w.sw - *w.lowW.asConstant();
    return left >= 0 &&
           left + (sizeOf(i) - 1) * w.sw + (w.kw - 1) * w.dw < *inputWidth;
  };
  int64_t begin = 0, end = runs;
  while (begin < runs && !isInside(begin))
    ++begin;
  while (end > begin && !isInside(end - 1))
    --end;
  constexpr int64_t mostEdges = 3;
  if (begin + runs - end > mostEdges)
    return std::nullopt;
  auto emit = [&](const Run &run) -> LogicalResult {
    return e.scoped([&]() -> LogicalResult {
      SmallVector<Value> results = sumsOf(run);
      if (!isShort) {
        keep(results);
        return storeKept(run.column, e.constant(run.size));
      }
      for (auto [p, sum] : llvm::enumerate(results))
        if (failed(storePixel(sum, e.add(run.column, e.constant(p)))))
          return failure();
      return success();
    });
  };
  auto edges = [&](int64_t from, int64_t to) -> LogicalResult {
    for (int64_t i = from; i < to; ++i)
      if (failed(emit({e.constant(start(i)), sizeOf(i), start(i)})))
        return failure();
    return success();
  };
  auto middle = [&](int64_t from, int64_t to, int64_t size,
                    int64_t skipped) -> LogicalResult {
    if (from >= to)
      return success();
    return forEach(e, e.constant(from), e.constant(to), [&](Value i) {
      Value column = e.add(e.mul(i, e.constant(size)), e.constant(skipped));
      return emit({column, size, std::nullopt});
    });
  };
  if (failed(edges(0, begin)) ||
      failed(middle(begin, std::min(end, manyLarge), large, 0)) ||
      failed(middle(std::max(begin, manyLarge), end, large - 1, manyLarge)))
    return failure();
  return edges(end, runs);
}

std::pair<Value, Value> ConvLanesBuilder::tapsInside(Value base, int64_t step,
                                                     int64_t count, Dim size) {
  auto before = [&](Value distance) {
    Value some = e.max(distance, e.constant(0));
    return e.div(e.add(some, e.constant(step - 1)), e.constant(step));
  };
  Value first = before(e.sub(e.constant(0), base));
  return {first, e.min(before(e.sub(e.size(size), base)), e.constant(count))};
}

LogicalResult ConvLanesBuilder::outputRow(Value index) {
  row = index;
  Value base =
      e.sub(e.mul(row, e.constant(w.sh)), e.constant(*w.lowH.asConstant()));
  Value first = w.hasPlanes() ? firstPlane : image;
  lineBase = e.mul(e.add(e.mul(first, e.size(w.height)), base),
                   e.size(w.width * w.channels));
  std::tie(firstTap, endTap) = tapsInside(base, w.dh, w.kh, w.height);
  if (inFours(w, g))
    rowInFours(base);
  if (std::optional<LogicalResult> done = knownRow())
    return *done;
  return forRowTiles(
      e, e.size(w.outWidth), pixels,
      [&](Value column, Value, int64_t size, Value) -> LogicalResult {
        Value first = e.mul(column, e.constant(w.sw));
        Value inside = e.less(e.constant(*w.lowW.asConstant() - 1), first);
        Value last = e.constant((size - 1) * w.sw + (w.kw - 1) * w.dw -
                                *w.lowW.asConstant());
        Value endsInside = e.less(e.add(first, last), reach());
        inside = arith::AndIOp::create(b, loc, inside, endsInside);
        auto branch =
            scf::IfOp::create(b, loc, inside, /*withElseRegion=*/true);
        for (bool checked : {false, true}) {
          OpBuilder::InsertionGuard guard(b);
          Region &region =
              checked ? branch.getElseRegion() : branch.getThenRegion();
          b.setInsertionPoint(region.front().getTerminator());
          e.scoped(
              [&] { keep(sumsOf({column, size, std::nullopt, checked})); });
        }
        return success();
      },
      [&](Value column, Value valid) { return storeKept(column, valid); });
}

LogicalResult ConvLanesBuilder::build() {
  Value id = tile::ProgramIdOp::create(b, loc);
  Dim one = w.images.like(1);
  SmallVector<Value> index = e.delinearize(
      id, {w.outPlanes(), w.outHeight.ceilDiv(one * blockRows), one * g.tiles});
  image = index[0];
  if (w.hasPlanes()) {
    plane = e.rem(index[0], e.size(w.outDepth));
    image = e.div(index[0], e.size(w.outDepth));
    Value base = e.sub(e.mul(plane, e.constant(w.sd)), e.size(w.lowD));
    firstPlane = e.add(e.mul(image, e.size(w.depth)), base);
    std::tie(firstPlaneTap, endPlaneTap) =
        tapsInside(base, w.dd, w.kd, w.depth);
  }
  tile = index[2];
  firstChannel = e.mul(tile, e.constant(g.inputs()));
  firstFeature = e.mul(tile, e.constant(g.features()));
  auto some = [&](Dim all, Value first, int64_t count, int64_t lanes) -> Value {
    if (*all.asConstant() % count)
      return e.min(e.constant(count), e.sub(e.size(all), first));
    return count < lanes ? e.constant(count) : Value();
  };
  validInputs = some(w.channels, firstChannel, g.inputs(),
                     llvm::PowerOf2Ceil(g.inputs()));
  validFeatures = some(w.features, firstFeature, g.features(), g.lanes);
  if (w.isConstant) {
    weights = e.mul(
        tile, e.constant(w.windowRows() * w.kw * g.channels * g.features()));
    if (g.features() < g.lanes)
      someFeatures = e.constant(g.features());
  } else {
    weights = firstFeature;
    someFeatures = validFeatures;
  }
  if (failed(inFours(w, g) ? prepareFours() : readBorder()))
    return failure();
  sums = tile::ScratchOp::create(b, loc, tile::BufferType::get(sumType),
                                 e.constant(0));
  Value firstRow = e.mul(index[1], e.constant(blockRows));
  Value endRow =
      e.min(e.add(firstRow, e.constant(blockRows)), e.size(w.outHeight));
  return forEach(e, firstRow, endRow,
                 [&](Value row) { return outputRow(row); });
}

/// Rows of a block: as many as keep what all programs of the block read in a
/// quarter of L2.
static int64_t rowsOfBlock(const ConvWindow &w, const TargetDesc &target) {
  int64_t height = std::max<int64_t>(1, representative(w.outHeight)),
          inputWidth = std::max<int64_t>(1, representative(w.width)),
          width = std::max<int64_t>(1, representative(w.outWidth));
  int64_t channels = *w.channels.asConstant() * w.kd;
  int64_t budget = target.l2Bytes / 4;
  int64_t most = budget / (w.elementBytes() * inputWidth * channels);
  int64_t span = (w.kh - 1) * w.dh + 1;
  int64_t rows = std::clamp<int64_t>((most - span) / w.sh + 1, 1, height);
  rows = std::max(rows, std::min<int64_t>(height, 4));
  // The matmul before, of a sixth of the channels, shares out its columns
  // where it has few rows (CpuMatmulChoose.cpp): then each thread keeps its
  // channels. Else it keeps its rows.
  bool few = rows >= height && height * width <= channels / 7;
  if (w.outHeight.asConstant() && !few)
    rows = evenRows(height, std::min(rows, (height + 1) / 2));
  return rows;
}

LogicalResult chooseCpuGroupedConv(ts::KernelOp kernel,
                                   const TargetDesc &target, Knobs &knobs,
                                   SmallVectorImpl<Schedule> &schedules) {
  std::optional<ConvWindow> w = analyseConv(kernel);
  if (!w || w->groups == 1 || w->panel)
    return success();
  GroupLanes g(*w, target.lanes(DType::f32));
  if (!takesLanes(*w, g, target))
    return success();
  if (failed(Epilogue::create(kernel, w->op.getResult())))
    return failure();
  config::GroupedConvCpuConfig config{g.lanes, runPixels(*w, g, target),
                                      rowsOfBlock(*w, target)};
  knobs.tune(config, config.pixels);
  knobs.tune(config, config.rows);
  int64_t rows = config.rows;
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "cpu_grouped_conv";
  schedule.parameters = config::print(config);
  schedule.grid =
      w->outPlanes() * w->outHeight.ceilDiv(one * rows) * (one * g.tiles);
  // A step of one channel waits for memory more than it computes.
  int64_t flops = 2 * rows * w->windowRows() * w->kw *
                  std::max<int64_t>(4, g.channels) * g.lanes;
  schedule.grain = grainOf(400000, w->outWidth * flops);
  schedule.scratch = one * (config.pixels * g.lanes * 4);
  schedule.group = inFours(*w, g) ? 4 : 1;
  if (w->isConstant)
    schedule.packed.push_back(
        {w->filter.getArgNumber(), w->windowRows() * w->kw * g.channels,
         *w->features.asConstant(), /*transposed=*/false, g.features()});
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuGroupedConv(BuildContext &context) {
  return buildConvBy<ConvLanesBuilder>(context);
}

} // namespace knapper
