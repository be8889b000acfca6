// Running reductions along one dim on GPUs.
//
//   rows     program = a line along the dim, tile after tile; a block scan of
//            each goes on from the total of those before. Of few long lines the
//            programs of a cluster take a part each: they reduce theirs, learn
//            what comes before it, and scan it
//   short    program = several lines of some elements each, scanned by
//            shuffles within a warp
//   columns  program = a tile of neighbouring lines, some steps read at once;
//            few long ones are shared out to a cluster likewise
//   lines    the same of lines of which few lie beside each other: each thread
//            has one and computes where it begins
//   look back  program = a tile of a line; it scans its tile and waits for what
//            the tiles before make (tile.look_back): each element is read once,
//            by as many programs as there are tiles
//   narrow   the same of few lines beside each other, all of which a program
//            has together: a thread combines some elements of one, and by way
//            of shared memory those of the threads before it. Of short lines
//            a program has some whole tiles and waits for no other
//
// The order in which elements meet depends on sizes alone, so every run gives
// the same bits.
//
// Parameters: form (above, from 0), lanes, threads (where given), columns (a
// line's lanes in the short form), cluster_size, steps, access and tiles (of
// the narrow form).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/irregular/GpuScanBuilder.h"
#include "ir/tile/GridOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using config::ScanForm;
using ts::Dim;

namespace scan {

Value ScanBuilder::share(Value id, int64_t step) {
  begin = e.constant(0);
  end = e.size(length);
  if (clusterSize == 1)
    return id;
  Value each = e.mul(e.size(length.ceilDiv(length.like(step * clusterSize))),
                     e.constant(step));
  Value part = e.rem(id, e.constant(clusterSize));
  Value size = end;
  begin = e.min(e.mul(part, each), size);
  end = e.min(e.add(e.mul(part, each), each), size);
  return e.div(id, e.constant(clusterSize));
}

Value ScanBuilder::before(Value own) {
  return tile::ClusterScanOp::create(b, loc, own.getType(), kindAttr(), own,
                                     reverse());
}

LogicalResult ScanBuilder::buildRows() {
  SmallVector<Dim> around;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != axis)
      around.push_back(dim);
  Value row = share(tile::ProgramIdOp::create(b, loc), lanes);
  SmallVector<Value> outer = e.delinearize(row, around);
  Coord line;
  unsigned next = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    line.dims.push_back({i == axis ? Value() : outer[next++]});
  line.lanes = lanes;
  bool divides = length.knownDivisor() % lanes == 0 && length.asConstant();
  // Tiles from the end at which the scan begins.
  Value tiles =
      e.div(e.add(e.sub(end, begin), e.constant(lanes - 1)), e.constant(lanes));
  auto tileAt = [&](Value i) {
    Value number = op.getReverse() ? e.sub(e.sub(tiles, e.constant(1)), i) : i;
    Coord at = line;
    Value start = e.add(begin, e.mul(number, e.constant(lanes)));
    at.dims[axis] = {start, 1, {}, lanes};
    if (!divides)
      at.valid = e.sub(end, start);
    return at;
  };
  // Lanes behind the end come last: what they make of the total counts only
  // where other tiles follow.
  auto inside = [&](Value x, const Coord &at) -> Value {
    if (!at.valid)
      return x;
    return arith::SelectOp::create(b, loc, e.laneMask(lanes, at.valid), x,
                                   none(lanes));
  };
  Value carried = none(0);
  LogicalResult status = success();
  if (clusterSize > 1) {
    SmallVector<Value> sums = forEach(
        e, e.constant(0), tiles, none(lanes),
        [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
          Coord at = tileAt(i);
          Value x = read(at, lanes);
          if (!x)
            return failure();
          return SmallVector<Value>{combine(carried[0], inside(x, at))};
        },
        status);
    auto fast = isa<FloatType>(element) ? arith::FastMathFlags::reassoc
                                        : arith::FastMathFlags::none;
    carried =
        before(vector::ReductionOp::create(b, loc, kind(), sums[0], fast));
  }
  auto scanTile = [&](Value i, Value init) -> FailureOr<SmallVector<Value>> {
    Coord at = tileAt(i);
    Value x = read(at, lanes);
    if (!x)
      return failure();
    if (op.getReverse())
      x = inside(x, at);
    auto scan = tile::ScanOp::create(b, loc, x.getType(), element, kindAttr(),
                                     x, init, exclusive(), reverse());
    if (failed(epilogue.store(e, scan.getResult(), at)))
      return failure();
    return SmallVector<Value>{scan.getTotal()};
  };
  std::optional<int64_t> number = length.asConstant();
  if (clusterSize == 1 && number && *number <= lanes && *number > 0)
    return scanTile(e.constant(0), Value());
  forEach(
      e, e.constant(0), tiles, carried,
      [&](Value i, ValueRange carried) { return scanTile(i, carried[0]); },
      status);
  return status;
}

LogicalResult ScanBuilder::buildLookBack() {
  SmallVector<Dim> around;
  Dim lines = length.like(1);
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != axis) {
      around.push_back(dim);
      lines = lines * dim;
    }
  Dim tiles = length.ceilDiv(length.like(lanes));
  Value state = e.stateBuffer();
  // Lines in turns: what a tile waits for began long before.
  Value ticket =
      tile::TicketOp::create(b, loc, b.getIndexType(), state, e.constant(0));
  Value number = e.div(ticket, e.size(lines));
  Value line = e.rem(ticket, e.size(lines));
  SmallVector<Value> outer = e.delinearize(line, around);
  Value place = op.getReverse()
                    ? e.sub(e.sub(e.size(tiles), e.constant(1)), number)
                    : number;
  Coord at;
  at.lanes = lanes;
  unsigned next = 0;
  Value start = e.mul(place, e.constant(lanes));
  for (size_t i = 0; i < dims.size(); ++i)
    at.dims.push_back(i == axis ? LaneIndex{start, 1, {}, lanes}
                                : LaneIndex{outer[next++]});
  if (length.knownDivisor() % lanes)
    at.valid = e.sub(e.size(length), start);
  Value x = read(at, lanes);
  if (!x)
    return failure();
  // From the end the lanes behind it come first.
  if (op.getReverse() && at.valid)
    x = arith::SelectOp::create(b, loc, e.laneMask(lanes, at.valid), x,
                                none(lanes));
  auto scan = tile::ScanOp::create(b, loc, x.getType(), element, kindAttr(), x,
                                   Value(), exclusive(), reverse());
  Value words = e.size(wordsOfLine(tiles, element));
  Value before = tile::LookBackOp::create(
      b, loc, element, kindAttr(), scan.getTotal(), state,
      e.add(e.constant(kHeadWords), e.mul(line, words)), number, e.size(tiles),
      IntegerAttr());
  return epilogue.store(e, combine(e.widen(before, lanes), scan.getResult()),
                        at);
}

LogicalResult ScanBuilder::buildShort() {
  int64_t row = config.rowLength;
  Dim lines = length.like(1);
  for (auto [i, dim] : llvm::enumerate(dims))
    lines = i == axis ? lines : lines * dim;
  Value id = tile::ProgramIdOp::create(b, loc);
  auto type = VectorType::get(lanes, b.getIndexType());
  auto splat = [&](Value v) {
    return vector::BroadcastOp::create(b, loc, type, v);
  };
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  Value lane = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  Value first = e.mul(id, e.constant(lanes / row));
  Value line = arith::AddIOp::create(
      b, loc, splat(first),
      arith::ShRUIOp::create(b, loc, lane,
                             splat(e.constant(llvm::Log2_64(row)))));
  Value column =
      arith::AndIOp::create(b, loc, lane, splat(e.constant(row - 1)));
  Coord at;
  at.lanes = lanes;
  at.dims = {{{}, 0, line}, {{}, 0, column}};
  Value left = e.mul(e.sub(e.size(lines), first), e.constant(row));
  at.valid = left;
  bool whole = length.isConstant(row);
  if (!whole)
    at.mask = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, column,
                                    splat(e.size(length)));
  SmallVector<Dim> pair{lines, length};
  Coord full = e.reshape(at, pair, dims);
  // Whole lines follow each other: a run of memory.
  Coord flat;
  flat.lanes = lanes;
  flat.valid = left;
  flat.dims = {{e.mul(id, e.constant(lanes)), 1, {}, lanes}};
  auto flatType = [&](Value tensor) {
    return ts::tensorType(b.getContext(), {ts::elementCount(tensor.getType())},
                          ts::elementTypeOf(tensor));
  };
  if (whole)
    e.provide = [&](Value tensor, const Coord &coord) -> Value {
      auto argument = dyn_cast<BlockArgument>(tensor);
      if (!argument || !(coord == full) || ts::dimsOf(tensor) != dims)
        return {};
      return e.load(e.inputBuffer(argument), flatType(tensor), flat);
    };
  Value x = read(full, lanes);
  if (!x)
    return failure();
  // From the end of a line the lanes behind it come first.
  if (op.getReverse() && !whole)
    x = arith::SelectOp::create(b, loc, at.mask, x, none(lanes));
  Value scanned = tile::ScanRowsOp::create(b, loc, x.getType(), kindAttr(), x,
                                           b.getI64IntegerAttr(row),
                                           exclusive(), reverse());
  LogicalResult status = success();
  if (whole && epilogue.keepsPlaces()) {
    Value result = epilogue.value(e, scanned, full);
    status = success(bool(result));
    if (result)
      e.store(result, e.outputBuffer(0),
              flatType(context.kernel.yield().getValues()[0]), flat);
  } else {
    status = epilogue.store(e, scanned, full);
  }
  e.provide = nullptr;
  return status;
}

LogicalResult ScanBuilder::buildColumns() {
  SmallVector<Dim> around;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != axis)
      around.push_back(i + 1 == dims.size() ? dim.ceilDiv(dim.like(lanes))
                                            : dim);
  Value id = share(tile::ProgramIdOp::create(b, loc), 1);
  SmallVector<Value> outer = e.delinearize(id, around);
  Coord coord;
  coord.lanes = lanes;
  unsigned next = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == axis) {
      coord.dims.push_back({});
    } else if (i + 1 == dims.size()) {
      Value start = e.mul(outer[next++], e.constant(lanes));
      coord.dims.push_back({start, 1, {}, lanes});
      if (dims[i].knownDivisor() % lanes)
        coord.valid = e.sub(e.size(dims[i]), start);
    } else {
      coord.dims.push_back({outer[next++]});
    }
  }
  return walkSteps([&](Value step) {
    Coord at = coord;
    at.dims[axis] = {step};
    return at;
  });
}

LogicalResult ScanBuilder::buildLines() {
  Dim before = length.like(1), inner = before;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    before = i < axis ? before * dim : before;
    inner = i > axis ? inner * dim : inner;
  }
  Dim lines = before * inner;
  Value first =
      e.mul(share(tile::ProgramIdOp::create(b, loc), 1), e.constant(lanes));
  auto type = VectorType::get(lanes, b.getIndexType());
  auto splat = [&](Value v) {
    return vector::BroadcastOp::create(b, loc, type, v);
  };
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  Value line = arith::AddIOp::create(
      b, loc, splat(first),
      arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers))));
  // Behind the end the last line again, so that no read waits for a branch.
  if (lines.knownDivisor() % lanes)
    line = arith::MinUIOp::create(b, loc, line,
                                  splat(e.sub(e.size(lines), e.constant(1))));
  Value count = splat(e.size(inner));
  LaneIndex outside{{}, 0, arith::DivUIOp::create(b, loc, line, count)};
  LaneIndex inside{{}, 0, arith::RemUIOp::create(b, loc, line, count)};
  Value valid =
      lines.knownDivisor() % lanes ? e.sub(e.size(lines), first) : Value();
  return walkSteps([&](Value step) {
    Coord at;
    at.lanes = lanes;
    at.valid = valid;
    at.dims = {outside, {step}, inside};
    return e.reshape(at, {before, length, inner}, dims);
  });
}

LogicalResult
ScanBuilder::walkSteps(llvm::function_ref<Coord(Value step)> coordAt) {
  constexpr int64_t atOnce = 8; // steps
  auto stepAt = [&](Value i) {
    return coordAt(op.getReverse()
                       ? e.sub(e.sub(e.add(begin, end), e.constant(1)), i)
                       : i);
  };
  using Step = llvm::function_ref<FailureOr<Value>(Value x, const Coord &at,
                                                   Value carried)>;
  auto walk = [&](Value init, Step step) -> FailureOr<Value> {
    LogicalResult status = success();
    auto steps = [&](int64_t count, Value i,
                     ValueRange carried) -> FailureOr<SmallVector<Value>> {
      SmallVector<Value> values;
      SmallVector<Coord> places;
      for (int64_t j = 0; j < count; ++j) {
        places.push_back(stepAt(e.add(i, e.constant(j))));
        Coord from = places.back();
        if (config.form == ScanForm::lines)
          from.valid = {};
        values.push_back(read(from, lanes));
        if (!values.back())
          return failure();
      }
      Value run = carried[0];
      for (auto [x, at] : llvm::zip(values, places)) {
        FailureOr<Value> after = step(x, at, run);
        if (failed(after))
          return failure();
        run = *after;
      }
      return SmallVector<Value>{run};
    };
    Value whole = e.sub(end, e.rem(e.sub(end, begin), e.constant(atOnce)));
    SmallVector<Value> run = forEach(
        e, begin, whole, init,
        [&](Value i, ValueRange c) { return steps(atOnce, i, c); }, status,
        atOnce);
    if (!length.asConstant() || clusterSize > 1 ||
        *length.asConstant() % atOnce)
      run = forEach(
          e, whole, end, run[0],
          [&](Value i, ValueRange c) { return steps(1, i, c); }, status);
    if (failed(status))
      return failure();
    return run[0];
  };
  Value init = none(lanes);
  if (clusterSize > 1) {
    FailureOr<Value> own = walk(
        init, [&](Value x, const Coord &, Value carried) -> FailureOr<Value> {
          return combine(carried, x);
        });
    if (failed(own))
      return failure();
    init = before(*own);
  }
  return walk(
      init, [&](Value x, const Coord &at, Value carried) -> FailureOr<Value> {
        Value sum = combine(carried, x);
        if (failed(epilogue.store(e, op.getExclusive() ? carried : sum, at)))
          return failure();
        return sum;
      });
}

} // namespace scan

LogicalResult buildGpuScan(BuildContext &context) {
  ts::ScanOp op = firstOp<ts::ScanOp>(context.kernel);
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::ScanGpuConfig>(context);
  if (failed(config))
    return failure();
  scan::ScanBuilder builder{
      .context = context, .config = *config, .epilogue = std::move(*epilogue)};
  switch (config->form) {
  case ScanForm::row:
    return builder.buildRows();
  case ScanForm::shortRows:
    return builder.buildShort();
  case ScanForm::columns:
    return builder.buildColumns();
  case ScanForm::lookBack:
    return builder.buildLookBack();
  case ScanForm::lines:
    return builder.buildLines();
  case ScanForm::narrow:
    return builder.buildNarrow();
  }
  llvm_unreachable("a form of scans");
}

} // namespace knapper
