// Matmuls on Hopper. One thread of the producer warpgroup copies boxes of A and
// B by TMA into the pipeline, a ring of stages in shared memory; the consumer
// warpgroups multiply the full stages by wgmma.
//
//   shared memory: [full barriers | empty barriers | pad to 1024]
//                  [stage: block of A, block of B] x stages
//                  [two chunks of 64 rows of the result] x consumers
//
// A stage is 64 deep: 128 bytes a row, in TMA's 128-byte swizzle. A side whose
// rows (columns) are contiguous lies as boxes of 64 of them by 64 deep.
//
// With `stagingWarpgroups`, warpgroups of that number take the place of the
// producer. They serve operands that TMA cannot copy (strides of an odd number
// of elements): they read them by 16-byte accesses around the elements, shift
// them, and write them to shared memory as TMA would.
//
// Of a convolution the producer warpgroup gathers the input, and TMA copies the
// filter (ImplicitGemmLoad.cpp).
//
// Consumers share a tile by rows. With `pingpong` each consumer has a tile of
// its own, and they alternate: the epilogue of one is hidden under the wgmmas
// of the other. The order of tiles is in WgmmaPlace.cpp.
//
// With `splitK`, the CTAs of a cluster share the depth of one tile; each then
// ends some of its columns (SplitK.cpp). StoreTile.cpp stores the results.
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaRecipe.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult WgmmaRecipe::emit() {
  if (failed(check()))
    return failure();
  shape.sharedBytes = s.bytes(stores);
  g.base = launchedShared();
  mapArgs = tmaDescriptors();
  if (failed(place()))
    return failure();
  initBarriers();

  llvm::BasicBlock *producer = newBlock("producer"),
                   *consumer = newBlock("consumer"), *end = newBlock("end");
  b.CreateCondBr(b.CreateICmpULT(warpgroup, n32(s.producers())), producer,
                 consumer);
  b.SetInsertPoint(producer);
  status = produce();
  b.CreateBr(end);
  b.SetInsertPoint(consumer);
  consume();
  b.CreateBr(end);
  b.SetInsertPoint(end);
  if (s.cluster() > 1)
    ptx.clusterBarrier(); // nobody reads or writes here any more
  return status;
}

void WgmmaRecipe::endTile(TileCoord block, std::optional<GroupRows> group,
                          Carried &sums) {
  to.group = group;
  block.row = b.CreateAdd(block.row, ownRows);
  llvm::Value *edge = n;
  if (s.splitK > 1) {
    edge = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n,
                                   b.CreateAdd(block.column, n32(s.columns)));
    reduceSplitK(g, rank, mate, self, local, sums);
    block.column =
        b.CreateAdd(block.column, b.CreateMul(rank, n32(s.ownColumns())));
  }
  if (failed(storeTile(lowering, op, g, to, block, edge, sums)))
    status = failure();
}

void WgmmaRecipe::consume() {
  if (movesRegisters())
    ptx.registers(s.gathers         ? 200
                  : s.consumers > 2 ? 160
                  : isWide()        ? 240
                                    : 232,
                  true);
  else if (leavesMany())
    ptx.registers(208, true);
  self = b.CreateSub(warpgroup, n32(s.producers()));
  local = b.CreateURem(tid, n32(kWarpgroup));
  llvm::Value *leads = b.CreateICmpEQ(local, n32(0));
  ownRows = s.pingpong ? n32(0) : b.CreateMul(self, n32(s.consumerRows()));
  aAt = b.CreateAdd(b.CreateMul(ownRows, n32(kRowBytes)), n32(kStagesAt));
  bAt = n32(kStagesAt + s.aBytes());
  // All blocks that copy into this one's stage hear of it.
  tells = b.CreateICmpULT(local, n32(s.clusterTiles()));

  llvm::Value *start = g.first, *stride = g.blocks;
  PipelineState begin{n32(0), n32(0)};
  if (s.pingpong) {
    start = b.CreateAdd(g.first, b.CreateMul(self, g.blocks));
    stride = b.CreateMul(g.blocks, n32(2));
    begin = g.advance(begin, b.CreateMul(self, g.steps));
    // The second consumer gives the first one its first turn.
    when(b.CreateICmpEQ(self, n32(1)),
         [&] { ptx.notify(n32(kTurn), 2 * kWarpgroup); });
  }
  to = {m,    n,     outerSizes,  mapArgs.empty() ? nullptr : mapArgs.back(),
        self, local, std::nullopt};
  forTiles(start, stride, {begin.stage, begin.parity},
           [&](llvm::Value *, TileCoord block, std::optional<GroupRows> group,
               const Carried &state) -> Carried {
             PipelineState at{state[0], state[1]};
             // Waiting for more than one phase ahead would see the phase
             // before.
             if (s.pingpong)
               ptx.sync(b.CreateAdd(self, n32(kTurn)), 2 * kWarpgroup);
             Carried sums = mainloop(at);
             endTile(block, group, sums);
             if (s.pingpong)
               at = g.advance(at, g.steps);
             return {at.stage, at.parity};
           });
  if (stores && !s.unaligned)
    when(leads, [&] { ptx.waitStores(); });
}

LogicalResult wgmmaMatmul(GpuLowering &lowering, tile::MatmulOp op) {
  return WgmmaRecipe(lowering, op).emit();
}

} // namespace knapper::lower
