#include "codegen/schedule/matmul/GpuMatmulCost.h"
#include "ir/config/DeviceLimits.h"
#include "ir/config/GpuTimes.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace knapper {

namespace {

constexpr int64_t kDepth = 64, kLine = 128; // bytes of a line of a block
// Of a block: barriers, the system's.
constexpr int64_t kBlockShared = 1024 + config::kHopper.reservedSharedPerCta;

constexpr config::WgmmaTimes kTimes = config::kH200Wgmma;

/// By where lines start.
config::LineTimes lineTimes(int64_t pitch) {
  return kTimes.lines[pitch % 64 == 0   ? 0
                      : pitch % 32 == 0 ? 1
                      : pitch % 16 == 0 ? 2
                                        : 3];
}

/// What memory gives all SMs together.
double bytesPerCycle(const GpuMatmulProblem &p, config::BandwidthShare share) {
  return p.machine.copyBandwidth * share.over / share.under / p.machine.clock;
}

double together(double a, double b, double power) {
  return std::pow(std::pow(a, power) + std::pow(b, power), 1 / power);
}

int64_t ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Clusters of so many blocks that all SMs hold, a block each. Clusters
/// stay in one of the card's parts, which have 14 to 18 SMs. Of pairs
/// one fewer: a grid that takes all of them was seen to run in two rounds.
int64_t clustersAtOnce(int64_t blocks, int64_t sms) {
  if (blocks <= 2)
    return sms / blocks - (blocks - 1);
  return std::max<int64_t>(1,
                           sms / config::kGpcSms * (config::kGpcSms / blocks) -
                               (blocks == 4 || blocks == 5 ? 2 : 1));
}

/// Lines of chunks of the result.
int64_t resultLines(const GpuTileShape &b, const GpuMatmulProblem &p) {
  return p.stores ? b.consumers * b.epilogueChunks * 64 : 0;
}

int64_t stagesOf(const GpuTileShape &b, const GpuMatmulProblem &p) {
  int64_t left = config::kHopper.sharedBytesPerSm / b.ctasPerSm - kBlockShared -
                 resultLines(b, p) * kLine;
  return std::min<int64_t>(16, left / ((b.aRows + b.columns) * kLine));
}

/// Of the blocks along a side of so many elements, the share that the last one
/// is short by: it has less to copy and runs ahead of the others.
double shortBy(int64_t elements, int64_t block) {
  int64_t blocks = ceil(elements, block);
  return blocks > 1 ? 1 - elements / double(block * blocks) : 0;
}

/// What the cache takes to give a step's lines to an SM.
double giveCycles(const GpuTileShape &b, const GpuMatmulProblem &p,
                  int64_t rounds, const config::LineTimes &a,
                  const config::LineTimes &bb) {
  double apart = b.cluster() > 1 ? kTimes.clustersApart
                 : rounds > 1    ? kTimes.roundsApart
                                 : 0;
  apart += kTimes.aheadApart * (shortBy(p.m, b.rows) + shortBy(p.n, b.columns));
  auto side = [&](int64_t lines, const config::LineTimes &line, int64_t mates) {
    double give =
        line.give + std::min(1.0, apart) *
                        (std::max(kTimes.giveAlone, line.give) - line.give);
    return lines * give / std::pow(mates, line.shared);
  };
  return side(b.aRows, a, b.clusterColumns) +
         side(b.columns, bb, b.clusterRows);
}

/// The problem as blocks see it whose sides have changed places.
GpuMatmulProblem swapAB(GpuMatmulProblem p) {
  std::swap(p.m, p.n);
  std::swap(p.aPitch, p.bPitch);
  std::swap(p.aTransposed, p.bTransposed);
  p.mostRows.reset();
  return p;
}

/// How many rows of clusters follow one another before their columns do. In one
/// round, so that the clusters of a part read the fewest lines; in more, so
/// that what all SMs read at a time is nearly square.
int64_t groupOf(const GpuTileShape &b, const GpuMatmulProblem &problem) {
  GpuMatmulProblem p = b.swapAB ? swapAB(problem) : problem;
  int64_t rows = ceil(p.m, b.rows * b.clusterRows),
          columns = ceil(p.n, b.columns * b.clusterColumns);
  if (p.batch * rows * columns * b.cluster() > p.sms() * b.ctasPerSm)
    return b.group;
  double clusters =
      std::max<int64_t>(1, config::kGpcSms * b.ctasPerSm / b.cluster());
  int64_t best = 1;
  double least = 0;
  for (int64_t group = 1; group <= 16; group *= 2) {
    double across = std::min<double>(columns, clusters / std::min(group, rows));
    double lines = clusters / across * b.aRows * b.clusterRows +
                   across * b.columns * b.clusterColumns;
    if (group == 1 || lines < least) {
      best = group;
      least = lines;
    }
  }
  return best;
}

/// Whether the kernel can be had (Sizes::fit in codegen/lower) and is worth
/// modelling.
bool possible(const GpuTileShape &b, const GpuMatmulProblem &p) {
  if (b.stages < (p.gathered ? 4 : 3) || (p.bTransposed && b.columns % 64) ||
      b.aRows % (8 * b.clusterColumns) || b.columns % (8 * b.clusterRows) ||
      // Larger clusters have one block each: no turns.
      (b.pingpong && b.cluster() > 2))
    return false;
  if (p.grouped && (b.clusterRows > 1 || b.cluster() > 2 || b.split > 1 ||
                    !b.epilogueChunks))
    return false;
  // In place of rows that are not copied, wgmmas read what follows.
  if (b.rows > b.aRows + b.columns + resultLines(b, p))
    return false;
  if (!b.epilogueChunks &&
      b.rows * kLine * ceil(b.columns, b.swapAB ? 64 : b.chunkColumns()) >
          b.stages * (b.aRows + b.columns) * kLine)
    return false;
  if (b.split == 1)
    return true;
  return p.splits && !b.pingpong && p.k >= b.split * kDepth &&
         b.rows * b.columns * 4 <= b.stages * (b.aRows + b.columns) * kLine;
}

/// Of matmuls whose left side one gathers, with constants of their own: they
/// were fitted to convolutions, one measured beside the other.
double gatheredCycles(const GpuTileShape &b, const GpuMatmulProblem &p) {
  constexpr config::GatheredTimes times = config::kH200Gathered;
  int64_t blocks = p.batch * ceil(p.m, b.rows) * ceil(p.n, b.columns) * b.split;
  double copies =
      std::max(b.aRows * times.gathered, (b.aRows + b.columns) * times.receive);
  // Of 64 rows wgmmas read (64 + columns) lines for 2 * columns of work.
  constexpr double widest = (64 + 256) / 512.0;
  double matrix =
      b.rows * b.columns / 32.0 * times.matrix *
      (1 + times.narrow * ((64 + b.columns) / (2.0 * b.columns) - widest) /
               (1 - widest));
  double step = std::max(
      {matrix, copies, times.latency / double(b.stages * b.ctasPerSm)});
  double depth = ceil(ceil(p.k, kDepth), b.split) * step;
  double end =
      times.column * b.columns / b.split * (b.rows / 64 / b.consumers) +
      times.epilogue;
  if (b.split > 1)
    end += times.meet +
           b.rows * b.columns * 4.0 * (b.split - 1) / b.split / times.peerBytes;
  double start = times.ramp + (b.split > 1 ? times.clusterRamp : 0);
  int64_t atOnce = clustersAtOnce(b.split, p.sms()) * b.split;
  int64_t waves = ceil(blocks, atOnce * b.ctasPerSm);
  double cycles = b.ctasPerSm > 1
                      ? ceil(blocks, atOnce) * depth + waves * (end + start)
                  : b.split > 1 ? waves * (depth + end + start)
                                : waves * (depth + end) + start;
  double bytes = 2.0 * p.batch * (p.m * p.k + p.n * p.k + p.m * p.n);
  double fixed = end + start;
  cycles = fixed +
           together(std::max(cycles - fixed, 1.0),
                    bytes / bytesPerCycle(p, times.memory), times.overlap) +
           times.launch;
  return cycles * (1 + 0.002 * b.split + 0.001 * b.ctasPerSm);
}

} // namespace

int64_t GpuTileShape::ownColumns() const {
  int64_t step = swapAB ? 8 : 16;
  return ceil(columns / step, split) * step;
}

int64_t GpuTileShape::chunkColumns() const {
  int64_t width = 64;
  while (columns % width || ownColumns() % width)
    width /= 2;
  return width;
}

double modelledCycles(const GpuTileShape &b, const GpuMatmulProblem &problem) {
  if (problem.gathered)
    return gatheredCycles(b, problem);
  GpuMatmulProblem p = b.swapAB ? swapAB(problem) : problem;
  int64_t blocks = p.batch * ceil(p.m, b.rows * b.clusterRows) *
                   ceil(p.n, b.columns * b.clusterColumns) * b.cluster();
  int64_t atOnce = clustersAtOnce(b.cluster(), p.sms()) * b.cluster();
  int64_t waves = ceil(blocks, atOnce * b.ctasPerSm);

  double copies;
  if (p.staged) {
    // Stages take what the first cache needs: lines are read twice.
    copies = (b.aRows + b.columns) * kTimes.staged *
             (1 + kTimes.stagedDeep * std::max<int64_t>(0, b.stages - 4));
  } else {
    config::LineTimes a = lineTimes(p.aPitch), bb = lineTimes(p.bPitch);
    double busy = std::min(1.0, blocks / double(p.sms() * b.ctasPerSm));
    copies = together(b.aRows * a.receive + b.columns * bb.receive,
                      busy * giveCycles(b, p, waves, a, bb), kTimes.together);
  }
  // Tiles that an SM really holds.
  double held = std::clamp(blocks / double(atOnce), 1.0, double(b.ctasPerSm));
  // Wgmmas read (64 + columns) lines of shared memory for 64 rows, two a
  // cycle; of few columns that takes longer than multiplying.
  double matrix =
      std::max<double>(b.rows * b.columns / 32.0,
                       b.swapAB ? b.rows / 64 * (64 + b.columns) : 0) *
      kTimes.matrix;
  double step = together(together(matrix, copies, kTimes.together),
                         kTimes.latency / (b.stages * held), kTimes.together);
  double depth = ceil(ceil(p.k, kDepth), b.split) * step;

  int64_t beside = b.pingpong ? 1 : b.consumers;
  bool unaligned = problem.n % 8;
  double narrow =
      b.swapAB ? 1 : 1 + kTimes.narrow * (64.0 / b.chunkColumns() - 1);
  double end = (kTimes.column + kTimes.operation * p.operations) * b.columns /
               b.split * (b.rows / 64 / beside) *
               (1 + kTimes.beside * (beside - 1)) *
               (unaligned ? kTimes.unaligned * narrow : 1);
  if (b.split > 1)
    end += kTimes.meet + b.rows * b.columns * 4.0 * (b.split - 1) / b.split /
                             kTimes.peerBytes;
  double ramp = kTimes.ramp + kTimes.consumer * b.consumers +
                (b.cluster() > 1 ? kTimes.cluster : 0) +
                (b.split == 1 && b.cluster() == 2 ? kTimes.pair : 0);
  double cycles;
  if (b.pingpong)
    cycles = waves * std::max(depth + kTimes.turn,
                              end + (unaligned ? kTimes.drain : 0)) +
             end;
  else if (b.ctasPerSm > 1) // they share what there is of an SM
    cycles = ceil(blocks, atOnce) * depth + waves * (end + ramp) - ramp;
  else if (b.split > 1 || b.cluster() > 2 ||
           !b.epilogueChunks) // a block a program
    cycles = waves * (depth + end + ramp) - ramp;
  else
    cycles = waves * (depth + end);
  double bytes = 2.0 * p.batch * (p.m * p.k + p.n * p.k + p.m * p.n);
  cycles = end + ramp +
           together(std::max(cycles - end, 1.0),
                    bytes / bytesPerCycle(p, kTimes.memory), kTimes.overlap) +
           kTimes.launch;
  if (p.staged && b.rows / b.consumers > 64 &&
      b.split * b.ownColumns() != b.columns)
    cycles *= kTimes.stagedParts;
  if (b.ctasPerSm > 1 && b.split == 1)
    cycles *= kTimes.twoCtasPerSm;
  // Of equals the simpler one.
  return cycles * (1 + 0.003 * b.cluster() + 0.001 * b.ctasPerSm);
}

GpuTileShape chooseTileShape(const GpuMatmulProblem &problem) {
  struct Rows {
    int64_t rows, consumers, pingpong;
  };
  constexpr Rows copiedRows[] = {
      {64, 1, 0}, {128, 2, 0}, {128, 2, 1}, {192, 3, 0}, {256, 2, 0}};
  constexpr Rows stagedRows[] = {{64, 1, 0}, {128, 1, 0}};
  constexpr Rows gatheredRows[] = {{64, 1, 0}, {128, 2, 0}};
  constexpr int64_t copiedColumns[] = {32, 64, 96, 128, 160, 192, 224, 256};
  constexpr int64_t stagedColumns[] = {64, 128, 192, 256};
  constexpr int64_t together[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1},
                                     {1, 4}, {4, 2}, {2, 4}, {8, 1}, {1, 8},
                                     {3, 1}, {1, 3}, {5, 1}};
  GpuTileShape best{};
  double least = 0;
  // Sums of a thread; with three that multiply, it has fewer registers.
  auto fits = [](const Rows &r, int64_t columns) {
    int64_t sums = (r.pingpong ? r.rows : r.rows / r.consumers) * columns / 128;
    return columns <= 256 && sums <= (r.consumers > 2   ? 96
                                      : r.consumers > 1 ? 192
                                                        : 128);
  };
  // Tiles of so many columns.
  auto tryColumns = [&](const GpuMatmulProblem &p, const Rows &r,
                        int64_t columns, bool swapAB) {
    auto consider = [&](const GpuTileShape &blocks) {
      if (!possible(blocks, p))
        return;
      double cycles = modelledCycles(blocks, problem);
      if (!best.rows || cycles < least) {
        best = blocks;
        least = cycles;
      }
    };
    if (r.consumers > 2 && columns < 96)
      return;
    if (!fits(r, columns))
      return;
    GpuTileShape blocks{r.rows, columns, 0, r.consumers, r.pingpong};
    blocks.swapAB = swapAB;
    if (p.mostRows && *p.mostRows < r.rows && !p.aTransposed && !p.staged) {
      blocks.aRows = llvm::alignTo(std::max<int64_t>(1, *p.mostRows), 8);
      if (!p.stores && blocks.aRows + columns < r.rows)
        blocks.aRows = r.rows; // what wgmmas would read is not there
    }
    for (blocks.split = 1; blocks.split <= 8; ++blocks.split) {
      if (p.staged) {
        blocks.stages = 1024 / (r.rows + columns) + 1;
        consider(blocks);
        continue;
      }
      for (auto [clusterRows, clusterColumns] : together)
        for (int64_t ctasPerSm : {1, 2}) {
          blocks.clusterRows = clusterRows;
          blocks.clusterColumns = clusterColumns;
          blocks.ctasPerSm = ctasPerSm;
          if (swapAB) // columns that its rows can share
            blocks.columns = llvm::alignTo(columns, 8 * clusterRows);
          if (!fits(r, blocks.columns))
            continue;
          if (blocks.cluster() > 8 ||
              (p.gathered && clusterRows * clusterColumns > 1) ||
              (ctasPerSm > 1 && (r.rows > 64 || columns > 128 ||
                                 clusterRows * clusterColumns > 1)))
            continue;
          blocks.epilogueChunks = 2;
          blocks.stages = stagesOf(blocks, p);
          consider(blocks);
          if (!p.stores || p.gathered || problem.n % 8)
            continue;
          // One chunk where that leaves more stages; none where the block is
          // the program's only one.
          int64_t stages = blocks.stages;
          blocks.epilogueChunks = 1;
          blocks.stages = stagesOf(blocks, p);
          if (blocks.stages > stages)
            consider(blocks);
          blocks.epilogueChunks = 0;
          blocks.stages = stagesOf(blocks, p);
          if (!r.pingpong && blocks.split == 1)
            consider(blocks);
        }
    }
  };
  for (const Rows &r : problem.staged     ? llvm::ArrayRef(stagedRows)
                       : problem.gathered ? llvm::ArrayRef(gatheredRows)
                                          : llvm::ArrayRef(copiedRows))
    for (int64_t columns : problem.staged ? llvm::ArrayRef(stagedColumns)
                                          : llvm::ArrayRef(copiedColumns))
      // A transposed side wider than this was seen to be slower than modelled.
      if (!problem.staged || !problem.bTransposed || columns <= 128)
        tryColumns(problem, r, columns, false);
  if (problem.swaps)
    for (const Rows &r : problem.staged ? llvm::ArrayRef(stagedRows)
                                        : llvm::ArrayRef(copiedRows)) {
      // Of those that make equally many blocks the fewest.
      int64_t step = problem.staged ? 16 : 8, before = 0;
      for (int64_t columns = step; columns <= 256; columns += step) {
        int64_t blocks = ceil(problem.m, columns);
        if (blocks != before)
          tryColumns(swapAB(problem), r, columns, true);
        before = blocks;
      }
    }
  if (!problem.gathered)
    best.group = groupOf(best, problem);
  return best;
}

MmaSyncTileShape chooseMmaSyncTileShape(const GpuMatmulProblem &p,
                                        int64_t elementBytes,
                                        int64_t sharedBytes) {
  // 8 warps or 4, of 64 x 64 to 16 x 32 each.
  constexpr MmaSyncTileShape all[] = {{128, 256, 8, 2, 0}, {256, 128, 8, 4, 0},
                                      {128, 128, 8, 2, 0}, {64, 128, 4, 2, 0},
                                      {128, 64, 4, 2, 0},  {64, 64, 4, 2, 0},
                                      {32, 128, 4, 1, 0},  {16, 128, 4, 1, 0}};
  constexpr config::MmaSyncTimes times = config::kA100MmaSync;
  constexpr int64_t blockShared = config::kHopper.reservedSharedPerCta;
  int64_t depth = kLine / elementBytes;
  MmaSyncTileShape best{};
  double least = 0;
  for (MmaSyncTileShape b : all) {
    int64_t ownRows = b.rows / b.warpRows,
            ownColumns = b.columns * b.warpRows / b.warps;
    if ((p.aTransposed && b.rows % depth) ||
        (p.bTransposed && b.columns % depth) ||
        // What is on its way takes registers.
        (p.staged && ownRows * ownColumns > 64 * 32))
      continue;
    int64_t bytes = (b.rows + b.columns) * kLine;
    b.stages = std::min<int64_t>(4, (sharedBytes - blockShared) / bytes);
    if (b.stages < 3)
      continue;
    int64_t ctasPerSm = sharedBytes / (b.stages * bytes + blockShared);
    double step = std::max(
        b.rows * b.columns * double(depth) / (times.macs * 2 / elementBytes),
        (b.warps * (ownRows + ownColumns) + b.rows + b.columns) *
            times.sharedLine);
    // With few warps what each waits for is not hidden.
    if (b.warps * ctasPerSm < 8)
      step *= 1.5;
    double cycles =
        ceil(p.k, depth) * step + times.perBlock + times.perColumn * b.columns;
    int64_t blocks = p.batch * ceil(p.m, b.rows) * ceil(p.n, b.columns);
    cycles *= ceil(blocks, p.sms());
    if (!best.rows || cycles < least) {
      best = b;
      least = cycles;
    }
  }
  return best;
}

} // namespace knapper
