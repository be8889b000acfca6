// One pass over a row or column: its reductions, tile by tile.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

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
  bool isUnsigned =
      ts::elementTypeOf(reduction->getOperand(0)).isUnsignedInteger();
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
  // Of all programs of the cluster (GpuLowering.cpp).
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

LogicalResult ReduceBuilder::run(unsigned pass, ArrayRef<Fetch> fetches,
                                 Between *between) {
  current = pass;
  ArrayRef<Operation *> reductions = levels[pass];
  Location loc = e.location;
  SmallVector<Value> carried;
  auto compute = [&](Operation *op) {
    return computeType(ts::elementTypeOf(op->getOperand(0)));
  };
  auto unsignedInput = [&](Operation *op) {
    return ts::elementTypeOf(op->getOperand(0)).isUnsignedInteger();
  };
  auto isNan = [&](Value value) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value,
                                 value);
  };
  auto kindOf = [](Operation *op) {
    if (auto reduce = dyn_cast<ts::ReduceOp>(op))
      return reduce.getKind();
    return cast<ts::ArgReduceOp>(op).getKind();
  };
  // Numbers of elements, in the fewest bits that the dim is known to need.
  auto indexType = [&](Operation *op) -> Type {
    auto arg = cast<ts::ArgReduceOp>(op);
    std::optional<int64_t> extent =
        ts::dimOf(arg.getInput(), arg.getDim()).asConstant();
    bool isShort = extent && *extent <= std::numeric_limits<int32_t>::max() &&
                   !target.simt;
    return isShort ? b.getI32Type() : b.getI64Type();
  };
  for (Operation *op : reductions) {
    carried.push_back(
        neutralElement(e, kindOf(op), compute(op), unsignedInput(op), lanes));
    if (isa<ts::ArgReduceOp>(op))
      carried.push_back(e.splat(indexType(op), lanes, 0));
  }

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
           isa<FloatType>(compute(op));
  });

  FailureOr<SmallVector<Value>> results = forTiles(
      carried,
      [&](const Coord &at, Value valid,
          ValueRange values) -> FailureOr<SmallVector<Value>> {
        if (between && failed(between->before(position)))
          return failure();
        SmallVector<Value> next;
        unsigned k = 0;
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
          ts::ReduceKind kind = kindOf(op);
          if (auto arg = dyn_cast<ts::ArgReduceOp>(op)) {
            Value best = values[k], where = values[k + 1];
            const LaneIndex &index = at.dims[arg.getDim()];
            Type scalar = indexType(op);
            auto type = VectorType::get(lanes, scalar);
            Value here;
            if (index.perLane)
              here = arith::IndexCastOp::create(b, loc, type, index.perLane);
            else
              here = vector::BroadcastOp::create(
                  b, loc, type,
                  arith::IndexCastOp::create(b, loc, scalar, index.start));
            if (index.step) {
              SmallVector<Attribute> numbers;
              for (int64_t lane = 0; lane < lanes; ++lane)
                numbers.push_back(b.getIntegerAttr(scalar, lane));
              here = arith::AddIOp::create(
                  b, loc, here,
                  arith::ConstantOp::create(
                      b, loc, DenseElementsAttr::get(type, numbers)));
            }
            bool max = kind == ts::ReduceKind::max, last = arg.getLast();
            Value better;
            if (isa<FloatType>(compute(op))) {
              using P = arith::CmpFPredicate;
              P p = max ? (last ? P::OGE : P::OGT) : (last ? P::OLE : P::OLT);
              better = arith::CmpFOp::create(b, loc, p, tile, best);
              // NaN is better than every number: the first one, or the last.
              Value strange = isNan(tile);
              if (!last)
                strange = arith::AndIOp::create(
                    b, loc, strange,
                    arith::CmpFOp::create(b, loc, P::ORD, best, best));
              better = arith::OrIOp::create(b, loc, better, strange);
            } else {
              using P = arith::CmpIPredicate;
              bool u = unsignedInput(op);
              P p =
                  max ? (last ? (u ? P::uge : P::sge) : (u ? P::ugt : P::sgt))
                      : (last ? (u ? P::ule : P::sle) : (u ? P::ult : P::slt));
              better = arith::CmpIOp::create(b, loc, p, tile, best);
            }
            if (inside)
              better = arith::AndIOp::create(b, loc, better, inside);
            next.push_back(arith::SelectOp::create(b, loc, better, tile, best));
            next.push_back(
                arith::SelectOp::create(b, loc, better, here, where));
            k += 2;
            continue;
          }
          Value sum = isOneTile()
                          ? tile
                          : combine(op, values[k], tile, unsignedInput(op));
          // Lanes outside keep what they had.
          if (inside)
            sum = arith::SelectOp::create(b, loc, inside, sum, values[k]);
          next.push_back(sum);
          ++k;
        }
        return next;
      },
      inSteps ? JoinFn(join) : JoinFn());
  if (failed(results))
    return failure();
  if (columns)
    results = ofAllThreads(reductions, *results);

  unsigned k = 0;
  for (Operation *op : reductions) {
    Value tile = (*results)[k++];
    bool isArg = isa<ts::ArgReduceOp>(op);
    Value where = isArg ? (*results)[k++] : Value();
    if (!rowForm) {
      auto type = VectorType::get(lanes, b.getI64Type());
      if (isArg && where.getType() != type)
        where = arith::ExtSIOp::create(b, loc, type, where);
      finished[op->getResult(0)] = isArg ? where : acrossCluster(op, tile);
      continue;
    }
    if (groupRow) {
      storePartial(op, tile);
      continue;
    }
    Value best = horizontal(op, tile);
    if (!isArg) {
      finished[op->getResult(0)] = best;
      continue;
    }
    // Of the lanes that hold the best value, the first (or last) index.
    Value all = e.widen(best, lanes);
    Value equal;
    if (isa<FloatType>(compute(op)))
      equal = arith::OrIOp::create(
          b, loc,
          arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, tile, all),
          isNan(tile));
    else
      equal =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, tile, all);
    bool last = cast<ts::ArgReduceOp>(op).getLast();
    Type scalar = indexType(op);
    APInt never =
        last ? APInt::getAllOnes(scalar.getIntOrFloatBitWidth())
             : APInt::getSignedMaxValue(scalar.getIntOrFloatBitWidth());
    TypedAttr neverAttr = b.getIntegerAttr(scalar, never);
    Value none = arith::ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(VectorType::get(lanes, scalar),
                               Attribute(neverAttr)));
    Value candidates = arith::SelectOp::create(b, loc, equal, where, none);
    auto nearest = vector::ReductionOp::create(
        b, loc,
        last ? vector::CombiningKind::MAXSI : vector::CombiningKind::MINSI,
        candidates);
    if (part)
      nearest->setAttr("tile.of_cluster", b.getUnitAttr());
    Value index = nearest;
    // Nothing compared equal (no elements): index 0.
    Value lost =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index,
                              arith::ConstantOp::create(b, loc, neverAttr));
    index = arith::SelectOp::create(
        b, loc, lost,
        arith::ConstantOp::create(b, loc, b.getIntegerAttr(scalar, 0)), index);
    if (!scalar.isInteger(64))
      index = arith::ExtSIOp::create(b, loc, b.getI64Type(), index);
    finished[op->getResult(0)] = index;
  }
  return success();
}

} // namespace knapper
