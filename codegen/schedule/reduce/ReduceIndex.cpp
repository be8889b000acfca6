// Indices of largest and smallest elements: each lane keeps its best, and a row
// takes the best lane's. NaN is better than every number.
#include "codegen/schedule/reduce/Reduce.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

Type ReduceBuilder::indexType(ts::ArgReduceOp op) {
  std::optional<int64_t> extent =
      ts::dimOf(op.getInput(), op.getDim()).asConstant();
  bool isShort =
      extent && *extent <= std::numeric_limits<int32_t>::max() && !target.simt;
  return isShort ? b.getI32Type() : b.getI64Type();
}

Value ReduceBuilder::indicesOfLanes(const LaneIndex &index, Type scalar) {
  Location loc = e.location;
  auto type = VectorType::get(lanes, scalar);
  Value here;
  if (index.perLane)
    here = arith::IndexCastOp::create(b, loc, type, index.perLane);
  else
    here = vector::BroadcastOp::create(
        b, loc, type, arith::IndexCastOp::create(b, loc, scalar, index.start));
  if (!index.step)
    return here;
  SmallVector<Attribute> numbers;
  for (int64_t lane = 0; lane < lanes; ++lane)
    numbers.push_back(b.getIntegerAttr(scalar, lane));
  return arith::AddIOp::create(
      b, loc, here,
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, numbers)));
}

ReduceBuilder::Best ReduceBuilder::betterOfLanes(ts::ArgReduceOp op, Best best,
                                                 Value tile,
                                                 const LaneIndex &index,
                                                 Value inside) {
  Location loc = e.location;
  Value here = indicesOfLanes(index, indexType(op));
  bool max = op.getKind() == ts::ReduceKind::max, last = op.getLast();
  Value better;
  if (isa<FloatType>(getElementTypeOrSelf(tile.getType()))) {
    using P = arith::CmpFPredicate;
    P p = max ? (last ? P::OGE : P::OGT) : (last ? P::OLE : P::OLT);
    better = arith::CmpFOp::create(b, loc, p, tile, best.value);
    // NaN is better than every number: the first one, or the last.
    Value strange = arith::CmpFOp::create(b, loc, P::UNO, tile, tile);
    if (!last)
      strange = arith::AndIOp::create(
          b, loc, strange,
          arith::CmpFOp::create(b, loc, P::ORD, best.value, best.value));
    better = arith::OrIOp::create(b, loc, better, strange);
  } else {
    using P = arith::CmpIPredicate;
    bool u = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
    P p = max ? (last ? (u ? P::uge : P::sge) : (u ? P::ugt : P::sgt))
              : (last ? (u ? P::ule : P::sle) : (u ? P::ult : P::slt));
    better = arith::CmpIOp::create(b, loc, p, tile, best.value);
  }
  if (inside)
    better = arith::AndIOp::create(b, loc, better, inside);
  Value value = arith::SelectOp::create(b, loc, better, tile, best.value);
  return {value, arith::SelectOp::create(b, loc, better, here, best.index)};
}

Value ReduceBuilder::indexOfRow(ts::ArgReduceOp op, Best lanesBest) {
  Location loc = e.location;
  auto [tile, where] = lanesBest;
  // Of the lanes that hold the best value, the first (or last) index.
  Value all = e.widen(horizontal(op, tile), lanes);
  Value equal;
  if (isa<FloatType>(getElementTypeOrSelf(tile.getType()))) {
    using P = arith::CmpFPredicate;
    Value same = arith::CmpFOp::create(b, loc, P::OEQ, tile, all);
    equal = arith::OrIOp::create(
        b, loc, same, arith::CmpFOp::create(b, loc, P::UNO, tile, tile));
  } else {
    equal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, tile, all);
  }
  bool last = op.getLast();
  Type scalar = indexType(op);
  unsigned bits = scalar.getIntOrFloatBitWidth();
  TypedAttr never = b.getIntegerAttr(
      scalar, last ? APInt::getAllOnes(bits) : APInt::getSignedMaxValue(bits));
  Value none = arith::ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(VectorType::get(lanes, scalar), Attribute(never)));
  Value candidates = arith::SelectOp::create(b, loc, equal, where, none);
  auto nearest = vector::ReductionOp::create(
      b, loc,
      last ? vector::CombiningKind::MAXSI : vector::CombiningKind::MINSI,
      candidates);
  if (part)
    nearest->setAttr("tile.of_cluster", b.getUnitAttr());
  Value index = nearest;
  // Nothing compared equal (no elements): index 0.
  Value lost = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index,
                                     arith::ConstantOp::create(b, loc, never));
  index = arith::SelectOp::create(
      b, loc, lost,
      arith::ConstantOp::create(b, loc, b.getIntegerAttr(scalar, 0)), index);
  if (!scalar.isInteger(64))
    index = arith::ExtSIOp::create(b, loc, b.getI64Type(), index);
  return index;
}

} // namespace knapper
