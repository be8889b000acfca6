// The index of a row's largest or smallest float. A NaN counts as more than any
// number, and asking for it costs as much as all the rest. So NaNs are passed
// over and noted, and where there was one the row is done again the usual way.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

ts::ArgReduceOp ReduceBuilder::passesNan(unsigned pass) const {
  constexpr int64_t leastLanes = 16;
  if (!rowForm || target.simt || lanes < leastLanes || levels[pass].size() != 1)
    return {};
  auto op = dyn_cast<ts::ArgReduceOp>(levels[pass][0]);
  return op && isa<FloatType>(ts::elementTypeOf(op.getInput()))
             ? op
             : ts::ArgReduceOp();
}

LogicalResult ReduceBuilder::indexPassingNan(ts::ArgReduceOp op,
                                             unsigned pass) {
  current = pass;
  Location loc = e.location;
  Type element = computeType(ts::elementTypeOf(op.getInput()));
  bool max = op.getKind() == ts::ReduceKind::max, last = op.getLast();
  std::optional<int64_t> extent = length.asConstant();
  Type scalar = extent && *extent <= std::numeric_limits<int32_t>::max()
                    ? b.getI32Type()
                    : b.getI64Type();
  auto indices = VectorType::get(lanes, scalar);
  auto splat = [&](Value index) -> Value {
    return vector::BroadcastOp::create(
        b, loc, indices, arith::IndexCastOp::create(b, loc, scalar, index));
  };
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(scalar, value));
  };
  // Of each lane the best number, the first index of its tile, and of two lanes
  // whether there was a NaN. A lane without any element comes last.
  Value none = neutralElement(e, op.getKind(), element, false, lanes);
  Value nowhere =
      vector::BroadcastOp::create(b, loc, indices, number(last ? -lanes : 0));
  Value never = e.splat(b.getI1Type(), lanes / 2, 0);
  FailureOr<SmallVector<Value>> results = forTiles(
      {none, nowhere, never},
      [&](const Coord &at, Value valid,
          ValueRange values) -> FailureOr<SmallVector<Value>> {
        Value tile = e.emit(op.getInput(), at);
        if (!tile)
          return failure();
        tile = e.widen(tile, lanes);
        keepTile(op.getInput(), tile, valid);
        auto half = [&](int64_t from) -> Value {
          return vector::ExtractStridedSliceOp::create(
              b, loc, tile, ArrayRef<int64_t>{from},
              ArrayRef<int64_t>{lanes / 2}, ArrayRef<int64_t>{1});
        };
        Value low = half(0), high = half(lanes / 2);
        Value strange =
            arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, low, high);
        using P = arith::CmpFPredicate;
        Value better = arith::CmpFOp::create(
            b, loc, max ? (last ? P::OGE : P::OGT) : (last ? P::OLE : P::OLT),
            tile, values[0]);
        if (valid)
          better =
              arith::AndIOp::create(b, loc, better, e.laneMask(lanes, valid));
        Value here = splat(at.dims[lane].start);
        Value best = arith::SelectOp::create(b, loc, better, tile, values[0]);
        Value where = arith::SelectOp::create(b, loc, better, here, values[1]);
        strange = arith::OrIOp::create(b, loc, values[2], strange);
        return SmallVector<Value>{best, where, strange};
      });
  if (failed(results))
    return failure();
  Value best = (*results)[0];
  auto fast = arith::FastMathFlags::reassoc | arith::FastMathFlags::nnan;
  Value all = vector::ReductionOp::create(b, loc,
                                          max ? vector::CombiningKind::MAXIMUMF
                                              : vector::CombiningKind::MINIMUMF,
                                          best, fast);
  Value equal = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, best,
                                      e.widen(all, lanes));
  SmallVector<Attribute> numbers;
  for (int64_t i = 0; i < lanes; ++i)
    numbers.push_back(b.getIntegerAttr(scalar, i));
  Value lanesFrom0 = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(indices, numbers));
  Value where = arith::AddIOp::create(b, loc, (*results)[1], lanesFrom0);
  int64_t width = scalar.getIntOrFloatBitWidth();
  Value worst =
      number(last ? -1 : APInt::getSignedMaxValue(width).getSExtValue());
  where = arith::SelectOp::create(b, loc, equal, where, e.widen(worst, lanes));
  Value index = vector::ReductionOp::create(b, loc,
                                            last ? vector::CombiningKind::MAXSI
                                                 : vector::CombiningKind::MINSI,
                                            where);
  // Of a row without elements the last index is 0 too.
  index = arith::MaxSIOp::create(b, loc, index, number(0));
  if (!scalar.isInteger(64))
    index = arith::ExtSIOp::create(b, loc, b.getI64Type(), index);
  Value strange = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR,
                                              (*results)[2]);
  Value result = e.select(
      strange,
      [&]() -> Value {
        return succeeded(run(pass)) ? finished[op.getResult()] : Value();
      },
      [&] { return index; });
  finished[op.getResult()] = result;
  return success(static_cast<bool>(result));
}

} // namespace knapper
