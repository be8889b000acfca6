// Attention on Hopper: which rows a CTA has, and the barriers.
#include "codegen/lower/gpu/nvidia/sm90/FlashRecipe.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult FlashRecipe::check() {
  Type element = op.getQ().getType().getElementType(),
       stored = op.getO().getType().getElementType();
  if (!s.fit() || !(element.isBF16() || element.isF16()) ||
      !llvm::all_equal({element, op.getK().getType().getElementType(),
                        op.getV().getType().getElementType()}) ||
      !(stored == element || (stored.isF32() && s.consumers == 2)) ||
      (s.splitsColumns && !stored.isF32()))
    return op.emitOpError(
        "has a shape or element types that this algorithm cannot "
        "do");
  bf16 = element.isBF16();
  return success();
}

LogicalResult FlashRecipe::place() {
  tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  OperandRange sizes = op.getSizes();
  queries = narrowed(sizes[3]);
  keys = narrowed(sizes[4]);
  causal = op.getCausal() ? narrowed(op.getCausal()) : nullptr;
  if (op.getMask()) {
    auto maskBuffer = buffer(op.getMask());
    if (failed(maskBuffer))
      return failure();
    OperandRange at = op.getMaskAt();
    mask.emplace(KeyMask{*maskBuffer, scalar(at[0]), scalar(at[1]),
                         scalar(at[2]), scalar(at[3])});
  }
  llvm::Value *batches = narrowed(sizes[0]), *heads = narrowed(sizes[1]),
              *keyHeads = narrowed(sizes[2]);
  programs.emplace(b,
                   FlashTileScheduler::Shape{s.rows, s.keys, s.width,
                                             unsigned(config.headGroupMiB)},
                   FlashTileScheduler::Counts{batches, heads, keyHeads, queries,
                                              keys, causal});
  warpgroup = b.CreateUDiv(tid, n32(kWarpgroup));
  return success();
}

llvm::Value *FlashRecipe::seesFirst(const FlashTile &rows) {
  if (!g.mean)
    return b.getTrue();
  if (!causal)
    return b.getFalse();
  llvm::Value *sees = b.CreateICmpSGT(causal, n32(0));
  if (g.region) {
    // The copying thread has few registers, and one row is asked for all.
    constexpr size_t mostOps = 16;
    mlir::Block &block = op.getBody().front();
    if (!block.getArgument(3).use_empty() ||
        block.getOperations().size() > mostOps)
      return b.getFalse();
    Carried scores(op.run(), g.number(0));
    if (failed(scoresOf(op, scores, rows.batch, rows.head, rows.first, n32(0))))
      status = failure();
    return b.CreateAnd(sees, b.CreateFCmpUGE(scores[0], g.number(kUnseen)));
  }
  return mask ? b.CreateAnd(sees, b.CreateIsNotNull(maskAt(rows, n32(0))))
              : sees;
}

FlashTile FlashRecipe::rowsAt(llvm::Value *program) {
  FlashTile rows = programs->rows(program);
  programs->setBlocks(rows, seesFirst(rows), result ? !g.region : !g.general);
  return rows;
}

void FlashRecipe::initBarriers() {
  when(b.CreateICmpEQ(tid, n32(0)), [&] {
    for (unsigned stage = 0; stage < s.stages; ++stage) {
      ptx.initBarrier(g.full(n32(stage)), 1);
      ptx.initBarrier(g.empty(n32(stage)), s.consumers);
    }
    for (unsigned i = 0; i < kQueryBuffers; ++i) {
      ptx.initBarrier(g.barrierAt(kQueriesFull, n32(i)), 1);
      ptx.initBarrier(g.barrierAt(kQueriesEmpty, n32(i)), s.consumers);
    }
    ptx.fenceBarrierInit();
  });
  barrier();
}

} // namespace knapper::lower
