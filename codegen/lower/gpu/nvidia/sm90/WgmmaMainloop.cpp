// A matmul by wgmma: a consumer's wgmmas of one block, stage by stage.
#include "codegen/lower/gpu/nvidia/sm90/WgmmaRecipe.h"

using namespace mlir;

namespace knapper::lower {

namespace {

/// What wgmma is told of a block in shared memory, but for its address: swizzle
/// of 128 bytes; 1024 bytes from eight rows (of depth) to the next eight; for a
/// transposed side 8192 from 64 of its columns to the next.
uint64_t descriptor(bool transposed) {
  uint64_t leading = transposed ? 8192 / 16 : 1;
  return uint64_t(1) << 62 | uint64_t(1024 / 16) << 32 | leading << 16;
}
/// From one depth of 16 to the next, in 16 bytes.
uint64_t depthStep(bool transposed) {
  return transposed ? 16 * kRowBytes / 16 : 32 / 16;
}

} // namespace

llvm::Value *WgmmaRecipe::descriptorAt(llvm::Value *stage, llvm::Value *offset,
                                       bool transposed) {
  llvm::Value *address = b.CreateAdd(
      g.base, b.CreateAdd(b.CreateMul(stage, n32(s.stageBytes())), offset));
  llvm::Value *low = b.CreateZExt(
      b.CreateAnd(b.CreateLShr(address, 4), n32(0x3fff)), b.getInt64Ty());
  return b.CreateOr(low, b.getInt64(descriptor(transposed)));
}

void WgmmaRecipe::multiply(PipelineState at, Carried &sums, bool fresh) {
  ptx.wait(g.full(at.stage), at.parity);
  llvm::Value *a = descriptorAt(at.stage, aAt, s.aTransposed);
  llvm::Value *bb = descriptorAt(at.stage, bAt, s.bTransposed);
  ptx.wgmmaFence();
  for (unsigned d = 0; d < kRowBytes / 32; ++d)
    for (unsigned p = 0; p < s.wgmmas(); ++p) {
      PtxAsm::Wgmma kind{s.columns,     bf16,          fresh && d == 0,
                         s.aTransposed, s.bTransposed, s.tf32};
      ptx.wgmma(kind,
                b.CreateAdd(a, b.getInt64(p * 64 * kRowBytes / 16 +
                                          d * depthStep(s.aTransposed))),
                b.CreateAdd(bb, b.getInt64(d * depthStep(s.bTransposed))),
                llvm::MutableArrayRef(sums).slice(p * s.sums(), s.sums()));
    }
  ptx.wgmmaCommit();
}

void WgmmaRecipe::release(llvm::Value *stage) {
  when(tells, [&] {
    if (s.clusterTiles() == 1)
      ptx.arrive(g.empty(stage));
    else
      ptx.arriveInPeer(
          ptx.inPeer(g.empty(stage), b.CreateAdd(firstMate, local)));
  });
}

Carried WgmmaRecipe::mainloop(PipelineState &at) {
  // The first step writes the sums: zeros written before would make the
  // assembler wait for every wgmma.
  Carried sums(s.wgmmas() * s.sums(), llvm::UndefValue::get(b.getFloatTy()));
  multiply(at, sums, true);
  PipelineState next = g.advance(at);
  Carried carried{next.stage, next.parity, at.stage};
  carried.append(sums);
  carried = carriedFor(b, "steps", n32(1), g.steps, n32(1), std::move(carried),
                       [&](llvm::Value *, const Carried &state) -> Carried {
                         PipelineState at{state[0], state[1]};
                         Carried sums(state.begin() + 3, state.end());
                         multiply(at, sums, false);
                         // The wgmmas of the stage before are done.
                         ptx.wgmmaWait(1);
                         release(state[2]);
                         PipelineState next = g.advance(at);
                         Carried result{next.stage, next.parity, at.stage};
                         result.append(sums);
                         return result;
                       });
  if (s.pingpong)
    ptx.notify(b.CreateSub(n32(kTurn + 1), self), 2 * kWarpgroup);
  sums.assign(carried.begin() + 3, carried.end());
  ptx.wgmmaWait(sums);
  release(carried[2]);
  at = {carried[0], carried[1]};
  return sums;
}

} // namespace knapper::lower
