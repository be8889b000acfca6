// Rows that stream to memory overlap: while a row is read and reduced, the
// results of the row before are stored. Arithmetic alone or memory alone would
// leave the other idle.
//
// What the results are made of is still near: the reductions' values are
// carried from row to row, the operands of the row before are in the caches,
// and the exponentials of softmax in scratch, where the next ones replace them.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"

using namespace mlir;

namespace knapper {

static constexpr int64_t lineBytes = 64;

/// Whether `value` is made of `whole` by elementwise ops of one operand.
static bool isMadeOf(Value value, Value whole) {
  while (value != whole) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_present<ts::ElementwiseOpInterface>(op) ||
        op->getNumOperands() != 1)
      return false;
    value = op->getOperand(0);
  }
  return true;
}

bool ReduceBuilder::canOverlap(const std::optional<Shifted> &softmax) {
  if (!stream || !rowForm || kernel.getNumResults() != 1 ||
      rowOperands.empty() || space.reduced.size() != 1)
    return false;
  Value result = kernel.yield().getValues()[0];
  // What lies before a row's first whole cache line is one tile.
  if (ts::dimsOf(result) != space.dims ||
      lanes * ts::elementBytes(ts::elementTypeOf(result)) < lineBytes)
    return false;
  for (ArrayRef<Operation *> level : levels)
    if (!llvm::all_of(level, llvm::IsaPred<ts::ReduceOp>))
      return false;
  // Scratch holds one row: nothing else may be read from it, and nothing that
  // the passes write to it, but the exponentials.
  return softmax ? keep.size() == 1 && rowOperands.size() == 1 &&
                       isMadeOf(result, softmax->result)
                 : keep.empty();
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
  return e.mul(e.div(shift, e.constant(lineBytes)), e.constant(lineBytes));
}

Value ReduceBuilder::firstLine() {
  int64_t bytes =
      ts::elementBytes(ts::elementTypeOf(kernel.yield().getValues()[0]));
  Value offset = tile::PageOffsetOp::create(b, e.location, b.getIndexType(),
                                            e.outputBuffer(0), thisRow);
  Value before = e.rem(offset, e.constant(lineBytes));
  Value missing =
      e.rem(e.sub(e.constant(lineBytes), before), e.constant(lineBytes));
  return e.min(e.div(missing, e.constant(bytes)), e.size(space.dims[lane]));
}

Value ReduceBuilder::resultTile(const Coord &at) {
  position = at.dims[lane].start;
  Value tile = e.emit(kernel.yield().getValues()[0], at);
  return tile ? e.widen(tile, lanes) : Value();
}

LogicalResult ReduceBuilder::storeTile(Value tile, Value start, Value end) {
  Coord at = tileOfRow(start, 1);
  Value left = e.sub(end, start);
  Value whole = arith::CmpIOp::create(b, e.location, arith::CmpIPredicate::sle,
                                      e.constant(lanes), left);
  auto branch =
      scf::IfOp::create(b, e.location, whole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  auto store = [&](Block *block, bool nontemporal) {
    b.setInsertionPointToStart(block);
    return e.scoped([&] {
      Value result = tile ? tile : resultTile(at);
      if (!result)
        return failure();
      e.store(result, e.outputBuffer(0),
              kernel.yield().getValues()[0].getType(), at, nontemporal);
      return success();
    });
  };
  if (failed(store(branch.thenBlock(), /*nontemporal=*/true)))
    return failure();
  at.valid = left;
  return store(branch.elseBlock(), /*nontemporal=*/false);
}

LogicalResult ReduceBuilder::overlappedRows(std::optional<Shifted> softmax,
                                            Value begin, Value end) {
  Value size = e.size(space.dims[lane]);
  // What the results are made of, beside operands and scratch.
  SmallVector<Value> reductions;
  if (softmax)
    reductions.push_back(softmax->sum);
  else
    for (ArrayRef<Operation *> level : levels)
      for (Operation *op : level)
        reductions.push_back(op->getResult(0));
  auto values = [&] {
    return llvm::map_to_vector(
        reductions, [&](Value reduction) { return finished[reduction]; });
  };
  auto reduceRow = [&](Between *between) {
    if (softmax)
      return sumByGuess(*softmax, /*far=*/3, between);
    Fetch fetches[] = {{/*rows=*/1, /*locality=*/3},
                       {/*rows=*/2, /*locality=*/2}};
    for (unsigned pass = 0; pass < levels.size(); ++pass)
      if (failed(run(pass, pass == 0 ? ArrayRef(fetches) : ArrayRef<Fetch>(),
                     pass == 0 ? between : nullptr)))
        return failure();
    return success();
  };
  // A reduced row. Its stores begin at whole cache lines; what comes before is
  // stored at once.
  struct Row {
    SmallVector<Value> kept;
    Value thisRow;
    SmallVector<Value> values;
    Value line;
  };
  auto startStoring = [&](Value row, ValueRange reduced) -> FailureOr<Row> {
    moveTo(row);
    for (auto [reduction, value] : llvm::zip(reductions, reduced))
      finished[reduction] = value;
    current = levels.size();
    Row stored{kept, thisRow, values(), firstLine()};
    auto some =
        scf::IfOp::create(b, e.location, e.less(e.constant(0), stored.line),
                          /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(some.thenBlock());
    // Scratch is read past its end rather than by a mask.
    LogicalResult status = e.scoped([&] {
      Value tile = softmax ? resultTile(tileOfRow(e.constant(0), 1)) : Value();
      return storeTile(tile, e.constant(0), stored.line);
    });
    if (failed(status))
      return failure();
    return stored;
  };
  if (failed(reduceRow(nullptr)))
    return failure();
  LogicalResult status = success();
  Value last = e.sub(end, e.constant(1));
  auto rowAfter = [&](Value row,
                      ValueRange reduced) -> FailureOr<SmallVector<Value>> {
    FailureOr<Row> stored = startStoring(row, reduced);
    if (failed(stored))
      return failure();
    moveTo(e.add(row, e.constant(1)));
    auto exchange = [&] {
      std::swap(kept, stored->kept);
      std::swap(thisRow, stored->thisRow);
      for (auto [reduction, value] : llvm::zip(reductions, stored->values))
        std::swap(finished[reduction], value);
    };
    auto asBefore = [&](auto work) {
      exchange();
      Value here = position;
      unsigned pass = std::exchange(current, levels.size());
      LogicalResult done = work();
      current = pass;
      position = here;
      exchange();
      return done;
    };
    // Loads from the operand come before the stores: at the same place in their
    // pages they would wait for them. Exponentials are read before the next
    // ones replace them.
    Value tile, start;
    Between between;
    between.before = [&](Value place) {
      start = e.add(place, stored->line);
      if (!softmax)
        return success();
      return asBefore([&] {
        tile = resultTile(tileOfRow(start, 1));
        return success(static_cast<bool>(tile));
      });
    };
    between.after = [&] {
      return asBefore([&] { return storeTile(tile, start, size); });
    };
    if (failed(reduceRow(&between)))
      return failure();
    return values();
  };
  SmallVector<Value> reduced =
      forEach(e, begin, last, values(), rowAfter, status);
  if (failed(status))
    return failure();
  FailureOr<Row> stored = startStoring(last, reduced);
  if (failed(stored))
    return failure();
  auto store = [&](const Coord &, Value,
                   ValueRange) -> FailureOr<SmallVector<Value>> {
    Value start = e.add(position, stored->line);
    Value tile = softmax ? resultTile(tileOfRow(start, 1)) : Value();
    if (failed(storeTile(tile, start, size)))
      return failure();
    return SmallVector<Value>();
  };
  return success(succeeded(forTiles({}, store)));
}

} // namespace knapper
