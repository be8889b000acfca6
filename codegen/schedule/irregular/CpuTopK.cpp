// The first k elements along a dim on CPUs, k small, and whole short lines: a
// program = one line.
//
//   1  Each of `lanes` lanes keeps the best of its elements: the k-th best of
//      these is a bound that at least k elements reach, on a line of distinct
//      numbers little more.
//   2  The line is read again. Keys (SortKeys.h) and places of elements that
//      reach the bound are listed, of those equal to it the first k.
//   3  Each listed element counts those that go before it, a register of
//      elements at a time: that is where it belongs. A list too long for
//      counting (an order that runs with the lanes) is left: the line is sorted
//      by its bits.
//
// With lanes = 0 the list is the whole line.
//
// Parameters: lanes.
#include "codegen/schedule/core/Conditions.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
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
constexpr int64_t longestList = 1024;
/// Longest line that is listed whole.
constexpr int64_t shortLine = 256;

/// Of keys and of places each: a register of elements more than the line.
Dim listBytes(Dim length) { return length * 8 + 64 * 8; }

} // namespace

LogicalResult chooseCpuTopK(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = sortIn(kernel);
  if (!op)
    return kernel.emitOpError("has hero sort and none inside");
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim length = dims[op.getDim()], k = op.getK();
  std::optional<int64_t> elements = length.asConstant(),
                         wanted = k.asConstant();
  if (wanted == 0)
    return success(); // nothing to find
  Conditions conditions;
  int64_t lanes = 0;
  if (!elements || *elements > shortLine) {
    // The best of all lanes fit half of the registers, and a bound is good
    // while lanes are twice as many as elements are asked for.
    int64_t bytes = std::max<int64_t>(
        4, ts::elementBytes(ts::elementTypeOf(op.getInput())));
    int64_t most =
        target.vectorRegisters / 2 * (int64_t(target.vectorBytes) / bytes);
    constexpr int64_t least = 64;
    lanes = wanted ? std::clamp<int64_t>(llvm::PowerOf2Ceil(2 * *wanted), least,
                                         std::max(most, least))
                   : std::max(most, least);
    if (wanted && 2 * *wanted > lanes)
      return success();
    if (!wanted)
      conditions.require(k, ts::ComparePredicate::le, lanes / 2);
  }
  Schedule schedule;
  schedule.kind = "cpu_top_k";
  schedule.guard = conditions.guard;
  schedule.parameters = config::print(config::TopKCpuConfig{lanes});
  schedule.grid = ts::product(kernel.getContext(), aroundOf(op));
  schedule.grain = grainOf(lanes ? 8000 : 2000, length);
  // The list, which is dead where the line is sorted by its bits: that takes
  // more, in its place.
  schedule.scratch = lanes ? radixSortScratch(length)
                           : listBytes(length) * 2 + 4 * (longestList + group);
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

class TopKCpu {
public:
  TopKCpu(BuildContext &context, ts::TopKOp op, int64_t lanes)
      : context(context), e(context.emitter), b(e.builder), loc(e.location),
        op(op), lanes(lanes), axis(op.getDim()), order(e, op),
        length(ts::dimsOf(op.getInput())[axis]), n(e.size(length)),
        outputs(context.kernel.yield().getValues()) {
    Value each = e.size(listBytes(length));
    keys = scratch(order.type, e.constant(0));
    places = scratch(b.getI64Type(), each);
    ranks = scratch(b.getI32Type(), e.mul(each, e.constant(2)));
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
  /// How many are listed.
  Value listReaching(const Coord &line, Value key);
  LogicalResult rank(Value listed);
  LogicalResult finish(const Coord &line, Value listed);

  BuildContext &context;
  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::TopKOp op;
  int64_t lanes;
  unsigned axis;
  SortKeys order;
  Dim length;
  Value n;
  ValueRange outputs;
  Value keys, places, ranks;
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
  Value key = bound(line);
  Value listed = key ? listReaching(line, key) : Value();
  if (!listed)
    return failure();
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
  return e.scoped([&] { return buildRadixSort(context, op, line); });
}

} // namespace

LogicalResult buildCpuTopK(BuildContext &context) {
  auto config = configOf<config::TopKCpuConfig>(context);
  if (failed(config))
    return failure();
  ts::TopKOp op = sortIn(context.kernel);
  for (Value value : context.kernel.yield().getValues())
    if (value != op.getValues() && value != op.getIndices())
      return context.kernel.emitOpError(
          "stores something else than the sort's results");
  Coord line = lineOfProgram(context.emitter, op);
  return TopKCpu(context, op, config->lanes).build(line);
}

} // namespace knapper
