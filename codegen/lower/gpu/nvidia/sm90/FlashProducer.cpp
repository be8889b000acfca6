// Attention on Hopper: the thread that starts the TMA loads.
#include "codegen/lower/gpu/nvidia/sm90/FlashRecipe.h"

using namespace mlir;

namespace knapper::lower {

void FlashRecipe::load(unsigned map, llvm::Value *to, unsigned rows,
                       llvm::Value *row, llvm::Value *head, llvm::Value *batch,
                       llvm::Value *barrier) {
  for (unsigned c = 0; c < s.chunks(); ++c)
    ptx.tmaLoad(g.at(to, c * rows * kRowBytes), mapArgs[map],
                {n32(c * kChunk), row, head, batch}, barrier);
}

PipelineState FlashRecipe::loadBlock(unsigned map, llvm::Value *n,
                                     PipelineState at, const FlashTile &rows) {
  ptx.wait(g.empty(at.stage), at.parity);
  llvm::Value *full = g.full(at.stage);
  ptx.arriveExpecting(full, s.stageBytes());
  llvm::Value *to = g.stageAt(at.stage);
  load(map, to, s.keys, b.CreateMul(n, n32(s.keys)), rows.keyHead, rows.batch,
       full);
  return g.advance(at);
}

PipelineState FlashRecipe::copy(llvm::Value *program, llvm::Value *count,
                                PipelineState at) {
  FlashTile rows = rowsAt(program);
  llvm::Value *buffer = b.CreateAnd(count, 1);
  llvm::Value *phase = b.CreateAnd(b.CreateLShr(count, 1), 1);
  ptx.wait(g.barrierAt(kQueriesEmpty, buffer), b.CreateXor(phase, 1));
  llvm::Value *here = g.barrierAt(kQueriesFull, buffer);
  ptx.arriveExpecting(here, s.queryBytes());
  load(0, g.queries(buffer), s.rows, rows.first, rows.head, rows.batch, here);
  llvm::Value *last = b.CreateSub(rows.blocks, n32(1));
  if (result) {
    Carried state = carriedFor(
        b, "blocks", n32(0), rows.blocks, n32(1), {at.stage, at.parity},
        [&](llvm::Value *i, const Carried &state) -> Carried {
          llvm::Value *n = b.CreateSub(last, i);
          PipelineState at = loadBlock(1, n, {state[0], state[1]}, rows);
          at = loadBlock(2, n, at, rows);
          return {at.stage, at.parity};
        });
    return {state[0], state[1]};
  }
  at = loadBlock(1, last, at, rows);
  Carried state =
      carriedFor(b, "blocks", n32(0), last, n32(1), {at.stage, at.parity},
                 [&](llvm::Value *i, const Carried &state) -> Carried {
                   llvm::Value *before = b.CreateSub(last, i);
                   PipelineState at = loadBlock(1, b.CreateSub(before, n32(1)),
                                                {state[0], state[1]}, rows);
                   at = loadBlock(2, before, at, rows);
                   return {at.stage, at.parity};
                 });
  return loadBlock(2, n32(0), {state[0], state[1]}, rows);
}

void FlashRecipe::produce() {
  ptx.registers(s.consumers == 3 ? 32 : 24, false);
  auto copyAll = [&] {
    for (llvm::Value *map : mapArgs)
      ptx.prefetchDescriptor(map);
    programs->each({n32(0), n32(1)},
                   [&](llvm::Value *program, llvm::Value *count,
                       PipelineState at) { return copy(program, count, at); });
  };
  when(b.CreateICmpULT(tid, n32(32)), [&] { when(ptx.elect(), copyAll); });
}

} // namespace knapper::lower
