// Reductions and normalisations: every reduction of the region is over the same
// dims of the same shape.
//
//   row form      the lane dim is reduced: program = one row; a pass over the
//                 row carries a partial tile of the lane width for every
//                 reduction, one horizontal reduction follows, or one for a
//                 group of rows; on a GPU, of few long rows the programs of a
//                 cluster take a tile each, and of few narrow columns a program
//                 takes one as if it were a row
//   column form   the lane dim is kept: program = `lanes` neighbouring columns;
//                 a pass carries one tile, nothing is horizontal; on a GPU of
//                 few columns, the programs of a cluster take a part of the
//                 rows each and combine their tiles behind every pass; where
//                 rows or runs of columns are short there, the lanes lie across
//                 all kept dims, each with indices of its own; or the threads
//                 of a CTA share out the rows (ReduceShared.cpp)
//
// Reductions that do not depend on each other share a pass; what depends on a
// finished one (softmax's sum on its maximum) takes the next; a last pass
// computes results of full shape. A transcendental that a later pass needs
// again in the same place is kept in scratch, anything else is recomputed from
// the row, which is in cache.
//
// Parameters: lanes, row (1: row form), across (1: column form with lanes
// across all kept dims), rows (of one program), group (so many are reduced
// together), stream (1: results of full shape are stored past the caches),
// threads (of a GPU's block, where not the usual ones; several rows of a
// program are all read before the first is reduced), cluster_size, columns,
// column_threads, tiles (ReduceShared.cpp), access (elements that a thread
// reads at once).
#include "codegen/schedule/reduce/Reduce.h"
#include "codegen/schedule/core/LaneLoops.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

FailureOr<Coord> ReduceBuilder::keptCoord(Type type) {
  SmallVector<Dim> dims = ts::dimsOf(type);
  SmallVector<LaneIndex> known;
  SmallVector<Dim> knownDims;
  unsigned next = 0;
  Coord coord;
  for (unsigned d = 0; d < space.dims.size(); ++d) {
    if (isReduced(d))
      continue;
    if (across || columns) {
      known.push_back(keptLanes[next++]);
      coord.lanes = lanes;
      coord.valid = laneValid;
      coord.mask = leads;
    } else if (d == lane) {
      known.push_back({laneStart, 1, {}, lanes});
      coord.lanes = lanes;
      coord.valid = laneValid;
    } else {
      known.push_back({kept[next++]});
    }
    knownDims.push_back(space.dims[d]);
  }
  if (dims == knownDims) {
    coord.dims.assign(known.begin(), known.end());
    return coord;
  }
  size_t k = 0;
  for (Dim dim : dims) {
    while (k < known.size() && knownDims[k].isConstant(1) &&
           !(dim == knownDims[k]))
      ++k;
    if (k < known.size() && dim == knownDims[k])
      coord.dims.push_back(known[k++]);
    else if (dim.isConstant(1))
      coord.dims.push_back({e.constant(0)});
    else
      return failure();
  }
  while (k < known.size() && knownDims[k].isConstant(1))
    ++k;
  if (k != known.size())
    return failure();
  return coord;
}

LogicalResult ReduceBuilder::storeResults() {
  current = levels.size();
  SmallVector<unsigned> full;
  for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
    if (ts::dimsOf(value) == space.dims) {
      full.push_back(i);
      continue;
    }
    FailureOr<Coord> coord = keptCoord(value.getType());
    if (failed(coord))
      return kernel.emitOpError("result ")
             << i
             << " has neither the shape of the rows nor of their reduction";
    Value result = e.emit(value, *coord);
    if (!result)
      return failure();
    storeColumns(e.widen(result, coord->lanes), i, *coord);
  }
  if (full.empty())
    return success();
  return forTiles(
      {},
      [&](const Coord &at, Value, ValueRange) -> FailureOr<SmallVector<Value>> {
        for (unsigned i : full) {
          Value value = kernel.yield().getValues()[i];
          Value result = e.emit(value, at);
          if (!result)
            return failure();
          Coord to = at;
          if (across)
            to.valid = laneValid;
          to.mask =
              inTiles && inRows
                  ? Value(arith::AndIOp::create(b, e.location, inTiles, inRows))
              : inTiles ? inTiles
                        : inRows;
          e.store(e.widen(result, lanes), e.outputBuffer(i), value.getType(),
                  to, stream);
        }
        return SmallVector<Value>();
      });
}

LogicalResult ReduceBuilder::readColumns() {
  return forTiles(
      {},
      [&](const Coord &at, Value, ValueRange) -> FailureOr<SmallVector<Value>> {
        for (BlockArgument argument : kernel.getBody().getArguments())
          if (ts::dimsOf(argument) == space.dims && !e.emit(argument, at))
            return failure();
        return SmallVector<Value>();
      });
}

void ReduceBuilder::moveToPart() {
  std::optional<int64_t> number = length.asConstant();
  if (number && *number <= lanes * clusterSize) {
    partStart = e.mul(part, e.constant(lanes));
    if (*number != lanes * clusterSize)
      partValid = e.sub(e.size(length), partStart);
    return;
  }
  // Whole tiles, so that all but the last program's have one shape.
  Value all = e.size(length),
        own = e.size(length.ceilDiv(length.like(lanes * clusterSize)) * lanes);
  partStart = e.min(e.mul(part, own), all);
  partEnd = e.min(e.add(partStart, own), all);
}

Value ReduceBuilder::acrossCluster(Operation *reduction, Value tile) {
  if (!part)
    return tile;
  auto [kind, fastmath] = howTo(reduction, tile);
  return tile::CombineOp::create(b, e.location, tile.getType(), kind, tile,
                                 fastmath);
}

void ReduceBuilder::storeColumns(Value tile, unsigned result,
                                 const Coord &coord) {
  auto store = [&] {
    e.store(tile, e.outputBuffer(result),
            kernel.yield().getValues()[result].getType(), coord);
  };
  if (!part)
    return store();
  // What the others still read may be gone already: no result of theirs counts.
  auto branch = scf::IfOp::create(b, e.location, e.less(part, e.constant(1)),
                                  /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
  e.scoped(store);
}

/// Whether everything made of a tensor reads it where it itself is computed:
/// elementwise, up to reductions and results. A gather or a slice asks for
/// elements of other places, which are not those of the current tile.
static bool isReadInPlace(Value tensor) {
  SmallVector<Value> work{tensor};
  llvm::SmallDenseSet<Value, 8> seen{tensor};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<ts::ReduceOp, ts::ArgReduceOp, ts::YieldOp>(user))
        continue;
      if (!isa<ts::ElementwiseOpInterface, ts::DimCastOp>(user))
        return false;
      for (Value result : user->getResults())
        if (seen.insert(result).second)
          work.push_back(result);
    }
  return true;
}

void ReduceBuilder::findPasses() {
  DenseMap<Operation *, unsigned> level;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    unsigned depth = 0;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        depth = std::max(depth, level.lookup(def));
    if (isa<ts::ReduceOp, ts::ArgReduceOp>(op)) {
      levels.resize(std::max<size_t>(levels.size(), depth + 1));
      levels[depth].push_back(&op);
      ++depth;
    }
    level[&op] = depth;
  }
  // Transcendentals that are reduced and needed again stay in scratch.
  // (On a GPU the threads hold them.)
  if (target.simt || (!rowForm && !keepsColumns(space, lanes)))
    return;
  for (auto [pass, reductions] : llvm::enumerate(levels))
    for (Operation *op : reductions) {
      Value input = op->getOperand(0);
      auto costly = dyn_cast_if_present<ts::ElementwiseOpInterface>(
          input.getDefiningOp());
      if (costly && costly.elementFlops() >= 10 && !input.hasOneUse() &&
          isReadInPlace(input))
        keep.insert({input, pass});
    }
}

void ReduceBuilder::allocateScratch(Value shift) {
  Value offset = shift;
  for (auto &[input, pass] : keep) {
    buffers[input] = tile::ScratchOp::create(
        b, e.location, tile::BufferType::get(scratchType(input)), offset);
    offset = e.add(offset, e.size(bytesInScratch(input) * group));
  }
  scratchEnd = offset;
}

Dim ReduceBuilder::bytesInScratch(Value tensor) {
  Dim size = Dim::constant(kernel.getContext(), rowForm ? 1 : lanes);
  for (int64_t d : space.reduced)
    size = size * space.dims[d];
  constexpr int64_t line = 64;
  Dim bytes = size * ts::elementBytes(scratchType(tensor));
  return bytes.ceilDiv(size.like(line)) * line;
}

std::pair<Type, Coord> ReduceBuilder::tileInScratch(Value tensor, Value valid) {
  Type element = scratchType(tensor);
  Value place = position;
  if (groupRow) {
    Dim row = bytesInScratch(tensor);
    Value elements = e.div(e.size(row), e.constant(ts::elementBytes(element)));
    place = e.add(position, e.mul(groupRow, elements));
  }
  Coord run;
  run.lanes = lanes;
  run.dims = {{place, 1, {}, 1}};
  run.valid = valid;
  MLIRContext *context = kernel.getContext();
  return {ts::tensorType(context, {Dim::constant(context, -1)}, element), run};
}

void ReduceBuilder::moveTo(Value program) {
  SmallVector<Dim> around;
  for (unsigned d = 0; d < space.dims.size(); ++d)
    if (!isReduced(d) && d != lane)
      around.push_back(space.dims[d]);
  Value outer = program;
  if (columns)
    return moveToTiles(program);
  if (across) {
    SmallVector<Dim> dims;
    for (unsigned d = 0; d < space.dims.size(); ++d)
      if (!isReduced(d))
        dims.push_back(space.dims[d]);
    Dim columns = product(kernel.getContext(), dims);
    laneStart = e.mul(program, e.constant(lanes));
    LaneIndex places{laneStart, 1, {}, lanes};
    if (int64_t known = columns.knownDivisor(); !known || known % lanes) {
      laneValid = e.sub(e.size(columns), laneStart);
      // Behind the end the last again, so that no read waits for a branch.
      Value last = vector::BroadcastOp::create(
          b, e.location, VectorType::get(lanes, b.getIndexType()),
          e.sub(e.size(columns), e.constant(1)));
      places = {{},
                0,
                arith::MinUIOp::create(b, e.location,
                                       e.lanePositions(places, lanes), last)};
    }
    keptLanes = e.split(places, dims, lanes);
    return;
  }
  if (!rowForm) {
    Dim run = space.dims[lane], blocks = run.ceilDiv(run.like(lanes));
    laneStart = e.mul(blocks.isConstant(1) ? e.constant(0)
                                           : e.rem(program, e.size(blocks)),
                      e.constant(lanes));
    outer = blocks.isConstant(1) ? program : e.div(program, e.size(blocks));
    int64_t known = run.knownDivisor();
    if (!known || known % lanes)
      laneValid = e.sub(e.size(run), laneStart);
  }
  kept = e.delinearize(outer, around);
  if (rowOperands.empty())
    return;
  Dim size = Dim::constant(kernel.getContext(), 1);
  for (int64_t d : space.reduced)
    size = size * space.dims[d];
  thisRow = e.mul(program, e.size(size));
}

LogicalResult ReduceBuilder::passes() {
  if (holdsColumns() && failed(readColumns()))
    return failure();
  if (std::optional<Shifted> softmax = guessesMaximum())
    return sumByGuess(*softmax, /*far=*/2);
  // Rows come in two steps, both from a pass that stores nothing to memory: to
  // the second-level cache two programs before they are read, to the
  // first-level one from the program before. One step of either kind alone
  // measures up to 30 % slower.
  Fetch fetches[] = {{/*rows=*/1, /*locality=*/3},
                     {/*rows=*/2, /*locality=*/2}};
  for (unsigned pass = 0; pass < levels.size(); ++pass) {
    ts::ArgReduceOp index = passesNan(pass);
    if (failed(index ? indexPassingNan(index, pass)
                     : run(pass,
                           pass == 1 ? ArrayRef(fetches) : ArrayRef<Fetch>())))
      return failure();
  }
  return success();
}

LogicalResult ReduceBuilder::heldRows(Value begin, Value total) {
  struct Row {
    SmallVector<Value> kept;
    Value thisRow;
  };
  SmallVector<Row> held;
  Value last = e.sub(total, e.constant(1));
  for (int64_t i = 0; i < rows; ++i) {
    // Behind the end the last row once more: the same values to the same place.
    moveTo(e.min(e.add(begin, e.constant(i)), last));
    held.push_back({kept, thisRow});
    for (BlockArgument argument : kernel.getBody().getArguments())
      if (ts::dimsOf(argument) == space.dims &&
          !e.emit(argument, tileOfRow(e.constant(0), lanes)))
        return failure();
  }
  for (Row &row : held) {
    kept = row.kept;
    thisRow = row.thisRow;
    if (failed(passes()) || failed(storeResults()))
      return failure();
  }
  return success();
}

/// Whether the last tile of columns has lanes outside, and others, which are
/// whole, are worth code without masks. (Of long code twice is too much.)
bool ReduceBuilder::cutsTiles() const {
  constexpr int64_t longest = 64; // operations an element
  int64_t flops = 0;
  kernel->walk(
      [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  std::optional<int64_t> run = space.dims[lane].asConstant();
  return laneValid && !target.simt && !rowForm && flops <= longest &&
         run.value_or(lanes) >= lanes;
}

LogicalResult ReduceBuilder::wholeOrCut() {
  Value isWhole = e.less(e.constant(lanes - 1), laneValid);
  auto branch =
      scf::IfOp::create(b, e.location, isWhole, /*withElseRegion=*/true);
  LogicalResult status = success();
  for (bool whole : {true, false}) {
    OpBuilder::InsertionGuard guard(b);
    Region &region = whole ? branch.getThenRegion() : branch.getElseRegion();
    b.setInsertionPoint(region.front().getTerminator());
    Value valid = laneValid;
    if (whole)
      laneValid = {};
    e.scoped([&] {
      if (failed(passes()) || failed(storeResults()))
        status = failure();
    });
    laneValid = valid;
    finished.clear();
  }
  return status;
}

LogicalResult ReduceBuilder::build() {
  if (columns)
    shared = columnDims(space);
  Value id = tile::ProgramIdOp::create(b, e.location);
  if (clusterSize > 1) {
    part = e.rem(id, e.constant(clusterSize));
    id = e.div(id, e.constant(clusterSize));
  }
  if (part && rowForm && lane == sharedDim(space))
    moveToPart();
  findPasses();
  findRowOperands();
  e.provide = [&](Value tensor, const Coord &at) -> Value {
    if (Value value = finished.lookup(tensor)) {
      if (rowForm)
        return e.widen(value, at.lanes);
      return at.lanes ? e.widen(value, at.lanes) : Value();
    }
    auto it = keep.find(tensor);
    if (it != keep.end() && it->second < current && at.lanes == lanes) {
      auto [flat, run] = tileInScratch(tensor, at.valid);
      return e.load(buffers[tensor], flat, run);
    }
    return {};
  };
  LogicalResult status = success();
  if (rows == 1) {
    moveTo(id);
    allocateScratch(e.constant(0));
    if (cutsTiles() ? failed(wholeOrCut())
                    : failed(passes()) || failed(storeResults()))
      status = failure();
  } else {
    Dim total = Dim::constant(kernel.getContext(), 1);
    for (unsigned d = 0; d < space.dims.size(); ++d)
      if (!isReduced(d))
        total = total * space.dims[d];
    Value begin = e.mul(id, e.constant(rows));
    if (target.simt) {
      status = heldRows(begin, e.size(total));
      e.provide = nullptr;
      return status;
    }
    Value end = e.min(e.add(begin, e.constant(rows)), e.size(total));
    if (group > 1) {
      allocateScratch(e.constant(0));
      status = groupedRows(begin, end);
      e.provide = nullptr;
      return status;
    }
    moveTo(begin);
    std::optional<Shifted> softmax = guessesMaximum();
    if (canOverlap(softmax)) {
      allocateScratch(softmax ? placeOfScratch() : e.constant(0));
      status = overlappedRows(softmax, begin, end);
    } else {
      allocateScratch(e.constant(0));
      forEach(
          e, begin, end, {},
          [&](Value row, ValueRange) -> FailureOr<SmallVector<Value>> {
            moveTo(row);
            if (failed(passes()) || failed(storeResults()))
              return failure();
            return SmallVector<Value>();
          },
          status);
    }
  }
  e.provide = nullptr;
  return status;
}

LogicalResult buildReduce(BuildContext &context) {
  OwningOpRef<ts::KernelOp> copy = asReductions(context.kernel, context.target);
  FailureOr<Space> space = commonSpace(*copy);
  if (failed(space))
    return failure();
  auto config = configOf<config::ReduceConfig>(context);
  if (failed(config))
    return failure();
  if (config->columns && !columnDims(*space))
    return context.kernel->emitOpError("has no columns of known sizes");
  return ReduceBuilder(context, *config, *copy, *space).build();
}

} // namespace knapper
