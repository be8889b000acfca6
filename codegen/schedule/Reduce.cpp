// Reductions and normalisations: every reduction of the region is over the same
// dims of the same shape.
//
//   row form      the lane dim is reduced: program = one row; a pass over the
//                 row carries a partial tile of the lane width for every
//                 reduction, one horizontal reduction follows
//   column form   the lane dim is kept: program = `lanes` neighbouring columns;
//                 a pass carries one tile, nothing is horizontal
//
// Reductions that do not depend on each other share a pass; what depends on a
// finished one (softmax's sum on its maximum) takes the next; a last pass
// computes results of full shape. A transcendental that a later pass needs
// again is kept in scratch, anything else is recomputed from the row, which is
// in cache.
//
// Parameters: lanes, row (1: row form), stream (1: results of full shape are
// stored past the caches).
#include "codegen/schedule/Emitter.h"
#include "codegen/schedule/Lanes.h"
#include "codegen/schedule/Schedules.h"
#include "ir/tensor/Decompose.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// The dims that a reducing op reads and those that it reduces.
struct Space {
  SmallVector<Dim> dims;
  SmallVector<int64_t> reduced;
  bool operator==(const Space &other) const {
    return dims == other.dims && reduced == other.reduced;
  }
};

std::optional<Space> spaceOf(Operation *op) {
  if (auto reduce = dyn_cast<ts::ReduceOp>(op))
    return Space{ts::dimsOf(reduce.getInput()),
                 SmallVector<int64_t>(reduce.getDims())};
  if (auto reduce = dyn_cast<ts::ArgReduceOp>(op))
    return Space{ts::dimsOf(reduce.getInput()),
                 {static_cast<int64_t>(reduce.getDim())}};
  if (auto softmax = dyn_cast<ts::SoftmaxOp>(op))
    return Space{ts::dimsOf(softmax.getInput()),
                 {static_cast<int64_t>(softmax.getDim())}};
  if (auto norm = dyn_cast<ts::LayerNormOp>(op))
    return Space{ts::dimsOf(norm.getInput()),
                 llvm::to_vector(llvm::seq<int64_t>(
                     norm.getDim(), ts::rankOf(norm.getInput())))};
  return std::nullopt;
}

FailureOr<Space> commonSpace(ts::KernelOp kernel) {
  std::optional<Space> space;
  for (Operation &op : kernel.getBody().front()) {
    std::optional<Space> own = spaceOf(&op);
    if (!own)
      continue;
    if (space && !(*space == *own)) {
      op.emitOpError("reduces other dims than the rest of its kernel");
      return failure();
    }
    space = own;
  }
  if (!space) {
    kernel.emitOpError("has hero reduce and no reduction");
    return failure();
  }
  return *space;
}

/// The innermost dim that is not 1; a reduced one if all are.
unsigned laneDim(const Space &space) {
  unsigned lane = space.dims.size() - 1;
  while (lane > 0 && space.dims[lane].isConstant(1))
    --lane;
  if (space.dims[lane].isConstant(1) && !space.reduced.empty())
    return space.reduced.back();
  return lane;
}

/// A row to ask for: so many rows after this one (0: none), how near.
struct Fetch {
  int64_t rows = 0;
  int64_t locality = 0;
};

class ReduceBuilder {
public:
  ReduceBuilder(BuildContext &context, ts::KernelOp kernel, Space space)
      : e(context.emitter), b(e.builder), kernel(kernel),
        target(context.target), space(std::move(space)),
        lanes(context.schedule.at("lanes")),
        rowForm(context.schedule.at("row")),
        stream(context.schedule.at("stream")), lane(laneDim(this->space)) {}

  LogicalResult build();

private:
  bool isReduced(unsigned dim) const {
    return llvm::is_contained(space.reduced, static_cast<int64_t>(dim));
  }
  /// Runs `body` for every tile of the row (or column), with its coordinate.
  using TileFn = llvm::function_ref<FailureOr<SmallVector<Value>>(
      const Coord &, Value valid, ValueRange carried)>;
  FailureOr<SmallVector<Value>> forTiles(ValueRange carried, TileFn body);
  LogicalResult passOver(ArrayRef<Operation *> reductions, Fetch fetch);
  LogicalResult storeResults(Fetch fetch);
  /// Notes which operands are read row by row, for `fetchRow`.
  void findRowOperands(Value id);
  /// Asks for a row further on, at the place of the current tile.
  void fetchRow(Fetch fetch);
  /// The coordinate of a tensor with the kept dims (and dims of size 1).
  FailureOr<Coord> keptCoord(Type type);

  Value combine(Operation *reduction, Value a, Value v, bool isUnsigned);
  Value horizontal(Operation *reduction, Value tile, bool isUnsigned);

  Emitter &e;
  OpBuilder &b;
  ts::KernelOp kernel;
  const TargetDesc &target;
  Space space;
  int64_t lanes;
  bool rowForm;
  bool stream; ///< full-shape results bypass the caches
  unsigned lane;
  SmallVector<Value> kept;         ///< index of each kept dim but the lane dim
  Value laneStart, laneValid;      ///< column form
  DenseMap<Value, Value> finished; ///< reduction result -> its value
  DenseMap<Value, Value> cached;   ///< tensor -> scratch buffer
  Value position; ///< of the current tile in the reduced space (row form)
  SmallVector<BlockArgument> rowOperands; ///< read at row * size + position
  Value thisRow;                          ///< offset of the program's row
};

FailureOr<SmallVector<Value>> ReduceBuilder::forTiles(ValueRange carried,
                                                      TileFn body) {
  LogicalResult status = success();
  // Loops over the reduced dims around the lane dim, outermost first.
  SmallVector<unsigned> around;
  for (unsigned d = 0; d < space.dims.size(); ++d)
    if (isReduced(d) && !(rowForm && d == lane))
      around.push_back(d);
  DenseMap<unsigned, Value> indices;
  std::function<FailureOr<SmallVector<Value>>(unsigned, ValueRange)> nest =
      [&](unsigned level, ValueRange values) -> FailureOr<SmallVector<Value>> {
    if (level < around.size()) {
      unsigned d = around[level];
      if (space.dims[d].isConstant(1)) {
        indices[d] = e.constant(0);
        return nest(level + 1, values);
      }
      return forEach(
          e, e.constant(0), e.size(space.dims[d]), values,
          [&](Value i, ValueRange inner) {
            indices[d] = i;
            return nest(level + 1, inner);
          },
          status);
    }
    Coord coord;
    coord.lanes = lanes;
    unsigned nextKept = 0;
    for (unsigned d = 0; d < space.dims.size(); ++d) {
      if (isReduced(d))
        coord.dims.push_back({d == lane && rowForm ? Value() : indices[d]});
      else if (d == lane)
        coord.dims.push_back({laneStart, 1, {}, lanes});
      else
        coord.dims.push_back({kept[nextKept++]});
    }
    if (!rowForm) {
      coord.valid = laneValid;
      return body(coord, Value(), values);
    }
    Value base = e.constant(0);
    for (unsigned d : around)
      base = e.add(e.mul(base, e.size(space.dims[d])), indices[d]);
    base = e.mul(base, e.size(space.dims[lane]));
    int64_t known = space.dims[lane].knownDivisor();
    return forLanes(
        e, e.constant(0), e.size(space.dims[lane]), lanes,
        known && known % lanes == 0, values,
        [&](Value i, Value valid, ValueRange inner) {
          Coord at = coord;
          at.dims[lane] = {i, 1, {}, lanes};
          at.valid = valid;
          position = e.add(base, i);
          return body(at, valid, inner);
        },
        status);
  };
  FailureOr<SmallVector<Value>> results = nest(0, carried);
  if (failed(status))
    return failure();
  return results;
}

Value ReduceBuilder::combine(Operation *reduction, Value a, Value v,
                             bool isUnsigned) {
  auto reduce = cast<ts::ReduceOp>(reduction);
  if (reduce.getKind() == ts::ReduceKind::max && reduce.getIgnoresNan() &&
      isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return e.larger(a, v);
  return combineElements(e, reduce.getKind(), a, v, isUnsigned);
}

Value ReduceBuilder::horizontal(Operation *reduction, Value tile,
                                bool isUnsigned) {
  auto reduce = dyn_cast<ts::ReduceOp>(reduction);
  ts::ReduceKind kind =
      reduce ? reduce.getKind() : cast<ts::ArgReduceOp>(reduction).getKind();
  using K = vector::CombiningKind;
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(tile.getType()));
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
  return vector::ReductionOp::create(b, e.location, how, tile, fast);
}

void ReduceBuilder::findRowOperands(Value id) {
  // Threads of a GPU hide the latency themselves.
  if (!rowForm || target.kind == DeviceKind::cuda)
    return;
  int64_t rank = space.dims.size(), reduced = space.reduced.size();
  for (auto [i, d] : llvm::enumerate(space.reduced))
    if (d != rank - reduced + static_cast<int64_t>(i))
      return;
  Dim size = Dim::constant(kernel.getContext(), 1);
  for (int64_t d : space.reduced)
    size = size * space.dims[d];
  // Three rows have to stay in the second-level cache.
  constexpr int64_t mostElements = 1 << 15;
  if (representative(size) > mostElements)
    return;
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (ts::dimsOf(argument) == space.dims)
      rowOperands.push_back(argument);
  thisRow = e.mul(id, e.size(size));
}

void ReduceBuilder::fetchRow(Fetch fetch) {
  if (!fetch.rows || rowOperands.empty())
    return;
  Dim size = Dim::constant(kernel.getContext(), fetch.rows);
  for (int64_t d : space.reduced)
    size = size * space.dims[d];
  Value from = e.add(thisRow, e.add(e.size(size), position));
  constexpr int64_t line = 64;
  for (BlockArgument argument : rowOperands) {
    int64_t bytes = ts::elementBytes(ts::elementTypeOf(argument));
    for (int64_t at = 0; at < lanes; at += line / bytes)
      tile::PrefetchOp::create(b, e.location, e.inputBuffer(argument),
                               e.add(from, e.constant(at)), fetch.locality);
  }
}

LogicalResult ReduceBuilder::passOver(ArrayRef<Operation *> reductions,
                                      Fetch fetch) {
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
  for (Operation *op : reductions) {
    carried.push_back(
        neutralElement(e, kindOf(op), compute(op), unsignedInput(op), lanes));
    if (isa<ts::ArgReduceOp>(op))
      carried.push_back(e.splat(b.getI64Type(), lanes, 0));
  }

  FailureOr<SmallVector<Value>> results = forTiles(
      carried,
      [&](const Coord &at, Value valid,
          ValueRange values) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> next;
        unsigned k = 0;
        Value inside = valid ? e.laneMask(lanes, valid) : Value();
        fetchRow(fetch);
        for (Operation *op : reductions) {
          Value input = op->getOperand(0);
          Value tile = e.emit(input, at);
          if (!tile)
            return failure();
          tile = e.widen(tile, lanes);
          if (Value buffer = cached.lookup(input)) {
            Type flat = ts::tensorType(kernel.getContext(),
                                       {Dim::constant(kernel.getContext(), -1)},
                                       ts::elementTypeOf(input));
            Coord run;
            run.lanes = lanes;
            run.dims = {{position, 1, {}, 1}};
            run.valid = valid;
            e.store(tile, buffer, flat, run);
          }
          ts::ReduceKind kind = kindOf(op);
          if (auto arg = dyn_cast<ts::ArgReduceOp>(op)) {
            Value best = values[k], where = values[k + 1];
            const LaneIndex &index = at.dims[arg.getDim()];
            Type type = VectorType::get(lanes, b.getI64Type());
            Value here = vector::BroadcastOp::create(
                b, loc, type,
                arith::IndexCastOp::create(b, loc, b.getI64Type(),
                                           index.start));
            if (index.step) {
              SmallVector<int64_t> numbers =
                  llvm::to_vector(llvm::seq<int64_t>(0, lanes));
              here = arith::AddIOp::create(
                  b, loc, here,
                  arith::ConstantOp::create(
                      b, loc,
                      DenseElementsAttr::get(cast<ShapedType>(type),
                                             ArrayRef<int64_t>(numbers))));
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
            next.push_back(
                arith::SelectOp::create(b, loc, better, tile, best));
            next.push_back(
                arith::SelectOp::create(b, loc, better, here, where));
            k += 2;
            continue;
          }
          Value sum = combine(op, values[k], tile, unsignedInput(op));
          // Lanes outside keep what they had.
          if (inside)
            sum = arith::SelectOp::create(b, loc, inside, sum, values[k]);
          next.push_back(sum);
          ++k;
        }
        return next;
      });
  if (failed(results))
    return failure();

  unsigned k = 0;
  for (Operation *op : reductions) {
    Value tile = (*results)[k++];
    ts::ReduceKind kind = kindOf(op);
    bool isArg = isa<ts::ArgReduceOp>(op);
    Value where = isArg ? (*results)[k++] : Value();
    if (!rowForm) {
      finished[op->getResult(0)] = isArg ? where : tile;
      continue;
    }
    Value best = horizontal(op, tile, unsignedInput(op));
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
    int64_t never = last ? -1 : std::numeric_limits<int64_t>::max();
    Value none = arith::ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(VectorType::get(lanes, b.getI64Type()), never));
    Value candidates = arith::SelectOp::create(b, loc, equal, where, none);
    Value index = vector::ReductionOp::create(
        b, loc,
        last ? vector::CombiningKind::MAXSI : vector::CombiningKind::MINSI,
        candidates);
    // Nothing compared equal (no elements): index 0.
    Value lost = arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::eq, index,
        arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(never)));
    finished[op->getResult(0)] = arith::SelectOp::create(
        b, loc, lost, arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0)),
        index);
  }
  return success();
}

FailureOr<Coord> ReduceBuilder::keptCoord(Type type) {
  SmallVector<Dim> dims = ts::dimsOf(type);
  SmallVector<LaneIndex> known;
  SmallVector<Dim> knownDims;
  unsigned next = 0;
  Coord coord;
  for (unsigned d = 0; d < space.dims.size(); ++d) {
    if (isReduced(d))
      continue;
    if (d == lane) {
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

LogicalResult ReduceBuilder::storeResults(Fetch fetch) {
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
    e.store(e.widen(result, coord->lanes), e.outputBuffer(i), value.getType(),
            *coord);
  }
  if (full.empty())
    return success();
  return forTiles(
      {},
      [&](const Coord &at, Value, ValueRange) -> FailureOr<SmallVector<Value>> {
        fetchRow(fetch);
        for (unsigned i : full) {
          Value value = kernel.yield().getValues()[i];
          Value result = e.emit(value, at);
          if (!result)
            return failure();
          e.store(e.widen(result, lanes), e.outputBuffer(i), value.getType(),
                  at, stream);
        }
        return SmallVector<Value>();
      });
}

LogicalResult ReduceBuilder::build() {
  Value id = tile::ProgramIdOp::create(b, e.location);
  SmallVector<Dim> around;
  for (unsigned d = 0; d < space.dims.size(); ++d)
    if (!isReduced(d) && d != lane)
      around.push_back(space.dims[d]);
  Value position = id;
  if (!rowForm) {
    Dim run = space.dims[lane], blocks = run.ceilDiv(run.like(lanes));
    laneStart =
        e.mul(blocks.isConstant(1) ? e.constant(0) : e.rem(id, e.size(blocks)),
              e.constant(lanes));
    position = blocks.isConstant(1) ? id : e.div(id, e.size(blocks));
    int64_t known = run.knownDivisor();
    if (!known || known % lanes)
      laneValid = e.sub(e.size(run), laneStart);
  }
  kept = e.delinearize(position, around);
  findRowOperands(id);

  // Reductions by level: one more than the deepest that they depend on.
  DenseMap<Operation *, unsigned> level;
  SmallVector<SmallVector<Operation *>> passes;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    unsigned depth = 0;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        depth = std::max(depth, level.lookup(def));
    if (isa<ts::ReduceOp, ts::ArgReduceOp>(op)) {
      passes.resize(std::max<size_t>(passes.size(), depth + 1));
      passes[depth].push_back(&op);
      ++depth;
    }
    level[&op] = depth;
  }

  // Transcendentals that are reduced and needed again stay in scratch.
  // (On a GPU the threads hold them.)
  llvm::MapVector<Value, unsigned> keep; // in order: scratch is laid out by it
  if (rowForm && target.kind != DeviceKind::cuda)
    for (auto [pass, reductions] : llvm::enumerate(passes))
      for (Operation *op : reductions) {
        Value input = op->getOperand(0);
        auto costly = dyn_cast_if_present<ts::ElementwiseOpInterface>(
            input.getDefiningOp());
        if (costly && costly.elementFlops() >= 10 && !input.hasOneUse())
          keep.insert({input, pass});
      }
  Value offset = e.constant(0);
  Dim row = Dim::constant(kernel.getContext(), 1);
  for (int64_t d : space.reduced)
    row = row * space.dims[d];
  DenseMap<Value, Value> buffers;
  for (auto &[input, pass] : keep) {
    Type element = bufferType(ts::elementTypeOf(input));
    buffers[input] = tile::ScratchOp::create(
        b, e.location, tile::BufferType::get(element), offset);
    Dim bytes = (row * ts::elementBytes(element)).ceilDiv(row.like(64)) * 64;
    offset = e.add(offset, e.size(bytes));
  }

  unsigned current = 0;
  e.provide = [&](Value tensor, const Coord &at) -> Value {
    if (Value value = finished.lookup(tensor)) {
      if (rowForm)
        return e.widen(value, at.lanes);
      return at.lanes ? e.widen(value, at.lanes) : Value();
    }
    auto it = keep.find(tensor);
    if (it != keep.end() && it->second < current && at.lanes == lanes) {
      Type flat = ts::tensorType(kernel.getContext(),
                                 {Dim::constant(kernel.getContext(), -1)},
                                 ts::elementTypeOf(tensor));
      Coord run;
      run.lanes = lanes;
      run.dims = {{this->position, 1, {}, 1}};
      run.valid = at.valid;
      return e.load(buffers[tensor], flat, run);
    }
    return {};
  };
  for (auto [pass, reductions] : llvm::enumerate(passes)) {
    current = pass;
    cached.clear();
    for (auto &[input, first] : keep)
      if (first == pass)
        cached[input] = buffers[input];
    // Rows come in two steps, each while memory has little else to do: to the
    // second-level cache two programs before they are read (behind the stores),
    // to the first-level one from the pass that computes on the row before.
    // One step of either kind alone measures up to 30 % slower.
    Fetch fetch;
    if (pass == 1)
      fetch = {/*rows=*/1, /*locality=*/3};
    if (failed(passOver(reductions, fetch)))
      return failure();
  }
  current = passes.size();
  cached.clear();
  LogicalResult status = storeResults({/*rows=*/2, /*locality=*/2});
  e.provide = nullptr;
  return status;
}

} // namespace

LogicalResult chooseReduce(ts::KernelOp kernel, const TargetDesc &target,
                           SmallVectorImpl<Schedule> &schedules) {
  FailureOr<Space> space = commonSpace(kernel);
  if (failed(space))
    return failure();
  Dim one = Dim::constant(kernel.getContext(), 1);
  if (space->dims.empty())
    return kernel.emitOpError("reduces a tensor without dims");
  unsigned lane = laneDim(*space);
  bool rowForm = llvm::is_contained(space->reduced, static_cast<int64_t>(lane));
  Dim run = space->dims[lane];
  bool isArg = !kernel.getBody().getOps<ts::ArgReduceOp>().empty();
  int64_t flops = 1;
  kernel.getBody().walk(
      [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  int64_t lanes = isArg ? 16 : flops > 40 ? 32 : 64;
  while (lanes > 4 && lanes > representative(run))
    lanes /= 2;
  if (std::optional<int64_t> number = run.asConstant())
    for (int64_t l = lanes; l >= 16; l /= 2)
      if (*number % l == 0) {
        lanes = l;
        break;
      }
  if (target.kind == DeviceKind::cuda) {
    // A row that fits the registers of a block is one tile, read once.
    lanes = target.lanes(DType::f32);
    if (std::optional<int64_t> number = run.asConstant();
        number && *number > 0 && *number % 128 == 0 && *number <= 16 * lanes &&
        rowForm)
      lanes = *number;
    while (lanes > 128 && lanes / 2 >= representative(run))
      lanes /= 2;
  }
  Dim kept = one, row = one;
  for (auto [d, dim] : llvm::enumerate(space->dims)) {
    if (llvm::is_contained(space->reduced, static_cast<int64_t>(d)))
      row = row * dim;
    else if (d != lane)
      kept = kept * dim;
  }
  Schedule schedule;
  schedule.kind = "reduce";
  schedule.parameters = {
      {"lanes", lanes}, {"row", rowForm}, {"stream", streamsOut(kernel)}};
  schedule.grid = rowForm ? kept : kept * run.ceilDiv(run.like(lanes));
  int64_t work = std::max<int64_t>(
      1, representative(row) * (rowForm ? 1 : lanes) * (1 + flops / 8) / 4);
  schedule.grain = one * std::max<int64_t>(1, 8000 / work);
  // Generous: every costly op of the region could be kept.
  int64_t costly = 0;
  kernel.getBody().walk([&](Operation *op) {
    auto elementwise = dyn_cast<ts::ElementwiseOpInterface>(op);
    costly += isa<ts::SoftmaxOp>(op) ||
              (elementwise && elementwise.elementFlops() >= 10);
  });
  schedule.scratch =
      rowForm ? (row * 8).ceilDiv(one * 64) * (64 * costly) : one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildReduce(BuildContext &context) {
  // Composites become the reductions that they are made of, in a copy.
  OwningOpRef<ts::KernelOp> copy = context.kernel.clone();
  ts::decomposeAll(copy->getBody());
  FailureOr<Space> space = commonSpace(*copy);
  if (failed(space))
    return failure();
  return ReduceBuilder(context, *copy, *space).build();
}

} // namespace knapper
