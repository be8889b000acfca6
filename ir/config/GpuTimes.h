//===- GpuTimes.h - What kernels take of an SM, fitted or by its rates ----===//
//
// The figures that models of kernels' time have of a card, beside Machine.h's,
// which are of every device. Each struct says what its figures were fitted to;
// a card without figures of its own is modelled with these. A figure that was
// read on a card stands here or in targets/<name>/<Name>Machine.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>

namespace knapper::config {

/// Cycles for a cache line of 128 bytes. `receive`: until an SM has it. `give`:
/// until L2 has served it while all SMs read; SMs of one GPC that read the same
/// line are served once. CTAs of a cluster that multicast divide `give` by
/// their number to the power `shared`.
struct LineTimes {
  double receive, give, shared;
};

/// Of the bandwidth of copies: matmuls reach more, since they read more.
struct BandwidthShare {
  double over, under;
};

/// Matmuls by wgmma, in cycles of an SM. Fitted to 3,600 kernels of 470 shapes
/// on H200s (docs/performance/gpu-matmul.md says how).
struct WgmmaTimes {
  double matrix = 1.01;     ///< for 32 elements of a CTA's tile, a step
  double staged = 7;        ///< a line that warpgroups carry,
  double stagedDeep = 0.03; ///< times more for each stage beyond four
  double latency = 2440;    ///< of a copy, spread over the stages
  double column = 10.5;     ///< of an epilogue, 64 rows of it,
  double operation = 0.5;   ///< (not fitted) for each operation of it,
  double beside = 0.44;     ///< times more for each consumer beside,
  double unaligned = 3.2;   ///< times, where rows start anywhere,
  double narrow = 0.25;     ///< times more for each chunk beyond one of 64,
  double drain = 2700;      ///< and until a CTA's tile is written
  double turn = 25;         ///< of a ping-pong's turn
  double meet = 576;        ///< CTAs of a cluster that add their sums
  double peerBytes = 12.5;  ///< that they read from each other a cycle
  double ramp = 344;        ///< until the first wgmmas run,
  double consumer = 590;    ///< more for each consumer,
  double cluster = 754;     ///< of a cluster,
  double pair = 183;        ///< and of two that copy for each other
  double launch = 2306;
  BandwidthShare memory = {61, 60};
  /// Times, seen to take more than modelled: what is staged, where a consumer
  /// of two wgmmas ends parts of its columns; two CTAs of an SM that share
  /// no depth.
  double stagedParts = 1.06, twoCtasPerSm = 1.05;
  /// What runs side by side hides the rest but for a part: a norm of both.
  /// Within a step, and of memory and all else.
  double together = 7.5, overlap = 2.9;
  /// By where lines start: at multiples of 128 bytes, 64, 32 or 16. Each is
  /// then parts of two lines of the cache, and of five sectors.
  std::array<LineTimes, 4> lines = {{{0.68, 1.76, 0.75},
                                     {1.6, 1.77, 1.0},
                                     {1.83, 2.17, 0.75},
                                     {1.81, 4.3, 0.87}}};
  /// What the cache takes to give a line to one SM alone.
  double giveAlone = 3.6;
  /// Which of the reads of a GPC do not meet: of clusters, of what goes on for
  /// more than one round, and, times the share of CTAs that run ahead, of all.
  double clustersApart = 0.45, roundsApart = 0.14, aheadApart = 3.55;
};
inline constexpr WgmmaTimes kH200Wgmma;

/// The same of matmuls whose left side a warpgroup gathers: fitted to
/// convolutions on an H200, one measured beside the other.
struct GatheredTimes {
  double matrix = 1.04, narrow = 0.24;
  double gathered = 3;  ///< a line that the warpgroup gathers
  double receive = 1.6; ///< any line
  double latency = 1900, column = 13.7, epilogue = 320, meet = 1280;
  double peerBytes = 23; ///< a cycle
  double ramp = 650, clusterRamp = 2040, launch = 1170, overlap = 2.23;
  BandwidthShare memory = {106, 105};
};
inline constexpr GatheredTimes kH200Gathered;

/// SMs of a GPC, which follow one another in the order of programs: 16 of an
/// H200's 14 to 18. What several of them read at the same time the cache gives
/// once.
inline constexpr int64_t kGpcSms = 16;

/// Matmuls by FMAs of f32, in cycles of an SM. Fitted to what 900 kernels of 21
/// matmuls and convolutions took on an H200: of these, the tiles that the
/// model chose took 1.1 times the fastest ones' time (geometric mean).
struct SimtTimes {
  double load = 200;                   ///< of a step: until it is there
  double alone = 1.7, together = 0.46; ///< a warp instruction
  double read = 2.95;                  ///< 16 bytes a lane, of an SM
  double address = 9, inWindow = 2.5, write = 4.4; ///< of a copy
  double launch = 5400, slices = 490, splits = 1500;
  double meet = 60; ///< of a thread's sum, in a cluster
};
inline constexpr SimtTimes kH200Simt;

/// Matmuls by mma.sync, not fitted: by the rates of an SM of sm_80 (NVIDIA A100
/// Tensor Core GPU Architecture), in its cycles.
struct MmaSyncTimes {
  double macs = 1024;                    ///< of 16 bits, a cycle
  double sharedLine = 1;                 ///< of 128 bytes
  double perBlock = 2000, perColumn = 8; ///< estimates
};
inline constexpr MmaSyncTimes kA100MmaSync;

/// Recurrences whose weights stay in registers, in cycles of an SM; by its
/// rates and latencies, not fitted.
struct RecurrenceTimes {
  double warpFmas = 4; ///< warps that an SM multiplies a cycle: 128 FMAs
  double step = 4;     ///< of a chain: an FMA and its read
  double first = 30;   ///< until the chain begins
  double shuffle = 30; ///< each of them
  double cell = 250;   ///< the cell's own values
  double barrier = 40, clusterBarrier = 700;
  double ofStep = 1.5; ///< launches that a step of its own costs
};
inline constexpr RecurrenceTimes kSmRecurrence;

/// Reductions of columns, in units of Machine::readSeconds where nothing else
/// is said. Fitted on an H100 to 201 sums and softmaxes in each form (1 to
/// 1,000 x 16 to 2,000 x 3 to 65,536, bf16 and f32): the fastest form is taken
/// in all but 4 cases, which lose 19 to 58 %.
struct ColumnTimes {
  double cluster = 4; ///< a wait for the CTAs of a cluster
  /// Columns as rows whose elements lie apart: of an element, by all threads of
  /// a CTA, and of a pass.
  struct {
    double read = 0.6e-3, store = 5e-3, wait = 1.6;
  } rows;
  /// A thread walks down its columns.
  struct {
    double read = 0.8;                  ///< of rows under way together
    double cheap = 0.02, costly = 0.06; ///< of an element,
    double cut = 0.02;   ///< more where a row's end cuts accesses,
    double held = 0.5;   ///< times where rows stay in registers
    double narrow = 2;   ///< times memory's where clusters read rows of
    int64_t wide = 1024; ///< fewer bytes
  } walked;
  /// The threads of a CTA share out columns.
  struct {
    double read = 0.6;        ///< of rows under way together
    double meet = 0.4;        ///< of threads in shared memory, and
    double word = 0.02;       ///< a word that they combine there
    double efficiency = 0.85; ///< of memory, by accesses of one element
    double ofRead = 7, ofPass = 4, ofStore = 8,
           ofCostly = 10; ///< instructions of an element
    double perCycle = 80; ///< instructions of threads, of an SM
  } shared;
};
inline constexpr ColumnTimes kH100Columns;

/// Clusters whose CTAs share the rows of columns, or a long row. Columns: read
/// on H200s at 16,384 x 16,384, 65,536 x 4,096 and 131,072 x 2,048
/// (docs/performance/gpu-rows.md); two or four times as many threads cost 2 to
/// 5 %, half as many 15 to 30 %. Rows: estimates for the same card.
struct ClusterFigures {
  int64_t blockThreads = 512; ///< of columns: an SM has one such block,
  int64_t leastRows = 32;     ///< whose CTAs have at least so many rows each
  int64_t leastRow = 16384;   ///< elements of a row that is shared out,
  int64_t leastTile = 4096;   ///< of a CTA's part of it,
  int64_t mostNarrow = 16384; ///< of one that it holds, of 16 bits at most
  int64_t waits = 4096; ///< bytes that an SM reads while CTAs of a cluster wait
  int64_t onTheWay = 32768; ///< bytes on the way to an SM that reads fastest
};
inline constexpr ClusterFigures kH200Clusters;

/// Reductions in two kernels (graph/layout/SplitReductions.h has the words):
/// those that GPUs are given beside that model's own.
struct SplitFigures {
  int64_t leastPart = 2048; ///< elements; estimate
  int64_t around = 1 << 16; ///< elements; estimate
  int64_t block = 64 << 10; ///< elements; H100, reductions of 201 shapes
  int64_t shared = 8192;    ///< bytes; H200, docs/performance/gpu-rows.md
  /// Bytes that are read in the time of a second kernel's start. Read on an
  /// H200: 16,384 x 8,192 of bf16 took 70 us in one kernel and 67 in two, 8,192
  /// x 32,768 of f32 249 and 242.
  int64_t start = 1 << 26;
};
inline constexpr SplitFigures kH200Splits;

/// Many small matmuls of 16 bits: by warpgroups and by their elements, in
/// cycles of an SM. Estimated from what tiles took on an H200: 254 of 3 x 8 x
/// 401 bf16 13.0 us, 480 of 1 x 55 x 7 6.2, 256 of 3 x 8 x 931 25, 398 of 31 x
/// 33 x 3 5.5.
struct ShallowTimes {
  int64_t tiles = 3000, tile = 1400; ///< until the first runs, and each
  int64_t elements = 2500;           ///< until the first are there; each line
  int64_t store = 8; ///< that a warp reads takes one, its stores these
};
inline constexpr ShallowTimes kH200Shallow;

/// Attention over blocks, estimated for an H200 by its shared memory and the
/// rates of its L2; not fitted.
struct PagedFigures {
  int64_t onTheWay = 104 << 10; ///< bytes to each of an SM's two CTAs, in at
  int64_t mostStages = 6;       ///< most so many copies
  /// Tokens up to which each has a CTA of its own: of any step, of one whose
  /// sequences have several, and these for each sequence.
  int64_t few = 16, mixed = 768, perSequence = 8;
};
inline constexpr PagedFigures kH200Paged;

} // namespace knapper::config
