// The k largest or smallest elements along a dim, in order, with their indices.
//
//   merge   program = one line: loaded into scratch with its indices, sorted
//           bottom-up by merging runs of 1, 2, 4, ... between two halves of
//           scratch (stable, n log n), the first k elements stored
//   radix   program = one line: keys of it (SortKeys.h) with their places or
//           elements, sorted by eight bits at a time from the lowest between
//           two halves of scratch; bits in which all keys agree are passed over
//   rank    program = a tile of a line: each lane counts the elements of the
//           line that go before its own, which is the place where it belongs;
//           n * n steps, but all lanes at once and without scratch (GPUs)
//
// Parameters: lanes (of the rank form), radix; neither: merge.
#include "codegen/schedule/core/Conditions.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/irregular/CpuSorts.h"
#include "codegen/schedule/irregular/SortKeys.h"
#include "ir/config/IrregularConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Whether an element goes before another one that is earlier in the line: only
/// when it is truly better, which keeps equal elements in order. NaN counts as
/// largest.
struct Order {
  bool isFloat, isUnsigned, largest;

  Value rightFirst(ElementEmitter &e, Value left, Value right) const;
};

Value Order::rightFirst(ElementEmitter &e, Value left, Value right) const {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  if (!isFloat) {
    using P = arith::CmpIPredicate;
    P p = largest ? (isUnsigned ? P::ugt : P::sgt)
                  : (isUnsigned ? P::ult : P::slt);
    return arith::CmpIOp::create(b, loc, p, right, left);
  }
  using P = arith::CmpFPredicate;
  Value better =
      arith::CmpFOp::create(b, loc, largest ? P::OGT : P::OLT, right, left);
  Value isNan = arith::CmpFOp::create(b, loc, P::UNO, largest ? right : left,
                                      largest ? right : left);
  Value otherIsNot = arith::CmpFOp::create(
      b, loc, P::ORD, largest ? left : right, largest ? left : right);
  Value byNan = arith::AndIOp::create(b, loc, isNan, otherIsNot);
  return arith::OrIOp::create(b, loc, better, byNan);
}

/// The radix form: how often each value of each eight bits is among the keys.
constexpr int64_t digitBits = 8, digitValues = 1 << digitBits;
constexpr int64_t countBytes = 8 * digitValues * 64 / digitBits;
static_assert(countBytes == kRadixCounts);

} // namespace

Dim radixSortScratch(Dim length) { return length * 32 + countBytes + 64; }

LogicalResult chooseSort(ts::KernelOp kernel, const TargetDesc &target,
                         Knobs &knobs, SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op)
    return kernel.emitOpError("has hero sort and none inside");
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim one = Dim::constant(kernel.getContext(), 1), around = one;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != op.getDim())
      around = around * dim;
  Schedule schedule;
  schedule.kind = "sort";
  schedule.parameters = config::print(config::SortConfig{});
  if (target.simt) {
    int64_t lanes = 512;
    while (lanes > 128 && lanes / 2 >= representative(dims[op.getDim()]))
      lanes /= 2;
    schedule.parameters = config::print(config::SortConfig{lanes});
    schedule.grid = around * dims[op.getDim()].ceilDiv(one * lanes);
    schedule.grain = one;
    schedule.scratch = one * 0;
    schedules.push_back(std::move(schedule));
    return success();
  }
  schedule.grid = around;
  schedule.grain = grainOf(1000, dims[op.getDim()]);
  // Counting costs as much as some hundred elements. (Merging takes branches
  // that no processor foresees.)
  constexpr int64_t shortest = 128;
  Dim length = dims[op.getDim()];
  std::optional<int64_t> known = length.asConstant();
  // Two halves of (index, value), each element 8 bytes at most; and counts.
  if (known.value_or(shortest) >= shortest) {
    Schedule radix = schedule;
    radix.parameters = config::print(config::SortConfig{.radix = true});
    radix.scratch = radixSortScratch(length);
    Conditions conditions;
    if (!known)
      conditions.require(length, ts::ComparePredicate::ge, shortest);
    radix.guard = conditions.guard;
    schedules.push_back(std::move(radix));
    if (known)
      return success();
  }
  schedule.scratch = length * 32 + 64;
  schedules.push_back(std::move(schedule));
  return success();
}

/// The rank form.
static LogicalResult buildRanks(BuildContext &context, int64_t lanes) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::TopKOp op = firstOp<ts::TopKOp>(context.kernel);
  unsigned axis = op.getDim();
  SmallVector<Dim> dims = ts::dimsOf(op.getInput()), grid;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != axis)
      grid.push_back(dim);
  grid.push_back(dims[axis].ceilDiv(dims[axis].like(lanes)));
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> outer = e.delinearize(id, grid);
  Value start = e.mul(outer.back(), e.constant(lanes));
  Value n = e.size(dims[axis]);
  Coord line, own;
  unsigned next = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    line.dims.push_back({i == axis ? Value() : outer[next++]});
  own = line;
  own.lanes = lanes;
  own.dims[axis] = {start, 1, {}, lanes};
  own.valid = e.sub(n, start);

  Type element = computeType(ts::elementTypeOf(op.getInput()));
  Order order{isa<FloatType>(element),
              ts::elementTypeOf(op.getInput()).isUnsignedInteger(),
              op.getLargest()};
  Value mine = e.emit(op.getInput(), own);
  if (!mine)
    return failure();
  mine = e.widen(mine, lanes);
  Type counts = VectorType::get(lanes, b.getI32Type());
  auto number = [&](Value index) -> Value {
    return e.widen(arith::IndexCastOp::create(b, loc, b.getI32Type(), index),
                   lanes);
  };
  Value here = arith::IndexCastOp::create(
      b, loc, counts, e.lanePositions(own.dims[axis], lanes));
  Value one = e.splat(b.getI32Type(), lanes, 1);
  LogicalResult status = success();
  SmallVector<Value> ranks = forEach(
      e, e.constant(0), n, e.splat(b.getI32Type(), lanes, 0),
      [&](Value j, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Coord at = line;
        at.dims[axis] = {j};
        Value other = e.emit(op.getInput(), at);
        if (!other)
          return failure();
        other = e.widen(other, lanes);
        Value earlier = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                              number(j), here);
        // Of an earlier element and this one, this one stays behind unless it
        // is better; a later one passes only if it is better.
        Value passes = order.rightFirst(e, other, mine);
        Value passed = order.rightFirst(e, mine, other);
        Value first = arith::SelectOp::create(
            b, loc, earlier,
            Value(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        passes,
                                        e.splat(b.getI1Type(), lanes, 0))),
            passed);
        Value more = arith::AddIOp::create(b, loc, carried[0], one);
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, first, more, carried[0])};
      },
      status);
  if (failed(status))
    return failure();

  Coord to = own;
  to.dims[axis] = {
      {},
      0,
      arith::IndexCastOp::create(
          b, loc, VectorType::get(lanes, b.getIndexType()), ranks[0])};
  to.mask = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, ranks[0],
                                  number(e.size(op.getK())));
  for (auto [r, value] : llvm::enumerate(context.kernel.yield().getValues())) {
    Value x = mine;
    if (value == op.getIndices())
      x = arith::ExtSIOp::create(b, loc, VectorType::get(lanes, b.getI64Type()),
                                 here);
    else if (value != op.getValues())
      return context.kernel.emitOpError(
          "stores something else than the sort's results");
    e.store(x, e.outputBuffer(r), value.getType(), to);
  }
  return success();
}

namespace {

/// The radix form of one line, or of what is listed of it.
class RadixSort {
public:
  RadixSort(BuildContext &context, ts::TopKOp op, Value listed = {})
      : e(context.emitter), b(e.builder), loc(e.location), op(op),
        outputs(context.kernel.yield().getValues()), order(e, op),
        element(computeType(ts::elementTypeOf(op.getInput()))),
        n(e.size(ts::dimsOf(op.getInput())[op.getDim()])),
        digits(order.type.getWidth() / digitBits),
        hasPlaces(listed || llvm::is_contained(outputs, op.getIndices())),
        isListed(listed), count(listed ? listed : n) {
    Type payload = hasPlaces ? Type(b.getI64Type()) : element;
    keys = scratch(order.type, e.constant(0));
    payloads = scratch(payload, e.mul(n, e.constant(16)));
    counts = scratch(b.getI64Type(), e.mul(n, e.constant(32)));
  }

  LogicalResult build(const Coord &line);

private:
  Value scratch(Type type, Value at) {
    return tile::ScratchOp::create(b, loc, tile::BufferType::get(type), at);
  }
  Value load(Value buffer, Value at) {
    Type type = cast<tile::BufferType>(buffer.getType()).getElementType();
    return tile::LoadOp::create(b, loc, type, buffer, at);
  }
  void store(Value x, Value buffer, Value at) {
    tile::StoreOp::create(b, loc, x, buffer, at);
  }
  Value countAt(Value at) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                      load(counts, at));
  }
  void setCount(Value count, Value at) {
    store(arith::IndexCastOp::create(b, loc, b.getI64Type(), count), counts,
          at);
  }
  /// Where the digit of a key is counted.
  Value counterOf(Value key, int64_t digit);
  LogicalResult fill(const Coord &line);
  /// Counts become the places where the elements begin; whether all elements
  /// have one value of the digit.
  Value sumUp(int64_t digit);
  /// Moves all from one half of scratch to the other.
  LogicalResult pass(int64_t digit, Value from);
  LogicalResult finish(const Coord &line, Value from);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::TopKOp op;
  ValueRange outputs;
  SortKeys order;
  Type element;
  Value n, keys, payloads, counts; ///< halves of `n` elements
  int64_t digits;
  bool hasPlaces, isListed;
  Value count; ///< of what is sorted
};

Value RadixSort::counterOf(Value key, int64_t digit) {
  Value bits = key;
  if (digit)
    bits = arith::ShRUIOp::create(b, loc, bits,
                                  order.number(digit * digitBits, 0));
  bits = arith::AndIOp::create(b, loc, bits, order.number(digitValues - 1, 0));
  Value value = arith::IndexCastUIOp::create(b, loc, b.getIndexType(), bits);
  return e.add(value, e.constant(digit * digitValues));
}

LogicalResult RadixSort::fill(const Coord &line) {
  if (failed(forEach(e, e.constant(0), e.constant(digits * digitValues),
                     [&](Value i) -> LogicalResult {
                       setCount(e.constant(0), i);
                       return success();
                     })))
    return failure();
  return forEach(e, e.constant(0), count, [&](Value i) -> LogicalResult {
    Coord at = line;
    at.dims[op.getDim()] = {i};
    Value x = isListed ? load(keys, i) : e.emit(op.getInput(), at);
    if (!x)
      return failure();
    // Of keys the larger goes first.
    Value key = arith::XOrIOp::create(b, loc, isListed ? x : order.of(x, 0),
                                      order.number(~uint64_t(0), 0));
    store(key, keys, i);
    if (!isListed)
      store(hasPlaces
                ? Value(arith::IndexCastOp::create(b, loc, b.getI64Type(), i))
                : x,
            payloads, i);
    for (int64_t digit = 0; digit < digits; ++digit) {
      Value at = counterOf(key, digit);
      setCount(e.add(countAt(at), e.constant(1)), at);
    }
    return success();
  });
}

Value RadixSort::sumUp(int64_t digit) {
  LogicalResult status = success();
  Value base = e.constant(digit * digitValues);
  SmallVector<Value> found = forEach(
      e, e.constant(0), e.constant(digitValues),
      ValueRange{e.constant(0), e.constant(0)},
      [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value at = e.add(base, i), count = countAt(at);
        setCount(carried[0], at);
        return SmallVector<Value>{
            e.add(carried[0], count),
            arith::MaxUIOp::create(b, loc, carried[1], count)};
      },
      status);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, found[1],
                               count);
}

LogicalResult RadixSort::pass(int64_t digit, Value from) {
  Value to = e.sub(n, from);
  return forEach(e, e.constant(0), count, [&](Value i) -> LogicalResult {
    Value at = e.add(from, i), key = load(keys, at);
    Value payload = load(payloads, at), counter = counterOf(key, digit);
    Value place = countAt(counter);
    setCount(e.add(place, e.constant(1)), counter);
    place = e.add(to, place);
    store(key, keys, place);
    store(payload, payloads, place);
    return success();
  });
}

LogicalResult RadixSort::finish(const Coord &line, Value from) {
  return forEach(
      e, e.constant(0), e.size(op.getK()), [&](Value i) -> LogicalResult {
        Value payload = load(payloads, e.add(from, i)), x = payload;
        Coord to = line, at = line;
        to.dims[op.getDim()] = {i};
        if (hasPlaces && llvm::is_contained(outputs, op.getValues())) {
          at.dims[op.getDim()] = {
              arith::IndexCastOp::create(b, loc, b.getIndexType(), payload)};
          x = e.emit(op.getInput(), at);
          if (!x)
            return failure();
        }
        for (auto [r, value] : llvm::enumerate(outputs))
          e.store(value == op.getIndices() ? payload : x, e.outputBuffer(r),
                  value.getType(), to);
        return success();
      });
}

LogicalResult RadixSort::build(const Coord &line) {
  if (failed(fill(line)))
    return failure();
  Value from = e.constant(0);
  for (int64_t digit = 0; digit < digits; ++digit) {
    Value agrees = sumUp(digit);
    auto branch = scf::IfOp::create(b, loc, TypeRange{b.getIndexType()}, agrees,
                                    /*withElseRegion=*/true);
    b.setInsertionPointToEnd(&branch.getThenRegion().front());
    scf::YieldOp::create(b, loc, from);
    b.setInsertionPointToEnd(&branch.getElseRegion().front());
    if (failed(e.scoped([&] { return pass(digit, from); })))
      return failure();
    scf::YieldOp::create(b, loc, e.sub(n, from));
    from = branch.getResult(0);
    b.setInsertionPointAfter(branch);
  }
  return finish(line, from);
}

/// Of CPUs: runs of one, two, four, ... elements are merged, from one half of
/// scratch to the other.
class CpuMergeSort {
public:
  CpuMergeSort(BuildContext &context, ts::TopKOp op)
      : context(context), e(context.emitter), b(e.builder), loc(e.location),
        op(op), axis(op.getDim()),
        element(computeType(ts::elementTypeOf(op.getInput()))),
        order{isa<FloatType>(element),
              ts::elementTypeOf(op.getInput()).isUnsignedInteger(),
              op.getLargest()},
        n(e.size(ts::dimsOf(op.getInput())[axis])) {
    indices = tile::ScratchOp::create(
        b, loc, tile::BufferType::get(b.getI64Type()), e.constant(0));
    values = tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                                     e.mul(n, e.constant(16)));
  }

  /// `line`: of the axis.
  LogicalResult build(const Coord &line) {
    if (failed(readLine(line)))
      return failure();
    FailureOr<Value> source = mergeRuns();
    return failed(source) ? failure() : finish(line, *source);
  }

private:
  LogicalResult readLine(const Coord &line);
  FailureOr<Value> mergeRuns();
  LogicalResult mergePair(Value pair, Value width, Value from, Value to);
  LogicalResult finish(const Coord &line, Value source);
  Value load(Value buffer, Type type, Value at) {
    return tile::LoadOp::create(b, loc, type, buffer, at);
  }

  BuildContext &context;
  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::TopKOp op;
  unsigned axis;
  Type element;
  Order order;
  Value n;               ///< elements of the line
  Value indices, values; ///< in scratch: two halves of `n` each
};

LogicalResult CpuMergeSort::readLine(const Coord &line) {
  return forEach(e, e.constant(0), n, [&](Value i) -> LogicalResult {
    Coord at = line;
    at.dims[axis] = {i};
    Value x = e.emit(op.getInput(), at);
    if (!x)
      return failure();
    tile::StoreOp::create(b, loc, x, values, i);
    tile::StoreOp::create(b, loc,
                          arith::IndexCastOp::create(b, loc, b.getI64Type(), i),
                          indices, i);
    return success();
  });
}

/// while (width < n) merge all pairs of runs; carried: width, source offset.
/// Returns where the sorted line begins.
FailureOr<Value> CpuMergeSort::mergeRuns() {
  Type index = b.getIndexType();
  auto loop = scf::WhileOp::create(b, loc, TypeRange{index, index},
                                   ValueRange{e.constant(1), e.constant(0)});
  OpBuilder::InsertionGuard guard(b);
  Block *before =
      b.createBlock(&loop.getBefore(), {}, {index, index}, {loc, loc});
  Value more = e.less(before->getArgument(0), n);
  scf::ConditionOp::create(b, loc, more, before->getArguments());
  Block *after =
      b.createBlock(&loop.getAfter(), {}, {index, index}, {loc, loc});
  Value width = after->getArgument(0), from = after->getArgument(1);
  Value to = e.sub(n, from);
  Value pairs =
      e.div(e.add(n, e.sub(e.mul(width, e.constant(2)), e.constant(1))),
            e.mul(width, e.constant(2)));
  LogicalResult merged = e.scoped([&] {
    return forEach(e, e.constant(0), pairs,
                   [&](Value p) { return mergePair(p, width, from, to); });
  });
  if (failed(merged))
    return failure();
  scf::YieldOp::create(b, loc, ValueRange{e.mul(width, e.constant(2)), to});
  return loop.getResult(1);
}

/// Two neighbouring runs of `width` elements in the half at `from`, as one in
/// the half at `to`. Of equal elements the left run's come first.
LogicalResult CpuMergeSort::mergePair(Value pair, Value width, Value from,
                                      Value to) {
  LogicalResult status = success();
  Value low = e.mul(pair, e.mul(width, e.constant(2)));
  Value middle = e.min(e.add(low, width), n);
  Value high = e.min(e.add(middle, width), n);
  Value last = e.sub(n, e.constant(1));
  forEach(
      e, low, high, ValueRange{low, middle},
      [&](Value k, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value i = carried[0], j = carried[1];
        Value ai = e.add(from, e.min(i, last)),
              aj = e.add(from, e.min(j, last));
        Value left = load(values, element, ai),
              right = load(values, element, aj);
        Value leftDone =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, i, middle);
        Value rightLeft = e.less(j, high);
        Value takeRight = arith::OrIOp::create(
            b, loc, leftDone, order.rightFirst(e, left, right));
        takeRight = arith::AndIOp::create(b, loc, takeRight, rightLeft);
        auto pick = [&](Value x, Value y) -> Value {
          return arith::SelectOp::create(b, loc, takeRight, x, y);
        };
        Value at = e.add(to, k);
        tile::StoreOp::create(b, loc, pick(right, left), values, at);
        tile::StoreOp::create(b, loc,
                              pick(load(indices, b.getI64Type(), aj),
                                   load(indices, b.getI64Type(), ai)),
                              indices, at);
        return SmallVector<Value>{pick(i, e.add(i, e.constant(1))),
                                  pick(e.add(j, e.constant(1)), j)};
      },
      status);
  return status;
}

/// The first k elements, and where they were.
LogicalResult CpuMergeSort::finish(const Coord &line, Value source) {
  auto outputs = context.kernel.yield().getValues();
  return forEach(e, e.constant(0), e.size(op.getK()),
                 [&](Value i) -> LogicalResult {
                   Coord at = line;
                   at.dims[axis] = {i};
                   Value where = e.add(source, i);
                   for (auto [r, value] : llvm::enumerate(outputs)) {
                     Value x = value == op.getValues()
                                   ? load(values, element, where)
                                   : load(indices, b.getI64Type(), where);
                     e.store(x, e.outputBuffer(r), value.getType(), at);
                   }
                   return success();
                 });
}

} // namespace

Coord lineOfProgram(ElementEmitter &e, ts::TopKOp op) {
  Value id = tile::ProgramIdOp::create(e.builder, e.location);
  Coord line;
  for (Value index : e.delinearize(id, aroundOf(op)))
    line.dims.push_back({index});
  line.dims.insert(line.dims.begin() + op.getDim(), LaneIndex());
  return line;
}

RadixList radixList(ElementEmitter &e, Type key, Dim length) {
  auto scratch = [&](Type type, Dim at) -> Value {
    return tile::ScratchOp::create(e.builder, e.location,
                                   tile::BufferType::get(type), e.size(at));
  };
  return {scratch(key, length.like(0)),
          scratch(e.builder.getI64Type(), length * 16), length * 32};
}

LogicalResult buildRadixSort(BuildContext &context, ts::TopKOp op,
                             const Coord &line, Value listed) {
  return RadixSort(context, op, listed).build(line);
}

LogicalResult buildSort(BuildContext &context) {
  auto config = configOf<config::SortConfig>(context);
  if (failed(config))
    return failure();
  if (config->lanes)
    return buildRanks(context, config->lanes);
  ts::TopKOp op = firstOp<ts::TopKOp>(context.kernel);
  Coord line = lineOfProgram(context.emitter, op);
  for (Value value : context.kernel.yield().getValues())
    if (value != op.getValues() && value != op.getIndices())
      return context.kernel.emitOpError(
          "stores something else than the sort's results");
  return config->radix ? RadixSort(context, op).build(line)
                       : CpuMergeSort(context, op).build(line);
}

} // namespace knapper
