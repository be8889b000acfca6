// Softmax in one pass less. Its results are the same whatever number is
// subtracted from the row, as long as no exponential overflows and the largest
// are normal numbers. So the largest of a few tiles stands for the maximum; the
// sum tells whether that was near enough. If not, the row is done again the
// usual way.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static std::optional<Shifted> shifted(ts::ReduceOp max, ts::ReduceOp sum) {
  auto onlyUser = [](Value value) {
    return value.hasOneUse() ? *value.user_begin() : nullptr;
  };
  auto exp = sum.getInput().getDefiningOp<ts::ExpOp>();
  if (!exp || !isBelowItsMaximum(exp.getOperand()) ||
      onlyUser(exp.getOperand()) != exp || !max.getIgnoresNan() ||
      sum.getKind() != ts::ReduceKind::add)
    return std::nullopt;
  auto spread = exp.getOperand().getDefiningOp<ts::SubOp>().getRhs();
  if (spread.getDefiningOp<ts::BroadcastOp>().getInput() != max.getResult() ||
      !spread.hasOneUse() || !max.getResult().hasOneUse())
    return std::nullopt;
  // The results: exponentials times the spread number / sum.
  auto inverse = dyn_cast_if_present<ts::DivOp>(onlyUser(sum.getResult()));
  if (!inverse || inverse.getLhs() == sum.getResult())
    return std::nullopt;
  auto factor = dyn_cast_if_present<ts::BroadcastOp>(onlyUser(inverse));
  auto result =
      factor ? dyn_cast_if_present<ts::MulOp>(onlyUser(factor)) : ts::MulOp();
  if (!result)
    return std::nullopt;
  for (Operation *user : exp.getResult().getUsers())
    if (user != sum && user != result)
      return std::nullopt;
  return Shifted{max, sum, exp.getResult(), result.getResult()};
}

std::optional<Shifted> ReduceBuilder::guessesMaximum() const {
  // Sampling and checking cost as much as some tiles of the pass they save.
  constexpr int64_t leastTiles = 16;
  if (!rowForm || levels.size() != 2 || levels[0].size() != 1 ||
      levels[1].size() != 1 || space.reduced.size() != 1 ||
      representative(space.dims[lane]) < leastTiles * lanes ||
      !e.expTakesPositive(VectorType::get(
          lanes, computeType(ts::elementTypeOf(levels[1][0]->getOperand(0))))))
    return std::nullopt;
  auto max = dyn_cast<ts::ReduceOp>(levels[0][0]);
  auto sum = dyn_cast<ts::ReduceOp>(levels[1][0]);
  std::optional<Shifted> found = max && sum ? shifted(max, sum) : std::nullopt;
  return found && keep.contains(found->exponentials) ? found : std::nullopt;
}

Coord ReduceBuilder::tileOfRow(Value start, int64_t multiple) {
  Coord at;
  at.lanes = lanes;
  for (unsigned d = 0, nextKept = 0; d < space.dims.size(); ++d)
    if (d == lane)
      at.dims.push_back({start, 1, {}, multiple});
    else
      at.dims.push_back({kept[nextKept++]});
  return at;
}

FailureOr<Value> ReduceBuilder::sampleMaximum(ts::ReduceOp max) {
  constexpr int64_t tiles = 4;
  Value size = e.size(space.dims[lane]);
  Value stride =
      e.mul(e.div(size, e.constant(tiles * lanes)), e.constant(lanes));
  std::optional<int64_t> known = space.dims[lane].asConstant();
  Value largest;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    position = e.mul(stride, e.constant(tile));
    Coord at = tileOfRow(position, lanes);
    if (!known || *known < tiles * lanes)
      at.valid = e.sub(size, position);
    Value values = e.emit(max.getInput(), at);
    if (!values)
      return failure();
    values = e.widen(values, lanes);
    if (at.valid)
      values = arith::SelectOp::create(
          b, e.location, e.laneMask(lanes, at.valid), values,
          neutralElement(e, ts::ReduceKind::max,
                         getElementTypeOrSelf(values.getType()), false, lanes));
    largest = largest ? e.larger(largest, values) : values;
  }
  return horizontal(max, largest);
}

LogicalResult ReduceBuilder::sumByGuess(Shifted softmax, int64_t far,
                                        Between *between) {
  Fetch fetches[] = {{/*rows=*/1, /*locality=*/3}, {far, /*locality=*/2}};
  FailureOr<Value> guess = sampleMaximum(softmax.max);
  if (failed(guess))
    return failure();
  finished[softmax.max] = *guess;
  if (failed(run(1, fetches, between)))
    return failure();
  // A guess too low by more than 41 or so (one too high there is not) shows in
  // the sum: too large, infinite or NaN.
  Value sum = finished[softmax.sum];
  Value most = arith::ConstantOp::create(b, e.location,
                                         b.getFloatAttr(sum.getType(), 0x1p60));
  Value fits = arith::CmpFOp::create(b, e.location, arith::CmpFPredicate::OLE,
                                     sum, most);
  sum = e.select(
      fits, [&] { return sum; },
      [&]() -> Value {
        if (failed(run(0)) || failed(run(1)))
          return {};
        return finished[softmax.sum];
      });
  finished[softmax.sum] = sum;
  return success(static_cast<bool>(sum));
}

} // namespace knapper
