// The form of a scan on GPUs (GpuScan.cpp).
//
// Which form a few long lines take follows from modelled times: a program walks
// over its tiles one after the other, and each takes as long as memory answers.
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/FirstOp.h"
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

/// Threads of an SM whose elements have an index each: up to 256 registers.
constexpr int64_t kRegisterThreads = 256;

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
  config.ctasPerSm = 0;
  config.lanes = threads * each;
  config.threads = threads;
  schedule.grid = one * (lines * tiles());
  return true;
}

/// Seconds of a look-back of few lines beside each other: reads are of whole
/// sectors, stores are not.
double narrowSeconds(const TargetDesc &target, const Traffic &traffic) {
  constexpr double start = 6, more = 1.4; // times memory's answer
  return traffic.bytes() / target.copyBandwidth * more +
         start * target.readSeconds;
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
            .access = 1,
            .ctasPerSm = kRegisterThreads / threads};
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
            .tiles = tiles,
            .ctasPerSm = std::max<int64_t>(1, threadsOfCore / threads)};
  schedule.state = 0;
  schedule.grid = before.ceilDiv(before.like(tiles));
  return true;
}

constexpr int64_t kWarp = 32, kAccess = 16;
/// Warps of programs of columns that an SM holds.
constexpr int64_t kHeldWarps = 16;
/// Lines beside each other, of which there are few below this.
constexpr int64_t kFewLines = 64;

/// Elements that a thread reads at once: as wide as memory holds the widest.
int64_t accessOf(ts::KernelOp kernel) {
  int64_t bytes = 1;
  auto see = [&](Value value) {
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(value)));
  };
  llvm::for_each(kernel.getBody().getArguments(), see);
  llvm::for_each(kernel.getResults(), see);
  return kAccess / std::min(bytes, kAccess);
}

/// Chooses the form of one scan.
class ScanChoice {
public:
  ScanChoice(ts::KernelOp kernel, ts::ScanOp op, const TargetDesc &target)
      : op(op), target(target), width(accessOf(kernel)),
        dims(ts::dimsOf(op.getInput())),
        one(Dim::constant(kernel.getContext(), 1)), others(one), inner(one),
        length(dims[op.getDim()]), number(length.asConstant()) {
    for (auto [i, dim] : llvm::enumerate(dims)) {
      others = i == op.getDim() ? others : others * dim;
      inner = i > op.getDim() ? inner * dim : inner;
    }
    strided = !inner.isConstant(1);
    if (std::optional<int64_t> lines = others.asConstant();
        lines && number && *lines > 0 && *number > 0)
      traffic = {*lines, *number,
                 ts::elementBytes(ts::elementTypeOf(op.getInput())) +
                     ts::elementBytes(ts::elementTypeOf(kernel.getResult(0)))};
    schedule.kind = "gpu_scan";
    schedule.grain = one;
    schedule.scratch = one * 0;
  }

  Schedule choose() {
    if (op.getDim() + 1 < dims.size() &&
        representative(dims.back()) >= kFewLines)
      chooseColumns();
    else if (inner.isConstant(1) && number &&
             paddedLength() <= kWarp * width / 2)
      chooseShortRows();
    else
      chooseRows();
    schedule.parameters = config::print(config);
    schedule.grid = schedule.grid * config.clusterSize;
    return std::move(schedule);
  }

private:
  int64_t paddedLength() const {
    return llvm::PowerOf2Ceil(std::max<int64_t>(*number, 1));
  }

  /// A program has an element of each of many lines beside each other.
  void chooseColumns() {
    config.form = ScanForm::columns;
    int64_t lanes = 64 * width;
    while (lanes > kWarp * 4 && lanes / 2 >= representative(dims.back()))
      lanes /= 2;
    schedule.grid = one;
    for (auto [i, dim] : llvm::enumerate(dims))
      if (i != op.getDim())
        schedule.grid = schedule.grid *
                        (i + 1 == dims.size() ? dim.ceilDiv(one * lanes) : dim);
    constexpr int64_t leastSteps = 32;
    config.clusterSize =
        clusterSizeOf(target, schedule.grid, number.value_or(1), leastSteps);
    config.lanes = lanes;
    if (traffic &&
        lookBackSeconds(target, *traffic, strided) <
            walkSeconds(target, *traffic, *schedule.grid.asConstant(),
                        config.clusterSize, traffic->length, stepSeconds,
                        kHeldWarps) &&
        lookBackInstead(schedule, config, op, *traffic, width, strided, target))
      config.clusterSize = 1;
  }

  /// A tile has several lines, each padded to a power of two.
  void chooseShortRows() {
    config.form = ScanForm::shortRows;
    constexpr int64_t threads = 128;
    int64_t row = paddedLength();
    config.lanes = threads * width;
    config.threads = threads;
    config.rowLength = row;
    schedule.grid = others.ceilDiv(one * (threads * width / row));
  }

  /// A program walks over the tiles of a line, unless another form takes less
  /// time.
  void chooseRows() {
    config.form = ScanForm::row;
    // A thread has at most four accesses, or 32 elements; bytes take a register
    // each.
    constexpr int64_t mostThreads = 512, mostElements = 32;
    int64_t each = width == kAccess ? width : std::min(width * 4, mostElements);
    int64_t lanes = 128;
    while (lanes < mostThreads * each && lanes < representative(length))
      lanes *= 2;
    config.threads = std::max(kWarp, lanes / each);
    // (Of the largest alone: others are bound by their number.)
    if (config.threads == mostThreads)
      config.ctasPerSm = 2;
    int64_t tiles = llvm::divideCeil(number.value_or(1), lanes);
    config.clusterSize = clusterSizeOf(target, others, tiles, 2);
    config.lanes = lanes;
    schedule.grid = others;
    double seconds = linesInstead(tiles);
    if (traffic && traffic->length > lanes &&
        lookBackSeconds(target, *traffic, strided) < seconds &&
        lookBackInstead(schedule, config, op, *traffic, width, strided,
                        target)) {
      config.clusterSize = 1;
      seconds = lookBackSeconds(target, *traffic, strided);
    }
    std::optional<int64_t> columns = inner.asConstant();
    if (!strided || !columns || *columns >= kFewLines)
      return;
    if (traffic && narrowSeconds(target, *traffic) < seconds &&
        narrowInstead(schedule, config, op, *traffic, *columns, target))
      config.clusterSize = 1;
    // (Few lines of one tile have a program each at once.)
    Dim before = one;
    for (Dim dim : ArrayRef<Dim>(dims).take_front(op.getDim()))
      before = before * dim;
    if (number &&
        !(config.form == ScanForm::row && *number <= config.lanes &&
          representative(others) <= 2 * int64_t(target.cores)) &&
        wholeLinesInstead(schedule, config, before, *number, *columns, target))
      config.clusterSize = 1;
  }

  /// Gives each thread a line of its own where lines lie apart and that takes
  /// less time than `tiles` one after the other. Returns the seconds that the
  /// form takes; 0 where sizes are not known.
  double linesInstead(int64_t tiles) {
    constexpr int64_t threads = 128, held = 2;
    // Of sizes not known yet: a tile of a short line is mostly empty.
    bool apart = strided && representative(length) <= threads;
    double seconds = 0;
    if (traffic) {
      // An access of each element that lies apart.
      constexpr double whole = 2, apartOfElement = 3.8e-3; // of memory's answer
      double tileSeconds =
          (strided ? std::max(whole, double(config.lanes) * apartOfElement)
                   : whole) *
          target.readSeconds;
      seconds = walkSeconds(target, *traffic, traffic->lines,
                            config.clusterSize, tiles, tileSeconds, held);
      double apartSeconds = walkSeconds(
          target, *traffic, llvm::divideCeil(traffic->lines, threads), 1,
          traffic->length, stepSeconds, kHeldWarps * kWarp / threads);
      apart = strided && apartSeconds < seconds;
      seconds = apart ? apartSeconds : seconds;
    }
    if (apart) {
      config.form = ScanForm::lines;
      config.lanes = config.threads = threads;
      config.access = 1; // neighbouring threads have neighbouring lines
      config.ctasPerSm = 0;
      schedule.grid = others.ceilDiv(one * threads);
      config.clusterSize = 1;
    }
    return seconds;
  }

  ts::ScanOp op;
  const TargetDesc &target;
  int64_t width; ///< elements of an access
  SmallVector<Dim> dims;
  Dim one, others, inner; ///< lines, and lines beside each other
  Dim length;
  std::optional<int64_t> number; ///< the length, if known
  bool strided = false;
  std::optional<Traffic> traffic; ///< if sizes are known
  /// Of a step of columns: eight answer together.
  double stepSeconds = target.readSeconds / 8;
  Schedule schedule;
  config::ScanGpuConfig config;
};

} // namespace

LogicalResult chooseGpuScan(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  ts::ScanOp op = firstOp<ts::ScanOp>(kernel);
  if (!op)
    return kernel.emitOpError("has hero scan and none inside");
  schedules.push_back(ScanChoice(kernel, op, target).choose());
  return success();
}

} // namespace knapper
