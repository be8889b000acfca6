// A matmul by mma.sync: a warp's MMAs of one stage, from matrices that it
// reads by ldmatrix.
#include "codegen/lower/gpu/nvidia/sm80/MmaSyncRecipe.h"

using namespace mlir;

namespace knapper::lower {

using namespace mma_sync;

MmaSyncRecipe::Words MmaSyncRecipe::words32(unsigned side, unsigned tile,
                                            unsigned step, llvm::Value *at) {
  Words result;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned farther = side ? i / 2 : i % 2, below = side ? i % 2 : i / 2;
    llvm::Value *row =
        b.CreateAdd(own[side], plus(eighth, tile * kFragment + farther * 8));
    llvm::Value *box =
        b.CreateMul(b.CreateLShr(row, 5), n32(s.depth() * kRowBytes));
    llvm::Value *where =
        b.CreateXor(b.CreateAnd(b.CreateLShr(row, 2), 7), b.CreateShl(quad, 1));
    llvm::Value *word = b.CreateAdd(
        b.CreateAdd(b.CreateShl(where, 4),
                    b.CreateShl(b.CreateAnd(row, n32(3)), 2)),
        b.CreateAdd(box, b.CreateMul(plus(quad, step * 8 + below * 4),
                                     n32(kRowBytes))));
    result.push_back(b.CreateAlignedLoad(
        b.getInt32Ty(), sharedPointer(b.CreateAdd(at, word)), llvm::Align(4)));
  }
  return result;
}

MmaSyncRecipe::Words MmaSyncRecipe::matrices(unsigned side, unsigned tile,
                                             unsigned step, llvm::Value *at) {
  llvm::Value *second = bitOf(lane, side ? 4 : 3);
  llvm::Value *deeper = bitOf(lane, side ? 3 : 4);
  Words result;
  llvm::Value *row =
      b.CreateAdd(own[side], plus(b.CreateShl(second, 3), tile * kFragment));
  llvm::Value *offset;
  if (s.transposed[side]) {
    llvm::Value *depth = b.CreateAdd(b.CreateShl(deeper, 3), last);
    llvm::Value *box =
        b.CreateMul(b.CreateLShr(row, 6), n32(s.depth() * kRowBytes));
    llvm::Value *where =
        b.CreateXor(b.CreateAnd(b.CreateLShr(row, 3), 7), last);
    offset = b.CreateAdd(
        b.CreateAdd(b.CreateMul(plus(depth, step * 16), n32(kRowBytes)), box),
        b.CreateShl(where, 4));
  } else {
    llvm::Value *where = b.CreateXor(plus(deeper, 2 * step), last);
    offset = b.CreateAdd(b.CreateMul(b.CreateAdd(row, last), n32(kRowBytes)),
                         b.CreateShl(where, 4));
  }
  llvm::Value *pointer = sharedPointer(b.CreateAdd(at, offset));
  llvm::Value *all = b.CreateIntrinsic(
      s.transposed[side]
          ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
          : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
      {pointer->getType()}, {pointer});
  for (unsigned i = 0; i < 4; ++i)
    result.push_back(b.CreateExtractValue(all, i));
  return result;
}

MmaSyncRecipe::Words MmaSyncRecipe::fragment(unsigned side, unsigned tile,
                                             unsigned step,
                                             llvm::Value *stage) {
  llvm::Value *at = plus(stage, s.sideAt(side));
  Words result = s.transposed[side] && tf32 ? words32(side, tile, step, at)
                                            : matrices(side, tile, step, at);
  for (llvm::Value *&word : result) {
    if (tf32) // else the MMA cuts the bits off: a bias
      word = b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {},
                               {b.CreateBitCast(word, b.getFloatTy())});
    if (element.isF16())
      word =
          b.CreateBitCast(word, llvm::FixedVectorType::get(b.getHalfTy(), 2));
  }
  return result;
}

void MmaSyncRecipe::multiply(llvm::Value *stage,
                             llvm::MutableArrayRef<llvm::Value *> sums) {
  llvm::Intrinsic::ID matmul =
      tf32               ? llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32
      : element.isBF16() ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                         : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;

  for (unsigned step = 0; step < kRowBytes / 32; ++step) {
    llvm::SmallVector<Words> as, bs;
    for (unsigned i = 0; i < tiles[0]; ++i)
      as.push_back(fragment(0, i, step, stage));
    for (unsigned j = 0; j < tiles[1]; ++j)
      bs.push_back(fragment(1, j, step, stage));
    for (unsigned i = 0; i < tiles[0]; ++i)
      for (unsigned j = 0; j < 2 * tiles[1]; ++j) {
        auto sum = sums.slice((i * 2 * tiles[1] + j) * 4, 4);
        llvm::SmallVector<llvm::Value *> args(as[i].begin(), as[i].end());
        args.append({bs[j / 2][j % 2 * 2], bs[j / 2][j % 2 * 2 + 1]});
        args.append(sum.begin(), sum.end());
        llvm::Value *all = b.CreateIntrinsic(matmul, {}, args);
        for (unsigned q = 0; q < 4; ++q)
          sum[q] = b.CreateExtractValue(all, q);
      }
  }
}

} // namespace knapper::lower
