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
//
// The order in which elements meet depends on sizes alone, so every run gives
// the same bits.
//
// Parameters: form (above, from 0), lanes, threads (where given), columns (a
// line's lanes in the short form), parts (programs of a cluster).
//
// Which form a few long lines take follows from modelled times: a program walks
// over its tiles one after the other, and each takes as long as memory answers.
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/IrregularConfig.h"
#include "ir/tile/BlockOps.h"
#include "ir/tile/GridOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using config::ScanForm;
using ts::Dim;

namespace {

/// Words of `state` before those of the lines.
constexpr int64_t kHeadWords = 16;
/// The most that a launch's state may be: it is zeroed by a copy.
constexpr int64_t kMostState = 4 << 20;

ts::ScanOp scanIn(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::ScanOp>();
  return ops.empty() ? ts::ScanOp() : *ops.begin();
}

/// Programs of a cluster that share out `steps` of each of `programs` others,
/// so that a large GPU's processors all have work; `least` steps each.
int64_t partsOf(const TargetDesc &target, Dim programs, int64_t steps,
                int64_t least) {
  constexpr int64_t mostBlocks = 8, processors = 128;
  int64_t parts = 1;
  // (Other GPUs have no clusters.)
  std::optional<int64_t> number = programs.asConstant();
  while (target.clusters && number && parts < mostBlocks &&
         *number * parts < processors && steps >= 2 * parts * least)
    parts *= 2;
  return parts;
}

/// Size, in 64-bit words, of the decoupled look-back state of a line: a status
/// word a tile and a group of tiles, two where an element is wider than 32
/// bits.
Dim wordsOfLine(Dim tiles, Type element) {
  Dim groups =
      tiles.floorDiv(tiles.like(tile::LookBackOp::kGroup)) + tiles.like(1);
  return (tiles + groups) * (element.getIntOrFloatBitWidth() > 32 ? 2 : 1);
}

/// What a scan of lines of known size moves, in and out.
struct Traffic {
  int64_t lines, length, elementBytes;
  double bytes() const { return double(lines) * length * elementBytes; }
};

/// Seconds of `steps` one after the other in each of `programs`, of which a
/// processor holds some; parts of a line are read twice.
double walkSeconds(const TargetDesc &target, const Traffic &traffic,
                   int64_t programs, int64_t parts, double steps,
                   double stepSeconds, int64_t held) {
  constexpr double twice = 1.6; // the second time from cache
  double waves = std::ceil(double(programs) * parts / (held * target.cores));
  return std::max(traffic.bytes() / target.copyBandwidth,
                  waves * std::ceil(steps / parts) * stepSeconds *
                      (parts > 1 ? twice : 1));
}

/// Seconds of a look-back: memory, and what it takes to zero its state and to
/// wait for the tile before. Of lines beside each other each access moves more
/// than it wants.
double lookBackSeconds(const TargetDesc &target, const Traffic &traffic,
                       bool strided) {
  constexpr double startSeconds = 6e-6, sector = 32;
  double bytes = traffic.bytes(), seconds = bytes / target.copyBandwidth;
  if (strided)
    seconds = std::max(seconds, bytes * sector * 2 / traffic.elementBytes /
                                    target.cacheBandwidth);
  return seconds + startSeconds;
}

/// Makes a schedule one that looks back, if its state is small enough. `width`:
/// elements of an access; `strided`: accesses are of one.
bool lookBackInstead(Schedule &schedule, config::ScanGpuConfig &config,
                     ts::ScanOp op, const Traffic &traffic, int64_t width,
                     bool strided, const TargetDesc &target) {
  auto [lines, length, bytesOfBoth] = traffic;
  // Many accesses under way in each thread, but rather a tile for every
  // processor. (Larger blocks have too few registers a thread; a byte takes
  // one, and so does half an address.)
  constexpr int64_t accesses = 8, mostElements = 32, mostCostly = 16,
                    leastElements = 8, leastThreads = 128, bytesOnly = 16;
  bool isCostly = strided || width == bytesOnly;
  int64_t threads = 256, each = std::min(width * accesses,
                                         isCostly ? mostCostly : mostElements);
  auto tiles = [&] {
    return int64_t(llvm::divideCeil(length, threads * each));
  };
  while (lines * tiles() < target.cores) {
    if (each / 2 >= std::max(width, leastElements))
      each /= 2;
    else if (threads > leastThreads)
      threads /= 2;
    else
      break;
  }
  if (tiles() < 2)
    return false;
  Dim one = schedule.grain;
  Type element = computeType(ts::elementTypeOf(op.getInput()));
  int64_t words = *wordsOfLine(one * tiles(), element).asConstant();
  constexpr int64_t bytes = sizeof(int64_t);
  if (words > kMostState / bytes / lines)
    return false;
  schedule.state = (kHeadWords + lines * words) * bytes;
  config.form = ScanForm::lookBack;
  config.lanes = threads * each;
  config.threads = threads;
  schedule.grid = one * (lines * tiles());
  return true;
}

} // namespace

LogicalResult chooseGpuScan(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  ts::ScanOp op = scanIn(kernel);
  if (!op)
    return kernel.emitOpError("has hero scan and none inside");
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim one = Dim::constant(kernel.getContext(), 1), others = one, inner = one;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    others = i == op.getDim() ? others : others * dim;
    inner = i > op.getDim() ? inner * dim : inner;
  }
  int64_t bytes = 1; // of the widest element that lies in memory
  auto see = [&](Value value) {
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(value)));
  };
  llvm::for_each(kernel.getBody().getArguments(), see);
  llvm::for_each(kernel.getResults(), see);
  constexpr int64_t access = 16, warp = 32;
  int64_t width = access / std::min(bytes, access);
  Dim length = dims[op.getDim()];
  std::optional<int64_t> number = length.asConstant();

  Schedule schedule;
  schedule.kind = "gpu_scan";
  schedule.grain = one;
  schedule.scratch = one * 0;
  config::ScanGpuConfig config;
  int64_t &parts = config.parts;
  bool strided = !inner.isConstant(1);
  constexpr double stepSeconds = 1.25e-7; // of columns: eight answer together
  constexpr int64_t heldWarps = 16;
  std::optional<Traffic> traffic;
  if (std::optional<int64_t> lines = others.asConstant();
      lines && number && *lines > 0 && *number > 0)
    traffic = {*lines, *number,
               ts::elementBytes(ts::elementTypeOf(op.getInput())) +
                   ts::elementBytes(ts::elementTypeOf(kernel.getResult(0)))};
  constexpr int64_t fewLines = 64; // beside each other
  if (op.getDim() + 1 < dims.size() &&
      representative(dims.back()) >= fewLines) {
    config.form = ScanForm::columns;
    int64_t lanes = 64 * width;
    while (lanes > warp * 4 && lanes / 2 >= representative(dims.back()))
      lanes /= 2;
    schedule.grid = one;
    for (auto [i, dim] : llvm::enumerate(dims))
      if (i != op.getDim())
        schedule.grid = schedule.grid *
                        (i + 1 == dims.size() ? dim.ceilDiv(one * lanes) : dim);
    constexpr int64_t leastSteps = 32;
    parts = partsOf(target, schedule.grid, number.value_or(1), leastSteps);
    config.lanes = lanes;
    if (traffic &&
        lookBackSeconds(target, *traffic, strided) <
            walkSeconds(target, *traffic, *schedule.grid.asConstant(), parts,
                        traffic->length, stepSeconds, heldWarps) &&
        lookBackInstead(schedule, config, op, *traffic, width, strided, target))
      parts = 1;
  } else if (inner.isConstant(1) && number &&
             llvm::PowerOf2Ceil(std::max<int64_t>(*number, 1)) <=
                 uint64_t(warp * width / 2)) {
    config.form = ScanForm::shortRows;
    constexpr int64_t threads = 128;
    int64_t row = llvm::PowerOf2Ceil(std::max<int64_t>(*number, 1));
    config.lanes = threads * width;
    config.threads = threads;
    config.rowLength = row;
    schedule.grid = others.ceilDiv(one * (threads * width / row));
  } else {
    config.form = ScanForm::row;
    // A thread has at most four accesses, or 32 elements; bytes take a register
    // each.
    constexpr int64_t mostThreads = 512, mostElements = 32;
    int64_t each = width == access ? width : std::min(width * 4, mostElements);
    int64_t lanes = 128;
    while (lanes < mostThreads * each && lanes < representative(length))
      lanes *= 2;
    config.threads = std::max(warp, lanes / each);
    int64_t tiles = llvm::divideCeil(number.value_or(1), lanes);
    parts = partsOf(target, others, tiles, 2);
    config.lanes = lanes;
    schedule.grid = others;
    constexpr double tileSeconds = 2e-6;
    constexpr int64_t held = 2;
    double seconds = 0;
    constexpr int64_t threads = 128;
    // Of sizes not known yet: a tile of a short line is mostly empty.
    bool apart = strided && representative(length) <= threads;
    if (traffic) {
      seconds = walkSeconds(target, *traffic, traffic->lines, parts, tiles,
                            tileSeconds, held);
      double apartSeconds = walkSeconds(
          target, *traffic, llvm::divideCeil(traffic->lines, threads), 1,
          traffic->length, stepSeconds, heldWarps * warp / threads);
      apart = strided && apartSeconds < seconds;
      seconds = apart ? apartSeconds : seconds;
    }
    if (apart) {
      config.form = ScanForm::lines;
      config.lanes = config.threads = threads;
      schedule.grid = others.ceilDiv(one * threads);
      parts = 1;
    }
    if (traffic && traffic->length > lanes &&
        lookBackSeconds(target, *traffic, strided) < seconds &&
        lookBackInstead(schedule, config, op, *traffic, width, strided, target))
      parts = 1;
  }
  schedule.parameters = config::print(config);
  schedule.grid = schedule.grid * parts;
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

struct ScanBuilder {
  BuildContext &context;
  config::ScanGpuConfig config;
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::ScanOp op = scanIn(context.kernel);
  Epilogue epilogue;
  int64_t lanes = config.lanes, parts = config.parts;
  unsigned axis = op.getDim();
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim length = dims[axis];
  Type element = computeType(ts::elementTypeOf(op.getInput()));
  bool isUnsigned = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
  /// The run of the line that is this program's, and which part it is.
  Value begin = {}, end = {};

  vector::CombiningKind kind() {
    return combiningKind(op.getKind(), element, isUnsigned);
  }
  vector::CombiningKindAttr kindAttr() {
    return vector::CombiningKindAttr::get(b.getContext(), kind());
  }
  Value none(int64_t count) {
    return neutralElement(e, op.getKind(), element, isUnsigned, count);
  }
  Value combine(Value a, Value x) {
    return combineElements(e, op.getKind(), a, x, isUnsigned);
  }
  UnitAttr flag(bool value) { return value ? b.getUnitAttr() : UnitAttr(); }
  UnitAttr reverse() { return flag(op.getReverse()); }
  UnitAttr exclusive() { return flag(op.getExclusive()); }

  /// The program's place among those without parts; sets the run. Parts begin
  /// at multiples of `step`.
  Value share(Value id, int64_t step) {
    begin = e.constant(0);
    end = e.size(length);
    if (parts == 1)
      return id;
    Value each = e.mul(e.size(length.ceilDiv(length.like(step * parts))),
                       e.constant(step));
    Value part = e.rem(id, e.constant(parts));
    Value size = end;
    begin = e.min(e.mul(part, each), size);
    end = e.min(e.add(e.mul(part, each), each), size);
    return e.div(id, e.constant(parts));
  }
  /// What the line's parts before this one's make, by what each makes.
  Value before(Value own) {
    return tile::ClusterScanOp::create(b, loc, own.getType(), kindAttr(), own,
                                       reverse());
  }
  Value read(const Coord &at, int64_t count) {
    Value x = e.emit(op.getInput(), at);
    return x ? e.widen(x, count) : x;
  }
  LogicalResult buildRows();
  LogicalResult buildShort();
  LogicalResult buildColumns();
  LogicalResult buildLines();
  /// Lanes go along their lines together; `coordAt`: where they are at a step.
  LogicalResult walkSteps(llvm::function_ref<Coord(Value step)> coordAt);
  LogicalResult buildLookBack();
};

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
  if (parts > 1) {
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
  if (parts == 1 && number && *number <= lanes && *number > 0)
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
      e.add(e.constant(kHeadWords), e.mul(line, words)), number, e.size(tiles));
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
        values.push_back(read(places.back(), lanes));
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
    if (!length.asConstant() || parts > 1 || *length.asConstant() % atOnce)
      run = forEach(
          e, whole, end, run[0],
          [&](Value i, ValueRange c) { return steps(1, i, c); }, status);
    if (failed(status))
      return failure();
    return run[0];
  };
  Value init = none(lanes);
  if (parts > 1) {
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

} // namespace

LogicalResult buildGpuScan(BuildContext &context) {
  ts::ScanOp op = scanIn(context.kernel);
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::ScanGpuConfig>(context);
  if (failed(config))
    return failure();
  ScanBuilder builder{
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
  }
  llvm_unreachable("a form of scans");
}

} // namespace knapper
