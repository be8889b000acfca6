// Rows in groups: a pass leaves a register of
// partial results of each row in scratch; of these, two become one again and
// again, until a lane is a row. A horizontal reduction of every row takes as
// many steps, each of which waits for the one before.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static constexpr int64_t mostRows = 16;

int64_t rowsOfGroup(ts::KernelOp kernel, const Space &space, int64_t lanes,
                    const TargetDesc &target) {
  if (target.simt || lanes < mostRows)
    return 1;
  Dim row = Dim::constant(kernel.getContext(), 1);
  for (int64_t d : space.reduced)
    row = row * space.dims[d];
  bool hasExp = false, isWhole = false;
  unsigned reductions = 0;
  for (Operation &op : kernel.getBody().front()) {
    if (isa<ts::ArgReduceOp>(op))
      return 1;
    hasExp |= isa<ts::ExpOp>(op);
    auto reduce = dyn_cast<ts::ReduceOp>(op);
    if (reduce && computeType(ts::elementTypeOf(reduce.getInput()))
                          .getIntOrFloatBitWidth() != 32)
      return 1;
    reductions += static_cast<bool>(reduce);
  }
  for (Value value : kernel.yield().getValues())
    isWhole |= ts::dimsOf(value) == space.dims;
  // A group's rows stay in the first-level cache from pass to pass; a softmax
  // of long rows guesses its maximum instead.
  constexpr int64_t mostElements = 12288, leastGuessed = 512, once = 2048;
  int64_t length = representative(row);
  if (hasExp && length >= leastGuessed)
    return 1;
  if (reductions == 1 && !isWhole)
    return length <= once ? mostRows : 1;
  int64_t rows = mostRows;
  while (rows > 1 && rows * length > mostElements)
    rows /= 4;
  return std::max<int64_t>(1, rows);
}

/// Tiles of one register a row, then a result a row; of four bytes.
static constexpr int64_t mostLanes = 16;
static constexpr int64_t bytesOfTiles = mostRows * mostLanes * 4,
                         bytesOfResults = mostRows * 4;

int64_t scratchOfGroups(ts::KernelOp kernel) {
  auto reductions = kernel.getBody().getOps<ts::ReduceOp>();
  return std::distance(reductions.begin(), reductions.end()) *
         (bytesOfTiles + bytesOfResults);
}

void ReduceBuilder::allocatePartials() {
  Value offset = scratchEnd;
  for (ArrayRef<Operation *> level : levels)
    for (Operation *op : level) {
      auto buffer = [&](int64_t bytes) -> Value {
        Value made =
            tile::ScratchOp::create(b, e.location,
                                    tile::BufferType::get(computeType(
                                        ts::elementTypeOf(op->getOperand(0)))),
                                    offset);
        offset = e.add(offset, e.constant(bytes));
        return made;
      };
      Value tiles = buffer(bytesOfTiles);
      partials[op] = {tiles, buffer(bytesOfResults)};
    }
}

void ReduceBuilder::storePartial(Operation *reduction, Value tile) {
  int64_t width = target.lanes(DType::f32);
  bool isUnsigned =
      ts::elementTypeOf(reduction->getOperand(0)).isUnsignedInteger();
  SmallVector<Value> pieces;
  for (int64_t at = 0; at < lanes; at += width)
    pieces.push_back(vector::ExtractStridedSliceOp::create(
        b, e.location, tile, ArrayRef<int64_t>{at}, ArrayRef<int64_t>{width},
        ArrayRef<int64_t>{1}));
  for (size_t d = 1; d < pieces.size(); d *= 2)
    for (size_t i = 0; i + d < pieces.size(); i += 2 * d)
      pieces[i] = combine(reduction, pieces[i], pieces[i + d], isUnsigned);
  tile::StoreOp::create(b, e.location, pieces[0], partials[reduction].tiles,
                        e.mul(groupRow, e.constant(width)), Value());
}

void ReduceBuilder::finishGroup(Operation *reduction) {
  int64_t width = target.lanes(DType::f32);
  bool isUnsigned =
      ts::elementTypeOf(reduction->getOperand(0)).isUnsignedInteger();
  const Partial &partial = partials[reduction];
  auto type = VectorType::get(
      width, computeType(ts::elementTypeOf(reduction->getOperand(0))));
  if (group < mostRows) {
    // Of a few rows each apart, but side by side.
    for (int64_t row = 0; row < group; ++row) {
      Value tile = tile::LoadOp::create(b, e.location, type, partial.tiles,
                                        e.constant(row * width), Value());
      Value result = horizontal(reduction, tile);
      tile::StoreOp::create(b, e.location, result, partial.results,
                            e.constant(row), Value());
    }
    return;
  }
  for (int64_t first = 0; first < mostRows; first += width) {
    SmallVector<Value> rows;
    for (int64_t row = first; row < first + width; ++row)
      rows.push_back(tile::LoadOp::create(b, e.location, type, partial.tiles,
                                          e.constant(row * width), Value()));
    // Two rows become one, whose lanes belong to the one and the other in turn.
    for (int64_t d = 1; d < width; d *= 2) {
      SmallVector<int64_t> lower, upper;
      for (int64_t i = 0; i < width; ++i) {
        lower.push_back(i & d ? width + (i ^ d) : i);
        upper.push_back(i & d ? width + i : i ^ d);
      }
      SmallVector<Value> next;
      for (size_t i = 0; i < rows.size(); i += 2) {
        Value x = vector::ShuffleOp::create(b, e.location, rows[i], rows[i + 1],
                                            lower);
        Value y = vector::ShuffleOp::create(b, e.location, rows[i], rows[i + 1],
                                            upper);
        next.push_back(combine(reduction, x, y, isUnsigned));
      }
      rows = std::move(next);
    }
    tile::StoreOp::create(b, e.location, rows[0], partial.results,
                          e.constant(first), Value());
  }
}

bool ReduceBuilder::canStoreLanes() {
  SmallVector<Dim> rowDims;
  for (unsigned d = 0; d < space.dims.size(); ++d)
    if (!isReduced(d))
      rowDims.push_back(space.dims[d]);
  std::function<bool(Value)> isKnown = [&](Value value) {
    if (partials.contains(value.getDefiningOp()))
      return true;
    if (ts::dimsOf(value) != rowDims)
      return false;
    Operation *op = value.getDefiningOp();
    if (!op)
      return !ts::elementTypeOf(value).isInteger(1);
    if (auto spread = dyn_cast<ts::BroadcastOp>(op))
      return ts::elementCount(spread.getInput().getType()).isConstant(1);
    return isa<ts::ConstantOp>(op) ||
           (isa<ts::ElementwiseOpInterface>(op) &&
            llvm::all_of(op->getOperands(), isKnown));
  };
  return group == mostRows && !rowDims.empty() &&
         llvm::all_of(kernel.yield().getValues(), [&](Value value) {
           return ts::dimsOf(value) == rowDims && isKnown(value) &&
                  !ts::elementTypeOf(value).isInteger(1);
         });
}

LogicalResult ReduceBuilder::storeLanes(Value first, Value count) {
  SmallVector<Dim> rowDims;
  for (unsigned d = 0; d < space.dims.size(); ++d)
    if (!isReduced(d))
      rowDims.push_back(space.dims[d]);
  Dim all = product(kernel.getContext(), rowDims);
  Coord run;
  run.lanes = mostRows;
  if (!all.knownDivisor() || all.knownDivisor() % mostRows)
    run.valid = count;
  run.dims = {{first, 1, {}, 1}};
  auto flat = [&](Value value) {
    return ts::tensorType(kernel.getContext(), {all}, ts::elementTypeOf(value));
  };
  // All positions stand in one dim, which is not of size 1: what is broadcast
  // along such a dim is read without looking at its position.
  Coord at;
  at.lanes = run.lanes;
  at.valid = run.valid;
  at.dims.assign(rowDims.size(), LaneIndex{e.constant(0)});
  auto last = llvm::find_if(llvm::reverse(rowDims),
                            [](Dim dim) { return !dim.isConstant(1); });
  size_t before = std::distance(last, rowDims.rend());
  at.dims[before ? before - 1 : 0] = run.dims[0];
  auto usual = std::exchange(e.provide, [&](Value tensor, const Coord &coord) {
    if (!coord.lanes)
      return Value();
    auto partial = partials.find(tensor.getDefiningOp());
    if (partial != partials.end()) {
      Value results = partial->second.results;
      Type type = cast<tile::BufferType>(results.getType()).getElementType();
      return Value(tile::LoadOp::create(b, e.location,
                                        VectorType::get(mostRows, type),
                                        results, e.constant(0), Value()));
    }
    auto argument = dyn_cast<BlockArgument>(tensor);
    if (argument && ts::dimsOf(argument) == rowDims)
      return e.load(e.inputBuffer(argument), flat(argument), run);
    return Value();
  });
  LogicalResult status = e.scoped([&]() -> LogicalResult {
    for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
      Value result = e.emit(value, at);
      if (!result)
        return failure();
      e.store(e.widen(result, run.lanes), e.outputBuffer(i), flat(value), run);
    }
    return success();
  });
  e.provide = std::move(usual);
  return status;
}

LogicalResult ReduceBuilder::groupedRows(Value begin, Value end) {
  allocatePartials();
  Value count = e.sub(end, begin);
  auto forRows = [&](unsigned pass, llvm::function_ref<LogicalResult()> body) {
    return forEach(e, e.constant(0), count, [&](Value row) {
      groupRow = row;
      moveTo(e.add(begin, row));
      for (unsigned level = 0; level < pass; ++level)
        for (Operation *op : levels[level]) {
          Value results = partials[op].results;
          finished[op->getResult(0)] = tile::LoadOp::create(
              b, e.location,
              cast<tile::BufferType>(results.getType()).getElementType(),
              results, row);
        }
      LogicalResult status = body();
      groupRow = {};
      return status;
    });
  };
  for (unsigned pass = 0; pass < levels.size(); ++pass) {
    // The next group's rows, before they are first read.
    Fetch fetches[] = {{/*rows=*/group, /*locality=*/3}};
    if (failed(forRows(pass, [&] {
          return run(pass, pass == 1 ? ArrayRef(fetches) : ArrayRef<Fetch>());
        })))
      return failure();
    for (Operation *op : levels[pass])
      finishGroup(op);
  }
  finished.clear();
  if (canStoreLanes())
    return storeLanes(begin, count);
  return forRows(levels.size(), [&] { return storeResults(); });
}

} // namespace knapper
