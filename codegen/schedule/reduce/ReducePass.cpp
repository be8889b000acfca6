// One pass over a row or column: its reductions, tile by tile.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

/// What a reduction's elements are computed in.
static Type computedIn(Operation *reduction) {
  return computeType(ts::elementTypeOf(reduction->getOperand(0)));
}

static bool readsUnsigned(Operation *reduction) {
  return ts::elementTypeOf(reduction->getOperand(0)).isUnsignedInteger();
}

Value ReduceBuilder::combine(Operation *reduction, Value a, Value v,
                             bool isUnsigned) {
  auto reduce = cast<ts::ReduceOp>(reduction);
  if (reduce.getKind() == ts::ReduceKind::max && reduce.getIgnoresNan() &&
      isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return e.larger(a, v);
  return combineElements(e, reduce.getKind(), a, v, isUnsigned);
}

std::pair<vector::CombiningKind, arith::FastMathFlags>
ReduceBuilder::howTo(Operation *reduction, Value tile) {
  auto reduce = dyn_cast<ts::ReduceOp>(reduction);
  ts::ReduceKind kind =
      reduce ? reduce.getKind() : cast<ts::ArgReduceOp>(reduction).getKind();
  using K = vector::CombiningKind;
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(tile.getType()));
  bool isUnsigned = readsUnsigned(reduction);
  K how = K::ADD;
  switch (kind) {
  case ts::ReduceKind::add:
    break;
  case ts::ReduceKind::mul:
    how = K::MUL;
    break;
  case ts::ReduceKind::max:
    how = isFloat ? K::MAXIMUMF : isUnsigned ? K::MAXUI : K::MAXSI;
    break;
  case ts::ReduceKind::min:
    how = isFloat ? K::MINIMUMF : isUnsigned ? K::MINUI : K::MINSI;
    break;
  case ts::ReduceKind::logical_and:
    how = K::AND;
    break;
  case ts::ReduceKind::logical_or:
    how = K::OR;
    break;
  }
  auto fast =
      isFloat ? arith::FastMathFlags::reassoc : arith::FastMathFlags::none;
  // A tile that passed over NaNs holds none.
  if (isFloat && reduce && reduce.getIgnoresNan())
    fast = fast | arith::FastMathFlags::nnan;
  return {how, fast};
}

Value ReduceBuilder::horizontal(Operation *reduction, Value tile) {
  auto [kind, fastmath] = howTo(reduction, tile);
  auto result =
      vector::ReductionOp::create(b, e.location, kind, tile, fastmath);
  // Of all programs of the cluster (BlockReduce.cpp).
  if (part)
    result->setAttr("tile.of_cluster", b.getUnitAttr());
  return result;
}

void ReduceBuilder::keepTile(Value tensor, Value tile, Value valid) {
  auto kept = keep.find(tensor);
  if (kept == keep.end() || kept->second != current)
    return;
  auto [flat, run] = tileInScratch(tensor, valid);
  e.store(tile, buffers[tensor], flat, run);
}

SmallVector<Value>
ReduceBuilder::startOfPass(ArrayRef<Operation *> reductions) {
  SmallVector<Value> carried;
  for (Operation *op : reductions) {
    auto arg = dyn_cast<ts::ArgReduceOp>(op);
    ts::ReduceKind kind =
        arg ? arg.getKind() : cast<ts::ReduceOp>(op).getKind();
    carried.push_back(
        neutralElement(e, kind, computedIn(op), readsUnsigned(op), lanes));
    if (arg)
      carried.push_back(e.splat(indexType(arg), lanes, 0));
  }
  return carried;
}

FailureOr<SmallVector<Value>>
ReduceBuilder::reduceTile(ArrayRef<Operation *> reductions, const Coord &at,
                          Value valid, ValueRange carried,
                          ArrayRef<Fetch> fetches, Between *between) {
  if (between && failed(between->before(position)))
    return failure();
  SmallVector<Value> next;
  Value inside = valid ? e.laneMask(lanes, valid) : inRows;
  for (Fetch fetch : fetches)
    fetchRow(fetch);
  for (Operation *op : reductions) {
    Value input = op->getOperand(0);
    Value tile = e.emit(input, at);
    if (!tile)
      return failure();
    tile = e.widen(tile, lanes);
    if (between && op == reductions.back() && failed(between->after()))
      return failure();
    keepTile(input, tile, valid);
    Value before = carried[next.size()];
    if (auto arg = dyn_cast<ts::ArgReduceOp>(op)) {
      Best best = betterOfLanes(arg, {before, carried[next.size() + 1]}, tile,
                                at.dims[arg.getDim()], inside);
      next.append({best.value, best.index});
      continue;
    }
    Value sum =
        isOneTile() ? tile : combine(op, before, tile, readsUnsigned(op));
    // Lanes outside keep what they had.
    if (inside)
      sum = arith::SelectOp::create(b, e.location, inside, sum, before);
    next.push_back(sum);
  }
  return next;
}

void ReduceBuilder::finish(Operation *reduction, Value tile, Value where) {
  if (!rowForm) {
    auto type = VectorType::get(lanes, b.getI64Type());
    if (where && where.getType() != type)
      where = arith::ExtSIOp::create(b, e.location, type, where);
    finished[reduction->getResult(0)] =
        where ? where : acrossCluster(reduction, tile);
    return;
  }
  if (groupRow) {
    storePartial(reduction, tile);
    return;
  }
  auto arg = dyn_cast<ts::ArgReduceOp>(reduction);
  finished[reduction->getResult(0)] =
      arg ? indexOfRow(arg, {tile, where}) : horizontal(reduction, tile);
}

LogicalResult ReduceBuilder::run(unsigned pass, ArrayRef<Fetch> fetches,
                                 Between *between) {
  current = pass;
  ArrayRef<Operation *> reductions = levels[pass];
  // Long sums of floats in two steps: what is added is then not as far below
  // the sum.
  auto join = [&](ValueRange before, ValueRange sums) {
    SmallVector<Value> joined;
    for (auto [op, x, y] : llvm::zip(reductions, before, sums))
      joined.push_back(combine(op, x, y, /*isUnsigned=*/false));
    return joined;
  };
  bool inSteps = llvm::all_of(reductions, [&](Operation *op) {
    auto reduce = dyn_cast<ts::ReduceOp>(op);
    return reduce && reduce.getKind() == ts::ReduceKind::add &&
           isa<FloatType>(computedIn(op));
  });
  FailureOr<SmallVector<Value>> results = forTiles(
      startOfPass(reductions),
      [&](const Coord &at, Value valid, ValueRange carried) {
        return reduceTile(reductions, at, valid, carried, fetches, between);
      },
      inSteps ? JoinFn(join) : JoinFn());
  if (failed(results))
    return failure();
  if (columns)
    results = ofAllThreads(reductions, *results);
  unsigned k = 0;
  for (Operation *op : reductions) {
    Value tile = (*results)[k++];
    finish(op, tile, isa<ts::ArgReduceOp>(op) ? (*results)[k++] : Value());
  }
  return success();
}

} // namespace knapper
