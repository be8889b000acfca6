// The kernel of a tile.matmul by wgmma. WgmmaMatmul.cpp is the recipe. Its
// parts are WgmmaPlace.cpp (tiles, barriers), WgmmaProducer.cpp (TMA loads) and
// WgmmaMainloop.cpp (wgmmas).
#pragma once

#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

namespace knapper::lower {

class WgmmaRecipe : KernelRecipe {
public:
  WgmmaRecipe(GpuLowering &lowering, tile::MatmulOp op)
      : KernelRecipe(lowering), op(op), s(op),
        config(config::MatmulGpuConfig::of(op.getShape())), stores(op.getC()),
        g(b, s), ptx(g.ptx) {}

  mlir::LogicalResult emit();

private:
  //===-- Where a CTA is (WgmmaPlace.cpp) ---------------------------------===//
  mlir::LogicalResult check();
  /// The CTA's number in its cluster, its part of the depth, and the tiles.
  mlir::LogicalResult place();
  TileCoord ownOf(TileCoord block);
  /// state = body(program, its block, rows of its group, state) for each of
  /// this block's programs.
  using TileBody = llvm::function_ref<Carried(
      llvm::Value *, TileCoord, std::optional<GroupRows>, const Carried &)>;
  void forTiles(llvm::Value *start, llvm::Value *stride, Carried state,
                TileBody body);
  void initBarriers();

  //===-- The copying thread (WgmmaProducer.cpp) --------------------------===//
  mlir::LogicalResult produce();
  void copy();
  /// The CTAs of the cluster from `first` on, `apart` from each other, i16.
  llvm::Value *mates(unsigned count, unsigned apart, llvm::Value *first);
  /// Starts the copies of one stage of a block, from depth `depth` on, which
  /// complete on the barrier `full`.
  void loadStage(PipelineState at, llvm::Value *full, llvm::Value *depth,
                 const TileCoord &block);

  //===-- The multiplying warpgroups (WgmmaMatmul.cpp) --------------------===//
  void consume();
  void endTile(TileCoord block, std::optional<GroupRows> group, Carried &sums);

  //===-- Their wgmmas (WgmmaMainloop.cpp) --------------------------------===//
  /// The sums of this consumer's part of a block; moves `at` on.
  Carried mainloop(PipelineState &at);
  /// One stage: waits for it and starts its wgmmas.
  void multiply(PipelineState at, Carried &sums, bool fresh);
  void release(llvm::Value *stage);
  llvm::Value *descriptorAt(llvm::Value *stage, llvm::Value *offset,
                            bool transposed);

  /// The sums of two consumers take the registers that the copying warpgroup
  /// gives up.
  bool movesRegisters() const {
    return s.consumers > 1 && !s.stagingWarpgroups;
  }
  bool isWide() const {
    return movesRegisters() && s.wgmmas() * s.sums() > 128;
  }
  /// Of two warpgroups that stage operands, the one that multiplies gets what
  /// registers are left.
  bool leavesMany() const {
    return s.stagingWarpgroups == 2 && s.consumers == 1 &&
           s.wgmmas() * s.sums() > 64;
  }

  tile::MatmulOp op;
  WgmmaShape s;
  config::MatmulGpuConfig config;
  bool stores, bf16 = false;
  WgmmaMatmul g;
  PtxAsm &ptx;
  llvm::SmallVector<llvm::Value *> mapArgs;
  llvm::Value *tid = nullptr, *warpgroup = nullptr;
  llvm::Value *m = nullptr, *n = nullptr, *k = nullptr;
  /// In a cluster: which part of the depth, and whose mate.
  llvm::Value *rank = nullptr, *mate = nullptr, *firstMate = nullptr,
              *mateRow = nullptr, *mateColumn = nullptr;
  /// Of the producer: the CTAs that have the same rows, and the same columns.
  llvm::Value *rowMates = nullptr, *columnMates = nullptr;
  llvm::SmallVector<llvm::Value *> outerSizes;
  std::optional<TileScheduler> order;
  std::optional<GroupedTileScheduler> groups;
  /// Of a consumer: its number, this thread's in it, its first row.
  llvm::Value *self = nullptr, *local = nullptr, *ownRows = nullptr;
  llvm::Value *aAt = nullptr, *bAt = nullptr; ///< in a stage
  llvm::Value *tells = nullptr;               ///< this thread frees stages
  WgmmaResult to{};
  mlir::LogicalResult status = mlir::success();
};

} // namespace knapper::lower
