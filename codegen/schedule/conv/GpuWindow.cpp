// Windows on GPUs whose results read few elements each: pools, depthwise and
// other convolutions of few channels a group, transposed ones of them too.
//
//   program = one thread: one element of the result, or a run of channels that
//             lie side by side
//
// A window that lies inside the image is read without a test, all of it at
// once; of others each dim's first and last tap inside are computed, and loops
// go over these. Of an image so narrow that every warp has windows at an edge,
// all taps are read where they are inside, and there at the edge itself where
// they are not, which then do not count. A transposed convolution's loops go by
// its stride, over the taps that meet an element.
//
// Parameters: lanes (channels of a thread, 0: one), threads (1).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ConvConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Taps that are read without a loop, at most.
constexpr int64_t mostUnrolled = 49;

struct WindowProblem {
  Operation *op = nullptr; ///< a ts.pool or ts.conv
  bool last = false;       ///< channels last
  SmallVector<Dim> input, output, taps, low, high;
  SmallVector<int64_t> strides, dilations, spreads;
  int64_t groups = 1;
  Dim channels; ///< that an element of the result reads

  ts::PoolOp pool() const { return dyn_cast<ts::PoolOp>(op); }
  ts::ConvOp conv() const { return dyn_cast<ts::ConvOp>(op); }
  unsigned spatial() const { return taps.size(); }
  unsigned firstDim() const { return last ? 1 : 2; }
  unsigned channelDim() const { return last ? spatial() + 1 : 1; }
  bool spreadsOut() const {
    return llvm::any_of(spreads, [](int64_t s) { return s != 1; });
  }
  bool isPadded(unsigned i) const {
    return !low[i].isConstant(0) || !high[i].isConstant(0);
  }
  /// All taps, if they may be unrolled.
  bool isSmall() const {
    int64_t count = 1;
    for (Dim dim : taps) {
      std::optional<int64_t> number = dim.asConstant();
      if (!number || *number < 1 || count > mostUnrolled / *number)
        return false;
      count *= *number;
    }
    return channels.isConstant(1) && !spreadsOut();
  }
  /// Whether a warp's windows mostly meet an edge.
  bool isNarrow() const {
    constexpr int64_t most = 64;
    unsigned inner = spatial() - 1;
    return !last && isSmall() && isPadded(inner) &&
           output[firstDim() + inner].asConstant().value_or(most + 1) <= most;
  }
};

std::optional<WindowProblem> windowOf(ts::KernelOp kernel) {
  WindowProblem w;
  for (Operation &op : kernel.getBody().front())
    if (isa<ts::ConvOp, ts::PoolOp>(op))
      w.op = w.op ? kernel.getOperation() : &op;
  if (!w.op || w.op == kernel.getOperation())
    return std::nullopt;
  w.input = ts::dimsOf(w.op->getOperand(0));
  w.output = ts::dimsOf(w.op->getResult(0));
  Dim one = Dim::constant(kernel.getContext(), 1);
  if (ts::PoolOp pool = w.pool()) {
    w.last = pool.getChannelsLast();
    for (int64_t size : pool.getWindow())
      w.taps.push_back(one * size);
    w.strides = SmallVector<int64_t>(pool.getStrides());
    w.dilations = SmallVector<int64_t>(pool.getDilations());
    w.spreads.assign(w.taps.size(), 1);
    w.low = ts::dimsOf(pool.getLow());
    w.high = ts::dimsOf(pool.getHigh());
    w.channels = one;
    bool averages = pool.getKind() == ts::PoolKind::average;
    if (averages && !isa<FloatType>(ts::elementTypeOf(pool.getInput())))
      return std::nullopt;
    return w;
  }
  ts::ConvOp conv = w.conv();
  w.last = conv.getChannelsLast();
  SmallVector<Dim> filter = ts::dimsOf(conv.getFilter());
  w.strides = SmallVector<int64_t>(conv.getStrides());
  w.dilations = SmallVector<int64_t>(conv.getDilations());
  w.spreads = SmallVector<int64_t>(conv.getInputDilations());
  w.low = ts::dimsOf(conv.getLow());
  w.high = ts::dimsOf(conv.getHigh());
  w.groups = conv.getGroups();
  for (unsigned i = 0; i < w.strides.size(); ++i) {
    w.taps.push_back(filter[i + (w.last ? 0 : 2)]);
    // Taps that meet an element are then so far apart as the elements are.
    if (w.spreads[i] != 1 && w.dilations[i] != 1)
      return std::nullopt;
  }
  w.channels = w.last ? filter[w.spatial()] : filter[1];
  return w;
}

/// Neighbouring channels that a thread takes: what one access moves.
int64_t lanesOf(const WindowProblem &w) {
  if (!w.last)
    return 1;
  int64_t bytes = ts::elementBytes(ts::elementTypeOf(w.op->getOperand(0)));
  constexpr int64_t access = 16;
  // Of groups of several channels or features lanes would read apart.
  if (w.conv() && !(w.channels.isConstant(1) &&
                    w.output[w.channelDim()].isConstant(w.groups)))
    return 1;
  int64_t lanes = access / std::min(bytes, access);
  while (lanes > 1 && w.output[w.channelDim()].knownDivisor() % lanes)
    lanes /= 2;
  return lanes;
}

} // namespace

LogicalResult chooseGpuWindow(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  if (!schedules.empty() && schedules.back().guard.terms.empty())
    return success();
  std::optional<WindowProblem> w = windowOf(kernel);
  if (!w || failed(Epilogue::create(kernel, w->op->getResult(0))))
    return success();
  Dim one = Dim::constant(kernel.getContext(), 1);
  int64_t lanes = lanesOf(*w);
  Schedule schedule;
  schedule.kind = "gpu_window";
  schedule.parameters = config::print(
      config::WindowGpuConfig{.lanes = lanes > 1 ? lanes : 0, .threads = 1});
  schedule.grid =
      ts::product(kernel.getContext(), w->output).floorDiv(one * lanes);
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

struct WindowBuilder {
  ElementEmitter &e;
  const WindowProblem &w;
  int64_t lanes;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Type accumulator = {}; ///< element
  Coord at = {};         ///< of the result
  LaneIndex firstChannel = {};
  /// Of each spatial dim: where tap 0 reads, before elements are spread.
  SmallVector<Value> base = {};

  FailureOr<Value> compute();

private:
  /// One tap added to what there was. `position`: of the input.
  FailureOr<Value> visit(ArrayRef<Value> tap, ArrayRef<Value> position,
                         Value value);
  FailureOr<Value> channel(ArrayRef<Value> tap, ArrayRef<Value> position,
                           Value channel, Value value);
  /// Every tap, without a test.
  FailureOr<Value> unrolled(Value init);
  /// Every tap that any element's window has inside, with a test each.
  FailureOr<Value> tested(Value init);
  /// Loops over the taps inside.
  FailureOr<Value> looped(Value init);
  FailureOr<Value> loopOver(SmallVectorImpl<Value> &tap,
                            SmallVectorImpl<Value> &position, Value value);
  /// The first tap of a dim that is inside, and one past the last.
  std::pair<Value, Value> range(unsigned i);
  Value elementsCounted();
  Value toAccumulator(Value value, Value tensor);

  bool isMax() const {
    return w.pool() && ts::PoolOp(w.pool()).getKind() == ts::PoolKind::max;
  }
  ts::ReduceKind kind() const {
    return isMax() ? ts::ReduceKind::max : ts::ReduceKind::add;
  }
  bool isUnsigned() const {
    return ts::elementTypeOf(w.op->getOperand(0)).isUnsignedInteger();
  }
};

Value WindowBuilder::toAccumulator(Value value, Value tensor) {
  value = e.widen(value, lanes);
  Type from = getElementTypeOrSelf(value.getType());
  if (from == accumulator)
    return value;
  Type type = lanes ? Type(VectorType::get(lanes, accumulator)) : accumulator;
  if (isa<FloatType>(from))
    return arith::ExtFOp::create(b, loc, type, value);
  return ts::elementTypeOf(tensor).isUnsignedInteger()
             ? Value(arith::ExtUIOp::create(b, loc, type, value))
             : Value(arith::ExtSIOp::create(b, loc, type, value));
}

FailureOr<Value> WindowBuilder::channel(ArrayRef<Value> tap,
                                        ArrayRef<Value> position, Value channel,
                                        Value value) {
  Coord x;
  x.lanes = lanes;
  x.dims.assign(w.input.size(), {});
  x.dims[0] = at.dims[0];
  LaneIndex from = firstChannel;
  from.start = e.add(from.start, channel);
  x.dims[w.channelDim()] = from;
  for (unsigned i = 0; i < w.spatial(); ++i)
    x.dims[w.firstDim() + i] = {position[i]};
  Value element = e.emit(w.op->getOperand(0), x);
  if (!element)
    return failure();
  element = toAccumulator(element, w.op->getOperand(0));
  ts::ConvOp conv = w.conv();
  if (!conv)
    return combineElements(e, kind(), value, element, isUnsigned());
  Coord f;
  f.lanes = lanes;
  f.dims.assign(w.spatial() + 2, {});
  for (unsigned i = 0; i < w.spatial(); ++i)
    f.dims[i + (w.last ? 0 : 2)] = {tap[i]};
  f.dims[w.last ? w.spatial() : 1] = {channel};
  f.dims[w.last ? w.spatial() + 1 : 0] = at.dims[w.channelDim()];
  Value weight = e.emit(conv.getFilter(), f);
  if (!weight)
    return failure();
  weight = toAccumulator(weight, conv.getFilter());
  if (!isa<FloatType>(accumulator))
    return Value(arith::AddIOp::create(
        b, loc, value, arith::MulIOp::create(b, loc, element, weight)));
  return Value(math::FmaOp::create(b, loc, element, weight, value));
}

FailureOr<Value> WindowBuilder::visit(ArrayRef<Value> tap,
                                      ArrayRef<Value> position, Value value) {
  if (w.channels.isConstant(1))
    return channel(tap, position, e.constant(0), value);
  LogicalResult status = success();
  SmallVector<Value> sums = forEach(
      e, e.constant(0), e.size(w.channels), value,
      [&](Value c, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        FailureOr<Value> next = channel(tap, position, c, carried[0]);
        if (failed(next))
          return failure();
        return SmallVector<Value>{*next};
      },
      status);
  if (failed(status))
    return failure();
  return sums[0];
}

FailureOr<Value> WindowBuilder::unrolled(Value init) {
  SmallVector<int64_t> sizes =
      llvm::map_to_vector(w.taps, [](Dim dim) { return *dim.asConstant(); });
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  FailureOr<Value> value = init;
  for (int64_t number = 0; number < count && succeeded(value); ++number) {
    SmallVector<Value> tap(sizes.size()), position(sizes.size());
    int64_t rest = number;
    for (size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) {
      int64_t t = rest % sizes[i];
      tap[i] = e.constant(t);
      position[i] = e.add(base[i], e.constant(t * w.dilations[i]));
    }
    value = visit(tap, position, *value);
  }
  return value;
}

FailureOr<Value> WindowBuilder::tested(Value init) {
  struct Tap {
    Value number, position;
    Value inside; ///< null: always
  };
  SmallVector<SmallVector<Tap>> dims(w.spatial());
  size_t count = 1;
  for (auto [i, taps] : llvm::enumerate(dims)) {
    Dim extent = w.input[w.firstDim() + i], low = w.low[i];
    std::optional<int64_t> size = extent.asConstant(),
                           results = w.output[w.firstDim() + i].asConstant(),
                           before = low.asConstant();
    for (int64_t t = 0; t < *w.taps[i].asConstant(); ++t) {
      bool always = false;
      if (size && results && before && *results > 0) {
        int64_t first = t * w.dilations[i] - *before,
                final = first + (*results - 1) * w.strides[i];
        if (final < 0 || first >= *size)
          continue;
        always = first >= 0 && final < *size;
      }
      Value at = e.add(base[i], e.constant(t * w.dilations[i]));
      Tap tap{e.constant(t), at, {}};
      if (!always) {
        tap.inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                           at, e.size(extent));
        tap.position = e.max(e.constant(0),
                             e.min(at, e.sub(e.size(extent), e.constant(1))));
      }
      taps.push_back(tap);
    }
    count *= taps.size();
  }
  FailureOr<Value> value = init;
  for (size_t number = 0; number < count && succeeded(value); ++number) {
    SmallVector<Value> tap(w.spatial()), position(w.spatial());
    Value inside;
    size_t rest = number;
    for (size_t i = w.spatial(); i-- > 0; rest /= dims[i].size()) {
      const Tap &one = dims[i][rest % dims[i].size()];
      tap[i] = one.number;
      position[i] = one.position;
      if (one.inside)
        inside = inside
                     ? Value(arith::AndIOp::create(b, loc, inside, one.inside))
                     : one.inside;
    }
    FailureOr<Value> next = visit(tap, position, *value);
    if (succeeded(next) && inside)
      next = Value(arith::SelectOp::create(b, loc, inside, *next, *value));
    value = next;
  }
  return value;
}

std::pair<Value, Value> WindowBuilder::range(unsigned i) {
  Value zero = e.constant(0), taps = e.size(w.taps[i]);
  Dim extent = w.input[w.firstDim() + i];
  Value size = e.size(extent);
  Value step = e.constant(w.dilations[i]);
  auto ceilDiv = [&](Value n) {
    n = e.max(zero, n);
    return w.dilations[i] == 1
               ? n
               : e.div(e.add(n, e.constant(w.dilations[i] - 1)), step);
  };
  int64_t spread = w.spreads[i];
  if (spread != 1) // one past the last element, among zeros
    size = e.add(e.mul(e.sub(size, e.constant(1)), e.constant(spread)),
                 e.constant(1));
  Value first = ceilDiv(e.sub(zero, base[i]));
  Value end = e.min(taps, ceilDiv(e.sub(size, base[i])));
  if (spread != 1) {
    Value past = e.rem(e.add(base[i], first), e.constant(spread));
    Value on = e.sub(e.constant(spread), past);
    first = e.add(first, e.rem(on, e.constant(spread)));
  }
  return {first, end};
}

FailureOr<Value> WindowBuilder::loopOver(SmallVectorImpl<Value> &tap,
                                         SmallVectorImpl<Value> &position,
                                         Value value) {
  unsigned i = tap.size();
  if (i == w.spatial())
    return visit(tap, position, value);
  auto [first, end] = range(i);
  LogicalResult status = success();
  SmallVector<Value> results = forEach(
      e, first, end, value,
      [&](Value t, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value from = e.add(base[i], e.mul(t, e.constant(w.dilations[i])));
        if (w.spreads[i] != 1)
          from = e.div(from, e.constant(w.spreads[i]));
        tap.push_back(t);
        position.push_back(from);
        FailureOr<Value> next = loopOver(tap, position, carried[0]);
        tap.pop_back();
        position.pop_back();
        if (failed(next))
          return failure();
        return SmallVector<Value>{*next};
      },
      status, w.spreads[i]);
  if (failed(status))
    return failure();
  return results[0];
}

FailureOr<Value> WindowBuilder::looped(Value init) {
  SmallVector<Value> tap, position;
  return loopOver(tap, position, init);
}

/// What an average divides by.
Value WindowBuilder::elementsCounted() {
  ts::PoolOp pool = w.pool();
  Value count = e.constant(1);
  for (unsigned i = 0; i < w.spatial(); ++i) {
    Value length;
    if (pool.getCountPadding()) {
      // Windows begin inside the padded input; in ceil mode they may end
      // behind it.
      Dim extent = w.input[w.firstDim() + i] + w.high[i];
      Value left = e.max(e.constant(0), e.sub(e.size(extent), base[i]));
      left = e.div(e.add(left, e.constant(w.dilations[i] - 1)),
                   e.constant(w.dilations[i]));
      length = e.min(e.size(w.taps[i]), left);
    } else {
      auto [first, end] = range(i);
      length = e.max(e.constant(0), e.sub(end, first));
    }
    count = e.mul(count, length);
  }
  Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), count);
  return e.widen(arith::SIToFPOp::create(b, loc, accumulator, number), lanes);
}

FailureOr<Value> WindowBuilder::compute() {
  Type element = ts::elementTypeOf(w.op->getResult(0));
  Type result = computeType(element);
  accumulator = result;
  if (w.conv() && isa<IntegerType>(accumulator) &&
      isa<IntegerType>(ts::elementTypeOf(w.op->getOperand(0))) &&
      accumulator.getIntOrFloatBitWidth() < 32)
    accumulator = b.getI32Type();
  const LaneIndex &own = at.dims[w.channelDim()];
  firstChannel = own;
  if (ts::ConvOp conv = w.conv()) {
    Dim features = w.output[w.channelDim()];
    Dim ofGroup = features.floorDiv(features.like(w.groups));
    if (w.groups == 1)
      firstChannel = {e.constant(0)};
    else if (!(ofGroup.isConstant(1) && w.channels.isConstant(1)))
      firstChannel = {
          e.mul(e.div(own.start, e.size(ofGroup)), e.size(w.channels))};
  }
  for (unsigned i = 0; i < w.spatial(); ++i)
    base.push_back(
        e.sub(e.mul(at.dims[w.firstDim() + i].start, e.constant(w.strides[i])),
              e.size(w.low[i])));
  Value init = neutralElement(e, kind(), accumulator, isUnsigned(), lanes);
  FailureOr<Value> value = failure();
  if (!w.isSmall()) {
    value = looped(init);
  } else if (w.isNarrow()) {
    value = tested(init);
  } else {
    Value inside;
    for (unsigned i = 0; i < w.spatial(); ++i) {
      if (!w.isPadded(i))
        continue;
      Dim extent = w.input[w.firstDim() + i];
      Value reach = e.constant((*w.taps[i].asConstant() - 1) * w.dilations[i]);
      Value end = e.add(base[i], reach);
      for (Value position : {base[i], end}) {
        Value good = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                           position, e.size(extent));
        inside =
            inside ? Value(arith::AndIOp::create(b, loc, inside, good)) : good;
      }
    }
    LogicalResult status = success();
    auto orNull = [&](FailureOr<Value> made) {
      if (failed(made))
        status = failure();
      return succeeded(made) ? *made : Value();
    };
    Value made = inside ? e.select(
                              inside, [&] { return orNull(unrolled(init)); },
                              [&] { return orNull(looped(init)); })
                        : orNull(unrolled(init));
    if (failed(status) || !made)
      return failure();
    value = made;
  }
  if (failed(value))
    return failure();
  if (ts::PoolOp pool = w.pool();
      pool && pool.getKind() == ts::PoolKind::average)
    value = Value(arith::DivFOp::create(b, loc, *value, elementsCounted()));
  if (accumulator == result)
    return value;
  Type type = lanes ? Type(VectorType::get(lanes, result)) : result;
  return Value(arith::TruncIOp::create(b, loc, type, *value));
}

} // namespace

LogicalResult buildGpuWindow(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  std::optional<WindowProblem> w = windowOf(context.kernel);
  if (!w)
    return context.kernel.emitOpError("has no window");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, w->op->getResult(0));
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::WindowGpuConfig>(context);
  if (failed(config))
    return failure();
  int64_t lanes = config->lanes;
  WindowBuilder builder{e, *w, lanes};
  SmallVector<Dim> around = w->output;
  if (lanes)
    around.back() = around.back().floorDiv(around.back().like(lanes));
  Coord at;
  at.lanes = lanes;
  Value id = tile::ProgramIdOp::create(e.builder, e.location);
  for (Value index : e.delinearize(id, around))
    at.dims.push_back({index});
  if (lanes)
    at.dims.back() = {
        e.mul(at.dims.back().start, e.constant(lanes)), 1, {}, lanes};
  builder.at = at;
  FailureOr<Value> value = builder.compute();
  if (failed(value))
    return failure();
  return epilogue->store(e, *value, at);
}

} // namespace knapper
