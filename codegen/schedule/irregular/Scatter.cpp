// Updates of single elements or slices of a tensor that lies where the result
// does (`ts::updatedInput`; else one program copies it first, all by scalars).
// Of equal indices the update that comes last in row-major order stays.
//
//   scatter_elements   program = one line of updates along the scattered dim,
//                      or a tile of neighbouring lines: updates of different
//                      lines do not meet
//   scatter_nd         program = a tile of the slices, at one position of their
//                      other dims; it takes all updates in order. Single
//                      elements may meet anywhere: one program
//
// On GPUs, where these are fewer programs than there is room for, the dim that
// the (first) index counts along is cut into ranges: each program reads all
// indices and writes what falls into its range, so that updates of one element
// keep their order, and results their bits. Where all lanes share an index, a
// tile of indices is read at once and those of the range are listed first.
//
// On GPUs, where the order of updates does not tell (integers, maxima, minima),
// or where the user has not asked for the same bits in every run, updates that
// reduce meet in memory: program = one thread, which combines an element, or a
// run of neighbours that share an index, by an atomic.
//
// Where no two updates meet, as whoever made the operation says
// (`ts.unique_indices`), the same without atomics.
//
// On CPUs, where single elements are combined, the places and updates of a run
// are computed side by side into scratch memory; what is left to do one after
// the other is a load, an addition and a store.
//
// An index outside writes nothing and fails the run.
//
// Parameters: lanes (0: one element at a time), ranges, ahead (CPUs); atomic or
// apart, threads (1).
#include "codegen/schedule/irregular/Scatter.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/IrregularConfig.h"
#include "ir/tensor/Update.h"
#include "ir/tile/BlockOps.h"
#include "ir/tile/GridOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/base/KernelAbi.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Of a tile of indices that are listed.
constexpr int64_t listLanes = 512;

/// The updates of one program.
struct Updates {
  ElementEmitter &e;
  ts::KernelOp kernel;
  Operation *op = ts::scatterOf(kernel);
  int64_t lanes, ranges;
  ScatterSplit split{op};
  Value output = e.outputBuffer(0);
  Type type = op->getResult(0).getType();
  SmallVector<Dim> dims = ts::dimsOf(type);
  bool oneIndex = false; ///< for all lanes
  bool atomic = false;   ///< updates meet in memory
  Value first = {},
        length = {}; ///< of the program's range, if there are several
  Value list = {};   ///< i32, if indices are listed
  int64_t ahead = 0; ///< of a run, if places are computed before

  LogicalResult program(Value id);
  /// One update, or a run of neighbours.
  LogicalResult threadProgram(Value id);
  LogicalResult loop(size_t depth, Coord &from);
  /// The innermost loop, over those updates alone whose index is in the range.
  LogicalResult loopOverListed(Coord &from);
  /// The innermost loop, by runs whose places and updates come first.
  LogicalResult loopByRuns(Coord &from);
  LogicalResult write(const Coord &from);
  /// Where indices are indices (and in the program's range): one truth value,
  /// or one a lane. Null: no index.
  struct Range {
    Value inside, outside;
  };
  /// Where an update's index stands, if all lanes share it.
  Coord placeOfIndex(const Coord &from);
  /// The index at a place of the index tensor, from the end if negative; what
  /// it says about `range` is added there.
  std::optional<LaneIndex> index(const Coord &at, Dim extent, Range &range);
};

LogicalResult Updates::program(Value id) {
  SmallVector<Dim> around;
  for (unsigned i : split.own)
    around.push_back(lanes && i + 1 == split.dims.size()
                         ? split.dims[i].ceilDiv(split.dims[i].like(lanes))
                         : split.dims[i]);
  if (ranges > 1)
    around.insert(around.begin(), Dim::constant(op->getContext(), ranges));
  SmallVector<Value> outer = e.delinearize(id, around);
  if (ranges > 1) {
    Dim extent = dims[*indexedDim(op)];
    length = e.size(extent.ceilDiv(extent.like(ranges)));
    first = e.mul(outer.front(), length);
    outer.erase(outer.begin());
    if (!lanes || oneIndex || isa<ts::ScatterNdOp>(op))
      list = tile::SharedOp::create(
          e.builder, e.location, tile::BufferType::get(e.builder.getI32Type()),
          listLanes);
  }
  Coord from;
  from.lanes = lanes;
  from.dims.resize(split.dims.size());
  for (auto [position, i] : llvm::zip(outer, split.own)) {
    from.dims[i] = {position};
    if (!lanes || i + 1 != split.dims.size())
      continue;
    Value start = e.mul(position, e.constant(lanes));
    from.dims[i] = {start, 1, {}, lanes};
    if (!split.dims[i].isConstant(lanes))
      from.valid = e.sub(e.size(split.dims[i]), start);
  }
  return loop(0, from);
}

LogicalResult Updates::threadProgram(Value id) {
  SmallVector<Dim> around = split.dims;
  if (lanes)
    around.back() = around.back().floorDiv(around.back().like(lanes));
  Coord from;
  from.lanes = lanes;
  for (Value index : e.delinearize(id, around))
    from.dims.push_back({index});
  if (lanes)
    from.dims.back() = {
        e.mul(from.dims.back().start, e.constant(lanes)), 1, {}, lanes};
  return write(from);
}

LogicalResult Updates::loop(size_t depth, Coord &from) {
  if (depth == split.loops.size())
    return write(from);
  if (list && depth + 1 == split.loops.size())
    return loopOverListed(from);
  if (ahead && depth + 1 == split.loops.size())
    return loopByRuns(from);
  unsigned dim = split.loops[depth];
  return forEach(e, e.constant(0), e.size(split.dims[dim]), [&](Value i) {
    from.dims[dim] = {i};
    return loop(depth + 1, from);
  });
}

LogicalResult Updates::loopOverListed(Coord &from) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  unsigned dim = split.loops.back();
  Value n = e.size(split.dims[dim]);
  Type counts = VectorType::get(listLanes, b.getI32Type());
  return forEach(
      e, e.constant(0), n,
      [&](Value i) -> LogicalResult {
        from.dims[dim] = {i};
        Coord at = placeOfIndex(from);
        at.lanes = listLanes;
        at.valid = e.sub(n, i);
        at.dims[dim] = {i, 1, {}, listLanes};
        if (isa<ts::ScatterNdOp>(op))
          at.dims.back() = {e.constant(0)};
        Range range;
        if (!index(at, dims[*indexedDim(op)], range))
          return failure();
        Value valid = e.laneMask(listLanes, at.valid);
        Value mask = arith::AndIOp::create(b, loc, range.inside, valid);
        Value outside = arith::AndIOp::create(b, loc, range.outside, valid);
        tile::SetStatusOp::create(
            b, loc, kernelIndexOutOfRange,
            vector::ReductionOp::create(b, loc, vector::CombiningKind::OR,
                                        outside));
        auto scan = tile::ScanOp::create(
            b, loc, counts, b.getI32Type(),
            vector::CombiningKindAttr::get(b.getContext(),
                                           vector::CombiningKind::ADD),
            arith::ExtUIOp::create(b, loc, counts, mask), /*init=*/Value(),
            /*exclusive=*/b.getUnitAttr(), /*reverse=*/UnitAttr());
        auto indices = VectorType::get(listLanes, b.getIndexType());
        auto listed = tile::ScatterOp::create(
            b, loc,
            arith::IndexCastOp::create(
                b, loc, counts, e.lanePositions(at.dims[dim], listLanes)),
            list,
            arith::IndexCastOp::create(b, loc, indices, scan.getResult()));
        listed.getMaskMutable().assign(mask);
        tile::BarrierOp::create(b, loc);
        Value total = arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                                 scan.getTotal());
        LogicalResult status = forEach(e, e.constant(0), total, [&](Value j) {
          Value place = tile::LoadOp::create(b, loc, b.getI32Type(), list, j);
          from.dims[dim] = {
              arith::IndexCastOp::create(b, loc, b.getIndexType(), place)};
          return write(from);
        });
        tile::BarrierOp::create(b, loc);
        return status;
      },
      listLanes);
}

LogicalResult Updates::loopByRuns(Coord &from) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  unsigned dim = split.loops.back();
  unsigned indexed = *indexedDim(op);
  Dim extent = dims[indexed], count = split.dims[dim];
  ts::ReduceKind kind = *scatterReduction(op);
  bool isUnsigned = ts::elementTypeOf(op->getResult(0)).isUnsignedInteger();
  // Half as many bytes to store and load again where they suffice.
  bool isShort = extent.asConstant().value_or(INT64_MAX) <= INT32_MAX;
  Type number = isShort ? b.getI32Type() : b.getI64Type(), element;
  Value places = tile::ScratchOp::create(b, loc, tile::BufferType::get(number),
                                         e.constant(0));
  Value values;
  auto prepare = [&](Value i, Value valid) -> LogicalResult {
    Coord run = from;
    run.lanes = ahead;
    run.valid = valid;
    run.dims[dim] = {i, 1, {}, ahead};
    Coord at = run;
    if (isa<ts::ScatterNdOp>(op)) {
      at.dims.resize(ts::rankOf(op->getOperand(1)) - 1);
      at.dims.push_back({e.constant(0)});
    }
    Range range;
    std::optional<LaneIndex> place = index(at, extent, range);
    Value x = place ? e.emit(op->getOperand(2), run) : Value();
    if (!x)
      return failure();
    x = e.widen(x, ahead);
    Value outside = range.outside;
    if (valid)
      outside =
          arith::AndIOp::create(b, loc, outside, e.laneMask(ahead, valid));
    tile::SetStatusOp::create(b, loc, kernelIndexOutOfRange,
                              vector::ReductionOp::create(
                                  b, loc, vector::CombiningKind::OR, outside));
    element = getElementTypeOrSelf(x.getType());
    x = arith::SelectOp::create(
        b, loc, range.inside, x,
        neutralElement(e, kind, element, isUnsigned, ahead));
    values = tile::ScratchOp::create(
        b, loc, tile::BufferType::get(element),
        e.constant(static_cast<int64_t>(sizeof(int64_t)) * ahead));
    tile::StoreOp::create(
        b, loc,
        arith::IndexCastOp::create(b, loc, VectorType::get(ahead, number),
                                   e.lanePositions(*place, ahead)),
        places, e.constant(0));
    tile::StoreOp::create(b, loc, x, values, e.constant(0));
    return success();
  };
  auto combine = [&](Value j) {
    Coord to;
    if (isa<ts::ScatterElementsOp>(op))
      to = from;
    else
      to.dims.resize(dims.size());
    to.lanes = 0;
    to.dims[indexed] = {arith::IndexCastUIOp::create(
        b, loc, b.getIndexType(),
        tile::LoadOp::create(b, loc, number, places, j))};
    Value x = tile::LoadOp::create(b, loc, element, values, j);
    x = combineElements(e, kind, e.load(output, type, to), x, isUnsigned);
    e.store(x, output, type, to);
    return success();
  };
  return forLanes(e, e.constant(0), e.size(count), ahead,
                  count.knownDivisor() % ahead == 0,
                  [&](Value i, Value valid) -> LogicalResult {
                    if (failed(prepare(i, valid)))
                      return failure();
                    if (valid)
                      return forEach(e, e.constant(0), valid, combine);
                    for (int64_t j = 0; j < ahead; ++j)
                      if (failed(combine(e.constant(j))))
                        return failure();
                    return success();
                  });
}

Coord Updates::placeOfIndex(const Coord &from) {
  Coord at = from;
  if (isa<ts::ScatterNdOp>(op)) {
    unsigned rank = ts::rankOf(op->getOperand(1)) - 1;
    at.lanes = 0;
    at.valid = {};
    at.dims.resize(rank);
    at.dims.emplace_back();
  } else if (oneIndex) {
    at.lanes = 0;
    at.valid = {};
    at.dims.back() = {at.dims.back().start};
  }
  return at;
}

std::optional<LaneIndex> Updates::index(const Coord &at, Dim extent,
                                        Range &range) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Value value = e.emit(op->getOperand(1), at);
  if (!value)
    return std::nullopt;
  int64_t count = at.lanes;
  Type type = b.getIndexType();
  if (count) {
    value = e.widen(value, count);
    type = VectorType::get(count, type);
  }
  auto number = [&](Value v) { return count ? e.widen(v, count) : v; };
  Value index = arith::IndexCastOp::create(b, loc, type, value);
  Value n = number(e.size(extent)), zero = number(e.constant(0));
  using P = arith::CmpIPredicate;
  Value negative = arith::CmpIOp::create(b, loc, P::slt, index, zero);
  Value fromEnd = arith::AddIOp::create(b, loc, index, n);
  index = arith::SelectOp::create(b, loc, negative, fromEnd, index);
  Value inside = arith::CmpIOp::create(b, loc, P::ult, index, n);
  Value outside = arith::CmpIOp::create(b, loc, P::uge, index, n);
  index = arith::SelectOp::create(b, loc, inside, index, zero);
  if (first && !range.inside) {
    Value place = arith::SubIOp::create(b, loc, index, number(first));
    Value own = arith::CmpIOp::create(b, loc, P::ult, place, number(length));
    inside = arith::AndIOp::create(b, loc, inside, own);
  }
  if (range.inside) {
    inside = arith::AndIOp::create(b, loc, range.inside, inside);
    outside = arith::OrIOp::create(b, loc, range.outside, outside);
  }
  range = {inside, outside};
  return count ? LaneIndex{{}, 0, index} : LaneIndex{index};
}

LogicalResult Updates::write(const Coord &from) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Range range;
  Coord to;
  if (auto elements = dyn_cast<ts::ScatterElementsOp>(op)) {
    unsigned dim = elements.getDim();
    std::optional<LaneIndex> found =
        index(placeOfIndex(from), dims[dim], range);
    if (!found)
      return failure();
    to = from;
    to.dims[dim] = *found;
  } else {
    unsigned rank = ts::rankOf(op->getOperand(1)) - 1;
    int64_t depth = *ts::dimsOf(op->getOperand(1)).back().asConstant();
    to.lanes = from.lanes;
    to.valid = from.valid;
    Coord at = placeOfIndex(from);
    for (int64_t k = 0; k < depth; ++k) {
      at.dims.back() = {e.constant(k)};
      std::optional<LaneIndex> found = index(at, dims[k], range);
      if (!found)
        return failure();
      to.dims.push_back(*found);
    }
    to.dims.append(from.dims.begin() + rank, from.dims.end());
  }
  auto store = [&]() -> LogicalResult {
    Value x = e.emit(op->getOperand(2), from);
    if (!x)
      return failure();
    x = lanes ? e.widen(x, lanes) : x;
    std::optional<ts::ReduceKind> reduction = scatterReduction(op);
    bool isUnsigned = ts::elementTypeOf(op->getResult(0)).isUnsignedInteger();
    if (atomic) {
      Type element = getElementTypeOrSelf(x.getType());
      e.combineInMemory(combiningKind(*reduction, element, isUnsigned), x,
                        output, type, to);
      return success();
    }
    if (reduction)
      x = combineElements(e, *reduction, e.load(output, type, to), x,
                          isUnsigned);
    e.store(x, output, type, to);
    return success();
  };
  if (!range.inside)
    return store();
  Value outside = range.outside;
  bool vector = isa<VectorType>(outside.getType());
  if (vector) {
    if (from.valid) {
      Value mask = e.laneMask(lanes, from.valid);
      outside = arith::AndIOp::create(b, loc, outside, mask);
    }
    outside =
        vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, outside);
    to.mask = range.inside;
  }
  tile::SetStatusOp::create(b, loc, kernelIndexOutOfRange, outside);
  if (vector)
    return store();
  auto guarded = scf::IfOp::create(b, loc, range.inside,
                                   /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&guarded.getThenRegion().front());
  return e.scoped(store);
}

} // namespace

LogicalResult buildScatter(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  ts::KernelOp kernel = context.kernel;
  auto config = configOf<config::ScatterConfig>(context);
  if (failed(config))
    return failure();
  int64_t lanes = config->lanes;
  Updates updates{e, kernel, ts::scatterOf(kernel), lanes, config->ranges};
  if (kernel.yield().getValues().size() != 1 ||
      kernel.yield().getValues()[0] != updates.op->getResult(0))
    return kernel.emitOpError("stores something else than the updates");
  updates.oneIndex = lanes && isa<ts::ScatterElementsOp>(updates.op) &&
                     isSameAlongLast(updates.op->getOperand(1));
  updates.atomic = config->atomic;
  updates.ahead = config->ahead;
  if (config->atomic || config->apart)
    return updates.threadProgram(
        tile::ProgramIdOp::create(e.builder, e.location));
  if (ts::updatedInput(kernel))
    return updates.program(tile::ProgramIdOp::create(e.builder, e.location));
  // The copy, element position by element position; then everything.
  Value input = updates.op->getOperand(0);
  if (failed(forEach(e, e.constant(0), e.size(ts::elementCount(updates.type)),
                     [&](Value i) -> LogicalResult {
                       Coord at;
                       for (Value index : e.delinearize(i, updates.dims))
                         at.dims.push_back({index});
                       Value x = e.emit(input, at);
                       if (!x)
                         return failure();
                       e.store(x, updates.output, updates.type, at);
                       return success();
                     })))
    return failure();
  Dim one = Dim::constant(kernel.getContext(), 1);
  return forEach(e, e.constant(0), e.size(updates.split.programs(one, lanes)),
                 [&](Value id) { return updates.program(id); });
}

} // namespace knapper
