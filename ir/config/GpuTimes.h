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

/// Of the bandwidth of copies: products reach more, since they read more.
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
  double ramp = 344;        ///< until the first products run,
  double consumer = 590;    ///< more for each consumer,
  double cluster = 754;     ///< of a cluster,
  double pair = 183;        ///< and of two that copy for each other
  double launch = 2306;
  BandwidthShare memory = {61, 60};
  /// Times, seen to take more than modelled: what is staged, where a consumer
  /// of two products ends parts of its columns; two CTAs of an SM that share
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

/// The same of products whose left side a warpgroup gathers: fitted to
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
/// products and convolutions took on an H200: of these, the tiles that the
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
  double products = 1024;                ///< of 16 bits, a cycle
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

} // namespace knapper::config
