// The first k elements along a dim on GPUs, k small: a line a block, or the
// blocks of a cluster share a long one.
//
//   1  Each lane keeps the best of its elements: any k of these say how good an
//      element has to be. Bisection of their keys, held in registers, finds a
//      bound that not many more than k of them reach.
//   2  The line is read again (from cache), and the places of elements that
//      reach the bound are appended to a list in shared memory. On a line of
//      distinct numbers they are little more than k.
//   3  If the list overflows (equal numbers, NaNs, an order that runs with the
//      lanes) the k-th key itself is found by bisection, a pass over the line
//      a step; then all above it are listed and, in order, as many as it takes
//      of those equal to it.
//   4  Key and place make words, no two of which are equal. Each counts the
//      larger ones, which is where it belongs.
//
// Parameters: lanes (of a tile), threads, access (lanes that a thread has side
// by side), tiles (read before one is looked at), places (of the list),
// cluster_size.
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/irregular/GpuSorter.h"
#include "ir/tile/BlockOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

LogicalResult chooseGpuTopK(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op)
    return kernel.emitOpError("has hero sort and none inside");
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim lines = ts::product(kernel.getContext(), aroundOf(op)),
      one = lines.like(1);
  int64_t bytes = ts::elementBytes(ts::elementTypeOf(op.getInput()));
  Dim length = dims[op.getDim()], k = op.getK();

  // Of the list twice as many places as elements asked for; words and lists
  // have to lie in 48 KiB. The bound is good while lanes are twice as many,
  // too.
  constexpr int64_t access = 16, leastThreads = 128, mostThreads = 512;
  constexpr int64_t leastPlaces = 256, mostPlaces = 2048, mostWidePlaces = 1024;
  // Bytes take a register each.
  constexpr int64_t mostWidth = 8, tilesAtOnce = 4;
  int64_t width = std::min(access / bytes, mostWidth), threads = leastThreads;
  // Lines that begin anywhere are read element by element, many at once anyway.
  bool last = op.getDim() + 1 == dims.size();
  bool aligned = last && length.knownDivisor() * bytes % access == 0;
  int64_t tiles = aligned ? tilesAtOnce : 1;
  int64_t most = bytes > 4 ? mostWidePlaces : mostPlaces, places = most;
  std::optional<int64_t> number = k.asConstant();
  if (number)
    places = std::clamp<int64_t>(
        llvm::PowerOf2Ceil(2 * std::max<int64_t>(*number, 1)), leastPlaces,
        most);
  while (threads < mostThreads &&
         (threads * width < places ||
          threads * width * tiles < representative(length)))
    threads *= 2;
  int64_t lanes = threads * width;
  int64_t largest = std::min(places, lanes) / 2;
  Conditions conditions;
  if (number && *number > largest)
    return success();
  if (!number)
    conditions.require(k, ts::ComparePredicate::le, largest);

  Schedule schedule;
  schedule.kind = "gpu_top_k";
  schedule.guard = conditions.guard;
  // Few long lines are shared out, so that all processors have work.
  constexpr int64_t mostBlocks = 8, sharedPlaces = 1024;
  int64_t clusterSize = 1;
  std::optional<int64_t> programs = lines.asConstant(),
                         elements = length.asConstant();
  // (Other GPUs have no clusters.)
  if (target.clusters && programs && elements &&
      places <= sharedPlaces / (bytes > 4 ? 2 : 1))
    while (clusterSize < mostBlocks &&
           *programs * clusterSize < target.programsForAll() &&
           *elements >= 2 * clusterSize * lanes * tiles)
      clusterSize *= 2;
  // CTAs that wait for their lists have others beside them.
  constexpr int64_t leastCtas = 2, heldThreads = 640;
  int64_t ctasPerSm = std::max(leastCtas, heldThreads / threads);
  schedule.parameters = config::print(config::TopKGpuConfig{
      {lanes, threads, width}, tiles, places, clusterSize, ctasPerSm});
  schedule.grid = lines * clusterSize;
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

struct TopKBuilder : GpuSorter {
  int64_t atOnce, limit, clusterSize;
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Value begin = {}, end = {}, part = {}; ///< this program's run of the line
  Value wanted = {};                     ///< k, i32
  Value list = {}, counter = {};         ///< places, i32

  TopKBuilder(BuildContext &context, const config::TopKGpuConfig &config)
      : GpuSorter{.context = context, .lanes = config.lanes},
        atOnce(config.tiles), limit(config.places),
        clusterSize(config.clusterSize) {}

  //===- Numbers ----------------------------------------------------------===//
  Value integer(int64_t n) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(n));
  }
  Value toInt(Value index) {
    return arith::IndexCastOp::create(b, loc, i32, index);
  }
  Value toIndex(Value number) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
  }
  Value compare(arith::CmpIPredicate p, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, p, x, y);
  }
  Value all(vector::CombiningKind kind, Value tile) {
    return vector::ReductionOp::create(b, loc, kind, tile);
  }
  /// 1 where the mask is true.
  Value ones(Value mask) {
    return arith::ExtUIOp::create(b, loc, counts, mask);
  }
  /// What the cluster's programs have together.
  Value ofCluster(vector::CombiningKind kind, Value own) {
    if (clusterSize == 1)
      return own;
    auto attribute = vector::CombiningKindAttr::get(b.getContext(), kind);
    auto around = [&](bool reverse) -> Value {
      return tile::ClusterScanOp::create(b, loc, own.getType(), attribute, own,
                                         reverse ? b.getUnitAttr()
                                                 : UnitAttr());
    };
    for (Value other : {around(false), around(true)})
      own = vector::makeArithReduction(b, loc, kind, own, other);
    return own;
  }
  Value sumOf(Value tile) {
    return ofCluster(vector::CombiningKind::ADD,
                     all(vector::CombiningKind::ADD, tile));
  }

  //===- The line ---------------------------------------------------------===//
  void share();
  using Body = llvm::function_ref<FailureOr<SmallVector<Value>>(
      ArrayRef<Value> tiles, ArrayRef<Coord> at, ValueRange carried)>;
  /// All of this program's elements in order, some tiles at a time.
  FailureOr<SmallVector<Value>> pass(ValueRange carried, Body body);
  Value inside(Value mask, const Coord &at) {
    return at.valid ? both(mask, e.laneMask(lanes, at.valid)) : mask;
  }
  /// Appends the places of lanes.
  void append(Value mask, const Coord &at);
  Value listed() { // i32
    return tile::LoadOp::create(b, loc, i32, counter, e.constant(0));
  }
  void clear();

  //===- Steps ------------------------------------------------------------===//
  /// The largest key between `low` and `high` that at least `least` reach, or
  /// a smaller one that no more than `enough` do.
  Value bisect(Value low, Value high, Value count, Value least, Value enough,
               llvm::function_ref<FailureOr<Value>(Value key)> reaching,
               LogicalResult &status);
  LogicalResult selectExactly(Value low, Value high, Value count);
  LogicalResult rankAndStore();
  LogicalResult build();
};

void TopKBuilder::share() {
  SmallVector<Dim> around;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != axis)
      around.push_back(dim);
  Value id = tile::ProgramIdOp::create(b, loc), n = e.size(dims[axis]);
  begin = part = e.constant(0);
  end = n;
  if (clusterSize > 1) {
    Dim each = dims[axis].ceilDiv(dims[axis].like(lanes * clusterSize));
    Value size = e.mul(e.size(each), e.constant(lanes));
    part = e.rem(id, e.constant(clusterSize));
    begin = e.min(e.mul(part, size), n);
    end = e.min(e.add(e.mul(part, size), size), n);
    id = e.div(id, e.constant(clusterSize));
  }
  SmallVector<Value> outer = e.delinearize(id, around);
  unsigned next = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    line.dims.push_back({i == axis ? Value() : outer[next++]});
  line.lanes = lanes;
}

FailureOr<SmallVector<Value>> TopKBuilder::pass(ValueRange carried, Body body) {
  LogicalResult status = success();
  std::optional<int64_t> number = dims[axis].asConstant();
  int64_t step = lanes * atOnce;
  SmallVector<Value> results = forLanes(
      e, begin, end, step, clusterSize == 1 && number && *number % step == 0,
      carried,
      [&](Value i, Value valid,
          ValueRange carried) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> tiles;
        SmallVector<Coord> places;
        for (int64_t j = 0; j < atOnce; ++j) {
          Coord at = line;
          at.dims[axis] = {e.add(i, e.constant(j * lanes)), 1, {}, lanes};
          if (valid)
            at.valid = e.sub(valid, e.constant(j * lanes));
          Value x = e.emit(op.getInput(), at);
          if (!x)
            return failure();
          tiles.push_back(e.widen(x, lanes));
          places.push_back(at);
        }
        return body(tiles, places, carried);
      },
      status);
  if (failed(status))
    return failure();
  return results;
}

void TopKBuilder::append(Value mask, const Coord &at) {
  Value places = arith::IndexCastOp::create(
      b, loc, counts, e.lanePositions(at.dims[axis], lanes));
  tile::AppendOp::create(b, loc, ValueRange(places), inside(mask, at),
                         ValueRange(list), counter, limit);
}

void TopKBuilder::clear() {
  tile::BarrierOp::create(b, loc);
  tile::StoreOp::create(b, loc, integer(0), counter, e.constant(0));
  tile::BarrierOp::create(b, loc);
}

Value TopKBuilder::bisect(
    Value low, Value high, Value count, Value least, Value enough,
    llvm::function_ref<FailureOr<Value>(Value key)> reaching,
    LogicalResult &status) {
  using P = arith::CmpIPredicate;
  SmallVector<Type> types{low.getType(), high.getType(), i32};
  SmallVector<Location> places(3, loc);
  auto loop = scf::WhileOp::create(b, loc, types, ValueRange{low, high, count});
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, places);
  Value open =
      both(compare(P::ult, before->getArgument(0), before->getArgument(1)),
           compare(P::ugt, before->getArgument(2), enough));
  scf::ConditionOp::create(b, loc, open, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, places);
  Value from = after->getArgument(0), to = after->getArgument(1);
  // Above the lower one, so that it ends; without overflow.
  Value half = arith::ShRUIOp::create(
      b, loc, arith::SubIOp::create(b, loc, to, from), keys.number(1, 0));
  Value middle = arith::AddIOp::create(
      b, loc, arith::AddIOp::create(b, loc, from, half), keys.number(1, 0));
  FailureOr<Value> reached = e.scoped([&] { return reaching(middle); });
  if (failed(reached)) {
    status = failure();
    reached = after->getArgument(2);
  }
  Value are = compare(P::uge, *reached, least);
  auto pick = [&](Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, are, x, y);
  };
  Value below = arith::SubIOp::create(b, loc, middle, keys.number(1, 0));
  scf::YieldOp::create(b, loc,
                       ValueRange{pick(middle, from), pick(to, below),
                                  pick(*reached, after->getArgument(2))});
  return loop.getResult(0);
}

LogicalResult TopKBuilder::selectExactly(Value low, Value high, Value count) {
  using P = arith::CmpIPredicate;
  Value none = e.splat(i32, lanes, 0);
  LogicalResult status = success();
  auto reaching = [&](P predicate, Value key) -> FailureOr<Value> {
    FailureOr<SmallVector<Value>> number = pass(
        none,
        [&](ArrayRef<Value> tiles, ArrayRef<Coord> at,
            ValueRange carried) -> FailureOr<SmallVector<Value>> {
          Value sum = carried[0];
          for (auto [x, where] : llvm::zip(tiles, at)) {
            Value is =
                compare(predicate, keys.of(x, lanes), e.widen(key, lanes));
            sum = arith::AddIOp::create(b, loc, sum, ones(inside(is, where)));
          }
          return SmallVector<Value>{sum};
        });
    if (failed(number))
      return failure();
    return all(vector::CombiningKind::ADD, (*number)[0]);
  };
  Value last = bisect(
      low, high, count, wanted, wanted,
      [&](Value key) -> FailureOr<Value> {
        FailureOr<Value> own = reaching(P::uge, key);
        if (failed(own))
          return failure();
        return ofCluster(vector::CombiningKind::ADD, *own);
      },
      status);
  if (failed(status))
    return failure();
  clear();
  if (failed(pass({},
                  [&](ArrayRef<Value> tiles, ArrayRef<Coord> at,
                      ValueRange) -> FailureOr<SmallVector<Value>> {
                    for (auto [x, where] : llvm::zip(tiles, at))
                      append(compare(P::ugt, keys.of(x, lanes),
                                     e.widen(last, lanes)),
                             where);
                    return SmallVector<Value>();
                  })))
    return failure();
  tile::BarrierOp::create(b, loc);
  Value above = ofCluster(vector::CombiningKind::ADD, listed());
  Value left = arith::SubIOp::create(b, loc, wanted, above);
  // Equal ones of the parts before this one go first.
  Value taken = integer(0);
  auto add = vector::CombiningKindAttr::get(b.getContext(),
                                            vector::CombiningKind::ADD);
  if (clusterSize > 1) {
    FailureOr<Value> own = reaching(P::eq, last);
    if (failed(own))
      return failure();
    taken = tile::ClusterScanOp::create(b, loc, i32, add, *own, UnitAttr());
  }
  return pass(
      taken,
      [&](ArrayRef<Value> tiles, ArrayRef<Coord> at,
          ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value before = carried[0];
        for (auto [x, where] : llvm::zip(tiles, at)) {
          Value is = inside(
              compare(P::eq, keys.of(x, lanes), e.widen(last, lanes)), where);
          auto scan = tile::ScanOp::create(
              b, loc, counts, i32, add, ones(is), before,
              /*exclusive=*/b.getUnitAttr(), /*reverse=*/UnitAttr());
          append(
              both(is, compare(P::ult, scan.getResult(), e.widen(left, lanes))),
              where);
          before = scan.getTotal();
        }
        return SmallVector<Value>{before};
      });
}

LogicalResult TopKBuilder::rankAndStore() {
  SmallVector<Value, 2> own, every, sorted;
  SmallVector<Type, 2> types = keys.wordTypes();
  auto lists = [&](SmallVector<Value, 2> &lists) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(counter);
    for (Type type : types)
      lists.push_back(
          tile::SharedOp::create(b, loc, tile::BufferType::get(type), limit));
  };
  lists(own);
  lists(sorted);
  Value count = e.min(toIndex(listed()), e.constant(limit));
  auto read = [&](Value buffer, Type type, Value at, Value valid) -> Value {
    return tile::LoadOp::create(b, loc, VectorType::get(lanes, type), buffer,
                                at, valid);
  };
  if (failed(forEach(
          e, e.constant(0), count,
          [&](Value i) -> LogicalResult {
            Value valid = e.sub(count, i);
            Value places = read(list, i32, i, valid);
            Value x = elementsAt(places, valid);
            if (!x)
              return failure();
            auto words = keys.words(keys.of(x, lanes), places, lanes);
            for (auto [word, to] : llvm::zip(words, own))
              tile::StoreOp::create(b, loc, word, to, i, valid);
            return success();
          },
          lanes)))
    return failure();
  tile::BarrierOp::create(b, loc);
  if (clusterSize > 1) {
    lists(every);
    auto collected = tile::ClusterCollectOp::create(b, loc, b.getIndexType(),
                                                    own, every, count, limit);
    count = e.min(collected.getTotal(), e.constant(limit));
    own = every;
  }
  tile::RankOp::create(b, loc, own, sorted, count);
  tile::BarrierOp::create(b, loc);
  Value k = e.size(op.getK());
  return forEach(
      e, e.mul(part, e.constant(lanes)), k,
      [&](Value i) -> LogicalResult {
        Value valid = e.sub(k, i);
        SmallVector<Value, 2> words;
        for (auto [type, from] : llvm::zip(types, sorted))
          words.push_back(read(from, type, i, valid));
        Value places = keys.places(words, lanes);
        Coord to = line;
        to.dims[axis] = {i, 1, {}, lanes};
        to.valid = valid;
        return store(to, places, [&] { return elementsAt(places, valid); });
      },
      lanes *clusterSize);
}

LogicalResult TopKBuilder::build() {
  using K = vector::CombiningKind;
  using P = arith::CmpIPredicate;
  list = tile::SharedOp::create(b, loc, tile::BufferType::get(i32), limit);
  counter = tile::SharedOp::create(b, loc, tile::BufferType::get(i32), 1);
  share();
  wanted = toInt(e.size(op.getK()));

  FailureOr<SmallVector<Value>> best = pass(
      keys.last(lanes),
      [&](ArrayRef<Value> tiles, ArrayRef<Coord> at,
          ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value first;
        for (auto [x, where] : llvm::zip(tiles, at)) {
          Value y = keys.comparable(x, lanes);
          if (where.valid)
            y = arith::SelectOp::create(b, loc, e.laneMask(lanes, where.valid),
                                        y, keys.last(lanes));
          first = first ? keys.first(first, y) : y;
        }
        return SmallVector<Value>{keys.first(carried[0], first)};
      });
  if (failed(best))
    return failure();
  Value held = keys.keyOfComparable((*best)[0], lanes);
  Value high = all(K::MAXUI, held);
  // Each part's share; an eighth more does no harm.
  Dim k = op.getK();
  Value share = toInt(e.size(k.ceilDiv(k.like(clusterSize))));
  Value enough = arith::AddIOp::create(
      b, loc, share, arith::ShRUIOp::create(b, loc, share, integer(3)));
  LogicalResult status = success();
  Value bound = bisect(
      all(K::MINUI, held), high, integer(lanes), share, enough,
      [&](Value key) -> FailureOr<Value> {
        return all(K::ADD, ones(compare(P::uge, held, e.widen(key, lanes))));
      },
      status);
  if (failed(status))
    return failure();
  bound = ofCluster(K::MINUI, bound);

  clear();
  if (failed(pass({},
                  [&](ArrayRef<Value> tiles, ArrayRef<Coord> at,
                      ValueRange) -> FailureOr<SmallVector<Value>> {
                    for (auto [x, where] : llvm::zip(tiles, at))
                      append(keys.mayReach(keys.comparable(x, lanes), bound,
                                           lanes),
                             where);
                    return SmallVector<Value>();
                  })))
    return failure();
  tile::BarrierOp::create(b, loc);
  Value count = ofCluster(K::ADD, listed());
  auto overflow = scf::IfOp::create(
      b, loc, compare(P::ugt, count, integer(limit)), /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&overflow.getThenRegion().front());
    if (failed(e.scoped([&] {
          return selectExactly(bound, ofCluster(K::MAXUI, high), count);
        })))
      return failure();
    tile::BarrierOp::create(b, loc);
  }
  return rankAndStore();
}

} // namespace

LogicalResult buildGpuTopK(BuildContext &context) {
  auto config = configOf<config::TopKGpuConfig>(context);
  if (failed(config))
    return failure();
  return TopKBuilder(context, *config).build();
}

} // namespace knapper
