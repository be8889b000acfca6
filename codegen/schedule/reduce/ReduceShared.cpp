// Columns whose rows the threads of a GPU's CTA share out.
//
//   program = some tiles of `columns` neighbouring columns each; a thread has
//             every `columnThreads`-th row of one column. Where a tile has all
//             columns that lie beside each other, neighbouring threads read a
//             run of memory, however narrow the columns are. What the threads
//             of a column have made of their rows meets in shared memory.
//
// No thread waits for another CTA, so that a pass costs two barriers of one.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "ir/tile/BlockOps.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

/// Rows that a thread reads before it combines the first.
static constexpr int64_t kAtOnce = 8;

std::optional<ColumnDims> columnDims(const Space &space) {
  ColumnDims dims;
  for (auto [d, dim] : llvm::enumerate(space.dims)) {
    if (!llvm::is_contained(space.reduced, static_cast<int64_t>(d))) {
      (dims.rows.empty() ? dims.outer : dims.inner).push_back(dim);
      continue;
    }
    if (!dims.inner.empty())
      return std::nullopt;
    dims.rows.push_back(dim);
  }
  auto elements = [&](ArrayRef<Dim> some) {
    Dim all = space.dims[0].like(1);
    for (Dim dim : some)
      all = all * dim;
    return all.asConstant();
  };
  std::optional<int64_t> length = elements(dims.rows),
                         beside = elements(dims.inner);
  if (!length || !beside || *length < 1 || *beside < 2)
    return std::nullopt;
  dims.length = *length;
  dims.beside = *beside;
  return dims;
}

/// Of `count` threads of a column, those that have what all have made after
/// the first of two steps: each reads about as many in either.
static int64_t leadersOf(int64_t count) {
  constexpr int64_t few = 8;
  return count <= few ? count : std::ceil(std::sqrt(double(count)));
}

void ReduceBuilder::moveToTiles(Value program) {
  Location loc = e.location;
  const ColumnDims &d = *shared;
  int64_t inTile = columns * columnThreads;
  auto type = VectorType::get(lanes, b.getIndexType());
  auto vectorOf = [&](const LaneIndex &index) {
    return e.lanePositions(index, lanes);
  };
  auto splat = [&](int64_t number) -> Value {
    return vector::BroadcastOp::create(b, loc, type, e.constant(number));
  };
  auto below = [&](Value x, Value end) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, end);
  };
  auto require = [&](Value condition) {
    inTiles =
        inTiles ? arith::AndIOp::create(b, loc, inTiles, condition) : condition;
  };
  thread = vectorOf({e.constant(0), 1, {}, 1});
  MLIRContext *context = kernel.getContext();
  Dim one = Dim::constant(context, 1);
  SmallVector<LaneIndex> places = e.split(
      {e.constant(0), 1, {}, 1},
      {one * (lanes / inTile + 1), one * columnThreads, one * columns}, lanes);
  rowOfThread = vectorOf(places[1]);
  Value column = vectorOf(places[2]);
  if (tiles * inTile < lanes)
    require(below(thread, splat(tiles * inTile)));

  // Tiles: blocks of columns of each of the outer dims.
  int64_t blocks = llvm::divideCeil(d.beside, columns);
  SmallVector<Dim> around(d.outer);
  around.push_back(one * blocks);
  Dim all = ts::product(context, around);
  SmallVector<LaneIndex> outer;
  if (tiles == 1) {
    for (Value index : e.delinearize(program, around))
      outer.push_back({index});
  } else {
    Value number = arith::AddIOp::create(
        b, loc,
        vector::BroadcastOp::create(b, loc, type,
                                    e.mul(program, e.constant(tiles))),
        vectorOf(places[0]));
    if (all.knownDivisor() % tiles || tiles * inTile < lanes) {
      Value end = vector::BroadcastOp::create(b, loc, type, e.size(all));
      require(below(number, end));
      number = arith::MinUIOp::create(
          b, loc, number,
          vector::BroadcastOp::create(b, loc, type,
                                      e.sub(e.size(all), e.constant(1))));
    }
    outer = e.split({{}, 0, number}, around, lanes);
  }
  LaneIndex block = outer.pop_back_val();
  if (blocks > 1) {
    column = arith::AddIOp::create(
        b, loc, column,
        arith::MulIOp::create(b, loc, vectorOf(block), splat(columns)));
    if (d.beside % columns) {
      require(below(column, splat(d.beside)));
      column = arith::MinUIOp::create(b, loc, column, splat(d.beside - 1));
    }
  }
  keptLanes.assign(outer.begin(), outer.end());
  if (d.inner.size() == 1)
    keptLanes.push_back({{}, 0, column});
  else
    llvm::append_range(keptLanes, e.split({{}, 0, column}, d.inner, lanes));
  leads = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rowOfThread,
                                splat(0));
  if (inTiles)
    leads = arith::AndIOp::create(b, loc, leads, inTiles);
}

int64_t ReduceBuilder::rowsOfThread() const {
  return llvm::divideCeil(shared->length, columnThreads);
}

Coord ReduceBuilder::stepAt(Value step, bool isCut) {
  Location loc = e.location;
  auto type = VectorType::get(lanes, b.getIndexType());
  auto splat = [&](Value number) -> Value {
    return vector::BroadcastOp::create(b, loc, type, number);
  };
  Value row = arith::AddIOp::create(
      b, loc, splat(e.mul(step, e.constant(columnThreads))), rowOfThread);
  // Behind the end the last row again, so that no read waits for a branch.
  if (isCut)
    row = arith::MinUIOp::create(b, loc, row,
                                 splat(e.constant(shared->length - 1)));
  SmallVector<LaneIndex> rows{{{}, 0, row}};
  if (shared->rows.size() > 1)
    rows = e.split(rows[0], shared->rows, lanes);
  Coord coord;
  coord.lanes = lanes;
  unsigned nextKept = 0, nextRow = 0;
  for (unsigned d = 0; d < space.dims.size(); ++d)
    coord.dims.push_back(isReduced(d) ? rows[nextRow++]
                                      : keptLanes[nextKept++]);
  return coord;
}

FailureOr<SmallVector<Value>> ReduceBuilder::forSteps(ValueRange carried,
                                                      TileFn body) {
  Location loc = e.location;
  auto type = VectorType::get(lanes, b.getIndexType());
  int64_t whole = shared->length / columnThreads, steps = rowsOfThread();
  auto isCut = [&](int64_t step) { return step >= whole; };
  // The rows of the last step that there are.
  auto enter = [&](int64_t step) {
    inRows =
        isCut(step)
            ? arith::CmpIOp::create(
                  b, loc, arith::CmpIPredicate::ult, rowOfThread,
                  vector::BroadcastOp::create(
                      b, loc, type, e.constant(shared->length % columnThreads)))
            : Value();
  };
  auto some = [&](ArrayRef<Coord> places, int64_t first,
                  ValueRange values) -> FailureOr<SmallVector<Value>> {
    for (const Coord &at : places)
      for (BlockArgument argument : kernel.getBody().getArguments())
        if (ts::dimsOf(argument) == space.dims && !e.emit(argument, at))
          return failure();
    SmallVector<Value> next(values);
    for (auto [k, at] : llvm::enumerate(places)) {
      enter(first + k);
      FailureOr<SmallVector<Value>> sums = body(at, Value(), next);
      inRows = {};
      if (failed(sums))
        return failure();
      next = std::move(*sums);
    }
    return next;
  };
  if (holdsColumns()) {
    // The same places in each pass: one takes what the one before has read.
    if (heldSteps.empty())
      for (int64_t step = 0; step < steps; ++step)
        heldSteps.push_back(stepAt(e.constant(step), isCut(step)));
    return some(heldSteps, 0, carried);
  }
  auto placesFrom = [&](Value first, int64_t number, int64_t count) {
    SmallVector<Coord> places;
    for (int64_t k = 0; k < count; ++k)
      places.push_back(stepAt(e.add(first, e.constant(k)), isCut(number + k)));
    return places;
  };
  LogicalResult status = success();
  int64_t inLoop = whole / kAtOnce * kAtOnce;
  SmallVector<Value> values(carried);
  if (inLoop)
    values = forEach(
        e, e.constant(0), e.constant(inLoop), values,
        [&](Value i, ValueRange inner) {
          return some(placesFrom(i, 0, kAtOnce), 0, inner);
        },
        status, kAtOnce);
  if (failed(status))
    return failure();
  if (steps > inLoop)
    return some(placesFrom(e.constant(inLoop), inLoop, steps - inLoop), inLoop,
                values);
  return values;
}

ReduceBuilder::Best ReduceBuilder::better(ts::ArgReduceOp op, Best a, Best x) {
  Location loc = e.location;
  bool max = op.getKind() == ts::ReduceKind::max, last = op.getLast();
  Value wins, equals;
  auto both = [&](Value p, Value q) -> Value {
    return arith::AndIOp::create(b, loc, p, q);
  };
  auto either = [&](Value p, Value q) -> Value {
    return arith::OrIOp::create(b, loc, p, q);
  };
  if (isa<FloatType>(getElementTypeOrSelf(a.value.getType()))) {
    using P = arith::CmpFPredicate;
    auto compare = [&](P p, Value v, Value w) -> Value {
      return arith::CmpFOp::create(b, loc, p, v, w);
    };
    // NaN is better than every number.
    Value strange = compare(P::UNO, x.value, x.value),
          before = compare(P::UNO, a.value, a.value);
    wins = either(compare(max ? P::OGT : P::OLT, x.value, a.value),
                  both(strange, compare(P::ORD, a.value, a.value)));
    equals = either(compare(P::OEQ, x.value, a.value), both(strange, before));
  } else {
    using P = arith::CmpIPredicate;
    bool u = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
    wins = arith::CmpIOp::create(
        b, loc, max ? (u ? P::ugt : P::sgt) : (u ? P::ult : P::slt), x.value,
        a.value);
    equals = arith::CmpIOp::create(b, loc, P::eq, x.value, a.value);
  }
  Value nearer = arith::CmpIOp::create(
      b, loc, last ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt,
      x.index, a.index);
  wins = either(wins, both(equals, nearer));
  return {arith::SelectOp::create(b, loc, wins, x.value, a.value),
          arith::SelectOp::create(b, loc, wins, x.index, a.index)};
}

SmallVector<Value> ReduceBuilder::ofAllThreads(ArrayRef<Operation *> reductions,
                                               ArrayRef<Value> own) {
  Location loc = e.location;
  auto type = VectorType::get(lanes, b.getIndexType());
  auto splat = [&](int64_t number) -> Value {
    return vector::BroadcastOp::create(b, loc, type, e.constant(number));
  };
  auto plus = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, loc, x, y);
  };
  using Lists = SmallVector<Value>;
  auto write = [&](ArrayRef<Value> values) {
    Lists lists;
    for (Value value : values) {
      auto element = cast<VectorType>(value.getType()).getElementType();
      lists.push_back(tile::SharedOp::create(
          b, loc, tile::BufferType::get(element), lanes));
      tile::StoreOp::create(b, loc, value, lists.back(), e.constant(0));
    }
    tile::BarrierOp::create(b, loc);
    return lists;
  };
  auto read = [&](ArrayRef<Value> lists, Value at) {
    SmallVector<Value> values;
    for (auto [list, value] : llvm::zip(lists, own))
      values.push_back(
          tile::GatherOp::create(b, loc, value.getType(), list, at));
    return values;
  };
  auto join = [&](ArrayRef<Value> a, ArrayRef<Value> x) {
    SmallVector<Value> joined;
    for (Operation *op : reductions) {
      size_t k = joined.size();
      if (auto arg = dyn_cast<ts::ArgReduceOp>(op)) {
        Best best = better(arg, {a[k], a[k + 1]}, {x[k], x[k + 1]});
        llvm::append_range(joined, SmallVector<Value>{best.value, best.index});
        continue;
      }
      bool isUnsigned =
          ts::elementTypeOf(op->getOperand(0)).isUnsignedInteger();
      joined.push_back(combine(op, a[k], x[k], isUnsigned));
    }
    return joined;
  };

  SmallVector<Value> values(own);
  int64_t leaders = leadersOf(columnThreads);
  Lists lists = write(values);
  if (leaders < columnThreads) {
    Value last = splat(lanes - 1);
    for (int64_t from = leaders; from < columnThreads; from += leaders) {
      Value at = arith::MinUIOp::create(
          b, loc, plus(thread, splat(from * columns)), last);
      SmallVector<Value> joined = join(values, read(lists, at));
      if (from + leaders > columnThreads) {
        Value there =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                  rowOfThread, splat(columnThreads - from));
        for (auto [value, before] : llvm::zip(joined, values))
          value = arith::SelectOp::create(b, loc, there, value, before);
      }
      values = std::move(joined);
    }
    lists = write(values);
  }
  // The first thread of the column, then the others.
  Value first = arith::SubIOp::create(
      b, loc, thread,
      arith::MulIOp::create(b, loc, rowOfThread, splat(columns)));
  // (What has no column reads any.)
  first = arith::MinUIOp::create(b, loc, first,
                                 splat(lanes - 1 - (leaders - 1) * columns));
  values = read(lists, first);
  for (int64_t k = 1; k < leaders; ++k)
    values = join(values, read(lists, plus(first, splat(k * columns))));
  return values;
}

int64_t sharedBytes(ts::KernelOp kernel, int64_t lanes, int64_t threads) {
  int64_t bytes = 0;
  for (Operation &op : kernel.getBody().front())
    if (isa<ts::ReduceOp, ts::ArgReduceOp>(op)) {
      Type type = computeType(ts::elementTypeOf(op.getOperand(0)));
      bytes += ts::elementBytes(type) +
               (isa<ts::ArgReduceOp>(op) ? int64_t(sizeof(int64_t)) : 0);
    }
  return bytes * lanes * (leadersOf(threads) < threads ? 2 : 1);
}

} // namespace knapper
