// What the parts of a matmul by warpgroups share: its sizes, and where its
// block is. WgmmaMatmul.cpp says how it lies in shared memory.
#pragma once

#include "codegen/lower/common/CarriedLoop.h"
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"
#include "codegen/lower/gpu/nvidia/common/Pipeline.h"
#include "ir/config/DeviceLimits.h"
#include "ir/config/MatmulGpuConfig.h"
#include "ir/tile/TileDialect.h"

namespace knapper::lower {

inline constexpr unsigned kDepth = 64;      // of a stage, 16-bit elements
inline constexpr unsigned kStagesAt = 1024; // where stages begin
// Named barriers: one a consumer (1 to 3), the turns of ping-pong, and where
// all consumers meet.
inline constexpr unsigned kTurn = 4, kMeet = 6;

/// The sizes of a kernel.
struct WgmmaShape {
  explicit WgmmaShape(tile::MatmulOp op)
      : WgmmaShape(config::MatmulGpuConfig::of(op.getShape())) {
    gathers = !op.getWindow().empty();
    tf32 = tf32 && op.getA().getType().getElementType().isF32();
  }
  explicit WgmmaShape(const config::MatmulGpuConfig &c)
      : rows(c.tileM), columns(c.tileN), stages(c.stages),
        consumers(c.consumers), rasterGroup(c.rasterGroup),
        stagingWarpgroups(c.stagingWarpgroups), pingpong(c.pingpong),
        aTransposed(c.aTransposed), bTransposed(c.bTransposed), tf32(c.tf32),
        unaligned(c.unaligned), splitK(c.splitK), clusterRows(c.clusterM),
        clusterColumns(c.clusterN), swapAB(c.swapAB), aRows(c.rowsCopied()),
        ctasPerSm(c.ctasPerSm), epilogueChunks(c.epilogueChunks) {}

  unsigned rows, columns, stages, consumers, rasterGroup, stagingWarpgroups;
  bool pingpong, aTransposed, bTransposed;
  bool tf32;       ///< operands are f32, of which wgmmas read 19 bits
  bool unaligned;  ///< rows of the result start anywhere: no boxes
  unsigned splitK; ///< blocks of a cluster that share a depth
  /// Blocks of a cluster side by side, which copy for each other what they
  /// have in common.
  unsigned clusterRows, clusterColumns;
  bool swapAB;          ///< rows of blocks are columns of the result
  bool gathers = false; ///< A is read through the window of a convolution
  unsigned aRows;       ///< rows of A that are copied; others are anything
  unsigned ctasPerSm;   ///< blocks that an SM holds at once
  /// Chunks of the result that each consumer has memory for; 0: they take the
  /// ring's place, and a block is its program's only one.
  unsigned epilogueChunks;

  /// Of a stage: 128 bytes.
  unsigned depth() const { return tf32 ? kDepth / 2 : kDepth; }
  unsigned clusterTiles() const { return clusterRows * clusterColumns; }
  unsigned cluster() const { return clusterTiles() * splitK; }
  /// The first warpgroups fill the ring.
  unsigned producers() const {
    return stagingWarpgroups ? stagingWarpgroups : 1;
  }
  unsigned threads() const { return kWarpgroup * (producers() + consumers); }
  unsigned aBytes() const { return aRows * kRowBytes; }
  unsigned stageBytes() const { return (aRows + columns) * kRowBytes; }
  /// Rows of a consumer's part of the block, 64 a wgmma.
  unsigned consumerRows() const { return pingpong ? rows : rows / consumers; }
  unsigned wgmmas() const { return consumerRows() / 64; }
  unsigned sums() const { return columns / 2; }
  /// What numbers of columns are multiples of: results leave as 8x8 matrices,
  /// two of them side by side unless they are transposed.
  unsigned columnStep() const { return swapAB ? 8 : 16; }
  /// Columns of the result that a block of a cluster ends: the last ones may
  /// lie past the cluster's.
  unsigned ownColumns() const {
    unsigned parts = columns / columnStep();
    return (parts + splitK - 1) / splitK * columnStep();
  }
  unsigned ownSums() const { return ownColumns() / 2; }
  /// Columns of a box of the result (swapAB: its rows): both are multiples
  /// of it.
  unsigned chunkColumns() const {
    unsigned width = 64;
    while (columns % width || ownColumns() % width)
      width /= 2;
    return width;
  }
  unsigned chunkBytes() const { return 64 * kRowBytes; }
  /// Columns of a block that a chunk takes.
  unsigned chunkExtent() const { return swapAB ? 64 : chunkColumns(); }
  unsigned resultAt() const {
    return kStagesAt + (epilogueChunks ? stages * stageBytes() : 0);
  }
  /// Chunks of a consumer that lie side by side: in the ring's place all.
  unsigned buffers() const {
    unsigned all = wgmmas() * llvm::divideCeil(columns, chunkExtent());
    return epilogueChunks ? epilogueChunks : all;
  }
  /// Sums of all consumers, which take the ring's place.
  unsigned sumsBytes() const { return rows * columns * 4; }
  unsigned resultBytes(bool stores) const {
    return stores ? consumers * epilogueChunks * chunkBytes() : 0;
  }
  unsigned bytes(bool stores) const {
    return kStagesAt + stages * stageBytes() + resultBytes(stores);
  }
  bool fit(bool stores) const {
    // In place of rows that are not copied, wgmmas read what follows: of the
    // last stage the columns and the results' chunks.
    bool whole =
        aRows == rows ||
        (aRows < rows && aRows % 8 == 0 && !aTransposed && !stagingWarpgroups &&
         rows * kRowBytes <= stageBytes() + resultBytes(stores));
    bool splits =
        splitK == 1 || (!pingpong && sumsBytes() <= stages * stageBytes());
    // Parts of a copied block lie at multiples of eight lines.
    bool shares =
        clusterRows >= 1 && clusterColumns >= 1 &&
        cluster() <= config::kHopper.clusterCtas &&
        !((stagingWarpgroups || gathers) && clusterTiles() > 1) &&
        !(gathers &&
          (swapAB || stagingWarpgroups || consumers > 2 || rows > 128)) &&
        aRows % (8 * clusterColumns) == 0 && columns % (8 * clusterRows) == 0;
    bool results = epilogueChunks <= 2 &&
                   (epilogueChunks || (stores && splitK == 1 && !pingpong &&
                                       consumers * buffers() * chunkBytes() <=
                                           stages * stageBytes()));
    bool plain = !(aTransposed || bTransposed || stagingWarpgroups || gathers);
    return shares && results && (!tf32 || plain) &&
           rows % (64 * (pingpong ? 1 : consumers)) == 0 &&
           columns % columnStep() == 0 && (columns % 64 == 0 || !bTransposed) &&
           (columns % 16 == 0 || !stagingWarpgroups) &&
           columns >= columnStep() && columns <= 256 && rows <= 256 &&
           stages >= 2 && stages <= 16 && consumers >= 1 && consumers <= 3 &&
           (!pingpong || consumers == 2) && rasterGroup >= 1 &&
           stagingWarpgroups <= 2 &&
           (!stagingWarpgroups || !stores || unaligned) && whole && splits &&
           splitK >= 1 && ctasPerSm >= 1 &&
           config::kHopper.holds(ctasPerSm, bytes(stores));
  }
};

class WgmmaMatmul : public Pipeline {
public:
  WgmmaMatmul(llvm::IRBuilder<> &b, const WgmmaShape &s)
      : Pipeline(b, s.stages), s(s) {}

  using Pipeline::advance;
  /// `steps` stages later.
  PipelineState advance(PipelineState p, llvm::Value *steps) {
    llvm::Value *sum = b.CreateAdd(p.stage, steps);
    llvm::Value *rounds = b.CreateUDiv(sum, n32(s.stages));
    return {b.CreateSub(sum, b.CreateMul(rounds, n32(s.stages))),
            b.CreateXor(p.parity, b.CreateAnd(rounds, 1))};
  }

  const WgmmaShape &s;
  llvm::Value *first = nullptr, *blocks = nullptr; // this block, of how many
  llvm::Value *begin = nullptr, *steps = nullptr;  // of depth: first, how many
};

/// Where a consumer's results go. All i32 but the map.
struct WgmmaResult {
  llvm::Value *m, *n;                     ///< rows and columns of the matmul
  llvm::SmallVector<llvm::Value *> outer; ///< batch sizes
  llvm::Value *map;                       ///< of the result, if it has one
  llvm::Value *self, *local; ///< number of the consumer; of the thread in it
  std::optional<GroupRows> group; ///< of a grouped matmul's tile
};

//===-- The parts of the kernel -------------------------------------------===//
// Each has a file of its name; `g` is the kernel's.

/// What warpgroups do that fill the ring by accesses of their own
/// (RegisterStaging.cpp). `warpgroup`: which this is.
mlir::LogicalResult stageThroughRegisters(GpuLowering &lowering,
                                          tile::MatmulOp op, WgmmaMatmul &g,
                                          const TileScheduler &order,
                                          llvm::Value *warpgroup);

/// What the warpgroup does that fills the ring from a convolution's input
/// (ImplicitGemmLoad.cpp).
mlir::LogicalResult loadImplicitGemm(GpuLowering &lowering, tile::MatmulOp op,
                                     WgmmaMatmul &g, const TileScheduler &order,
                                     llvm::Value *filterMap);

/// Hands a consumer's sums to the region and stores what it yields
/// (StoreTile.cpp). `block`: the consumer's own first row and column; `edge`:
/// where the columns end, of the result or of what the cluster has.
mlir::LogicalResult storeTile(GpuLowering &lowering, tile::MatmulOp op,
                              WgmmaMatmul &g, const WgmmaResult &to,
                              TileCoord block, llvm::Value *edge,
                              llvm::ArrayRef<llvm::Value *> sums);

/// Each block of a cluster has `sums` of the cluster's block over its part of
/// the depth, and gets those of its own columns over all of it: `ownSums()` a
/// wgmma. `part` is the block's part, `mate` its number in the cluster less
/// that of part 0, `self` the consumer's, `local` the thread's number.
/// (SplitK.cpp)
void reduceSplitK(WgmmaMatmul &g, llvm::Value *part, llvm::Value *mate,
                  llvm::Value *self, llvm::Value *local, Carried &sums);

} // namespace knapper::lower
