//===- PackedMatmulGpuConfig.h - Matmuls with packed integers on GPUs -----===//
//
// The configuration of a `tile.packed_matmul`. The schedule chooses it
// (codegen/schedule/matmul/GpuPackedMatmul.cpp), the op carries it as its
// `shape`, the lowering reads it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

struct PackedMatmulGpuConfig {
  int64_t bits = 0;  ///< of an integer: 4 or 8
  int64_t group = 0; ///< depths that share a scale
  int64_t depth = 0; ///< of the matmul
  /// Rows of a CTA, a multiple of 8.
  int64_t tileM = 0;
  /// Warps of a CTA side by side, 16 columns each, and such that share a depth.
  int64_t warpsN = 0, warpsK = 0;
  /// Bytes of a column's integers that a thread reads at once: four threads
  /// have a span of the depth.
  int64_t access = 0;
  int64_t stages = 0; ///< spans on their way before the first is used

  static constexpr int64_t warpColumns = 16, spanThreads = 4;

  int64_t tileN() const { return warpColumns * warpsN; }
  int64_t threads() const { return 32 * warpsN * warpsK; }
  /// That an SM is to hold: the sums of tall tiles want the registers of all.
  int64_t ctasPerSm() const { return tileM > 32 ? 1 : 2; }
  int64_t lanes() const { return access * 8 / bits; } ///< of an access
  int64_t span() const { return spanThreads * lanes(); }
  int64_t spans() const { return (depth + span() - 1) / span(); }
  int64_t groups() const { return (depth + group - 1) / group; }
  /// From row to row of a warp's sums in shared memory, f32: 4 more, for the
  /// banks.
  static constexpr int64_t sumsPitch = warpColumns + 4;
  int64_t sumsBytes() const {
    return warpsN * warpsK * tileM * sumsPitch * int64_t(sizeof(float));
  }
  bool fits(const Limits &limits) const {
    return threads() <= limits.threads && sumsBytes() <= kStaticSharedBytes;
  }
  /// What is wrong with it; empty: nothing.
  std::string problem() const {
    if ((bits != 4 && bits != 8) || depth < 1 || group < 1)
      return "has no integers of 4 or 8 bits";
    if (access != 4 && access != 8 && access != 16)
      return "has accesses that there are not";
    if (depth % lanes() || (groups() > 1 && group % span()))
      return "has groups or a depth that its accesses cut";
    if (tileM < 8 || tileM % 8 || warpsN < 1 || warpsK < 1 || stages < 1)
      return "has no rows, warps or stages";
    return {};
  }

  /// Of an op that has been verified.
  static PackedMatmulGpuConfig of(mlir::DictionaryAttr shape) {
    PackedMatmulGpuConfig config;
    (void)parse(shape, config);
    return config;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("bits", c.bits, none, true);
    visit("group", c.group, none, true);
    visit("depth", c.depth, none, true);
    visit("tile_m", c.tileM, none, true);
    visit("warps_n", c.warpsN, none, true);
    visit("warps_k", c.warpsK, none, true);
    visit("bytes", c.access, none, true);
    visit("stages", c.stages, none, true);
  }
};

} // namespace knapper::config
