// Attention by FMAs of f32: for any GPU, any strides and any of f32, f16, bf16.
//
// A block of 128 threads has 64 rows of queries and `width` columns of the
// result, and walks the keys in blocks of 64. Queries and keys go through
// shared memory 16 deep, weights and values 16 keys at a time. Thread (y, x), 8
// by 16, has of the scores and of the result
//
//   rows 8y .. 8y+7, keys 4x .. 4x+3, columns 4x .. 4x+3 and 64 further on
//
// so that a row belongs to 16 neighbouring lanes, and a warp's reads of shared
// memory are broadcasts or runs.
#include "codegen/lower/gpu/nvidia/simt/SimtAttention.h"

using namespace mlir;
using knapper::config::EmptyRowValue;

namespace knapper::lower {

using namespace simt_attention;

void SimtAttentionRecipe::place() {
  OperandRange sizes = op.getSizes();
  llvm::Value *heads = scalar(sizes[1]), *keyHeads = scalar(sizes[2]);
  queries = scalar(sizes[3]);
  keys = scalar(sizes[4]);
  depth = scalar(sizes[5]);
  columns = scalar(sizes[6]);
  llvm::Value *rest = programId;
  auto take = [&](llvm::Value *size) {
    llvm::Value *before = rest;
    rest = b.CreateUDiv(before, size);
    return b.CreateSub(before, b.CreateMul(rest, size));
  };
  firstColumn = b.CreateMul(take(ceil64(columns, width)), n64(width));
  firstRow = b.CreateMul(take(ceil64(queries, kRows)), n64(kRows));
  head = take(heads);
  batch = rest;
  keyHead = b.CreateUDiv(head, b.CreateUDiv(heads, keyHeads));
  causal = op.getCausal() ? scalar(op.getCausal()) : nullptr;
  end = keys;
  if (causal && !mean) // (a mean over all keys needs all of them)
    end =
        least(keys, b.CreateAdd(b.CreateAdd(firstRow, causal), n64(kRows - 1)));
}

Carried SimtAttentionRecipe::multiplyKeys(llvm::Value *key) {
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(depth);
  llvm::Value *end = known && known->getZExtValue() <= kDepth
                         ? opaqueLoopEnd(b, depth)
                         : depth;
  // (Without depth there is no first element to read either.)
  return carriedFor(
      b, "depth", n64(0), end, n64(kDepth),
      Carried(kOwnRows * kOwnKeys, number(0)),
      [&](llvm::Value *d, const Carried &sums) -> Carried {
        Carried next(sums);
        barrier(); // all have read what was there
        copy(q, firstRow, d, kRows, kDepth, queryBlock, false);
        copy(k, key, d, kKeys, kDepth, keyBlock, false);
        barrier();
        for (unsigned i = 0; i < kDepth; ++i) {
          Carried as, bs;
          fetch(queryBlock, b.CreateAdd(ownRow, n32(i * kPitch)), kOwnRows, as);
          fetch(keyBlock, b.CreateAdd(x4, n32(i * kPitch)), kOwnKeys, bs);
          for (unsigned r = 0; r < kOwnRows; ++r)
            for (unsigned c = 0; c < kOwnKeys; ++c) {
              llvm::Value *&sum = next[kOwnKeys * r + c];
              sum = fma(as[r], bs[c], sum);
            }
        }
        return next;
      });
}

Carried SimtAttentionRecipe::multiplyValues(llvm::Value *key, Carried sums) {
  return carriedFor(
      b, "values", n32(0), n32(kKeys), n32(kDepth), std::move(sums),
      [&](llvm::Value *first, const Carried &before) -> Carried {
        Carried sums(before);
        barrier();
        copy(v, b.CreateAdd(key, wide(first)), firstColumn, kDepth, width,
             valueBlock, true);
        barrier();
        for (unsigned i = 0; i < kDepth; ++i) {
          llvm::Value *line = b.CreateAdd(first, n32(i));
          Carried as, bs;
          fetch(weightBlock,
                b.CreateAdd(b.CreateMul(line, n32(kPitch)), ownRow), kOwnRows,
                as);
          for (unsigned c = 0; c < ownColumns; c += 4)
            fetch(valueBlock, b.CreateAdd(x4, n32(i * width + 16 * c)), 4, bs);
          for (unsigned r = 0; r < kOwnRows; ++r)
            for (unsigned c = 0; c < ownColumns; ++c) {
              llvm::Value *&sum = sums[ownColumns * r + c];
              sum = fma(as[r], bs[c], sum);
            }
        }
        return sums;
      });
}

Carried SimtAttentionRecipe::walk(llvm::Value *key, const Carried &before) {
  Carried scores = multiplyKeys(key);
  llvm::Value *ownKey = b.CreateAdd(narrowed(key), x4);
  for (llvm::Value *&score : scores)
    score = b.CreateFMul(score, number(op.getScale().convertToDouble()));
  if (!op.keepsScores())
    changeScores(scores, ownKey);
  Carried next(before);
  for (unsigned r = 0; r < kOwnRows; ++r)
    softmaxRow(r, llvm::MutableArrayRef(scores).slice(kOwnKeys * r, kOwnKeys),
               ownKey, before, next);
  writeWeights(scores);
  Carried sums =
      multiplyValues(key, Carried(next.begin() + resultAt, next.end()));
  llvm::copy(sums, next.begin() + resultAt);
  return next;
}

LogicalResult SimtAttentionRecipe::emit() {
  // As registers hold.
  fn->addFnAttr("nvvm.minctasm", width == 64 && op.keepsScores() ? "3" : "2");
  if (config.tileM != kRows || config.tileN != kKeys ||
      (width != 64 && width != 128) || op.run() != 1)
    return op.emitOpError("has a shape that this algorithm cannot do");
  four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  never = llvm::ConstantFP::getInfinity(b.getFloatTy(), true);
  place();
  if (failed(takeOperands()))
    return failure();
  makeShared();
  ownFirst = b.CreateAdd(narrowed(firstRow), ownRow);
  lastRow = b.CreateSub(narrowed(queries), n32(1));
  lastKey = b.CreateSub(narrowed(keys), n32(1));
  Carried state(kOwnRows, never);
  state.append(kOwnRows + kOwnRows * ownColumns, number(0));
  state = carriedFor(b, "keys", n64(0), end, n64(kKeys), std::move(state),
                     [&](llvm::Value *key, const Carried &before) {
                       return walk(key, before);
                     });
  llvm::Value *none = number(0);
  if (config.emptyRow == EmptyRowValue::nan)
    none = b.CreateSelect(b.CreateICmpSGT(keys, n64(0)),
                          llvm::ConstantFP::getNaN(b.getFloatTy()), none);
  for (unsigned r = 0; r < kOwnRows; ++r) {
    llvm::Value *sum = overRow(state[sumAt + r], false);
    llvm::Value *inverse = b.CreateSelect(b.CreateFCmpOEQ(sum, number(0)), none,
                                          b.CreateFDiv(number(1), sum));
    storeRow(r, llvm::ArrayRef(state).drop_front(resultAt), inverse);
  }
  return status;
}

LogicalResult simtAttention(GpuLowering &lowering, tile::AttentionOp op) {
  return SimtAttentionRecipe(lowering, op).emit();
}

} // namespace knapper::lower
