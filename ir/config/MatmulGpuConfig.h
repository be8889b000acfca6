//===- MatmulGpuConfig.h - How a GPU computes a matmul --------------------===//
//
// The configuration of a `tile.matmul`: a matmul or an implicit-GEMM
// convolution. The schedules choose it
// (codegen/schedule/matmul/GpuMatmulChoose.cpp, GpuImplicitGemm.cpp), the op
// carries it as its `shape`, the lowerings read it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

/// The instructions that multiply.
enum class MatmulAlgorithm : int64_t {
  simt = 0,    ///< fused FMAs of f32
  wgmma = 1,   ///< sm_90a: warpgroups, operands by TMA or staged in registers
  gemv = 2,    ///< few rows: B is read once
  mmaSync = 3, ///< from sm_80 on: warps, operands by cp.async
};
constexpr MatmulAlgorithm largest(MatmulAlgorithm) {
  return MatmulAlgorithm::mmaSync;
}

struct MatmulGpuConfig {
  MatmulAlgorithm algorithm = MatmulAlgorithm::simt;
  /// Elements of the result that a CTA computes, and of the depth that a stage
  /// holds. gemv: `tileK` is what the threads of a column read at once.
  int64_t tileM = 0, tileN = 0, tileK = 0;
  int64_t stages = 0; ///< in shared memory; gemv: reads in flight
  /// wgmma: warpgroups that multiply; mmaSync, gemv: warps. simt: 0.
  int64_t consumers = 0;
  /// wgmma: two consumers have a tile each; one's epilogue runs under the
  /// other's matmuls.
  bool pingpong = false;
  int64_t rasterGroup = 0; ///< rows of tiles that follow one another
  /// CTAs of a cluster that share a tile's depth; each ends some columns, with
  /// simt some rows.
  int64_t splitK = 1;
  int64_t sliceK = 1;  ///< simt: teams of a CTA that share a depth
  int64_t access = 0;  ///< gemv: elements a thread reads at once; 0: 16 bytes
  int64_t copiedM = 0; ///< rows of A that are copied; 0: `tileM`
  /// Tiles of a cluster, whose CTAs copy for each other (multicast).
  int64_t clusterM = 1, clusterN = 1;
  int64_t ctasPerSm = 1;
  /// A is the result's right side: row i, column j of the op are column i, row
  /// j of the result, which the region is told, one element at a time.
  bool swapAB = false;
  /// Chunks of the result that a consumer has shared memory for; 0: they take
  /// the place of the operands.
  int64_t epilogueChunks = 2;
  /// The contracted dim is not the contiguous one.
  bool aTransposed = false, bTransposed = false;
  /// Bit i: batch dim i is a dim of the operand's TMA descriptor.
  int64_t aBatchDims = 0, bBatchDims = 0;
  bool tf32 = false;      ///< operands of f32 are rounded to tf32
  bool unaligned = false; ///< the result's rows start anywhere: no TMA store
  /// wgmma: warpgroups that stage operands through registers; 0: TMA does.
  int64_t stagingWarpgroups = 0;
  int64_t warpsM = 0;                    ///< mmaSync: warps along M
  bool aCopied = false, bCopied = false; ///< mmaSync: by cp.async

  int64_t clusterSize() const { return splitK * clusterM * clusterN; }
  int64_t rowsCopied() const { return copiedM ? copiedM : tileM; }
  /// simt: rows and columns of the tile that a thread has.
  int64_t threadRows() const { return tileM < 64 ? 4 : 8; }
  int64_t threadColumns() const { return tileN < 64 ? 4 : 8; }
  /// Of a CTA.
  int64_t threads() const {
    switch (algorithm) {
    case MatmulAlgorithm::simt:
      return tileM * tileN / (threadRows() * threadColumns()) * sliceK;
    case MatmulAlgorithm::wgmma:
      return 128 * (consumers + (stagingWarpgroups ? stagingWarpgroups : 1));
    case MatmulAlgorithm::gemv:
    case MatmulAlgorithm::mmaSync:
      return 32 * consumers;
    }
    return 0;
  }
  /// wgmma, mmaSync: a stage has 128 bytes of each row and column.
  int64_t stageBytes() const { return (rowsCopied() + tileN) * 128; }
  /// What the chunks of the result take comes on top.
  bool fits(const Limits &limits) const {
    bool hasStages = algorithm == MatmulAlgorithm::wgmma ||
                     algorithm == MatmulAlgorithm::mmaSync;
    return threads() <= limits.threads && clusterSize() <= limits.clusterCtas &&
           (!hasStages || limits.holds(ctasPerSm, stages * stageBytes()));
  }

  /// Of an op that has been verified.
  static MatmulGpuConfig of(mlir::DictionaryAttr shape) {
    MatmulGpuConfig config;
    (void)parse(shape, config);
    return config;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1, two = 2;
    visit("algorithm", c.algorithm, MatmulAlgorithm::simt, true);
    bool wgmma = c.algorithm == MatmulAlgorithm::wgmma,
         mmaSync = c.algorithm == MatmulAlgorithm::mmaSync;
    visit("tile_m", c.tileM, none, true);
    visit("tile_n", c.tileN, none, true);
    visit("tile_k", c.tileK, none, true);
    visit("stages", c.stages, none, true);
    visit("consumers", c.consumers, none, true);
    visit("pingpong", c.pingpong, false, true);
    visit("raster_group", c.rasterGroup, none, true);
    visit("split_k", c.splitK, one, false);
    visit("slice_k", c.sliceK, one, false);
    visit("access", c.access, none, false);
    visit("copied_m", c.copiedM, none, false);
    visit("cluster_m", c.clusterM, one, false);
    visit("cluster_n", c.clusterN, one, false);
    visit("ctas_per_sm", c.ctasPerSm, one, false);
    visit("swap_ab", c.swapAB, false, false);
    visit("epilogue_chunks", c.epilogueChunks, two, false);
    visit("a_transposed", c.aTransposed, false, wgmma || mmaSync);
    visit("b_transposed", c.bTransposed, false, wgmma || mmaSync);
    visit("a_batch_dims", c.aBatchDims, none, wgmma);
    visit("b_batch_dims", c.bBatchDims, none, wgmma);
    visit("tf32", c.tf32, false, false);
    visit("unaligned", c.unaligned, false, false);
    visit("staging_warpgroups", c.stagingWarpgroups, none, false);
    visit("warps_m", c.warpsM, none, mmaSync);
    visit("a_copied", c.aCopied, false, mmaSync);
    visit("b_copied", c.bCopied, false, mmaSync);
  }
};

/// What the schedule decides beside: how the region gets the result. The op has
/// it in its region and its `to`.
struct MatmulGpuSchedule : MatmulGpuConfig {
  int64_t epilogueColumns = 1; ///< of one row, that the region gets at once
  bool tileStore = false;      ///< results leave through shared memory

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    MatmulGpuConfig::fields(c, visit);
    constexpr int64_t one = 1;
    visit("run", c.epilogueColumns, one, true);
    visit("store", c.tileStore, false, true);
  }
};

} // namespace knapper::config
