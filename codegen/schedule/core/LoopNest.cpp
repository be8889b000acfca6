// Matmuls and windows as plain loops: for every tile of the result along its
// last dim, the sum (or maximum) over all positions of the contracting dims or
// the window, with every operand read through its index map. Where the last dim
// is too short for a tile, lanes lie across all dims, each with indices of its
// own.
//
// Serves any element type, any arrangement of dims, groups, dilations. It is
// what remains when no blocked schedule knows the case, and says so in its
// name.
//
// Parameters: lanes, across (1: lanes lie across all dims of the result).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/OperandCoord.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/PointwiseConfig.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <tuple>

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

Operation *heroOf(ts::KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isa<ts::DotOp, ts::ConvOp, ts::PoolOp>(op))
      return &op;
  return nullptr;
}

class LoopBuilder {
public:
  /// `takesRuns`: a register reads neighbours faster than places of its own.
  LoopBuilder(ElementEmitter &e, Operation *hero, int64_t lanes, bool takesRuns)
      : e(e), b(e.builder), hero(hero), lanes(lanes), takesRuns(takesRuns) {}

  /// The hero's result at a coordinate (of `lanes` lanes).
  FailureOr<Value> compute(const Coord &at);

private:
  FailureOr<Value> matmul(const Coord &at);
  FailureOr<Value> conv(const Coord &at);
  FailureOr<Value> pool(const Coord &at);
  /// Nested loops over `extents`; the innermost body gets all indices.
  FailureOr<Value>
  nest(ArrayRef<Dim> extents, Value init,
       llvm::function_ref<FailureOr<Value>(ArrayRef<Value>, Value)> body);
  Value number(Value index, bool vector);
  /// Of two conditions, the first of which may be none yet.
  Value both(Value p, Value q) {
    return p ? Value(arith::AndIOp::create(b, e.location, p, q)) : q;
  }
  LaneIndex groupOf(const LaneIndex &feature, Dim groupFeatures, Dim perGroup);
  std::pair<Value, Value> beforeSpread(Value position, int64_t spread,
                                       bool vector);
  std::pair<Value, Value> tapOf(unsigned i, const LaneIndex &out, Value tap,
                                Dim low, Dim size);
  /// Where the lanes of `out` read elements `stride` apart, from `tap` on, and
  /// whether all of them lie inside.
  struct Run {
    LaneIndex index;
    Value isInside;
  };
  std::optional<Run> runOf(const LaneIndex &out, const Coord &at,
                           int64_t stride, Value tap, Dim size);
  FailureOr<Value> accumulateTap(Coord x, const Coord &w, Value insideLanes,
                                 Value sum);
  /// Adds a * x to the accumulator in the accumulator's type.
  Value mad(Value sum, Value a, Value x);
  Value toAccumulator(Value value, Type tensorElement);

  ElementEmitter &e;
  OpBuilder &b;
  Operation *hero;
  int64_t lanes;
  bool takesRuns;
  Type accumulator; ///< element
};

FailureOr<Value> LoopBuilder::nest(
    ArrayRef<Dim> extents, Value init,
    llvm::function_ref<FailureOr<Value>(ArrayRef<Value>, Value)> body) {
  LogicalResult status = success();
  SmallVector<Value> indices;
  std::function<FailureOr<Value>(size_t, Value)> level =
      [&](size_t i, Value value) -> FailureOr<Value> {
    if (i == extents.size())
      return body(indices, value);
    SmallVector<Value> results = forEach(
        e, e.constant(0), e.size(extents[i]), value,
        [&](Value index, ValueRange carried) -> FailureOr<SmallVector<Value>> {
          indices.push_back(index);
          FailureOr<Value> next = level(i + 1, carried[0]);
          indices.pop_back();
          if (failed(next))
            return failure();
          return SmallVector<Value>{*next};
        },
        status);
    if (failed(status))
      return failure();
    return results[0];
  };
  return level(0, init);
}

Value LoopBuilder::toAccumulator(Value value, Type tensorElement) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == accumulator)
    return value;
  auto vector = dyn_cast<VectorType>(value.getType());
  Type type = vector ? Type(vector.clone(accumulator)) : accumulator;
  if (isa<FloatType>(from))
    return arith::ExtFOp::create(b, e.location, type, value);
  bool isFloat = isa<FloatType>(accumulator);
  Location loc = e.location;
  if (tensorElement.isUnsignedInteger())
    return isFloat ? Value(arith::UIToFPOp::create(b, loc, type, value))
                   : Value(arith::ExtUIOp::create(b, loc, type, value));
  return isFloat ? Value(arith::SIToFPOp::create(b, loc, type, value))
                 : Value(arith::ExtSIOp::create(b, loc, type, value));
}

Value LoopBuilder::mad(Value sum, Value a, Value x) {
  int64_t width = isa<VectorType>(sum.getType()) ? lanes : 0;
  a = e.widen(a, width);
  x = e.widen(x, width);
  if (isa<FloatType>(accumulator)) {
    if (width)
      return vector::FMAOp::create(b, e.location, a, x, sum);
    return math::FmaOp::create(b, e.location, a, x, sum); // a 0-d result
  }
  return arith::AddIOp::create(b, e.location, sum,
                               arith::MulIOp::create(b, e.location, a, x));
}

FailureOr<Value> LoopBuilder::matmul(const Coord &at) {
  auto dot = cast<ts::DotOp>(hero);
  SmallVector<Dim> lhs = ts::dimsOf(dot.getLhs());
  SmallVector<Dim> extents;
  for (int64_t dim : dot.getLhsContract())
    extents.push_back(lhs[dim]);
  ts::Indexing indexing = dot.indexing();
  return nest(extents, e.splat(accumulator, lanes, 0),
              [&](ArrayRef<Value> contract, Value sum) -> FailureOr<Value> {
                auto read = [&](unsigned i) -> Value {
                  Value operand = dot->getOperand(i);
                  Value value =
                      e.emit(operand, operandCoord(at, indexing, i, contract));
                  return value
                             ? toAccumulator(value, ts::elementTypeOf(operand))
                             : Value();
                };
                Value a = read(0), x = a ? read(1) : Value();
                if (!x)
                  return failure();
                return mad(sum, a, x);
              });
}

/// A position as one index a lane.
Value LoopBuilder::number(Value index, bool vector) {
  if (!vector)
    return index;
  return vector::BroadcastOp::create(
      b, e.location, VectorType::get(lanes, b.getIndexType()), index);
}

/// The first channel of the group that each result channel belongs to.
LaneIndex LoopBuilder::groupOf(const LaneIndex &feature, Dim groupFeatures,
                               Dim perGroup) {
  if (cast<ts::ConvOp>(hero).getGroups() <= 1)
    return {e.constant(0)};
  if (feature.isUniform())
    return {
        e.mul(e.div(feature.start, e.size(groupFeatures)), e.size(perGroup))};
  Value all = e.lanePositions(feature, lanes);
  all = arith::DivUIOp::create(b, e.location, all,
                               number(e.size(groupFeatures), true));
  all =
      arith::MulIOp::create(b, e.location, all, number(e.size(perGroup), true));
  // One feature a group: the channel runs with the feature.
  if (groupFeatures.isConstant(1) && perGroup.isConstant(1))
    return feature;
  return {{}, 0, all};
}

/// Of the spread input only every `spread`-th position holds data: where
/// `position` is in the input itself (a negative one stays outside), and
/// whether it is one of those.
std::pair<Value, Value> LoopBuilder::beforeSpread(Value position,
                                                  int64_t spread, bool vector) {
  Value by = number(e.constant(spread), vector);
  Value rest = arith::RemSIOp::create(b, e.location, position, by);
  Value holds = arith::CmpIOp::create(b, e.location, arith::CmpIPredicate::eq,
                                      rest, number(e.constant(0), vector));
  Value whole = arith::DivSIOp::create(b, e.location, position, by);
  Value negative =
      arith::CmpIOp::create(b, e.location, arith::CmpIPredicate::slt, position,
                            number(e.constant(0), vector));
  position = arith::SelectOp::create(b, e.location, negative,
                                     number(e.constant(-1), vector), whole);
  return {position, holds};
}

/// Where tap `tap` of spatial dim `i` meets the input for the outputs `out`,
/// and whether that is inside of it.
std::pair<Value, Value> LoopBuilder::tapOf(unsigned i, const LaneIndex &out,
                                           Value tap, Dim low, Dim size) {
  auto op = cast<ts::ConvOp>(hero);
  int64_t stride = op.getStrides()[i], dilation = op.getDilations()[i],
          spread = op.getInputDilations()[i];
  tap = e.sub(e.mul(tap, e.constant(dilation)), e.size(low));
  bool vector = !out.isUniform();
  Value position, holds;
  if (vector)
    position = arith::AddIOp::create(
        b, e.location,
        arith::MulIOp::create(b, e.location, e.lanePositions(out, lanes),
                              number(e.constant(stride), true)),
        number(tap, true));
  else
    position = e.add(e.mul(out.start, e.constant(stride)), tap);
  if (spread != 1)
    std::tie(position, holds) = beforeSpread(position, spread, vector);
  Value within = arith::CmpIOp::create(b, e.location, arith::CmpIPredicate::ult,
                                       position, number(e.size(size), vector));
  return {position, both(holds, within)};
}

std::optional<LoopBuilder::Run> LoopBuilder::runOf(const LaneIndex &out,
                                                   const Coord &at,
                                                   int64_t stride, Value tap,
                                                   Dim size) {
  if (!takesRuns || out.perLane || out.step != 1)
    return std::nullopt;
  Value first = e.add(e.mul(out.start, e.constant(stride)), tap);
  Value count = e.constant(lanes);
  if (at.valid)
    count = e.min(count, at.valid);
  Value last =
      e.add(first, e.mul(e.sub(count, e.constant(1)), e.constant(stride)));
  auto isIn = [&](Value position) -> Value {
    return arith::CmpIOp::create(b, e.location, arith::CmpIPredicate::ult,
                                 position, e.size(size));
  };
  return Run{{first, stride}, both(isIn(first), isIn(last))};
}

/// sum + an element of the input times one of the filter.
FailureOr<Value> LoopBuilder::accumulateTap(Coord x, const Coord &w,
                                            Value insideLanes, Value sum) {
  auto op = cast<ts::ConvOp>(hero);
  if (insideLanes)
    x.mask = insideLanes;
  Value value = e.emit(op.getInput(), x);
  Value weight = value ? e.emit(op.getFilter(), w) : Value();
  if (!weight)
    return failure();
  value = toAccumulator(value, ts::elementTypeOf(op.getInput()));
  weight = toAccumulator(weight, ts::elementTypeOf(op.getFilter()));
  if (insideLanes)
    value = arith::SelectOp::create(b, e.location, insideLanes, value,
                                    e.splat(accumulator, lanes, 0));
  return mad(sum, value, weight);
}

FailureOr<Value> LoopBuilder::conv(const Coord &at) {
  auto op = cast<ts::ConvOp>(hero);
  bool last = op.getChannelsLast();
  unsigned spatial = op.getStrides().size();
  SmallVector<Dim> input = ts::dimsOf(op.getInput()),
                   filter = ts::dimsOf(op.getFilter()),
                   low = ts::dimsOf(op.getLow());
  Dim perGroup = last ? filter[spatial] : filter[1];
  Dim features = last ? filter.back() : filter[0];
  Dim groupFeatures =
      features.floorDiv(features.like(static_cast<int64_t>(op.getGroups())));
  SmallVector<Dim> extents;
  for (unsigned i = 0; i < spatial; ++i)
    extents.push_back(filter[i + (last ? 0 : 2)]);
  extents.push_back(perGroup);
  const LaneIndex &feature = at.dims[last ? spatial + 1 : 1];
  LaneIndex group = groupOf(feature, groupFeatures, perGroup);
  return nest(extents, e.splat(accumulator, lanes, 0),
              [&](ArrayRef<Value> inner, Value sum) -> FailureOr<Value> {
                // Where the window reads, and whether that is inside the input.
                Coord x = at, w;
                w.lanes = at.lanes;
                w.valid = at.valid;
                x.dims.assign(input.size(), {});
                w.dims.assign(filter.size(), {});
                x.dims[0] = at.dims[0];
                Value channel = inner.back();
                LaneIndex c = group;
                if (group.perLane)
                  c.perLane = arith::AddIOp::create(
                      b, e.location, group.perLane, number(channel, true));
                else
                  c.start = e.add(group.start, channel);
                x.dims[last ? spatial + 1 : 1] = c;
                w.dims[last ? spatial : 1] = {channel};
                w.dims[last ? spatial + 1 : 0] = feature;
                Value inside, insideLanes;
                std::optional<Run> run;
                unsigned runDim = 0;
                for (unsigned i = 0; i < spatial; ++i) {
                  unsigned d = i + (last ? 1 : 2);
                  w.dims[i + (last ? 0 : 2)] = {inner[i]};
                  if (!at.dims[d].isUniform() &&
                      op.getInputDilations()[i] == 1) {
                    Value tap =
                        e.sub(e.mul(inner[i], e.constant(op.getDilations()[i])),
                              e.size(low[i]));
                    run = runOf(at.dims[d], at, op.getStrides()[i], tap,
                                input[d]);
                    runDim = d;
                  }
                  auto [position, ok] =
                      tapOf(i, at.dims[d], inner[i], low[i], input[d]);
                  if (at.dims[d].isUniform()) {
                    inside = both(inside, ok);
                    x.dims[d] = {position};
                  } else {
                    insideLanes = both(insideLanes, ok);
                    x.dims[d] = {{}, 0, position};
                  }
                }
                LogicalResult status = success();
                auto tapAt = [&](const Coord &x, Value insideLanes) -> Value {
                  FailureOr<Value> next = accumulateTap(x, w, insideLanes, sum);
                  if (succeeded(next))
                    return *next;
                  status = failure();
                  return {};
                };
                auto step = [&]() -> Value {
                  if (!run)
                    return tapAt(x, insideLanes);
                  Coord neighbours = x;
                  neighbours.dims[runDim] = run->index;
                  return e.select(
                      run->isInside, [&] { return tapAt(neighbours, {}); },
                      [&] { return tapAt(x, insideLanes); });
                };
                Value result = inside
                                   ? e.select(inside, step, [&] { return sum; })
                                   : step();
                if (failed(status) || !result)
                  return failure();
                return result;
              });
}

FailureOr<Value> LoopBuilder::pool(const Coord &at) {
  auto op = cast<ts::PoolOp>(hero);
  bool isMax = op.getKind() == ts::PoolKind::max;
  unsigned spatial = op.getWindow().size(),
           first = op.getChannelsLast() ? 1 : 2;
  SmallVector<Dim> input = ts::dimsOf(op.getInput()),
                   low = ts::dimsOf(op.getLow()),
                   high = ts::dimsOf(op.getHigh());
  SmallVector<Dim> extents;
  for (int64_t size : op.getWindow())
    extents.push_back(Dim::constant(op.getContext(), size));
  bool isUnsigned = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
  ts::ReduceKind kind = isMax ? ts::ReduceKind::max : ts::ReduceKind::add;
  Value init = neutralElement(e, kind, accumulator, isUnsigned, lanes);
  // An average carries the number of elements beside the sum: both loops see
  // the same conditions, so the count is a second nest over indices alone.
  auto visit = [&](bool counting, Value start) {
    return nest(
        extents, start,
        [&](ArrayRef<Value> inner, Value value) -> FailureOr<Value> {
          Coord x = at;
          Value inside, insideLanes;
          std::optional<Run> run;
          unsigned runDim = 0;
          for (unsigned i = 0; i < spatial; ++i) {
            unsigned d = i + first;
            const LaneIndex &out = at.dims[d];
            bool vector = !out.isUniform();
            Value tap = e.sub(e.mul(inner[i], e.constant(op.getDilations()[i])),
                              e.size(low[i]));
            Value position;
            if (vector)
              position = arith::AddIOp::create(
                  b, e.location,
                  arith::MulIOp::create(
                      b, e.location, e.lanePositions(out, lanes),
                      number(e.constant(op.getStrides()[i]), true)),
                  number(tap, true));
            else
              position =
                  e.add(e.mul(out.start, e.constant(op.getStrides()[i])), tap);
            Value within;
            if (counting && op.getCountPadding()) {
              // Inside the padded input: -low <= position < size + high.
              Value shifted = vector ? Value(arith::AddIOp::create(
                                           b, e.location, position,
                                           number(e.size(low[i]), true)))
                                     : e.add(position, e.size(low[i]));
              within = arith::CmpIOp::create(
                  b, e.location, arith::CmpIPredicate::ult, shifted,
                  number(e.size(input[d] + low[i] + high[i]), vector));
            } else {
              within = arith::CmpIOp::create(
                  b, e.location, arith::CmpIPredicate::ult, position,
                  number(e.size(input[d]), vector));
            }
            if (vector) {
              if (!counting) {
                run = runOf(out, at, op.getStrides()[i], tap, input[d]);
                runDim = d;
              }
              insideLanes = both(insideLanes, within);
              x.dims[d] = {{}, 0, position};
            } else {
              inside = both(inside, within);
              x.dims[d] = {position};
            }
          }
          auto step = [&]() -> Value {
            if (counting) {
              Value one = e.splat(accumulator, lanes, 1);
              Value more = arith::AddFOp::create(b, e.location, value, one);
              return insideLanes ? Value(arith::SelectOp::create(
                                       b, e.location, insideLanes, more, value))
                                 : more;
            }
            auto combined = [&](const Coord &x) -> Value {
              Value element = e.emit(op.getInput(), x);
              if (!element)
                return {};
              element = e.widen(
                  toAccumulator(element, ts::elementTypeOf(op.getInput())),
                  lanes);
              return combineElements(e, kind, value, element, isUnsigned);
            };
            auto masked = [&]() -> Value {
              if (insideLanes)
                x.mask = insideLanes;
              Value next = combined(x);
              return next && insideLanes
                         ? Value(arith::SelectOp::create(
                               b, e.location, insideLanes, next, value))
                         : next;
            };
            if (!run)
              return masked();
            Coord neighbours = x;
            neighbours.dims[runDim] = run->index;
            return e.select(
                run->isInside, [&] { return combined(neighbours); }, masked);
          };
          Value result =
              inside ? e.select(inside, step, [&]() { return value; }) : step();
          if (!result)
            return failure();
          return result;
        });
  };
  FailureOr<Value> total = visit(false, init);
  if (failed(total) || op.getKind() != ts::PoolKind::average)
    return total;
  if (!isa<FloatType>(accumulator)) {
    op.emitOpError("averages integers, which no kernel does");
    return failure();
  }
  FailureOr<Value> count = visit(true, e.splat(accumulator, lanes, 0));
  if (failed(count))
    return failure();
  return Value(arith::DivFOp::create(b, e.location, *total, *count));
}

FailureOr<Value> LoopBuilder::compute(const Coord &at) {
  Type element = ts::elementTypeOf(hero->getResult(0));
  accumulator = computeType(element);
  Type source = ts::elementTypeOf(hero->getOperand(0));
  if (!isa<ts::PoolOp>(hero) && isa<IntegerType>(source) &&
      accumulator.getIntOrFloatBitWidth() < 32)
    accumulator = b.getI32Type();
  // A result narrower than what is multiplied is rounded once.
  if (!isa<ts::PoolOp>(hero) && source.isF64() && isa<FloatType>(accumulator))
    accumulator = source;
  FailureOr<Value> value = isa<ts::DotOp>(hero)    ? matmul(at)
                           : isa<ts::ConvOp>(hero) ? conv(at)
                                                   : pool(at);
  if (failed(value))
    return failure();
  Type result = computeType(element);
  if (accumulator == result)
    return value;
  Type type = lanes ? Type(VectorType::get(lanes, result)) : result;
  if (isa<FloatType>(result))
    return Value(arith::TruncFOp::create(b, e.location, type, *value));
  return Value(arith::TruncIOp::create(b, e.location, type, *value));
}

} // namespace

LogicalResult chooseLoopNest(ts::KernelOp kernel, const TargetDesc &target,
                             Knobs &knobs,
                             SmallVectorImpl<Schedule> &schedules) {
  if (!schedules.empty() && schedules.back().guard.terms.empty())
    return success(); // a blocked schedule serves every size
  Operation *hero = heroOf(kernel);
  if (!hero)
    return kernel.emitOpError("has no matmul, convolution or pooling");
  SmallVector<Dim> dims = ts::dimsOf(hero->getResult(0));
  Dim one = Dim::constant(kernel.getContext(), 1);
  Dim run = dims.empty() ? one : dims.back();
  int64_t lanes = 32;
  while (lanes > 1 && lanes > representative(run))
    lanes /= 2;
  if (target.simt) {
    // What one access of a block moves, or its least part.
    lanes = target.lanes(DType::f32);
    while (lanes > 128 && lanes / 2 >= representative(run))
      lanes /= 2;
  }
  // Lanes that would mostly be idle cost more than indices of their own.
  bool isGpu = target.simt;
  bool across = dims.size() > 1 && representative(run) <= (isGpu ? 64 : 3);
  Dim around = one;
  if (across) {
    run = product(kernel.getContext(), dims);
    lanes = isGpu ? 128 : 16;
  } else if (!dims.empty()) {
    around = product(kernel.getContext(), ArrayRef<Dim>(dims).drop_back());
  }
  Schedule schedule;
  schedule.kind = "loop_nest";
  schedule.parameters = config::print(config::LoopNestConfig{lanes, across});
  schedule.grid = around * run.ceilDiv(one * lanes);
  Dim work = one;
  if (auto indexed = dyn_cast<ts::IndexingOpInterface>(hero)) {
    ts::Indexing indexing = indexed.indexing();
    for (Dim dim :
         ArrayRef<Dim>(indexing.loops).drop_front(indexing.parallelLoops))
      work = work * dim;
  }
  schedule.grain = grainOf(4000, work);
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildLoopNest(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  Operation *hero = heroOf(context.kernel);
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, hero->getResult(0));
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::LoopNestConfig>(context);
  if (failed(config))
    return failure();
  int64_t lanes = config->lanes;
  SmallVector<Dim> dims = ts::dimsOf(hero->getResult(0));
  Value id = tile::ProgramIdOp::create(e.builder, e.location);
  Coord at;
  if (dims.empty()) {
    lanes = 0;
  } else if (config->across) {
    Dim run = product(context.kernel.getContext(), dims);
    Value start = e.mul(id, e.constant(lanes));
    at.lanes = lanes;
    at.dims.assign(e.split({start, 1, {}, lanes}, dims, lanes));
    if (int64_t known = run.knownDivisor(); !known || known % lanes)
      at.valid = e.sub(e.size(run), start);
  } else {
    Dim run = dims.back(), blocks = run.ceilDiv(run.like(lanes));
    SmallVector<Dim> grid(dims.begin(), dims.end() - 1);
    grid.push_back(blocks);
    SmallVector<Value> index = e.delinearize(id, grid);
    Value start = e.mul(index.back(), e.constant(lanes));
    for (Value value : ArrayRef<Value>(index).drop_back())
      at.dims.push_back({value});
    at.lanes = lanes;
    at.dims.push_back({start, 1, {}, lanes});
    int64_t known = run.knownDivisor();
    if (!known || known % lanes)
      at.valid = e.sub(e.size(run), start);
  }
  LoopBuilder loops(e, hero, lanes, /*takesRuns=*/!context.target.simt);
  FailureOr<Value> value = loops.compute(at);
  if (failed(value))
    return failure();
  return epilogue->store(e, *value, at);
}

} // namespace knapper
