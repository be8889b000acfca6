// A matmul by wgmma: what fills the ring of stages. One thread starts TMA
// loads; CTAs of a cluster each load some lines for all that have the same rows
// or columns (multicast).
#include "codegen/lower/gpu/nvidia/sm90/WgmmaRecipe.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult WgmmaRecipe::produce() {
  if (movesRegisters())
    ptx.registers(s.gathers                     ? 104
                  : isWide() || s.consumers > 2 ? 24
                                                : 40,
                  false);
  else if (leavesMany())
    ptx.registers(144, false);
  LogicalResult filled = success();
  if (s.gathers)
    filled = loadImplicitGemm(lowering, op, g, *order, mapArgs[0]);
  else if (s.stagingWarpgroups)
    filled = stageThroughRegisters(lowering, op, g, *order, warpgroup);
  else
    when(b.CreateICmpULT(tid, n32(32)),
         [&] { when(ptx.elect(), [&] { copy(); }); });
  if (s.splitK > 1)
    ptx.clusterBarrier(); // all sums are there
  return filled;
}

llvm::Value *WgmmaRecipe::mates(unsigned count, unsigned apart,
                                llvm::Value *first) {
  unsigned bits = 0;
  for (unsigned i = 0; i < count; ++i)
    bits |= 1u << i * apart;
  return b.CreateTrunc(b.CreateShl(n32(bits), b.CreateAdd(firstMate, first)),
                       b.getInt16Ty());
}

void WgmmaRecipe::copy() {
  for (llvm::Value *map : mapArgs)
    ptx.prefetchDescriptor(map);
  if (s.clusterColumns > 1)
    rowMates =
        mates(s.clusterColumns, 1, b.CreateMul(mateRow, n32(s.clusterColumns)));
  if (s.clusterRows > 1)
    columnMates = mates(s.clusterRows, s.clusterColumns, mateColumn);
  forTiles(
      g.first, g.blocks, {n32(0), n32(1)},
      [&](llvm::Value *program, TileCoord block, std::optional<GroupRows>,
          const Carried &outerState) -> Carried {
        llvm::Value *back = b.CreateICmpNE(
            b.CreateAnd(b.CreateUDiv(program, g.blocks), 1), n32(0));
        return carriedFor(
            b, "steps", n32(0), g.steps, n32(1), outerState,
            [&](llvm::Value *step, const Carried &state) -> Carried {
              PipelineState at{state[0], state[1]};
              ptx.wait(g.empty(at.stage), at.parity);
              llvm::Value *full = g.full(at.stage);
              ptx.arriveExpecting(full, s.stageBytes());
              llvm::Value *fromEnd =
                  b.CreateSub(b.CreateSub(g.steps, n32(1)), step);
              llvm::Value *depth = b.CreateMul(
                  b.CreateAdd(g.begin, b.CreateSelect(back, fromEnd, step)),
                  n32(s.depth()));
              loadStage(at, full, depth, block);
              PipelineState next = g.advance(at);
              return {next.stage, next.parity};
            });
      });
}

void WgmmaRecipe::loadStage(PipelineState at, llvm::Value *full,
                            llvm::Value *depth, const TileCoord &block) {
  llvm::Value *to = b.CreateAdd(
      g.base,
      b.CreateAdd(b.CreateMul(at.stage, n32(s.stageBytes())), n32(kStagesAt)));
  // Of `tiles` blocks each copies some lines for all of them: rows of the
  // block, or depths of each of its boxes.
  auto side = [&](unsigned map, bool transposed, unsigned extent,
                  llvm::Value *from, int64_t batch, unsigned tiles,
                  llvm::Value *mate, llvm::Value *blocks) {
    unsigned lines = (transposed ? s.depth() : extent) / tiles;
    llvm::Value *start = to, *line = transposed ? depth : from;
    if (tiles > 1) {
      llvm::Value *own = b.CreateMul(mate, n32(lines));
      start = b.CreateAdd(to, b.CreateMul(own, n32(kRowBytes)));
      line = b.CreateAdd(line, own);
    }
    if (!transposed) {
      ptx.tmaLoad(start, mapArgs[map], boxAt(depth, line, block, batch), full,
                  blocks);
    } else {
      for (unsigned i = 0; i < extent; i += 64)
        ptx.tmaLoad(g.at(start, i * kRowBytes), mapArgs[map],
                    boxAt(b.CreateAdd(from, n32(i)), line, block, batch), full,
                    blocks);
    }
    to = g.at(to, extent * kRowBytes);
  };
  side(0, s.aTransposed, s.aRows, block.row, config.aBatchDims,
       s.clusterColumns, mateColumn, rowMates);
  side(1, s.bTransposed, s.columns, block.column, config.bBatchDims,
       s.clusterRows, mateRow, columnMates);
}

} // namespace knapper::lower
