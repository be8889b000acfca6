// The loops of a pass: over the reduced dims around the lane dim, then over the
// tiles of the run.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

struct ReduceBuilder::TileLoops {
  using Values = FailureOr<SmallVector<Value>>;
  using StepFn = llvm::function_ref<Values(Value index, ValueRange carried)>;

  ReduceBuilder &r;
  ValueRange start; ///< what the outermost loop begins with
  TileFn body;
  JoinFn join; ///< null where the innermost loop carries on
  ElementEmitter &e = r.e;
  const Space &space = r.space;
  SmallVector<unsigned> around = {}; ///< dims of the loops, outermost first
  DenseMap<unsigned, Value> indices{};
  LogicalResult status = success();

  Values build() {
    for (unsigned d = 0; d < space.dims.size(); ++d)
      if (r.isReduced(d) && !(r.rowForm && d >= r.first && d <= r.lane))
        around.push_back(d);
    Dim iterations = r.length.like(1);
    for (unsigned d : around)
      iterations = iterations * space.dims[d];
    constexpr int64_t fewIterations = 256;
    std::optional<int64_t> known = iterations.asConstant();
    if (around.size() <= 1 || (known && *known <= fewIterations))
      join = nullptr;
    for (unsigned d = r.first; d < r.lane; ++d)
      indices[d] = e.constant(0);
    Values results = loop(0, start);
    if (failed(status))
      return failure();
    return results;
  }

private:
  /// The loop over `around[level]` and those inside it.
  Values loop(unsigned level, ValueRange values) {
    if (level == around.size())
      return tiles(values);
    unsigned d = around[level];
    bool isInnermost = level + 1 == around.size();
    if (space.dims[d].isConstant(1)) {
      indices[d] = e.constant(0);
      return loop(level + 1, values);
    }
    auto step = [&](Value i, ValueRange inner) {
      indices[d] = i;
      if (!r.rowForm && isInnermost)
        r.fetchColumns(d, indices);
      return loop(level + 1, inner);
    };
    if (r.holdsColumns())
      return unrolled(Value(), *space.dims[d].asConstant(), values, step);
    auto [from, to] = r.ownRows(d);
    if (join && isInnermost)
      return join(values, forEach(e, from, to, start, step, status));
    if (r.target.simt && !r.rowForm && isInnermost)
      return severalAtOnce(d, from, to, values, step);
    return forEach(e, from, to, values, step, status);
  }

  /// `count` steps from `begin` (null: 0) on, one after another without a loop.
  Values unrolled(Value begin, int64_t count, ValueRange values, StepFn step) {
    SmallVector<Value> next(values);
    for (int64_t k = 0; k < count; ++k) {
      Values sums =
          step(begin ? e.add(begin, e.constant(k)) : e.constant(k), next);
      if (failed(sums))
        return failure();
      next = std::move(*sums);
    }
    return next;
  }

  /// Rows that a thread of a GPU asks for at once.
  int64_t rowsAtOnce() const {
    // Of narrow elements an access holds more.
    int64_t bytes = 4;
    for (BlockArgument argument : r.kernel.getBody().getArguments())
      bytes = std::min(bytes, ts::elementBytes(ts::elementTypeOf(argument)));
    // (At an edge each is a branch, whose registers a large block has not.)
    bool isCut = r.part && r.laneValid;
    if (bytes == 4 &&
        r.kernel.getBody().getOps<ts::ElementwiseOpInterface>().empty())
      return isCut ? 8 : 16; // nothing else wants registers
    return r.part && !isCut ? 8 : 4;
  }

  /// A loop of several rows an iteration, and one over those that are left.
  Values severalAtOnce(unsigned d, Value from, Value to, ValueRange values,
                       StepFn step) {
    int64_t atOnce = rowsAtOnce();
    Value all = e.sub(to, from);
    Value most = e.sub(to, e.rem(all, e.constant(atOnce)));
    SmallVector<Value> carried = forEach(
        e, from, most, values,
        [&](Value i, ValueRange inner) {
          return unrolled(i, atOnce, inner, step);
        },
        status, atOnce);
    if (space.dims[d].knownDivisor() % (atOnce * r.clusterSize) == 0 &&
        space.dims[d].asConstant())
      return carried;
    return forEach(e, most, to, carried, step, status);
  }

  /// Where a tile is, but for its place in a row.
  Coord coordOfTile() const {
    Coord coord;
    coord.lanes = r.lanes;
    unsigned nextKept = 0;
    for (unsigned d = 0; d < space.dims.size(); ++d) {
      if (r.isReduced(d))
        coord.dims.push_back(
            {d == r.lane && r.rowForm ? Value() : indices.lookup(d)});
      else if (r.across)
        coord.dims.push_back(r.keptLanes[nextKept++]);
      else if (d == r.lane)
        coord.dims.push_back({r.laneStart, 1, {}, r.lanes});
      else
        coord.dims.push_back({r.kept[nextKept++]});
    }
    return coord;
  }

  /// The tiles inside all loops: one of a column, all of a run.
  Values tiles(ValueRange values) {
    Coord coord = coordOfTile();
    Value base = e.constant(0);
    for (unsigned d : around)
      base = e.add(e.mul(base, e.size(space.dims[d])), indices[d]);
    if (r.rowForm)
      return tilesOfRun(coord, base, values);
    if (!r.across)
      coord.valid = r.laneValid;
    if (!r.keep.empty())
      r.position = e.mul(base, e.constant(r.lanes));
    return body(coord, Value(), values);
  }

  Values tilesOfRun(Coord coord, Value base, ValueRange values) {
    base = e.mul(base, e.size(r.length));
    int64_t known = r.length.knownDivisor(), lanes = r.lanes;
    std::optional<int64_t> number = r.length.asConstant();
    auto tileAt = [&](Value place, Value position, Value valid,
                      ValueRange inner) {
      Coord at = coord;
      at.dims[r.lane] = {place, 1, {}, lanes};
      at.valid = valid;
      r.position = position;
      return body(at, valid, inner);
    };
    // One tile: nothing stands around it, so that each pass is seen to read
    // what the one before has read.
    if (r.partStart && !r.partEnd)
      return tileAt(r.partStart, e.add(base, r.partStart), r.partValid, values);
    if (r.target.simt && number && *number > 0 &&
        (*number < lanes || (*number == lanes && r.rows > 1))) {
      Value start = e.constant(0);
      return tileAt(start, base,
                    *number < lanes ? e.constant(*number) : Value(), values);
    }
    return forLanes(
        e, r.partStart ? r.partStart : e.constant(0),
        r.partEnd ? r.partEnd : e.size(r.length), lanes,
        known && known % lanes == 0, values,
        [&](Value i, Value valid, ValueRange inner) {
          return tileAt(i, e.add(base, i), valid, inner);
        },
        status);
  }
};

FailureOr<SmallVector<Value>>
ReduceBuilder::forTiles(ValueRange carried, TileFn body, JoinFn join) {
  if (columns)
    return forSteps(carried, body);
  return TileLoops{*this, carried, body, join}.build();
}

bool ReduceBuilder::holdsColumns() {
  auto isFull = [&](Value value) { return ts::dimsOf(value) == space.dims; };
  bool readsAgain =
      levels.size() > 1 || llvm::any_of(kernel.yield().getValues(), isFull);
  if (!target.simt || rowForm || part || !readsAgain ||
      !kernel.getBody().getOps<ts::ArgReduceOp>().empty())
    return false;
  // Numbers of a thread: an access of each row and operand.
  constexpr int64_t access = 16, most = 64;
  int64_t held = 0;
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (isFull(argument))
      held +=
          across || columns
              ? 1
              : access / std::min<int64_t>(
                             4, ts::elementBytes(ts::elementTypeOf(argument)));
  Dim rows = length.like(1);
  for (int64_t d : space.reduced)
    rows = rows * space.dims[d];
  std::optional<int64_t> known = rows.asConstant();
  if (columns)
    return held > 0 && rowsOfThread() * held <= kMostHeldRows;
  return held > 0 && known && *known * held <= (across ? most / 4 : most);
}

std::pair<Value, Value> ReduceBuilder::ownRows(unsigned dim) {
  Value rows = e.size(space.dims[dim]);
  if (!part || dim != sharedDim(space))
    return {e.constant(0), rows};
  auto before = [&](Value programs) {
    return e.div(e.mul(rows, programs), e.constant(clusterSize));
  };
  return {before(part), before(e.add(part, e.constant(1)))};
}

} // namespace knapper
