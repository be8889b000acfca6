// Attention on Hopper: scores of a block of keys, and the mask of keys.
//
// A mask is read a block ahead, a key a lane; votes of the warp then give every
// lane all of the block's bits.
#include "codegen/lower/gpu/nvidia/sm90/FlashRecipe.h"

using namespace mlir;

namespace knapper::lower {

llvm::Value *FlashRecipe::maskAt(const FlashTile &rows, llvm::Value *key) {
  llvm::Value *offset = b.CreateAdd(
      b.CreateAdd(mask->offset, b.CreateMul(wide(rows.batch), mask->batch)),
      b.CreateAdd(b.CreateMul(wide(rows.head), mask->head),
                  b.CreateMul(wide(key), mask->key)));
  return tag(b.CreateAlignedLoad(mask->buffer.memory,
                                 address(mask->buffer, offset), llvm::Align(1)),
             mask->buffer);
}

Carried FlashRecipe::readMask(const FlashTile &rows, llvm::Value *n) {
  Carried read;
  for (unsigned j = 0; mask && j < s.keys; j += 32) {
    llvm::Value *key =
        b.CreateAdd(b.CreateMul(n, n32(s.keys)), b.CreateAdd(lane, n32(j)));
    read.push_back(maskAt(rows, g.least(key, b.CreateSub(keys, n32(1)))));
  }
  return read;
}

Carried FlashRecipe::shareMask(const Carried &read, llvm::Value *n) {
  Carried words;
  for (auto [j, value] : llvm::enumerate(read)) {
    llvm::Value *key = b.CreateAdd(b.CreateMul(n, n32(s.keys)),
                                   b.CreateAdd(lane, n32(32 * j)));
    llvm::Value *seen =
        b.CreateAnd(b.CreateIsNotNull(value), b.CreateICmpSLT(key, keys));
    llvm::Value *all = b.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync,
                                         {}, {n32(~0u), seen});
    words.push_back(b.CreateLShr(all, laneKey));
  }
  return words;
}

void FlashRecipe::changeScores(Carried &scores, llvm::Value *firstKey,
                               const FlashTile &rows,
                               llvm::Value *const row[2]) {
  for (unsigned i = 0; i < scores.size(); i += op.run()) {
    llvm::Value *key = g.least(
        b.CreateAdd(b.CreateAdd(firstKey, laneKey), n32(i / 4 * 8 + i % 2)),
        b.CreateSub(keys, n32(op.run())));
    if (failed(scoresOf(op, llvm::MutableArrayRef(scores).slice(i, op.run()),
                        rows.batch, rows.head,
                        g.least(row[i / 2 % 2], b.CreateSub(queries, n32(1))),
                        key)))
      status = failure();
  }
}

void FlashRecipe::maskScores(Carried &scores, const Carried &bits,
                             llvm::Value *firstKey, llvm::Value *const row[2],
                             bool cut) {
  // What is seen lies below: of all keys, and of those before the diagonal.
  llvm::Value *from = b.CreateAdd(firstKey, laneKey);
  llvm::Value *inside = b.CreateSub(keys, from);
  llvm::Value *seen[2] = {inside, inside};
  if (causal)
    for (unsigned r = 0; r < 2; ++r) {
      seen[r] = b.CreateSub(b.CreateAdd(row[r], causal), from);
      if (!g.mean)
        seen[r] = g.least(seen[r], inside);
    }
  for (unsigned i = 0; i < scores.size(); ++i) {
    llvm::Value *place = n32(i / 4 * 8 + i % 2);
    llvm::Value *sees = nullptr;
    auto both = [&](llvm::Value *condition) {
      sees = sees ? b.CreateAnd(sees, condition) : condition;
    };
    if (mask)
      both(b.CreateIsNotNull(
          b.CreateAnd(bits[i / 16], n32(1u << (i / 4 % 4 * 8 + i % 2)))));
    // (Past the end there are no bits.)
    if (cut && (causal || !(mask || g.mean)))
      both(b.CreateICmpSGT(seen[i / 2 % 2], place));
    if (!g.mean) {
      scores[i] = b.CreateSelect(sees, scores[i], g.infinity(true));
      continue;
    }
    if (g.region) {
      // What the region leaves out.
      llvm::Value *has = b.CreateFCmpUGE(scores[i], g.number(kUnseen));
      sees = sees ? b.CreateAnd(sees, has) : has;
    }
    if (sees)
      scores[i] = b.CreateSelect(sees, scores[i], g.number(kUnseen));
    if (cut)
      scores[i] = b.CreateSelect(b.CreateICmpSGT(inside, place), scores[i],
                                 g.infinity(true));
  }
}

void FlashRecipe::finishScores(Carried &scores, llvm::Value *n,
                               const FlashTile &rows, bool cut,
                               const Carried &read) {
  Carried bits = shareMask(read, n);
  llvm::Value *firstKey = b.CreateMul(n, n32(s.keys));
  llvm::Value *row[2];
  for (unsigned r = 0; r < 2; ++r)
    row[r] = b.CreateAdd(b.CreateAdd(rows.first, laneRow), n32(8 * r));
  if (g.general)
    for (llvm::Value *&score : scores)
      score = b.CreateFMul(score, g.number(g.scale));
  if (g.region)
    changeScores(scores, firstKey, rows, row);
  if (cut || mask)
    maskScores(scores, bits, firstKey, row, cut);
}

} // namespace knapper::lower
