// Attention on Hopper: the matmuls of a consumer's tiles by wgmma, what it
// carries from block to block of keys, and how its result leaves.
#include "codegen/lower/gpu/nvidia/sm90/FlashRecipe.h"

using namespace mlir;

namespace knapper::lower {

llvm::Value *FlashRecipe::matricesAt(llvm::Value *own, unsigned sixteen) {
  return g.at(b.CreateAdd(own, b.CreateXor(laneAt, n32(32 * (sixteen % 4)))),
              sixteen / 4 * s.rows * kRowBytes);
}

Carried FlashRecipe::multiplyKeys(const Work &work, llvm::Value *stage) {
  Carried scores(s.scores(), llvm::UndefValue::get(b.getFloatTy()));
  llvm::Value *a = queriesInRegisters ? nullptr : g.descriptor(work.own, false);
  llvm::Value *bb = g.descriptor(g.stageAt(stage), false);
  for (unsigned d = 0; d < s.depth / 16; ++d) {
    PtxAsm::Wgmma kind{s.keys, bf16, d == 0, false, false};
    llvm::Value *keysAt = b.CreateAdd(bb, b.getInt64(g.alongRows(d, s.keys)));
    if (queriesInRegisters)
      ptx.wgmma(kind, llvm::ArrayRef(work.inRegisters).slice(4 * d, 4), keysAt,
                scores);
    else
      ptx.wgmma(kind, b.CreateAdd(a, b.getInt64(g.alongRows(d, s.rows))),
                keysAt, scores);
  }
  ptx.wgmmaCommit();
  return scores;
}

void FlashRecipe::multiplyValues(Carried &sums,
                                 llvm::ArrayRef<llvm::Value *> weights,
                                 llvm::Value *stage) {
  llvm::Value *bb = g.descriptor(g.stageAt(stage), true);
  for (unsigned d = 0; d < s.keys / 16; ++d)
    ptx.wgmma({s.ownColumns(), bf16, false, false, true}, weights.slice(4 * d, 4),
              b.CreateAdd(bb, b.getInt64(d * 16 * kRowBytes / 16)), sums);
  ptx.wgmmaCommit();
}

Carried FlashRecipe::packed(const Carried &weights) {
  Carried words;
  for (unsigned i = 0; i < weights.size(); i += 2)
    words.push_back(ptx.pack(weights[i], weights[i + 1], bf16));
  return words;
}

Carried FlashRecipe::carried(const State &state) const {
  Carried all{state.at.stage,        state.at.parity,   state.soft.largest[0],
              state.soft.largest[1], state.soft.sum[0], state.soft.sum[1]};
  all.append(state.weights);
  all.append(state.sums);
  all.append(state.mask);
  return all;
}

FlashRecipe::State FlashRecipe::stateOf(const Carried &all) const {
  auto weights = all.begin() + 6, sums = weights + (result ? 0 : s.keys / 4),
       mask = sums + s.sums();
  return {{all[0], all[1]},
          {{all[2], all[3]}, {all[4], all[5]}},
          Carried(weights, sums),
          Carried(sums, mask),
          Carried(mask, all.end())};
}

void FlashRecipe::inverses(const OnlineSoftmax &soft, llvm::Value *inverse[2]) {
  for (unsigned r = 0; r < 2; ++r) {
    llvm::Value *sum = g.quad(llvm::Intrinsic::not_intrinsic, soft.sum[r]);
    llvm::Value *none = config.emptyRow == config::EmptyRowValue::nan
                            ? llvm::ConstantFP::getNaN(b.getFloatTy())
                            : static_cast<llvm::Constant *>(
                                  llvm::ConstantFP::get(b.getFloatTy(), 0));
    inverse[r] = b.CreateSelect(b.CreateFCmpOEQ(sum, g.number(0)), none,
                                ptx.reciprocal(sum));
  }
}

void FlashRecipe::storeRows(const Work &work, const Carried &sums,
                            llvm::Value *inverse[2]) {
  ptx.sync(warpgroup, kWarpgroup);
  for (unsigned d = 0; d < s.ownColumns() / 16; ++d) {
    llvm::SmallVector<llvm::Value *, 4> words;
    for (unsigned i = 8 * d; i < 8 * d + 8; i += 2) {
      llvm::Value *factor = inverse[i / 2 % 2];
      words.push_back(ptx.pack(b.CreateFMul(sums[i], factor),
                               b.CreateFMul(sums[i + 1], factor), bf16));
    }
    ptx.storeMatrices(matricesAt(work.own, d), words);
  }
  ptx.fenceShared();
  ptx.sync(warpgroup, kWarpgroup);
  when(leads, [&] {
    for (unsigned c = 0; c < s.chunks(); ++c)
      ptx.tmaStore(mapArgs[3],
                   {n32(c * kChunk), b.CreateAdd(work.rows.first, ownRows),
                    work.rows.head, work.rows.batch},
                   g.at(work.own, c * s.rows * kRowBytes));
    ptx.commitStores();
  });
}

} // namespace knapper::lower
