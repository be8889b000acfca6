// Whether, and how, the threads of a GPU's CTA share out columns.
//
// Which form is the fastest follows from modelled times. Others walk down their
// columns, a row after the other; where columns are few, most of a GPU waits.
// (ir/config/GpuTimes.h has the figures, ColumnTimes.)
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "ir/config/GpuTimes.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr config::ColumnTimes kTimes = config::kH100Columns;

/// What a kernel of columns does.
struct ColumnWork {
  double columns;    ///< of all
  int64_t length;    ///< rows of a column
  int64_t beside;    ///< columns side by side
  int64_t operands;  ///< of the whole shape
  double readBytes;  ///< of a pass over all columns
  double storeBytes; ///< of the results of the whole shape
  int64_t bytes;     ///< of the widest element
  int64_t passes;    ///< the results' own among them
  bool isFull;       ///< has results of the whole shape
  bool isCostly, isArg;
  bool isPlain; ///< words are reduced as they are

  bool readsAgain() const { return passes > 1; }
  /// Of a pass over memory: all, or the first where rows stay in registers.
  int64_t reads(bool held) const { return held ? 1 : passes; }
  double memorySeconds(const TargetDesc &target, bool held) const {
    return (readBytes * reads(held) + storeBytes) / target.copyBandwidth;
  }
};

} // namespace

static ColumnWork workOf(ts::KernelOp kernel, const Space &space,
                         const ColumnDims &dims) {
  MLIRContext *context = kernel.getContext();
  ColumnWork work = {};
  work.columns =
      double(representative(ts::product(context, dims.outer))) * dims.beside;
  work.length = dims.length;
  work.beside = dims.beside;
  double elements = work.columns * dims.length;
  work.bytes = 1;
  auto isFull = [&](Value value) { return ts::dimsOf(value) == space.dims; };
  auto bytesOf = [](Value value) {
    return ts::elementBytes(ts::elementTypeOf(value));
  };
  auto reads = [&](Value operand) {
    ++work.operands;
    work.readBytes += elements * bytesOf(operand);
    work.bytes = std::max(work.bytes, bytesOf(operand));
  };
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (isFull(argument))
      reads(argument);
  // Of concatenated operands each element is one's.
  for (auto concat : kernel.getBody().getOps<ts::ConcatOp>())
    if (isFull(concat))
      reads(concat);
  for (Value value : kernel.yield().getValues())
    if (isFull(value)) {
      work.isFull = true;
      work.storeBytes += elements * bytesOf(value);
    }
  DenseMap<Operation *, int64_t> level;
  constexpr int64_t costly = 10; // flops
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    int64_t depth = 0;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        depth = std::max(depth, level.lookup(def));
    depth += isa<ts::ReduceOp, ts::ArgReduceOp>(op);
    level[&op] = depth;
    work.passes = std::max(work.passes, depth);
    work.isArg |= isa<ts::ArgReduceOp>(op);
    if (auto each = dyn_cast<ts::ElementwiseOpInterface>(op))
      work.isCostly |= each.elementFlops() >= costly && isFull(op.getResult(0));
  }
  work.passes += work.isFull;
  constexpr int64_t word = 4;
  work.isPlain = work.bytes >= word &&
                 kernel.getBody().getOps<ts::ElementwiseOpInterface>().empty();
  return work;
}

/// Seconds of the form that `config` has, in so many programs.
static double secondsOf(const ColumnWork &work,
                        const config::ReduceConfig &config, double programs,
                        const TargetDesc &target) {
  // Of every NVIDIA GPU, but for `threadsOfCore`: what these kernels have of
  // an SM, by their registers.
  constexpr int64_t warp = 32, access = 16, threadsOfCore = 1024;
  double waits = config.clusterSize > 1
                     ? work.passes * kTimes.cluster * target.readSeconds
                     : 0;
  double rows = double(work.length) / config.clusterSize;
  if (config.rowForm) {
    constexpr auto times = kTimes.rows;
    constexpr int64_t held = 2; // CTAs of an SM, by their registers
    double waves = std::ceil(programs / (held * target.cores));
    int64_t reads = work.reads(config.lanes >= rows && !work.isArg);
    return std::max(
        work.memorySeconds(target, reads == 1),
        waves *
                (rows * (times.read * reads + times.store * work.isFull) +
                 times.wait * reads) *
                target.readSeconds +
            waits);
  }
  constexpr auto times = kTimes.walked;
  int64_t width = access / std::min(work.bytes, access);
  while (width > 1 && config.lanes % (warp * width))
    width /= 2;
  bool isCut = work.beside % config.lanes;
  // As ReduceBuilder::forTiles has it.
  int64_t atOnce = config.clusterSize > 1 && !isCut ? 8 : 4;
  if (work.isPlain)
    atOnce = isCut ? 8 : 16;
  constexpr int64_t mostHeld = 64; // ReduceBuilder::holdsColumns
  bool held = config.clusterSize == 1 && work.readsAgain() && !work.isArg &&
              work.length * work.operands * width <= mostHeld;
  double waves = std::max(1.0, programs * config.lanes / width /
                                   (target.cores * double(threadsOfCore)));
  double element = (work.isCostly ? times.costly : times.cheap) +
                   (isCut && width > 1 ? times.cut : 0);
  element *= held ? times.held : 1;
  double steps = work.passes * rows * width * element +
                 work.reads(held) * (held ? 1 : rows / atOnce) * times.read;
  // A CTA of a cluster reads less of a row than memory gives best.
  double narrow =
      config.clusterSize > 1 && work.beside * work.bytes < times.wide
          ? times.narrow
          : 1;
  return std::max(narrow * work.memorySeconds(target, held),
                  waves * steps * target.readSeconds + waits);
}

namespace {
struct Tiling {
  int64_t columns, columnThreads, tiles, threads;
};
} // namespace

/// Whether threads read their rows once.
static bool holds(const ColumnWork &work, const Tiling &tiling) {
  int64_t steps = llvm::divideCeil(work.length, tiling.columnThreads);
  return work.readsAgain() && !work.isArg &&
         steps * work.operands <= kMostHeldRows;
}

static double secondsOf(const ColumnWork &work, const Tiling &tiling,
                        double programs, const TargetDesc &target) {
  constexpr auto times = kTimes.shared;
  // The kernel's own: by its registers, and rows that a thread reads together.
  constexpr int64_t threadsOfCore = 1024, atOnce = 8;
  double perCore = times.perCycle * target.clock; // instructions a second
  int64_t steps = llvm::divideCeil(work.length, tiling.columnThreads);
  bool held = holds(work, tiling);
  int64_t ctasPerSm = std::max<int64_t>(1, threadsOfCore / tiling.threads);
  double waves = std::ceil(programs / double(target.cores * ctasPerSm));
  double latency =
      work.reads(held) * (held ? 1 : llvm::divideCeil(steps, atOnce)) *
          times.read +
      work.passes * (times.meet +
                     2 * std::sqrt(double(tiling.columnThreads)) * times.word);
  double instructions =
      times.ofRead * work.reads(held) * work.operands +
      times.ofPass * work.passes + times.ofStore * work.isFull +
      (work.isCostly ? times.ofCostly : 0) + (work.isArg ? times.ofCostly : 0);
  // Of the core that has most to do.
  double computes = std::ceil(programs / target.cores) * tiling.threads *
                    steps * instructions / perCore;
  return std::max({work.memorySeconds(target, held) / times.efficiency,
                   waves * latency * target.readSeconds, computes});
}

void shareColumnsInBlock(ts::KernelOp kernel, const Space &space,
                         const TargetDesc &target, config::ReduceConfig &config,
                         Dim &grid) {
  std::optional<ColumnDims> dims = columnDims(space);
  // Fewer rows are held by a thread.
  constexpr int64_t shortColumn = 8, mostRows = 1 << 20;
  if (!dims || dims->length <= shortColumn || dims->length > mostRows ||
      config.rows > 1)
    return;
  for (Operation &op : kernel.getBody().front())
    if (isa<ts::ReduceOp, ts::ArgReduceOp>(op) &&
        computeType(ts::elementTypeOf(op.getOperand(0))).isInteger(1))
      return;
  ColumnWork work = workOf(kernel, space, *dims);
  if (!work.operands)
    return;
  MLIRContext *context = kernel.getContext();
  Dim outer = ts::product(context, dims->outer);
  double others = double(representative(outer));
  // Of every NVIDIA GPU, whose CTAs have 48 KB of shared memory unasked.
  constexpr int64_t warp = 32, leastThreads = 64, sector = 32, sectors = 2,
                    mostShared = 40 << 10;
  int64_t narrow = std::max(warp, sectors * sector / work.bytes);
  std::optional<Tiling> best;
  // A thread of the largest block has 64 registers.
  int64_t mostThreads = 1024, results = 0, words = 0;
  for (Operation &op : kernel.getBody().front())
    if (isa<ts::ReduceOp, ts::ArgReduceOp>(op)) {
      ++results;
      words = std::max(words, ts::elementBytes(computeType(
                                  ts::elementTypeOf(op.getOperand(0)))) /
                                  4);
    }
  if (words > 1 || results > work.passes - work.isFull)
    mostThreads = 512;
  double least = secondsOf(work, config, representative(grid), target);
  for (int64_t most : {128, 256, 512, 1024}) {
    if (most > mostThreads)
      break;
    for (int64_t columns : {narrow, 2 * narrow, 4 * narrow, dims->beside}) {
      if (columns > dims->beside || columns > most / 2)
        continue;
      int64_t blocks = llvm::divideCeil(dims->beside, columns);
      columns = llvm::divideCeil(dims->beside, blocks);
      Tiling tiling = {columns, std::min(dims->length, most / columns), 1, 0};
      if (tiling.columnThreads == dims->length)
        tiling.tiles =
            std::clamp<int64_t>(most / (columns * dims->length), 1,
                                std::max<int64_t>(1, int64_t(others) * blocks));
      tiling.threads = std::max<int64_t>(
          leastThreads,
          llvm::alignTo(columns * tiling.columnThreads * tiling.tiles, warp));
      if (sharedBytes(kernel, tiling.threads, tiling.columnThreads) >
          mostShared)
        continue;
      // (The assembler unrolls the loops of several passes.)
      constexpr int64_t mostOfLoops = 512;
      if (tiling.threads > mostOfLoops && work.passes > 1 &&
          !holds(work, tiling))
        continue;
      double programs = std::ceil(others * blocks / tiling.tiles);
      double seconds = secondsOf(work, tiling, programs, target);
      if (seconds < least) {
        least = seconds;
        best = tiling;
      }
    }
  }
  if (!best)
    return;
  Dim one = Dim::constant(context, 1);
  config.rowForm = false;
  config.clusterSize = config.group = 1;
  config.lanes = config.threads = best->threads;
  config.access = 1;
  config.columns = best->columns;
  config.columnThreads = best->columnThreads;
  config.tiles = best->tiles;
  // Each element has an index, and threads of a column meet in shared memory.
  constexpr int64_t heldThreads = 512;
  config.ctasPerSm = std::max<int64_t>(1, heldThreads / best->threads);
  grid = (outer * int64_t(llvm::divideCeil(dims->beside, best->columns)))
             .ceilDiv(one * best->tiles);
}

} // namespace knapper
