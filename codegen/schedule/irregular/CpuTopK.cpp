// The first k elements along a dim on CPUs, k small, and whole short lines: a
// program = one line.
//
//   1  Each of `lanes` lanes keeps the best of its elements: the k-th best of
//      these is a bound that at least k elements reach, on a line of distinct
//      numbers little more. Lanes that registers do not hold take turns, `held`
//      at once, and their bests lie in scratch.
//   2  The line is read again. Keys (SortKeys.h) and places of elements that
//      reach the bound are listed, of those equal to it the first k.
//   3  Each listed element counts those that go before it, a register of
//      elements at a time: that is where it belongs. A list too long for
//      counting is sorted by the bits of its keys.
//
// With lanes = 0 the list is the whole line.
//
// Parameters: lanes, held.
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
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Of the line that is looked at at once, and of the list that counts.
constexpr int64_t group = 16;
/// Longer lists are sorted otherwise: n elements take n * n / 16 steps.
constexpr int64_t longestList = 320;
/// Longest line that is listed whole, unless few elements are asked for.
constexpr int64_t shortLine = 256, fewOfLine = 96, shareOfFew = 12;
/// Elements of a lane, at least, where lanes take turns: of fewer the list is
/// most of the line, which is sorted whole in less time.
constexpr int64_t leastIterations = 4;
/// Lanes where it is not known how many elements are asked for.
constexpr int64_t someLanes = 1024, manyLanes = 8192;

/// Of keys and of places each: a register of elements more than the line.
Dim listBytes(Dim length) { return length * 8 + 64 * 8; }
/// Of the ranks of a list's elements, i32, and a group that ends beyond it.
constexpr int64_t rankBytes = 4 * (longestList + group);
static_assert(rankBytes <= kRadixCounts);

} // namespace

LogicalResult chooseCpuTopK(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op)
    return kernel.emitOpError("has hero sort and none inside");
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim length = dims[op.getDim()], k = op.getK();
  std::optional<int64_t> elements = length.asConstant(),
                         wanted = k.asConstant();
  if (wanted == 0)
    return success(); // nothing to find
  auto offer = [&](int64_t lanes, int64_t held, Guard guard) {
    Schedule schedule;
    schedule.kind = "cpu_top_k";
    schedule.guard = std::move(guard);
    schedule.parameters = config::print(config::TopKCpuConfig{lanes, held});
    schedule.grid = ts::product(kernel.getContext(), aroundOf(op));
    schedule.grain = grainOf(lanes ? 8000 : 2000, length);
    schedule.scratch =
        lanes ? radixSortScratch(length) : listBytes(length) + rankBytes;
    schedules.push_back(std::move(schedule));
  };
  bool asksFew = elements && wanted && *elements >= fewOfLine &&
                 *wanted * shareOfFew <= *elements;
  if (elements && *elements <= shortLine && !asksFew) {
    offer(0, 0, {});
    return success();
  }
  // The best of all lanes fit half of the registers, and a bound is good while
  // lanes are twice as many as elements are asked for.
  int64_t bytes =
      std::max<int64_t>(4, ts::elementBytes(ts::elementTypeOf(op.getInput())));
  constexpr int64_t least = 64;
  int64_t most = std::max(least, target.vectorRegisters / 2 *
                                     (int64_t(target.vectorBytes) / bytes));
  auto offerIterations = [&](int64_t lanes, Conditions conditions) {
    int64_t shortest = leastIterations * lanes;
    if (elements.value_or(shortest) < shortest)
      return;
    if (!elements)
      conditions.require(length, ts::ComparePredicate::ge, shortest);
    offer(lanes, most, conditions.guard);
  };
  if (wanted) {
    int64_t lanes = std::max<int64_t>(least, llvm::PowerOf2Ceil(2 * *wanted));
    if (lanes <= most)
      offer(lanes, lanes, {});
    else
      offerIterations(llvm::alignTo(2 * *wanted, most), {});
    return success();
  }
  Conditions conditions;
  conditions.require(k, ts::ComparePredicate::le, most / 2);
  offer(most, most, conditions.guard);
  for (int64_t lanes : {someLanes, manyLanes}) {
    Conditions more;
    more.require(k, ts::ComparePredicate::le, lanes / 2);
    if (most < lanes)
      offerIterations(lanes, more);
  }
  return success();
}

namespace {

class TopKCpu {
public:
  TopKCpu(BuildContext &context, ts::TopKOp op,
          const config::TopKCpuConfig &config)
      : context(context), e(context.emitter), b(e.builder), loc(e.location),
        op(op), lanes(config.lanes), held(config.held), axis(op.getDim()),
        order(e, op), length(ts::dimsOf(op.getInput())[axis]),
        n(e.size(length)), outputs(context.kernel.yield().getValues()) {
    if (lanes) {
      RadixList list = radixList(e, order.type, length);
      keys = list.keys;
      places = list.places;
      ranks = scratch(b.getI32Type(), e.size(list.counts));
      // Dead when the list is begun.
      bests = keys;
    } else {
      keys = scratch(order.type, e.constant(0));
      ranks = scratch(b.getI32Type(), e.size(listBytes(length)));
    }
  }

  LogicalResult build(const Coord &line);

private:
  Value scratch(Type type, Value at) {
    return tile::ScratchOp::create(b, loc, tile::BufferType::get(type), at);
  }
  Value load(Value buffer, Value at, int64_t lanes = 0) {
    Type type = cast<tile::BufferType>(buffer.getType()).getElementType();
    if (lanes)
      type = VectorType::get(lanes, type);
    return tile::LoadOp::create(b, loc, type, buffer, at);
  }
  void store(Value x, Value buffer, Value at, Value valid = {}) {
    tile::StoreOp::create(b, loc, x, buffer, at, valid);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value all(vector::CombiningKind kind, Value tile) {
    return vector::ReductionOp::create(b, loc, kind, tile);
  }
  /// 1 or 0.
  Value count(Value condition) {
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), condition);
  }
  Value i64(Value index) {
    return arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
  }
  /// A tile of the line; elements behind its end are unspecified.
  Value tileAt(const Coord &line, Value i, Value valid, int64_t lanes) {
    Coord at = line;
    at.lanes = lanes;
    at.dims[axis] = {i, 1, {}, lanes};
    at.valid = valid;
    Value x = e.emit(op.getInput(), at);
    return x ? e.widen(x, lanes) : x;
  }
  Value elementAt(const Coord &line, Value i) {
    Coord at = line;
    at.dims[axis] = {i};
    return e.emit(op.getInput(), at);
  }
  bool isWhole(int64_t lanes) const {
    std::optional<int64_t> number = length.asConstant();
    return number && *number % lanes == 0;
  }

  LogicalResult listAll(const Coord &line);
  /// The key that the elements asked for reach.
  Value bound(const Coord &line);
  Value boundOfIterations(const Coord &line);
  /// Of the elements from `i` on, `held` each `lanes`, the best of each place.
  Value bestFrom(const Coord &line, Value i);
  /// How many are listed.
  Value listReaching(const Coord &line, Value key);
  LogicalResult rank(Value listed);
  LogicalResult finish(const Coord &line, Value listed);

  BuildContext &context;
  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::TopKOp op;
  int64_t lanes, held;
  unsigned axis;
  SortKeys order;
  Dim length;
  Value n;
  ValueRange outputs;
  Value keys, places, ranks, bests;
};

LogicalResult TopKCpu::listAll(const Coord &line) {
  return forLanes(e, e.constant(0), n, group, isWhole(group),
                  [&](Value i, Value valid) -> LogicalResult {
                    Value x = tileAt(line, i, valid, group);
                    if (!x)
                      return failure();
                    store(order.of(x, group), keys, i, valid);
                    return success();
                  });
}

Value TopKCpu::bound(const Coord &line) {
  LogicalResult status = success();
  SmallVector<Value> best = forLanes(
      e, e.constant(0), n, lanes, isWhole(lanes), ValueRange{order.last(lanes)},
      [&](Value i, Value valid,
          ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value x = tileAt(line, i, valid, lanes);
        if (!x)
          return failure();
        x = order.comparable(x, lanes);
        if (valid)
          x = arith::SelectOp::create(b, loc, e.laneMask(lanes, valid), x,
                                      order.last(lanes));
        return SmallVector<Value>{order.first(carried[0], x)};
      },
      status);
  if (failed(status))
    return {};
  // Equal ones leave together: the bound is then lower than it might be.
  Value none = order.number(0, lanes);
  SmallVector<Value> left = forEach(
      e, e.constant(0), e.size(op.getK()),
      ValueRange{order.keyOfComparable(best[0], lanes), order.number(0, 0)},
      [&](Value, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value most = all(vector::CombiningKind::MAXUI, carried[0]);
        Value isMost =
            compare(arith::CmpIPredicate::eq, carried[0], e.widen(most, lanes));
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, isMost, none, carried[0]), most};
      },
      status);
  return left[1];
}

Value TopKCpu::bestFrom(const Coord &line, Value i) {
  LogicalResult status = success();
  Value width = e.constant(held), step = e.constant(lanes);
  auto better = [&](Value i, Value valid,
                    Value best) -> FailureOr<SmallVector<Value>> {
    Value x = tileAt(line, i, valid, held);
    if (!x)
      return failure();
    x = order.comparable(x, held);
    if (valid)
      x = arith::SelectOp::create(b, loc, e.laneMask(held, valid), x,
                                  order.last(held));
    return SmallVector<Value>{order.first(best, x)};
  };
  Value whole = e.max(i, e.add(e.sub(n, width), e.constant(1)));
  Value best = forEach(
      e, i, whole, ValueRange{order.last(held)},
      [&](Value at, ValueRange carried) {
        return better(at, Value(), carried[0]);
      },
      status, lanes)[0];
  // The tile that the line's end cuts, if it is of this iteration.
  Value iterations =
      e.div(e.add(e.sub(whole, i), e.sub(step, e.constant(1))), step);
  Value rest = e.add(i, e.mul(iterations, step));
  best = forEach(
      e, rest, e.max(rest, n), ValueRange{best},
      [&](Value at, ValueRange carried) {
        return better(at, e.sub(n, at), carried[0]);
      },
      status, lanes)[0];
  return failed(status) ? Value() : best;
}

Value TopKCpu::boundOfIterations(const Coord &line) {
  if (failed(forEach(
          e, e.constant(0), e.constant(lanes),
          [&](Value i) -> LogicalResult {
            Value best = bestFrom(line, i);
            if (!best)
              return failure();
            store(order.keyOfComparable(best, held), bests, i);
            return success();
          },
          held)))
    return {};
  // Bit by bit from the highest: a bit stays set if enough keys still reach.
  LogicalResult status = success();
  auto counts = VectorType::get(group, b.getI32Type());
  Value wanted =
      arith::IndexCastOp::create(b, loc, b.getI32Type(), e.size(op.getK()));
  Value highest = order.number(uint64_t(1) << (order.type.getWidth() - 1), 0);
  return forEach(
      e, e.constant(0), e.constant(order.type.getWidth()),
      ValueRange{order.number(0, 0), highest},
      [&](Value, ValueRange now) -> FailureOr<SmallVector<Value>> {
        Value tried = arith::OrIOp::create(b, loc, now[0], now[1]);
        Value all = e.widen(tried, group);
        Value reaching = forEach(
            e, e.constant(0), e.constant(lanes),
            ValueRange{e.splat(b.getI32Type(), group, 0)},
            [&](Value i, ValueRange sum) -> FailureOr<SmallVector<Value>> {
              Value reaches = compare(arith::CmpIPredicate::uge,
                                      load(bests, i, group), all);
              return SmallVector<Value>{arith::AddIOp::create(
                  b, loc, sum[0],
                  arith::ExtUIOp::create(b, loc, counts, reaches))};
            },
            status, group)[0];
        Value number = vector::ReductionOp::create(
            b, loc, vector::CombiningKind::ADD, reaching);
        Value stays = compare(arith::CmpIPredicate::sge, number, wanted);
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, stays, tried, now[0]),
            arith::ShRUIOp::create(b, loc, now[1], order.number(1, 0))};
      },
      status)[0];
}

Value TopKCpu::listReaching(const Coord &line, Value key) {
  LogicalResult status = success();
  Value wanted = e.size(op.getK());
  auto listed = [&](Value i, Value end, ValueRange carried) {
    return forEach(
        e, e.constant(0), end, carried,
        [&](Value lane, ValueRange now) -> FailureOr<SmallVector<Value>> {
          Value at = e.add(i, lane), x = elementAt(line, at);
          if (!x)
            return failure();
          Value own = order.of(x, 0);
          // Written always, counted where it stays.
          store(own, keys, now[0]);
          store(i64(at), places, now[0]);
          Value isEqual = compare(arith::CmpIPredicate::eq, own, key);
          Value more = e.less(now[1], wanted);
          Value stays = arith::OrIOp::create(
              b, loc, compare(arith::CmpIPredicate::ugt, own, key),
              arith::AndIOp::create(b, loc, isEqual, more));
          return SmallVector<Value>{e.add(now[0], count(stays)),
                                    e.add(now[1], count(isEqual))};
        },
        status);
  };
  SmallVector<Value> counts = forLanes(
      e, e.constant(0), n, group, isWhole(group),
      ValueRange{e.constant(0), e.constant(0)},
      [&](Value i, Value valid,
          ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value x = tileAt(line, i, valid, group);
        if (!x)
          return failure();
        Value reach = order.mayReach(order.comparable(x, group), key, group);
        if (valid)
          reach =
              arith::AndIOp::create(b, loc, reach, e.laneMask(group, valid));
        auto branch = scf::IfOp::create(b, loc, carried.getTypes(),
                                        all(vector::CombiningKind::OR, reach),
                                        /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(&branch.getThenRegion().front());
        Value end = valid ? valid : e.constant(group);
        scf::YieldOp::create(b, loc,
                             e.scoped([&] { return listed(i, end, carried); }));
        b.setInsertionPointToEnd(&branch.getElseRegion().front());
        scf::YieldOp::create(b, loc, carried);
        return SmallVector<Value>(branch.getResults());
      },
      status);
  return failed(status) ? Value() : counts[0];
}

/// To each of the list the number of those that go before it: of equal ones the
/// first.
LogicalResult TopKCpu::rank(Value listed) {
  auto type = VectorType::get(group, b.getI32Type());
  Value zero = e.splat(b.getI32Type(), group, 0);
  auto added = [&](Value sum, Value condition) -> Value {
    return arith::AddIOp::create(
        b, loc, sum, arith::ExtUIOp::create(b, loc, type, condition));
  };
  return forEach(
      e, e.constant(0), listed,
      [&](Value i) -> LogicalResult {
        Value own = load(keys, i, group);
        LogicalResult status = success();
        auto passing = [&](Value begin, Value end, Value sum,
                           llvm::function_ref<Value(Value j, Value other)> of) {
          return forEach(
              e, begin, end, ValueRange{sum},
              [&](Value j, ValueRange now) -> FailureOr<SmallVector<Value>> {
                Value other = e.widen(load(keys, j), group);
                return SmallVector<Value>{added(now[0], of(j, other))};
              },
              status)[0];
        };
        using P = arith::CmpIPredicate;
        Value end = e.min(e.add(i, e.constant(group)), listed);
        Value sum = passing(e.constant(0), i, zero, [&](Value, Value other) {
          return compare(P::uge, other, own);
        });
        Value lane = e.lanePositions({i, 1, {}, 1}, group);
        sum = passing(i, end, sum, [&](Value j, Value other) -> Value {
          Value isEarlier = compare(P::slt, e.widen(j, group), lane);
          Value isEqual = compare(P::eq, other, own);
          return arith::OrIOp::create(
              b, loc, compare(P::ugt, other, own),
              arith::AndIOp::create(b, loc, isEqual, isEarlier));
        });
        sum = passing(end, listed, sum, [&](Value, Value other) {
          return compare(P::ugt, other, own);
        });
        store(sum, ranks, i);
        return status;
      },
      group);
}

LogicalResult TopKCpu::finish(const Coord &line, Value listed) {
  Value wanted = e.size(op.getK());
  return forEach(e, e.constant(0), listed, [&](Value i) -> LogicalResult {
    Value rank =
        arith::IndexCastOp::create(b, loc, b.getIndexType(), load(ranks, i));
    auto isWanted = scf::IfOp::create(b, loc, e.less(rank, wanted),
                                      /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&isWanted.getThenRegion().front());
    return e.scoped([&]() -> LogicalResult {
      Value place = lanes ? load(places, i) : i64(i);
      Value x = elementAt(
          line, arith::IndexCastOp::create(b, loc, b.getIndexType(), place));
      if (!x)
        return failure();
      Coord to = line;
      to.dims[axis] = {rank};
      for (auto [r, value] : llvm::enumerate(outputs))
        e.store(value == op.getIndices() ? place : x, e.outputBuffer(r),
                value.getType(), to);
      return success();
    });
  });
}

LogicalResult TopKCpu::build(const Coord &line) {
  if (!lanes)
    return failure(failed(listAll(line)) || failed(rank(n)) ||
                   failed(finish(line, n)));
  Value key = lanes == held ? bound(line) : boundOfIterations(line);
  Value listed = key ? listReaching(line, key) : Value();
  if (!listed)
    return failure();
  // The bound is one that k elements reach.
  if (Dim(op.getK()).asConstant().value_or(0) > longestList)
    return buildRadixSort(context, op, line, listed);
  auto branch =
      scf::IfOp::create(b, loc, e.less(listed, e.constant(longestList + 1)),
                        /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  if (failed(e.scoped([&] {
        return failure(failed(rank(listed)) || failed(finish(line, listed)));
      })))
    return failure();
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  return e.scoped([&] { return buildRadixSort(context, op, line, listed); });
}

} // namespace

LogicalResult buildCpuTopK(BuildContext &context) {
  auto config = configOf<config::TopKCpuConfig>(context);
  if (failed(config))
    return failure();
  ts::TopKOp op = firstOp<ts::TopKOp>(context.kernel);
  for (Value value : context.kernel.yield().getValues())
    if (value != op.getValues() && value != op.getIndices())
      return context.kernel.emitOpError(
          "stores something else than the sort's results");
  Coord line = lineOfProgram(context.emitter, op);
  return TopKCpu(context, op, *config).build(line);
}

} // namespace knapper
