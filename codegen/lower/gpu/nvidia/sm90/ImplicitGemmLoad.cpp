// Filling the ring of a convolution's matmul: the left side is gathered from
// the input by a warpgroup, 16 bytes (eight channels of one tap) an access, the
// filter is copied in boxes by one thread.
//
// Thread t of the warpgroup has chunk t % 8 of line 16*p + t/8 for each p, a
// line being the 64 depths of a row. Its rows stay; so a step is one division
// of the depth, and of each row a comparison a dim and an asynchronous copy,
// which writes zeros for what the border is.
//
// Nothing but the thread's own wait tells when such copies are there: a stage
// is handed over when the `lag` stages behind it have been started.
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kLanes = 8;  // elements of 16 bytes
constexpr unsigned kLines = 16; // that the warpgroup's access has

class ImplicitGemmLoad : KernelRecipe {
public:
  ImplicitGemmLoad(GpuLowering &lowering, tile::MatmulOp op, WgmmaMatmul &g)
      : KernelRecipe(lowering), op(op), g(g), s(g.s), ptx(g.ptx) {}

  LogicalResult emit(const TileScheduler &order, llvm::Value *filterMap);

private:
  llvm::Value *after(llvm::Value *stage) {
    return g.advance({stage, n32(0)}).stage;
  }
  void handOver(llvm::Value *stage) {
    ptx.fenceShared();
    ptx.arrive(g.full(stage));
  }

  tile::MatmulOp op;
  WgmmaMatmul &g;
  const WgmmaShape &s;
  PtxAsm &ptx;
};
} // namespace

LogicalResult ImplicitGemmLoad::emit(const TileScheduler &order,
                                     llvm::Value *filterMap) {
  auto input = buffer(op.getA());
  if (failed(input))
    return failure();
  if (!s.bTransposed || s.aTransposed || s.clusterTiles() > 1 || s.stages < 3)
    return op.emitOpError("has a shape that windows cannot be gathered in");
  const unsigned lag = std::min(3u, s.stages - 2);
  const unsigned number = s.rows / kLines;
  int64_t bBatch = config::MatmulGpuConfig::of(op.getShape()).bBatchDims;
  ImplicitGemmIndex window = implicitGemmIndex(op);
  llvm::Value *m = narrowed(op.getM()), *k = narrowed(op.getK());
  llvm::Value *local = b.CreateURem(
      b.CreateTrunc(threadOfBlock, b.getInt32Ty()), n32(kWarpgroup));
  llvm::Value *leads = b.CreateICmpEQ(local, n32(0));
  llvm::Value *chunk = b.CreateAnd(local, n32(7));
  llvm::Value *line = b.CreateLShr(local, 3);
  llvm::Value *chunkAt = b.CreateAdd(
      b.CreateMul(line, n32(kRowBytes)),
      b.CreateShl(b.CreateXor(chunk, b.CreateAnd(line, n32(7))), 4));
  llvm::Value *inLine = b.CreateMul(chunk, n32(kLanes));

  Carried end = carriedFor(
      b, "blocks", g.first, order.programs(), g.blocks,
      {n32(0), n32(1), n32(0), n32(0)},
      [&](llvm::Value *program, const Carried &outerState) -> Carried {
        TileCoord block = order.at(program);
        llvm::Value *back = b.CreateICmpNE(
            b.CreateAnd(b.CreateUDiv(program, g.blocks), 1), n32(0));
        llvm::Value *base = scalar(op.getAOffset());
        for (auto [stride, index] : llvm::zip(op.getAOuter(), block.outer))
          base = b.CreateAdd(base, b.CreateMul(scalar(stride), wide(index)));
        llvm::SmallVector<ImplicitGemmIndex::Part> rows;
        for (unsigned p = 0; p < number; ++p) {
          llvm::Value *row =
              b.CreateAdd(b.CreateAdd(block.row, line), n32(p * kLines));
          rows.push_back(window.row(row, b.CreateICmpSLT(row, m)));
          rows.back().start = b.CreateAdd(rows.back().start, base);
        }
        return carriedFor(
            b, "steps", n32(0), g.steps, n32(1), outerState,
            [&](llvm::Value *step, const Carried &state) -> Carried {
              PipelineState place{state[0], state[1]};
              llvm::Value *oldest = state[2], *started = state[3];
              llvm::Value *fromEnd =
                  b.CreateSub(b.CreateSub(g.steps, n32(1)), step);
              llvm::Value *first = b.CreateMul(
                  b.CreateAdd(g.begin, b.CreateSelect(back, fromEnd, step)),
                  n32(kDepth));
              llvm::Value *d = b.CreateAdd(first, inLine);
              ImplicitGemmIndex::Part depth =
                  window.depth(d, b.CreateICmpSLT(d, k));
              llvm::Value *stage = b.CreateAdd(
                  g.base,
                  b.CreateAdd(b.CreateMul(place.stage, n32(s.stageBytes())),
                              n32(kStagesAt)));
              ptx.wait(g.empty(place.stage), place.parity);
              when(leads, [&] {
                llvm::Value *full = g.full(place.stage);
                ptx.arriveExpecting(full, s.columns * kRowBytes);
                for (unsigned i = 0; i < s.columns; i += 64) {
                  llvm::SmallVector<llvm::Value *> at{
                      b.CreateAdd(block.column, n32(i)), first};
                  for (auto [j, index] : llvm::enumerate(block.outer))
                    if (bBatch >> j & 1)
                      at.push_back(index);
                  ptx.tmaLoad(g.at(stage, s.aBytes() + i * kRowBytes),
                              filterMap, at, full);
                }
              });
              llvm::Value *to = b.CreateAdd(stage, chunkAt);
              for (unsigned p = 0; p < number; ++p) {
                ImplicitGemmIndex::Element from = window.place(rows[p], depth);
                ptx.copyRun(g.at(to, p * kLines * kRowBytes),
                            address(*input, from.offset), from.inside);
              }
              ptx.commitCopies();
              llvm::Value *ready = b.CreateICmpUGE(started, n32(lag));
              when(ready, [&] {
                ptx.waitCopies(lag);
                handOver(oldest);
              });
              PipelineState next = g.advance(place);
              return {next.stage, next.parity,
                      b.CreateSelect(ready, after(oldest), oldest),
                      b.CreateAdd(started, n32(1))};
            });
      });
  ptx.waitCopies(0);
  llvm::Value *oldest = end[2];
  for (unsigned i = 0; i < lag; ++i) {
    when(b.CreateICmpUGT(end[3], n32(i)), [&] { handOver(oldest); });
    oldest = after(oldest);
  }
  return success();
}

LogicalResult loadImplicitGemm(GpuLowering &lowering, tile::MatmulOp op,
                               WgmmaMatmul &g, const TileScheduler &order,
                               llvm::Value *filterMap) {
  return ImplicitGemmLoad(lowering, op, g).emit(order, filterMap);
}

} // namespace knapper::lower
