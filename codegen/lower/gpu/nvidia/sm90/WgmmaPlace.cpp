// A matmul by wgmma: which CTA has which tiles, and the barriers.
//
// Blocks are taken in groups of `rasterGroup` block rows, column by column, so
// that what runs at one time reads few operands; every other round walks the
// depth backwards, from what the cache still has.
#include "codegen/lower/gpu/nvidia/sm90/WgmmaRecipe.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult WgmmaRecipe::check() {
  Type element = op.getA().getType().getElementType();
  if (!s.fit(stores) || op.getB().getType().getElementType() != element ||
      !(element.isBF16() || element.isF16() || s.tf32))
    return op.emitOpError(
        "has a shape or element types that this algorithm cannot "
        "do");
  if (stores && op.run() > 2)
    return op.emitOpError("stores runs of two columns at most");
  if (s.swapAB && op.run() != 1)
    return op.emitOpError("has runs, but its rows are the result's columns");
  bf16 = element.isBF16();
  return success();
}

LogicalResult WgmmaRecipe::place() {
  auto special = [&](llvm::Intrinsic::ID id) {
    return b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>());
  };
  tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  g.first = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  g.blocks = special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  m = narrowed(op.getM());
  n = narrowed(op.getN());
  k = narrowed(op.getK());
  g.begin = n32(0);
  g.steps = ceil(k, s.depth());
  if (s.cluster() > 1) {
    llvm::Value *number = ptx.clusterRank();
    rank = b.CreateUDiv(number, n32(s.clusterTiles()));
    firstMate = b.CreateMul(rank, n32(s.clusterTiles()));
    mate = b.CreateSub(number, firstMate);
    mateRow = b.CreateUDiv(mate, n32(s.clusterColumns));
    mateColumn = b.CreateSub(mate, b.CreateMul(mateRow, n32(s.clusterColumns)));
    g.first = b.CreateUDiv(g.first, n32(s.cluster()));
    g.blocks = b.CreateUDiv(g.blocks, n32(s.cluster()));
  }
  if (s.splitK > 1) {
    auto part = [&](llvm::Value *number) {
      return b.CreateUDiv(b.CreateMul(g.steps, number), n32(s.splitK));
    };
    g.begin = part(rank);
    g.steps = b.CreateSub(part(b.CreateAdd(rank, n32(1))), g.begin);
  }
  for (Value size : op.getOuter())
    outerSizes.push_back(narrowed(size));
  unsigned clusterRows = s.clusterRows * s.rows,
           clusterColumns = s.clusterColumns * s.columns;
  llvm::Value *down = ceil(m, clusterRows), *across = ceil(n, clusterColumns);
  order.emplace(b, down, across, outerSizes, clusterRows, clusterColumns,
                s.rasterGroup);
  if (op.getEnds() && failed(groupedTiles(op, clusterColumns, groups)))
    return failure();
  warpgroup = b.CreateUDiv(tid, n32(kWarpgroup));
  return success();
}

TileCoord WgmmaRecipe::ownOf(TileCoord block) {
  if (s.clusterRows > 1)
    block.row = b.CreateAdd(block.row, b.CreateMul(mateRow, n32(s.rows)));
  if (s.clusterColumns > 1)
    block.column =
        b.CreateAdd(block.column, b.CreateMul(mateColumn, n32(s.columns)));
  return block;
}

void WgmmaRecipe::forTiles(llvm::Value *start, llvm::Value *stride,
                           Carried state, TileBody body) {
  if (groups)
    groups->forTiles(start, stride, std::move(state),
                     [&](llvm::Value *program, TileCoord block, GroupRows rows,
                         const Carried &state) {
                       if (outerSizes.empty())
                         block.outer.clear();
                       return body(program, ownOf(block), rows, state);
                     });
  else
    carriedFor(b, "blocks", start, order->programs(), stride, std::move(state),
               [&](llvm::Value *program, const Carried &state) -> Carried {
                 return body(program, ownOf(order->at(program)), std::nullopt,
                             state);
               });
}

void WgmmaRecipe::initBarriers() {
  when(b.CreateICmpEQ(tid, n32(0)), [&] {
    for (unsigned stage = 0; stage < s.stages; ++stage) {
      ptx.initBarrier(g.full(n32(stage)), s.gathers             ? kWarpgroup + 1
                                          : s.stagingWarpgroups ? kWarpgroup
                                                                : 1);
      ptx.initBarrier(g.empty(n32(stage)),
                      (s.pingpong ? 1 : s.consumers) * s.clusterTiles());
    }
    ptx.fenceBarrierInit();
  });
  if (s.clusterTiles() > 1)
    ptx.clusterBarrier();
  else
    barrier();
}

} // namespace knapper::lower
