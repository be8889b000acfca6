// Scans of lines of which few lie beside each other: a CTA has all of these, a
// run of each or whole short ones (GpuScan.cpp).
//
// A thread has some steps of one line. What the threads of a line make meets in
// shared memory; what the CTAs before make comes by a look-back.
#include "codegen/schedule/irregular/GpuScanBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper::scan {

using ts::Dim;
using P = arith::CmpIPredicate;

namespace {

class NarrowScan {
public:
  explicit NarrowScan(ScanBuilder &scan)
      : s(scan), before(s.length.like(1)), inner(before) {
    for (auto [i, dim] : llvm::enumerate(s.dims)) {
      before = i < s.axis ? before * dim : before;
      inner = i > s.axis ? inner * dim : inner;
    }
    columns = *inner.asConstant();
    groups = whole ? wholeGroups(*s.length.asConstant(), s.config.steps)
                   : narrowGroups(s.lanes, columns);
    lanesOfTile = groups * columns;
  }

  LogicalResult build() {
    if (whole && s.config.tiles * lanesOfTile > s.lanes)
      return s.context.kernel->emitOpError("has ")
             << s.config.tiles << " tiles of " << lanesOfTile
             << " threads, more than its " << s.lanes << " lanes";
    number = e.constant(0);
    if (!whole)
      takeTicket();
    placeLanes();
    if (failed(readSteps()))
      return failure();
    Value own = values.front();
    for (Value x : ArrayRef<Value>(values).drop_front())
      own = s.combine(own, x);
    auto [run, total] = joinGroups(own);
    if (!whole)
      run = lookBack(run, total);
    return storeSums(run);
  }

private:
  Value splat(Value v) {
    auto type = VectorType::get(s.lanes, b.getIndexType());
    return vector::BroadcastOp::create(b, loc, type, v);
  }
  Value compare(P predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value plus(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value shared(int64_t count) {
    return tile::SharedOp::create(b, loc, tile::BufferType::get(s.element),
                                  count);
  }
  Value fromShared(Value buffer, Value at) {
    return tile::GatherOp::create(b, loc, VectorType::get(s.lanes, s.element),
                                  buffer, at);
  }

  /// CTAs are counted as they start, so that none waits for one that has not.
  void takeTicket() {
    state = e.stateBuffer();
    Value ticket =
        tile::TicketOp::create(b, loc, b.getIndexType(), state, e.constant(0));
    number = e.div(ticket, e.size(before));
    outer = e.rem(ticket, e.size(before));
  }

  /// Finds each lane's tile, its group there and its column.
  void placeLanes() {
    Value lane = e.lanePositions({e.constant(0), 1, {}, 1}, s.lanes);
    Dim one = s.length.like(1);
    SmallVector<LaneIndex> parted = e.split(
        {e.constant(0), 1, {}, 1},
        {one * (s.lanes / lanesOfTile + 1), one * groups, one * columns},
        s.lanes);
    Value tile = e.lanePositions(parted[0], s.lanes);
    group = e.lanePositions(parted[1], s.lanes);
    column = e.lanePositions(parted[2], s.lanes);
    used = compare(
        P::ult, lane,
        splat(e.constant(lanesOfTile * std::max<int64_t>(s.config.tiles, 1))));
    place = {outer};
    if (whole)
      placeTiles(tile);
  }

  void placeTiles(Value tile) {
    Value at = plus(splat(e.mul(tile::ProgramIdOp::create(b, loc),
                                e.constant(s.config.tiles))),
                    tile);
    used = arith::AndIOp::create(b, loc, used,
                                 compare(P::ult, at, splat(e.size(before))));
    Value last = splat(e.sub(e.size(before), e.constant(1)));
    place = {{}, 0, arith::MinUIOp::create(b, loc, at, last)};
    firstLane = arith::SelectOp::create(
        b, loc, used,
        arith::MulIOp::create(b, loc, tile, splat(e.constant(lanesOfTile))),
        splat(e.constant(0)));
  }

  /// Reads the steps of each lane, in the order of the scan.
  LogicalResult readSteps() {
    int64_t steps = s.config.steps;
    Value start =
        plus(splat(e.mul(number, e.constant(groups * steps))),
             arith::MulIOp::create(b, loc, group, splat(e.constant(steps))));
    Value size = splat(e.size(s.length)),
          last = plus(size, splat(e.constant(-1)));
    for (int64_t step = 0; step < steps; ++step) {
      Value row = plus(start, splat(e.constant(step)));
      Value inside =
          arith::AndIOp::create(b, loc, used, compare(P::ult, row, size));
      // Behind the end that is read again, so that no read waits for a branch.
      row = arith::MinUIOp::create(b, loc, row, last);
      if (s.op.getReverse())
        row = arith::SubIOp::create(b, loc, last, row);
      Coord at;
      at.lanes = s.lanes;
      at.dims = {place, {{}, 0, row}, {{}, 0, column}};
      at = e.reshape(at, {before, s.length, inner}, s.dims);
      Value x = s.read(at, s.lanes);
      if (!x)
        return failure();
      values.push_back(
          arith::SelectOp::create(b, loc, inside, x, s.none(s.lanes)));
      at.mask = inside;
      places.push_back(at);
    }
    return success();
  }

  /// Of each line: what the groups before a lane's make, and what all do.
  std::pair<Value, Value> joinGroups(Value own) {
    Value list = shared(s.lanes);
    tile::StoreOp::create(b, loc, own, list, e.constant(0));
    tile::BarrierOp::create(b, loc);
    auto join = [&](Value g, int64_t atOnce,
                    ValueRange carried) -> SmallVector<Value> {
      Value mine = carried[0], total = carried[1];
      for (int64_t i = 0; i < atOnce; ++i) {
        Value at = e.add(g, e.constant(i));
        mine = arith::SelectOp::create(b, loc, compare(P::eq, group, splat(at)),
                                       total, mine);
        Value there = plus(column, splat(e.mul(at, e.constant(columns))));
        total = s.combine(
            total, fromShared(list, whole ? plus(firstLane, there) : there));
      }
      return {mine, total};
    };
    SmallVector<Value> sums{s.none(s.lanes), s.none(s.lanes)};
    if (groups <= 2 * kGroupsAtOnce) {
      sums = join(e.constant(0), groups, sums);
      return {sums[0], sums[1]};
    }
    sums = forEach(
        e, e.constant(0), e.constant(groups), sums,
        [&](Value g, ValueRange carried) -> FailureOr<SmallVector<Value>> {
          return join(g, kGroupsAtOnce, carried);
        },
        status, kGroupsAtOnce);
    return {sums[0], sums[1]};
  }

  /// `run`, with what the CTAs before make of the lines.
  Value lookBack(Value run, Value total) {
    Dim tiles = s.length.ceilDiv(s.length.like(groups * s.config.steps));
    Value joined = shared(columns);
    Value words = e.size(wordsOfLine(tiles, s.element) * columns);
    Value looked = tile::LookBackOp::create(
        b, loc, total.getType(), s.kindAttr(), total, state,
        e.add(e.constant(kHeadWords), e.mul(outer, words)), number,
        e.size(tiles), b.getI64IntegerAttr(columns));
    tile::StoreOp::create(b, loc, looked, joined, e.constant(0),
                          e.constant(columns));
    tile::BarrierOp::create(b, loc);
    return s.combine(fromShared(joined, column), run);
  }

  LogicalResult storeSums(Value run) {
    for (auto [x, at] : llvm::zip(values, places)) {
      Value sum = s.combine(run, x);
      if (failed(s.epilogue.store(e, s.op.getExclusive() ? run : sum, at)))
        return failure();
      run = sum;
    }
    return status;
  }

  ScanBuilder &s;
  ElementEmitter &e = s.e;
  OpBuilder &b = s.b;
  Location loc = s.loc;
  bool whole = s.config.tiles > 0; ///< a CTA has whole lines: no look-back
  Dim before, inner; ///< sizes before the scanned dim and behind it
  int64_t columns, groups, lanesOfTile;
  Value state, number, outer; ///< look-back: the CTA's part, of which lines
  Value group, column;        ///< of each lane
  Value used;                 ///< lanes that have a line
  Value firstLane;            ///< of each lane's tile, if `whole`
  LaneIndex place;            ///< before the scanned dim
  SmallVector<Value> values;  ///< of each step
  SmallVector<Coord> places;
  LogicalResult status = success();
};

} // namespace

LogicalResult ScanBuilder::buildNarrow() { return NarrowScan(*this).build(); }

} // namespace knapper::scan
