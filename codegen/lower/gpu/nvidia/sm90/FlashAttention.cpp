// Flash attention on Hopper. One thread of the producer warpgroup copies boxes
// of queries, keys and values by TMA into shared memory. Each consumer
// warpgroup has 64 rows of queries and walks all keys, with the scores and the
// result in registers.
//
//   shared memory: [full, empty barriers of the ring | of the queries | pad]
//                  [block of queries, later of the result] x 2
//                  [block of keys or values] x stages
//
// Blocks lie as chunks of 64 elements: 128 bytes a row, in TMA's 128-byte
// swizzle. One ring has keys and values in the order of their use: K0 K1 V0 K2
// V1 .. Blocks of keys are walked backwards: K0 is the last one. The blocks
// that the end or the diagonal cuts thus come first, in a loop of their own.
//
// For each block n of keys:
//   start S = Q K(n), then O += P V(n + 1), whose P is of the block before
//   when S is done (O is still under way): the online softmax of S
//   when O is done: P takes the new weights, O is scaled to the new maximum
// So the exponentials hide under the matmuls. Weights are 2^(c S - c m), c the
// scale times log2 e and m the row's largest S so far.
//
// Queries have two buffers. The next block of queries is copied while this one
// is computed, and a result is stored from the rows of its own queries while
// the next one is computed.
//
// Thread t of a warpgroup (warp w, lane l) has of its 64 rows in sum i
//   row 16w + l/4 + 8*((i/2)%2), column 8*(i/4) + 2*(l%4) + i%2
// which, packed in pairs, is how a wgmma takes its left side from registers.
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "codegen/lower/gpu/nvidia/sm90/FlashRecipe.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult FlashRecipe::emit() {
  if (failed(check()) || failed(takeResult()))
    return failure();
  shape.sharedBytes = s.bytes();
  g.base = launchedShared();
  mapArgs = tmaDescriptors();
  if (failed(place()))
    return failure();
  initBarriers();

  llvm::BasicBlock *producer = newBlock("producer"),
                   *consumer = newBlock("consumer"), *end = newBlock("end");
  b.CreateCondBr(b.CreateICmpEQ(warpgroup, n32(0)), producer, consumer);
  b.SetInsertPoint(producer);
  produce();
  b.CreateBr(end);
  b.SetInsertPoint(consumer);
  consume();
  b.CreateBr(end);
  b.SetInsertPoint(end);
  return status;
}

FlashRecipe::State FlashRecipe::firstBlock(const Work &work, llvm::Value *last,
                                           llvm::Value *count,
                                           llvm::Value *buffer,
                                           PipelineState at) {
  Carried read = readMask(work.rows, last);
  ptx.wait(g.full(at.stage), at.parity);
  ptx.wgmmaFence();
  Carried scores = multiplyKeys(work, at.stage);
  ptx.wgmmaWait(scores);
  release(at.stage);
  at = g.advance(at);
  // The rows before have left their buffer: it can have new queries.
  when(b.CreateAnd(leads, b.CreateICmpNE(count, n32(0))), [&] {
    ptx.waitStoresRead(0);
    ptx.arrive(g.barrierAt(kQueriesEmpty, b.CreateXor(buffer, 1)));
  });
  finishScores(scores, last, work.rows, true, read);
  read = readMask(work.rows, g.most(b.CreateSub(last, n32(1)), n32(0)));
  State state{at, {}, {}, {}, std::move(read)};
  llvm::Value *scaled[2];
  g.softmax(scores, state.soft, scaled, true, true);
  state.weights = packed(scores);
  state.sums.assign(s.sums(), g.number(0));
  if (waitsEarly)
    ptx.wait(g.full(at.stage), at.parity);
  return state;
}

FlashRecipe::State FlashRecipe::step(const Work &work, State state,
                                     llvm::Value *n, bool cut) {
  PipelineState at = state.at;
  if (!waitsEarly)
    ptx.wait(g.full(at.stage), at.parity);
  ptx.wgmmaFence(state.sums, state.weights);
  Carried scores = multiplyKeys(work, at.stage);
  llvm::Value *keysStage = at.stage;
  at = g.advance(at);
  ptx.wait(g.full(at.stage), at.parity);
  ptx.wgmmaFence(state.sums, state.weights);
  multiplyValues(state.sums, state.weights, at.stage);
  ptx.wgmmaWait(scores, 1);
  release(keysStage);
  finishScores(scores, n, work.rows, cut, state.mask);
  state.mask = readMask(work.rows, g.most(b.CreateSub(n, n32(1)), n32(0)));
  llvm::Value *scaled[2];
  g.softmax(scores, state.soft, scaled, false, cut || (mask && !g.mean));
  llvm::Value *valuesStage = at.stage;
  at = g.advance(at);
  if (waitsEarly)
    ptx.wait(g.full(at.stage), at.parity);
  // Weights are packed behind the wait: the ones under way have their registers
  // until then.
  Carried both(state.sums);
  both.append(scores);
  ptx.wgmmaWait(both);
  release(valuesStage);
  state.at = at;
  state.weights = packed(Carried(both.begin() + s.sums(), both.end()));
  for (unsigned i = 0; i < s.sums(); ++i)
    state.sums[i] = b.CreateFMul(both[i], scaled[i / 2 % 2]);
  return state;
}

FlashRecipe::State FlashRecipe::walk(Step one, const Work &work, State state,
                                     llvm::Value *from, llvm::Value *to,
                                     bool cut) {
  return stateOf(carriedFor(
      b, cut ? "cut" : "whole", n32(0), b.CreateSub(to, from), n32(1),
      carried(state), [&](llvm::Value *i, const Carried &before) -> Carried {
        llvm::Value *n = b.CreateSub(b.CreateSub(to, n32(1)), i);
        return carried((this->*one)(work, stateOf(before), n, cut));
      }));
}

PipelineState FlashRecipe::compute(llvm::Value *program, llvm::Value *count,
                                   PipelineState at) {
  Work work{rowsAt(program), nullptr, {}};
  llvm::Value *buffer = b.CreateAnd(count, 1);
  ptx.wait(g.barrierAt(kQueriesFull, buffer),
           b.CreateAnd(b.CreateLShr(count, 1), 1));
  work.own =
      b.CreateAdd(g.queries(buffer), b.CreateMul(ownRows, n32(kRowBytes)));
  if (result) {
    computeFloat32(work, buffer, at);
    return at;
  }
  if (queriesInRegisters)
    for (unsigned d = 0; d < s.depth / 16; ++d)
      work.inRegisters.append(ptx.loadMatrices(matricesAt(work.own, d)));
  llvm::Value *last = b.CreateSub(work.rows.blocks, n32(1));
  State state = firstBlock(work, last, count, buffer, at);
  if (causal || g.general)
    state = walk(&FlashRecipe::step, work, std::move(state), work.rows.whole,
                 last, true);
  if (!g.general)
    state = walk(&FlashRecipe::step, work, std::move(state), n32(0),
                 work.rows.whole, false);

  at = state.at;
  if (!waitsEarly)
    ptx.wait(g.full(at.stage), at.parity);
  ptx.wgmmaFence(state.sums, state.weights);
  multiplyValues(state.sums, state.weights, at.stage);
  llvm::Value *inverse[2];
  inverses(state.soft, inverse);
  ptx.wgmmaWait(state.sums);
  release(at.stage);
  at = g.advance(at);
  storeRows(work, state.sums, inverse);
  return at;
}

void FlashRecipe::consume() {
  ptx.registers(s.consumers == 3 ? 160 : 240, true);
  queriesInRegisters = s.width == 128 && !g.region && !result;
  waitsEarly = s.consumers == 3;
  consumerNumber = b.CreateSub(warpgroup, n32(1));
  llvm::Value *local = b.CreateURem(tid, n32(kWarpgroup));
  llvm::Value *warp = b.CreateUDiv(local, n32(32));
  lane = b.CreateURem(tid, n32(32));
  leads = b.CreateICmpEQ(local, n32(0));
  ownRows = b.CreateMul(consumerNumber, n32(s.splitsColumns ? 0 : 64));
  // Where the lane's matrices are in a chunk: row l%16 of the warp's 16, 16
  // bytes from column 8*(l/16) on, swizzled.
  laneAt = b.CreateAdd(
      b.CreateMul(b.CreateAdd(b.CreateShl(warp, 4), b.CreateAnd(lane, 15)),
                  n32(kRowBytes)),
      b.CreateShl(b.CreateXor(b.CreateLShr(lane, 4), b.CreateAnd(lane, 7)), 4));
  laneRow = b.CreateAdd(
      ownRows, b.CreateAdd(b.CreateShl(warp, 4), b.CreateLShr(lane, 2)));
  laneKey = b.CreateShl(b.CreateAnd(lane, 3), 1);
  programs->each({n32(0), n32(0)},
                 [&](llvm::Value *program, llvm::Value *count,
                     PipelineState at) { return compute(program, count, at); });
  when(leads, [&] { ptx.waitStores(); });
}

LogicalResult flashAttention(GpuLowering &lowering, tile::AttentionOp op) {
  return FlashRecipe(lowering, op).emit();
}

} // namespace knapper::lower
