// The form of a scan on GPUs (GpuScan.cpp).
//
// Which form a few long lines take follows from modelled times: a program walks
// over its tiles one after the other, and each takes as long as memory answers.
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/irregular/GpuScan.h"
#include "ir/config/IrregularConfig.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using namespace scan;
using config::ScanForm;
using ts::Dim;

namespace {

/// Bytes that a launch's state may have at most: it is zeroed by a copy.
constexpr int64_t kMostState = 4 << 20;

/// Programs of a cluster that share out `steps` of each of `programs` others,
/// so that all SMs have work; `least` steps each.
int64_t clusterSizeOf(const TargetDesc &target, Dim programs, int64_t steps,
                      int64_t least) {
  constexpr int64_t mostBlocks = 8;
  int64_t clusterSize = 1;
  // (Other GPUs have no clusters.)
  std::optional<int64_t> number = programs.asConstant();
  while (target.clusters && number && clusterSize < mostBlocks &&
         *number * clusterSize < target.programsForAll() &&
         steps >= 2 * clusterSize * least)
    clusterSize *= 2;
  return clusterSize;
}

/// What a scan of lines of known size moves, in and out.
struct Traffic {
  int64_t lines, length, elementBytes;
  double bytes() const { return double(lines) * length * elementBytes; }
};

/// Seconds of `steps` one after the other in each of `programs`, of which a
/// processor holds some; parts of a line are read twice.
double walkSeconds(const TargetDesc &target, const Traffic &traffic,
                   int64_t programs, int64_t clusterSize, double steps,
                   double stepSeconds, int64_t held) {
  constexpr double twice = 1.6; // the second time from cache
  double waves =
      std::ceil(double(programs) * clusterSize / (held * target.cores));
  return std::max(traffic.bytes() / target.copyBandwidth,
                  waves * std::ceil(steps / clusterSize) * stepSeconds *
                      (clusterSize > 1 ? twice : 1));
}

/// Seconds of a look-back: memory, and what it takes to zero its state and to
/// wait for the tile before. Of lines beside each other each access moves more
/// than it wants.
double lookBackSeconds(const TargetDesc &target, const Traffic &traffic,
                       bool strided) {
  constexpr double sector = 32;
  double bytes = traffic.bytes(), seconds = bytes / target.copyBandwidth;
  if (strided)
    seconds = std::max(seconds, bytes * sector * 2 / traffic.elementBytes /
                                    target.cacheBandwidth);
  return seconds + 2 * target.launchSeconds;
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

/// Seconds of a look-back of few lines beside each other: reads are of whole
/// sectors, stores are not.
double narrowSeconds(const TargetDesc &target, const Traffic &traffic) {
  constexpr double startSeconds = 6e-6, more = 1.4;
  return traffic.bytes() / target.copyBandwidth * more + startSeconds;
}

/// Makes a schedule one whose programs have all of `columns` lines.
bool narrowInstead(Schedule &schedule, config::ScanGpuConfig &config,
                   ts::ScanOp op, const Traffic &traffic, int64_t columns,
                   const TargetDesc &target) {
  constexpr int64_t threads = 256, leastSteps = 4, bytes = sizeof(int64_t);
  int64_t around = traffic.lines / columns,
          groups = narrowGroups(threads, columns), steps = 16;
  auto tiles = [&] {
    return int64_t(llvm::divideCeil(traffic.length, groups * steps));
  };
  while (steps > leastSteps && around * tiles() < target.cores)
    steps /= 2;
  Dim one = schedule.grain;
  Type element = computeType(ts::elementTypeOf(op.getInput()));
  int64_t words = *wordsOfLine(one * tiles(), element).asConstant();
  if (tiles() < 2 || words > kMostState / bytes / traffic.lines)
    return false;
  schedule.state = (kHeadWords + traffic.lines * words) * bytes;
  config = {.form = ScanForm::narrow,
            .lanes = threads,
            .threads = threads,
            .steps = steps,
            .access = 1};
  schedule.grid = one * (around * tiles());
  return true;
}

/// Makes a schedule one whose programs have whole lines, `columns` beside each
/// other, where the threads of a block can hold them: each line is read as it
/// lies by several threads, not from its own place by one.
bool wholeLinesInstead(Schedule &schedule, config::ScanGpuConfig &config,
                       const Dim &before, int64_t length, int64_t columns,
                       const TargetDesc &target) {
  constexpr int64_t mostThreads = 256, leastThreads = 64, warp = 32,
                    leastLength = 4, mostSteps = 16, threadsOfCore = 512;
  int64_t outer = representative(before), steps = 4;
  auto threadsOf = [&](int64_t each) {
    return wholeGroups(length, each) * columns;
  };
  // More of each where a block could not hold them, or all have work.
  while (steps < mostSteps &&
         (threadsOf(steps) > mostThreads ||
          outer * threadsOf(2 * steps) >= threadsOfCore * target.cores))
    steps *= 2;
  if (length < leastLength || columns == 0 || threadsOf(steps) > mostThreads)
    return false;
  int64_t tiles = std::clamp<int64_t>(outer, 1, mostThreads / threadsOf(steps));
  // Rather a program for every processor.
  while (tiles > 1 && outer < tiles * target.cores &&
         tiles / 2 * threadsOf(steps) >= leastThreads)
    tiles /= 2;
  int64_t threads = std::max<int64_t>(
      leastThreads, llvm::alignTo(tiles * threadsOf(steps), warp));
  config = {.form = ScanForm::narrow,
            .lanes = threads,
            .threads = threads,
            .steps = steps,
            .access = 1,
            .tiles = tiles};
  schedule.state = 0;
  schedule.grid = before.ceilDiv(before.like(tiles));
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
  int64_t &clusterSize = config.clusterSize;
  bool strided = !inner.isConstant(1);
  // Of columns eight answer together.
  double stepSeconds = target.readSeconds / 8;
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
    clusterSize =
        clusterSizeOf(target, schedule.grid, number.value_or(1), leastSteps);
    config.lanes = lanes;
    if (traffic &&
        lookBackSeconds(target, *traffic, strided) <
            walkSeconds(target, *traffic, *schedule.grid.asConstant(),
                        clusterSize, traffic->length, stepSeconds, heldWarps) &&
        lookBackInstead(schedule, config, op, *traffic, width, strided, target))
      clusterSize = 1;
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
    clusterSize = clusterSizeOf(target, others, tiles, 2);
    config.lanes = lanes;
    schedule.grid = others;
    // An access of each element that lies apart.
    constexpr double apartOfElement = 3.8e-9;
    double wholeSeconds = 2 * target.readSeconds;
    double tileSeconds =
        strided ? std::max(wholeSeconds, double(lanes) * apartOfElement)
                : wholeSeconds;
    constexpr int64_t held = 2;
    double seconds = 0;
    constexpr int64_t threads = 128;
    // Of sizes not known yet: a tile of a short line is mostly empty.
    bool apart = strided && representative(length) <= threads;
    if (traffic) {
      seconds = walkSeconds(target, *traffic, traffic->lines, clusterSize,
                            tiles, tileSeconds, held);
      double apartSeconds = walkSeconds(
          target, *traffic, llvm::divideCeil(traffic->lines, threads), 1,
          traffic->length, stepSeconds, heldWarps * warp / threads);
      apart = strided && apartSeconds < seconds;
      seconds = apart ? apartSeconds : seconds;
    }
    if (apart) {
      config.form = ScanForm::lines;
      config.lanes = config.threads = threads;
      config.access = 1; // neighbouring threads have neighbouring lines
      schedule.grid = others.ceilDiv(one * threads);
      clusterSize = 1;
    }
    if (traffic && traffic->length > lanes &&
        lookBackSeconds(target, *traffic, strided) < seconds &&
        lookBackInstead(schedule, config, op, *traffic, width, strided,
                        target)) {
      clusterSize = 1;
      seconds = lookBackSeconds(target, *traffic, strided);
    }
    if (std::optional<int64_t> columns = inner.asConstant();
        traffic && strided && columns && *columns < fewLines &&
        narrowSeconds(target, *traffic) < seconds &&
        narrowInstead(schedule, config, op, *traffic, *columns, target))
      clusterSize = 1;
    // (Few lines of one tile have a program each at once.)
    Dim before = one;
    for (Dim dim : ArrayRef<Dim>(dims).take_front(op.getDim()))
      before = before * dim;
    if (std::optional<int64_t> columns = inner.asConstant();
        strided && number && columns && *columns < fewLines &&
        !(config.form == ScanForm::row && *number <= config.lanes &&
          representative(others) <= 2 * int64_t(target.cores)) &&
        wholeLinesInstead(schedule, config, before, *number, *columns, target))
      clusterSize = 1;
  }
  schedule.parameters = config::print(config);
  schedule.grid = schedule.grid * clusterSize;
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
