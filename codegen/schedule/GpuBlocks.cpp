#include "codegen/schedule/GpuBlocks.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace knapper {

namespace {

constexpr int64_t kDepth = 64, kLine = 128; // bytes of a line of a block
constexpr int64_t kShared = 233472;         // bytes of a processor
constexpr int64_t kBlockShared = 2048;      // of a block: barriers, the system's

/// Cycles of a processor, fitted to 700 kernels of 70 shapes on an H200.
constexpr double kMatrix = 1.04;    // for 32 elements of a block, a step
constexpr double kNarrow = 0.24;    // more where shared memory is read most
constexpr double kLineCycles = 1.9; // to copy a line at a multiple of 128 bytes
constexpr double kSectorLine = 2.6; // of 32 bytes
constexpr double kOddLine = 3.7;    // of less: parts of five sectors
constexpr double kReceive = 1.6;    // a line, whoever copied it
constexpr double kCarried = 8;      // a line that warpgroups carry
constexpr double kGathered = 3;     // a line that one gathers
constexpr double kLatency = 1900;   // of a copy, spread over the stages
constexpr double kColumn = 13.7;    // of an epilogue, 64 rows of it
constexpr double kEpilogue = 320;   // of any
constexpr double kTurn = 270;       // of a ping-pong's turn
constexpr double kMeet = 1280;      // blocks of a cluster that add their sums
constexpr double kPeerBytes = 23;   // that they read from each other a cycle
constexpr double kRamp = 650;       // until the first copy is there
constexpr double kClusterRamp = 2040; // and more of a cluster
constexpr double kPairRamp = 590;     // and of two that copy for each other
constexpr double kLaunch = 1170;
constexpr double kClock = 1.7e9, kMemory = 4.24e12;
/// Memory and the rest hide each other but for a part: a norm of both.
constexpr double kOverlap = 2.23;

int64_t ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Clusters of so many blocks that all processors hold, a block each. Clusters
/// stay in one of the card's parts, which have 14 to 18 processors. Of pairs
/// one fewer: a grid that takes all of them was seen to run in two rounds.
int64_t clustersAtOnce(int64_t blocks, int64_t processors) {
  if (blocks <= 2)
    return processors / blocks - (blocks - 1);
  constexpr int64_t part = 16;
  return std::max<int64_t>(1, processors / part * (part / blocks) -
                                  (blocks == 4 || blocks == 5 ? 2 : 1));
}

double lineCycles(int64_t pitch) {
  return pitch % 64 == 0 ? kLineCycles : pitch % 16 == 0 ? kSectorLine : kOddLine;
}

int64_t stagesOf(const Blocks &b, const BlockProblem &p) {
  int64_t left = kShared / b.resident - kBlockShared -
                 (p.stores ? b.consumers * 2 * 64 * kLine : 0);
  return std::min<int64_t>(16, left / ((b.aRows + b.columns) * kLine));
}

/// Whether the kernel can be had (Sizes::fit in codegen/lower) and is worth
/// modelling.
bool possible(const Blocks &b, const BlockProblem &p) {
  int64_t own = b.ownColumns();
  if (b.stages < (p.gathered ? 4 : 3) || (p.bTransposed && b.columns % 64) ||
      b.aRows % (8 * b.clusterColumns) || b.columns % (8 * b.clusterRows))
    return false;
  if (b.split == 1)
    return true;
  int64_t consumerRows = b.rows / b.consumers;
  return p.splits && !b.pingpong && p.k >= b.split * kDepth &&
         (consumerRows == 64 || own * b.split == b.columns) &&
         b.rows * b.columns * 4 <= b.stages * (b.aRows + b.columns) * kLine;
}

} // namespace

int64_t Blocks::ownColumns() const { return ceil(columns / 16, split) * 16; }

int64_t Blocks::chunkColumns() const {
  int64_t width = 64;
  while (columns % width || ownColumns() % width)
    width /= 2;
  return width;
}

double modelledCycles(const Blocks &b, const BlockProblem &p) {
  int64_t blocks = p.batch * ceil(p.m, b.rows * b.clusterRows) *
                   ceil(p.n, b.columns * b.clusterColumns) * b.cluster();
  double lines = b.aRows + b.columns;
  double copies =
      p.carried
          // Stages take what the first cache needs: lines are read twice.
          ? lines * kCarried * (1 + 0.03 * std::max<int64_t>(0, b.stages - 4))
          : p.gathered
                ? std::max(b.aRows * kGathered, lines * kReceive)
                : std::max(b.aRows * lineCycles(p.aPitch) / b.clusterColumns +
                               b.columns * lineCycles(p.bPitch) / b.clusterRows,
                           lines * kReceive);
  double matrix = b.rows * b.columns / 32.0 * kMatrix;
  // Of 64 rows products read (64 + columns) lines for 2 * columns of work.
  constexpr double widest = (64 + 256) / 512.0;
  matrix *= 1 + kNarrow * ((64 + b.columns) / (2.0 * b.columns) - widest) /
                    (1 - widest);
  double step =
      std::max({matrix, copies, kLatency / double(b.stages * b.resident)});
  double depth = ceil(ceil(p.k, kDepth), b.split) * step;
  int64_t products = b.rows / 64 / (b.pingpong ? 1 : b.consumers);
  double end = kColumn * b.columns / b.split * products + kEpilogue;
  if (b.split > 1)
    end += kMeet +
           b.rows * b.columns * 4.0 * (b.split - 1) / b.split / kPeerBytes;
  double ramp = kRamp + (b.cluster() > 1 ? kClusterRamp : 0) +
                (b.split == 1 && b.cluster() == 2 ? kPairRamp : 0);
  int64_t atOnce = clustersAtOnce(b.cluster(), p.processors) * b.cluster();
  int64_t waves = ceil(blocks, atOnce * b.resident);
  double cycles;
  if (b.pingpong)
    cycles = waves * (depth + kTurn) + end + ramp;
  else if (b.resident > 1) // they share what there is of a processor
    cycles = ceil(blocks, atOnce) * depth + waves * (end + ramp);
  else if (b.split > 1 || b.cluster() > 2) // no copies for the next block
    cycles = waves * (depth + end + ramp);
  else
    cycles = waves * (depth + end) + ramp;
  double bytes = 2.0 * p.batch * (p.m * p.k + p.n * p.k + p.m * p.n);
  double fixed = end + ramp;
  cycles = fixed + std::pow(std::pow(std::max(cycles - fixed, 1.0), kOverlap) +
                                std::pow(bytes / (kMemory / kClock), kOverlap),
                            1 / kOverlap) +
           kLaunch;
  // Of equals the simpler one.
  return cycles * (1 + 0.002 * b.cluster() + 0.001 * b.resident);
}

Blocks chooseBlocks(const BlockProblem &p) {
  struct Rows {
    int64_t rows, consumers, pingpong;
  };
  constexpr Rows copiedRows[] = {
      {64, 1, 0}, {128, 2, 0}, {128, 2, 1}, {192, 3, 0}, {256, 2, 0}};
  constexpr Rows carriedRows[] = {{64, 1, 0}, {128, 1, 0}};
  constexpr Rows gatheredRows[] = {{64, 1, 0}, {128, 2, 0}};
  constexpr int64_t copiedColumns[] = {32, 64, 96, 128, 160, 192, 224, 256};
  constexpr int64_t carriedColumns[] = {64, 128};
  constexpr int64_t together[][2] = {{1, 1}, {2, 1}, {1, 2},
                                     {2, 2}, {4, 1}, {1, 4}};
  Blocks best{};
  double least = 0;
  auto consider = [&](const Blocks &blocks) {
    if (!possible(blocks, p))
      return;
    double cycles = modelledCycles(blocks, p);
    if (!best.rows || cycles < least) {
      best = blocks;
      least = cycles;
    }
  };
  for (const Rows &r : p.carried    ? llvm::ArrayRef(carriedRows)
                       : p.gathered ? llvm::ArrayRef(gatheredRows)
                                    : llvm::ArrayRef(copiedRows))
    for (int64_t columns : p.carried ? llvm::ArrayRef(carriedColumns)
                                     : llvm::ArrayRef(copiedColumns)) {
      if (r.consumers > 2 && columns < 96)
        continue;
      // Sums of a thread; with three that multiply, it has fewer registers.
      int64_t sums =
          (r.pingpong ? r.rows : r.rows / r.consumers) * columns / 128;
      if (sums > (r.consumers > 2 ? 96 : r.consumers > 1 ? 192 : 128))
        continue;
      Blocks blocks{r.rows, columns, 0, r.consumers, r.pingpong};
      if (p.mostRows && *p.mostRows < r.rows && !p.aTransposed && !p.carried) {
        int64_t some = llvm::alignTo(std::max<int64_t>(1, *p.mostRows), 8);
        // Products read what follows instead: it must be there.
        if (p.stores || some + columns >= r.rows)
          blocks.aRows = some;
      }
      for (blocks.split = 1; blocks.split <= 8; ++blocks.split) {
        if (p.carried) {
          blocks.stages = 1024 / (r.rows + columns) + 1;
          consider(blocks);
          continue;
        }
        for (auto [clusterRows, clusterColumns] : together)
          for (int64_t resident : {1, 2}) {
            blocks.clusterRows = clusterRows;
            blocks.clusterColumns = clusterColumns;
            blocks.resident = resident;
            if (blocks.cluster() > 8 ||
                (p.gathered && clusterRows * clusterColumns > 1) ||
                (resident > 1 && (r.rows > 64 || columns > 128 ||
                                  clusterRows * clusterColumns > 1)))
              continue;
            blocks.stages = stagesOf(blocks, p);
            consider(blocks);
          }
      }
    }
  return best;
}

} // namespace knapper
