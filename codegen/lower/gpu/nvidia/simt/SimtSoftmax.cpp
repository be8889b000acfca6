// Attention by FMAs: from the scores of a block of keys to weights.
#include "codegen/lower/gpu/nvidia/simt/SimtAttention.h"

using namespace mlir;

namespace knapper::lower {

using namespace simt_attention;

llvm::Value *SimtAttentionRecipe::overRow(llvm::Value *value, bool largest) {
  for (unsigned distance : {1, 2, 4, 8}) {
    llvm::Value *other = shuffle(value, distance);
    value = largest
                ? b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, value, other)
                : b.CreateFAdd(value, other);
  }
  return value;
}

void SimtAttentionRecipe::changeScores(Carried &scores, llvm::Value *ownKey) {
  // Through this thread's places among the weights, so that the
  // region's code is there once.
  barrier(); // all have read what was there
  auto place = [&](llvm::Value *r, llvm::Value *c) {
    return sharedAt(weightBlock,
                    b.CreateAdd(b.CreateMul(b.CreateAdd(x4, c), n32(kPitch)),
                                b.CreateAdd(ownRow, r)));
  };
  for (unsigned i = 0; i < scores.size(); ++i)
    b.CreateAlignedStore(scores[i], place(n32(i / kOwnKeys), n32(i % kOwnKeys)),
                         llvm::Align(4));
  carriedFor(b, "scores", n32(0), n32(scores.size()), n32(1), {},
             [&](llvm::Value *i, const Carried &) -> Carried {
               llvm::Value *r = b.CreateUDiv(i, n32(kOwnKeys)),
                           *c = b.CreateURem(i, n32(kOwnKeys));
               llvm::Value *score = b.CreateAlignedLoad(
                   b.getFloatTy(), place(r, c), llvm::Align(4));
               if (failed(scoresOf(op, score, narrowed(batch), narrowed(head),
                                   least(b.CreateAdd(ownFirst, r), lastRow),
                                   least(b.CreateAdd(ownKey, c), lastKey))))
                 status = failure();
               b.CreateAlignedStore(score, place(r, c), llvm::Align(4));
               return {};
             });
  for (unsigned i = 0; i < scores.size(); ++i)
    scores[i] = b.CreateAlignedLoad(b.getFloatTy(),
                                    place(n32(i / kOwnKeys), n32(i % kOwnKeys)),
                                    llvm::Align(4));
}

llvm::Value *SimtAttentionRecipe::seenScore(llvm::Value *score, llvm::Value *at,
                                            llvm::Value *row) {
  llvm::Value *seen = b.CreateICmpSLE(at, lastKey);
  llvm::Value *before =
      causal ? b.CreateICmpSLT(wide(at), b.CreateAdd(wide(row), causal))
             : nullptr;
  if (mean) {
    llvm::Value *unseen = b.CreateFCmpOLT(score, number(kUnseen));
    if (before)
      unseen = b.CreateOr(unseen, b.CreateNot(before));
    score = b.CreateSelect(unseen, number(kUnseen), score);
  } else if (before) {
    seen = b.CreateAnd(seen, before);
  }
  return b.CreateSelect(seen, score, never);
}

void SimtAttentionRecipe::softmaxRow(unsigned r,
                                     llvm::MutableArrayRef<llvm::Value *> own,
                                     llvm::Value *ownKey, const Carried &before,
                                     Carried &next) {
  llvm::Value *row = b.CreateAdd(ownFirst, n32(r));
  llvm::Value *largest = before[largestAt + r];
  for (unsigned c = 0; c < kOwnKeys; ++c) {
    llvm::Value *at = b.CreateAdd(ownKey, n32(c));
    llvm::Value *&score = own[c];
    score = seenScore(score, at, row);
    largest = b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, largest, score);
  }
  largest = overRow(largest, true);
  // A row that sees nothing yet has no maximum: any number will do.
  llvm::Value *reference =
      b.CreateSelect(b.CreateFCmpOEQ(largest, never), number(0), largest);
  auto weight = [&](llvm::Value *score) {
    return fast.exp2(
        b.CreateFMul(b.CreateFSub(score, reference), number(kLog2E)));
  };
  llvm::Value *scaled = weight(before[largestAt + r]);
  llvm::Value *sum = b.CreateFMul(before[sumAt + r], scaled);
  for (llvm::Value *&score : own) {
    score = weight(score);
    sum = b.CreateFAdd(sum, score);
  }
  next[largestAt + r] = largest;
  next[sumAt + r] = sum;
  for (unsigned c = 0; c < ownColumns; ++c) {
    llvm::Value *&result = next[resultAt + ownColumns * r + c];
    result = b.CreateFMul(result, scaled);
  }
}

void SimtAttentionRecipe::writeWeights(const Carried &scores) {
  // (The matmuls that read the weights before lie behind a barrier, unless
  // there is no depth.)
  barrier();
  for (unsigned c = 0; c < kOwnKeys; ++c)
    for (unsigned half = 0; half < kOwnRows; half += 4) {
      llvm::Value *piece = llvm::PoisonValue::get(four);
      for (unsigned i = 0; i < 4; ++i)
        piece =
            b.CreateInsertElement(piece, scores[kOwnKeys * (half + i) + c], i);
      b.CreateAlignedStore(
          piece,
          sharedAt(weightBlock, b.CreateAdd(b.CreateMul(b.CreateAdd(x4, n32(c)),
                                                        n32(kPitch)),
                                            b.CreateAdd(ownRow, n32(half)))),
          llvm::Align(16));
    }
}

} // namespace knapper::lower
