// Softmax in one pass less. Its results are the same whatever number is
// subtracted from the row, as long as no exponential overflows and the largest
// are normal numbers. So the largest of a few tiles stands for the maximum; the
// sum tells whether that was near enough. If not, the row is done again the
// usual way.
//
// Rows that stream to memory overlap too: while the exponentials of a row are
// computed, those of the row before, which they replace in scratch, are stored.
// Arithmetic alone or memory alone would leave the other idle.
#include "codegen/schedule/Lanes.h"
#include "codegen/schedule/Reduce.h"
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
  return horizontal(max, largest, false);
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

bool ReduceBuilder::canOverlap(Shifted softmax) {
  // One result, made of the scratch row alone.
  if (!stream || kernel.getNumResults() != 1 || keep.size() != 1 ||
      rowOperands.size() != 1)
    return false;
  Value value = kernel.yield().getValues()[0];
  while (value != softmax.result) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_present<ts::ElementwiseOpInterface>(op) ||
        op->getNumOperands() != 1)
      return false;
    value = op->getOperand(0);
  }
  return true;
}

Value ReduceBuilder::placeOfScratch() {
  constexpr int64_t page = 4096, near = 512;
  auto inPage = [&](Value value) {
    return Value(
        arith::AndIOp::create(b, e.location, value, e.constant(page - 1)));
  };
  auto placeOf = [&](Value buffer, Value offset) {
    return Value(tile::PageOffsetOp::create(b, e.location, b.getIndexType(),
                                            buffer, offset));
  };
  // A load waits for a recent store at an address that differs from its own by
  // whole pages. So stores to scratch shall not run just ahead of the loads
  // from the operand, nor stores of results just ahead of the loads from
  // scratch.
  Value scratch = tile::ScratchOp::create(
      b, e.location, tile::BufferType::get(scratchType(keep.front().first)),
      e.constant(0));
  Value operand = placeOf(e.inputBuffer(rowOperands.front()), thisRow);
  Value result = placeOf(e.outputBuffer(0), thisRow);
  Value ahead = inPage(e.sub(e.add(result, e.constant(page)), operand));
  // Half a page after the operand, unless the results start just after that.
  Value afterHalf =
      inPage(e.sub(e.add(ahead, e.constant(page)), e.constant(page / 2)));
  Value half = arith::SelectOp::create(
      b, e.location, e.less(afterHalf, e.constant(near)), e.constant(page / 4),
      e.constant(page / 2));
  Value shift = inPage(e.sub(e.add(e.add(operand, half), e.constant(page)),
                             placeOf(scratch, e.constant(0))));
  constexpr int64_t line = 64;
  return e.mul(e.div(shift, e.constant(line)), e.constant(line));
}

Value ReduceBuilder::firstLine() {
  constexpr int64_t line = 64;
  int64_t bytes =
      ts::elementBytes(ts::elementTypeOf(kernel.yield().getValues()[0]));
  Value offset = tile::PageOffsetOp::create(b, e.location, b.getIndexType(),
                                            e.outputBuffer(0), thisRow);
  Value before = e.rem(offset, e.constant(line));
  Value missing = e.rem(e.sub(e.constant(line), before), e.constant(line));
  return e.min(e.div(missing, e.constant(bytes)), e.size(space.dims[lane]));
}

Value ReduceBuilder::resultTile(Value start) {
  position = start;
  return e.widen(e.emit(kernel.yield().getValues()[0], tileOfRow(start, 1)),
                 lanes);
}

void ReduceBuilder::storeTile(Value tile, Value start, Value end) {
  Coord at = tileOfRow(start, 1);
  Value whole = arith::CmpIOp::create(b, e.location, arith::CmpIPredicate::sle,
                                      e.add(start, e.constant(lanes)), end);
  auto branch =
      scf::IfOp::create(b, e.location, whole, /*withElseRegion=*/true);
  Type type = kernel.yield().getValues()[0].getType();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  e.store(tile, e.outputBuffer(0), type, at, /*nontemporal=*/true);
  b.setInsertionPointToStart(branch.elseBlock());
  at.valid = e.sub(end, start);
  e.store(tile, e.outputBuffer(0), type, at);
}

LogicalResult ReduceBuilder::overlappedRows(Shifted softmax, Value begin,
                                            Value end) {
  constexpr int64_t far = 3;
  Value size = e.size(space.dims[lane]);
  // The row whose exponentials are in scratch. Its stores begin at whole cache
  // lines; what comes before is stored at once.
  struct Stored {
    SmallVector<Value> kept;
    Value thisRow, sum, line;
  };
  auto startStoring = [&](Value row, Value sum) {
    turnTo(row);
    finished[softmax.sum] = sum;
    current = levels.size();
    Stored stored{kept, thisRow, sum, firstLine()};
    auto some =
        scf::IfOp::create(b, e.location, e.less(e.constant(0), stored.line),
                          /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(some.thenBlock());
    e.scoped([&] {
      storeTile(resultTile(e.constant(0)), e.constant(0), stored.line);
    });
    return stored;
  };
  if (failed(sumByGuess(softmax, far)))
    return failure();
  LogicalResult status = success();
  Value last = e.sub(end, e.constant(1));
  auto rowAfter = [&](Value row,
                      ValueRange sum) -> FailureOr<SmallVector<Value>> {
    Stored stored = startStoring(row, sum.front());
    turnTo(e.add(row, e.constant(1)));
    // Loads from the operand come before the stores: at the same place in their
    // pages they would wait for them.
    Value tile, start;
    auto asBefore = [&](auto work) {
      std::swap(kept, stored.kept);
      std::swap(thisRow, stored.thisRow);
      std::swap(finished[softmax.sum], stored.sum);
      Value here = position;
      current = levels.size();
      work();
      current = 1;
      position = here;
      std::swap(finished[softmax.sum], stored.sum);
      std::swap(thisRow, stored.thisRow);
      std::swap(kept, stored.kept);
    };
    Between between;
    between.before = [&](Value place) {
      start = e.add(place, stored.line);
      asBefore([&] { tile = resultTile(start); });
      return success(static_cast<bool>(tile));
    };
    between.after = [&] { asBefore([&] { storeTile(tile, start, size); }); };
    if (failed(sumByGuess(softmax, far, &between)))
      return failure();
    return SmallVector<Value>{finished[softmax.sum]};
  };
  SmallVector<Value> sum =
      forEach(e, begin, last, finished[softmax.sum], rowAfter, status);
  if (failed(status))
    return failure();
  Stored stored = startStoring(last, sum.front());
  auto store = [&](const Coord &, Value,
                   ValueRange) -> FailureOr<SmallVector<Value>> {
    Value start = e.add(position, stored.line);
    storeTile(resultTile(start), start, size);
    return SmallVector<Value>();
  };
  return success(succeeded(forTiles({}, store)));
}

} // namespace knapper
