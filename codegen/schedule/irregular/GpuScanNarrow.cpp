// Scans of lines of which few lie beside each other: a CTA has all of these, a
// run of each or whole short ones (GpuScan.cpp).
#include "codegen/schedule/irregular/GpuScanBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper::scan {

using ts::Dim;

LogicalResult ScanBuilder::buildNarrow() {
  Dim before = length.like(1), inner = before;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    before = i < axis ? before * dim : before;
    inner = i > axis ? inner * dim : inner;
  }
  bool whole = config.tiles > 0;
  int64_t columns = *inner.asConstant(),
          groups = whole ? wholeGroups(*length.asConstant(), config.steps)
                         : narrowGroups(lanes, columns);
  if (whole && config.tiles * groups * columns > lanes)
    return context.kernel->emitOpError("has ")
           << config.tiles << " tiles of " << groups * columns
           << " threads, more than its " << lanes << " lanes";
  Dim tiles = length.ceilDiv(length.like(groups * config.steps));
  Value state, number = e.constant(0), outer;
  if (!whole) {
    state = e.stateBuffer();
    Value ticket =
        tile::TicketOp::create(b, loc, b.getIndexType(), state, e.constant(0));
    number = e.div(ticket, e.size(before));
    outer = e.rem(ticket, e.size(before));
  }

  auto type = VectorType::get(lanes, b.getIndexType());
  auto splat = [&](Value v) -> Value {
    return vector::BroadcastOp::create(b, loc, type, v);
  };
  auto compare = [&](arith::CmpIPredicate p, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, p, x, y);
  };
  auto plus = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, loc, x, y);
  };
  using P = arith::CmpIPredicate;
  Value lane = e.lanePositions({e.constant(0), 1, {}, 1}, lanes);
  int64_t lanesOfTile = groups * columns;
  // The number of a lane's tile, its group there and its column.
  Dim one = length.like(1);
  SmallVector<LaneIndex> parted = e.split(
      {e.constant(0), 1, {}, 1},
      {one * (lanes / lanesOfTile + 1), one * groups, one * columns}, lanes);
  Value tile = e.lanePositions(parted[0], lanes),
        group = e.lanePositions(parted[1], lanes),
        column = e.lanePositions(parted[2], lanes);
  Value used = compare(
      P::ult, lane,
      splat(e.constant(lanesOfTile * std::max<int64_t>(config.tiles, 1))));
  LaneIndex place{outer};
  Value first; // lane of the tile
  if (whole) {
    Value at = plus(splat(e.mul(tile::ProgramIdOp::create(b, loc),
                                e.constant(config.tiles))),
                    tile);
    used = arith::AndIOp::create(b, loc, used,
                                 compare(P::ult, at, splat(e.size(before))));
    Value last = splat(e.sub(e.size(before), e.constant(1)));
    place = {{}, 0, arith::MinUIOp::create(b, loc, at, last)};
    first = arith::SelectOp::create(
        b, loc, used,
        arith::MulIOp::create(b, loc, tile, splat(e.constant(lanesOfTile))),
        splat(e.constant(0)));
  }
  // Places in the order of the scan.
  Value start = plus(
      splat(e.mul(number, e.constant(groups * config.steps))),
      arith::MulIOp::create(b, loc, group, splat(e.constant(config.steps))));
  Value size = splat(e.size(length)), last = plus(size, splat(e.constant(-1)));
  SmallVector<Value> values;
  SmallVector<Coord> places;
  for (int64_t s = 0; s < config.steps; ++s) {
    Value row = plus(start, splat(e.constant(s)));
    Value inside =
        arith::AndIOp::create(b, loc, used, compare(P::ult, row, size));
    // Behind the end that is read again, so that no read waits for a branch.
    row = arith::MinUIOp::create(b, loc, row, last);
    if (op.getReverse())
      row = arith::SubIOp::create(b, loc, last, row);
    Coord at;
    at.lanes = lanes;
    at.dims = {place, {{}, 0, row}, {{}, 0, column}};
    at = e.reshape(at, {before, length, inner}, dims);
    Value x = read(at, lanes);
    if (!x)
      return failure();
    values.push_back(arith::SelectOp::create(b, loc, inside, x, none(lanes)));
    at.mask = inside;
    places.push_back(at);
  }
  Value own = values.front();
  for (Value x : ArrayRef<Value>(values).drop_front())
    own = combine(own, x);

  // Of each line: what the groups before make, and what all do.
  auto shared = [&](int64_t count) -> Value {
    return tile::SharedOp::create(b, loc, tile::BufferType::get(element),
                                  count);
  };
  Value list = shared(lanes);
  auto from = [&](Value buffer, Value at) -> Value {
    return tile::GatherOp::create(b, loc, VectorType::get(lanes, element),
                                  buffer, at);
  };
  tile::StoreOp::create(b, loc, own, list, e.constant(0));
  tile::BarrierOp::create(b, loc);
  LogicalResult status = success();
  int64_t atOnce = std::min(groups, kGroupsAtOnce);
  auto join = [&](Value g, ValueRange carried) -> SmallVector<Value> {
    Value mine = carried[0], total = carried[1];
    for (int64_t i = 0; i < atOnce; ++i) {
      Value at = e.add(g, e.constant(i));
      mine = arith::SelectOp::create(b, loc, compare(P::eq, group, splat(at)),
                                     total, mine);
      Value there = plus(column, splat(e.mul(at, e.constant(columns))));
      total = combine(total, from(list, whole ? plus(first, there) : there));
    }
    return {mine, total};
  };
  SmallVector<Value> sums{none(lanes), none(lanes)};
  if (groups > 2 * kGroupsAtOnce) {
    sums = forEach(
        e, e.constant(0), e.constant(groups), sums,
        [&](Value g, ValueRange carried) -> FailureOr<SmallVector<Value>> {
          return join(g, carried);
        },
        status, atOnce);
  } else {
    atOnce = groups;
    sums = join(e.constant(0), sums);
  }
  Value run = sums[0], total = sums[1];
  if (!whole) {
    Value joined = shared(columns);
    Value words = e.size(wordsOfLine(tiles, element) * columns);
    Value looked = tile::LookBackOp::create(
        b, loc, total.getType(), kindAttr(), total, state,
        e.add(e.constant(kHeadWords), e.mul(outer, words)), number,
        e.size(tiles), b.getI64IntegerAttr(columns));
    tile::StoreOp::create(b, loc, looked, joined, e.constant(0),
                          e.constant(columns));
    tile::BarrierOp::create(b, loc);
    run = combine(from(joined, column), run);
  }
  for (auto [x, at] : llvm::zip(values, places)) {
    Value sum = combine(run, x);
    if (failed(epilogue.store(e, op.getExclusive() ? run : sum, at)))
      return failure();
    run = sum;
  }
  return status;
}

} // namespace knapper::scan
