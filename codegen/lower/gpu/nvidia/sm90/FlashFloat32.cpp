// Attention on Hopper whose queries, keys and values were widened to f32: they
// are read as the 16-bit elements that they are, and the result is f32.
//
// Products of 16-bit elements are exact in f32. Weights are the sum of 16-bit
// terms, three of bf16 (24 bits) or two of f16, each of which is multiplied
// with the values. Weights are at most 1; f16 ends at 2^-24, so they and their
// sums with the values are held 2^14 times as large until the result is stored:
// two terms are off by 2^-23 of the weight, or by 2^-39. Tensor cores cut off
// what they add instead of rounding it: the terms of a block of keys are added
// from the smallest ones on, from zero, and the block to the others by an FMA.
//
// Heads of more than 128 elements would take more registers than there are: the
// two consumers then have the same 64 rows, and half of the columns each.
//
// There are too few registers for the terms of one block beside the scores of
// the next: K and V of a block come one behind the other, and the matmuls of
// one consumer run under the softmax of the other.
#include "codegen/lower/gpu/nvidia/sm90/FlashRecipe.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

/// What f16 terms are larger than weights by.
static constexpr double kWeightScale = 0x1p14;

namespace knapper::lower {

LogicalResult FlashRecipe::takeResult() {
  Value stored = op.getO();
  if (!op.getO().getType().getElementType().isF32())
    return success();
  auto found = buffer(stored);
  if (failed(found))
    return failure();
  OperandRange strides = op.getOStrides();
  Value columns = op.getSizes()[6];
  uint64_t multiple =
      std::min({knownMultiple(op.getOOffset()), knownMultiple(strides[0]),
                knownMultiple(strides[1]), knownMultiple(strides[2]),
                knownMultiple(columns)});
  result.emplace(Float32Result{
      *found, scalar(op.getOOffset()), scalar(strides[0]), scalar(strides[1]),
      scalar(strides[2]), scalar(strides[3]), scalar(columns),
      matchPattern(strides[3], m_One()) && multiple % 2 == 0});
  g.general = true;
  return success();
}

SmallVector<Carried, 3> FlashRecipe::termsOf(const Carried &weights) {
  unsigned count = bf16 ? 3 : 2;
  SmallVector<Carried, 3> terms(count);
  // What the first or the second half of a word is.
  auto half = [&](llvm::Value *word, unsigned which) -> llvm::Value * {
    if (bf16)
      return b.CreateBitCast(which ? b.CreateAnd(word, n32(0xffff0000u))
                                   : b.CreateShl(word, 16),
                             b.getFloatTy());
    llvm::Value *bits =
        b.CreateTrunc(which ? b.CreateLShr(word, 16) : word, b.getInt16Ty());
    return b.CreateFPExt(b.CreateBitCast(bits, b.getHalfTy()), b.getFloatTy());
  };
  for (unsigned i = 0; i < weights.size(); i += 2) {
    llvm::Value *rest[2] = {weights[i], weights[i + 1]};
    if (!bf16)
      for (llvm::Value *&weight : rest)
        weight = b.CreateFMul(weight, g.number(kWeightScale));
    for (Carried &term : terms) {
      llvm::Value *word = ptx.pack(rest[0], rest[1], bf16);
      term.push_back(word);
      if (&term != &terms.back())
        for (unsigned which : {0, 1})
          rest[which] = b.CreateFSub(rest[which], half(word, which));
    }
  }
  return terms;
}

void FlashRecipe::addValues(Carried &sums, llvm::MutableArrayRef<Carried> terms,
                            llvm::Value *const scaled[2], llvm::Value *stage) {
  Carried none, block(s.sums(), llvm::UndefValue::get(b.getFloatTy()));
  for (Carried &term : terms)
    ptx.wgmmaFence(none, term);
  llvm::Value *own = b.CreateMul(
      ownColumn, n32(s.keys * kRowBytes / kChunk)); // in whole chunks
  llvm::Value *values = g.descriptor(b.CreateAdd(g.stageAt(stage), own), true);
  bool fresh = true;
  for (const Carried &term : llvm::reverse(terms))
    for (unsigned d = 0; d < s.keys / 16; ++d) {
      ptx.wgmma({s.ownColumns(), bf16, fresh, false, true},
                llvm::ArrayRef(term).slice(4 * d, 4),
                b.CreateAdd(values, b.getInt64(d * 16 * kRowBytes / 16)),
                block);
      fresh = false;
    }
  ptx.wgmmaCommit();
  ptx.wgmmaWait(block);
  for (auto [i, sum] : llvm::enumerate(block))
    sums[i] = g.fma(sums[i], scaled[i / 2 % 2], sum);
  // Else these are left for later, and the block is kept until then.
  ptx.wgmmaFence(sums, none);
}

FlashRecipe::State FlashRecipe::stepFloat32(const Work &work, State state,
                                            llvm::Value *n, bool cut) {
  Carried read = readMask(work.rows, n);
  PipelineState at = state.at;
  ptx.wait(g.full(at.stage), at.parity);
  ptx.wgmmaFence();
  Carried scores = multiplyKeys(work, at.stage);
  ptx.wgmmaWait(scores);
  release(at.stage);
  at = g.advance(at);
  finishScores(scores, n, work.rows, cut, read);
  llvm::Value *scaled[2];
  g.softmax(scores, state.soft, scaled, false, cut || (mask && !g.mean));
  SmallVector<Carried, 3> terms = termsOf(scores);
  ptx.wait(g.full(at.stage), at.parity);
  addValues(state.sums, terms, scaled, at.stage);
  release(at.stage);
  state.at = g.advance(at);
  return state;
}

void FlashRecipe::computeFloat32(const Work &work, llvm::Value *buffer,
                                 PipelineState &at) {
  ownColumn =
      b.CreateMul(consumerNumber, n32(s.splitsColumns ? s.ownColumns() : 0));
  State state{at, {}, {}, {}, {}};
  for (unsigned r = 0; r < 2; ++r) {
    state.soft.largest[r] = g.infinity(true);
    state.soft.sum[r] = g.number(0);
  }
  state.sums.assign(s.sums(), g.number(0));
  state = walk(&FlashRecipe::stepFloat32, work, state, work.rows.whole,
               work.rows.blocks, true);
  if (!g.region)
    state = walk(&FlashRecipe::stepFloat32, work, state, n32(0),
                 work.rows.whole, false);
  when(leads, [&] { ptx.arrive(g.barrierAt(kQueriesEmpty, buffer)); });
  llvm::Value *inverse[2];
  inverses(state.soft, inverse);
  if (!bf16)
    for (llvm::Value *&each : inverse)
      each = b.CreateFMul(each, g.number(1 / kWeightScale));
  storeFloat32(work, state.sums, inverse);
  at = state.at;
}

void FlashRecipe::storePair(llvm::Value *at, llvm::Value *left, unsigned column,
                            llvm::Value *first, llvm::Value *second) {
  auto store = [&](llvm::Value *at, llvm::Value *value, unsigned bytes) {
    tag(b.CreateAlignedStore(value, address(result->buffer, at),
                             llvm::Align(bytes)),
        result->buffer);
  };
  auto inside = [&](unsigned column, llvm::function_ref<void()> body) {
    when(b.CreateICmpSGT(left, n32(column)), body);
  };
  if (!result->pairs) {
    inside(column, [&] { store(at, first, 4); });
    inside(column + 1,
           [&] { store(b.CreateAdd(at, result->column), second, 4); });
    return;
  }
  inside(column, [&] {
    llvm::Value *pair =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getFloatTy(), 2));
    pair = b.CreateInsertElement(pair, first, uint64_t(0));
    store(at, b.CreateInsertElement(pair, second, uint64_t(1)), 8);
  });
}

void FlashRecipe::storeFloat32(const Work &work, const Carried &sums,
                               llvm::Value *const inverse[2]) {
  for (unsigned r = 0; r < 2; ++r) {
    llvm::Value *row =
        b.CreateAdd(b.CreateAdd(work.rows.first, laneRow), n32(8 * r));
    when(b.CreateICmpSLT(row, queries), [&] {
      llvm::Value *at = b.CreateAdd(
          b.CreateAdd(result->offset,
                      b.CreateMul(wide(work.rows.batch), result->batch)),
          b.CreateAdd(b.CreateMul(wide(work.rows.head), result->head),
                      b.CreateMul(wide(row), result->row)));
      llvm::Value *first = b.CreateAdd(ownColumn, laneKey);
      at = b.CreateAdd(at, b.CreateMul(wide(first), result->column));
      llvm::Value *left = b.CreateSub(narrowed(result->columns), first);
      llvm::Value *eight = b.CreateMul(result->column, b.getInt64(8));
      for (unsigned i = 2 * r; i < sums.size(); i += 4) {
        storePair(at, left, i / 4 * 8, b.CreateFMul(sums[i], inverse[r]),
                  b.CreateFMul(sums[i + 1], inverse[r]));
        // (A chain: places of their own would be kept from rows to rows.)
        at = b.CreateAdd(at, eight);
      }
    });
  }
}

} // namespace knapper::lower
