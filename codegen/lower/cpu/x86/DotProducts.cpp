// Several products a lane and step: four of bytes, two of bf16. Integers of
// four bits.
#include "codegen/lower/cpu/CpuLowering.h"
#include "ir/tile/ByteOps.h"

#include "llvm/IR/IntrinsicsX86.h"

using namespace mlir;

namespace knapper::lower {

CpuLowering::GroupRow CpuLowering::byteRow(llvm::Value *words) {
  if (target.byteDots)
    return {words};
  // The instruction for bytes saturates its sums of two in 16 bits; that for 16
  // bits does not. Bytes 0 and 2, and bytes 1 and 3 of a lane are pairs of it.
  llvm::Value *pairs = b.CreateBitCast(
      words, llvm::FixedVectorType::get(b.getInt16Ty(),
                                        2 * laneCount(words->getType())));
  llvm::Value *eight = llvm::ConstantInt::get(pairs->getType(), 8);
  return {nullptr, b.CreateAShr(b.CreateShl(pairs, eight), eight),
          b.CreateAShr(pairs, eight)};
}

llvm::Value *CpuLowering::addByteDots(llvm::Value *sum, llvm::Value *a,
                                      const GroupRow &row) {
  unsigned lanes = laneCount(sum->getType());
  if (row.all) {
    auto *type = llvm::FixedVectorType::get(b.getInt8Ty(), 4 * lanes);
    return b.CreateIntrinsic(
        lanes == 16  ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
        : lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                     : llvm::Intrinsic::x86_avx512_vpdpbusd_128,
        {}, {sum, b.CreateBitCast(a, type), b.CreateBitCast(row.all, type)});
  }
  auto *type = llvm::FixedVectorType::get(b.getInt16Ty(), 2 * lanes);
  llvm::Value *pairs = b.CreateBitCast(a, type);
  auto add = [&](llvm::Value *x, llvm::Value *y) {
    return b.CreateAdd(
        sum,
        b.CreateIntrinsic(lanes == 16 ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                          : lanes == 8 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                       : llvm::Intrinsic::x86_sse2_pmadd_wd,
                          {}, {x, y}));
  };
  sum = add(b.CreateAnd(pairs, llvm::ConstantInt::get(type, 255)), row.even);
  return add(b.CreateLShr(pairs, llvm::ConstantInt::get(type, 8)), row.odd);
}

void CpuLowering::byteDots(tile::AddByteProductsOp op) {
  unsigned lanes = op.getType().getNumElements(),
           width = target.lanes(DType::f32);
  while (lanes % width)
    width /= 2;
  Parts sums;
  for (auto [sum, x, y] :
       llvm::zip_equal(pieces(op.getSum(), width), pieces(op.getA(), width),
                       pieces(op.getB(), width)))
    sums.push_back(addByteDots(sum, x, byteRow(y)));
  setPieces(op.getResult(), sums);
}

// A bf16 is the upper half of an f32.
static llvm::Value *evenOf(llvm::IRBuilder<> &b, llvm::Value *words) {
  return b.CreateBitCast(
      b.CreateShl(words, 16),
      llvm::FixedVectorType::get(b.getFloatTy(), laneCount(words->getType())));
}
static llvm::Value *oddOf(llvm::IRBuilder<> &b, llvm::Value *words) {
  return b.CreateBitCast(
      b.CreateAnd(words, 0xffff0000),
      llvm::FixedVectorType::get(b.getFloatTy(), laneCount(words->getType())));
}

CpuLowering::GroupRow CpuLowering::pairRow(llvm::Value *words) {
  if (target.pairDots)
    return {words};
  return {nullptr, evenOf(b, words), oddOf(b, words)};
}

llvm::Value *CpuLowering::addPairDots(llvm::Value *sum, llvm::Value *a,
                                      const GroupRow &row, unsigned count) {
  unsigned lanes = laneCount(sum->getType());
  llvm::Value *pair = b.CreateBitCast(
      splat(a, lanes), llvm::FixedVectorType::get(b.getInt32Ty(), lanes));
  if (row.all) {
    auto *type = llvm::FixedVectorType::get(b.getBFloatTy(), 2 * lanes);
    return b.CreateIntrinsic(
        lanes == 16  ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512
        : lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256
                     : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128,
        {}, {sum, b.CreateBitCast(pair, type), b.CreateBitCast(row.all, type)});
  }
  auto add = [&](llvm::Value *x, llvm::Value *y) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()},
                             {x, y, sum});
  };
  sum = add(evenOf(b, pair), row.even);
  return count == 1 ? sum : add(oddOf(b, pair), row.odd);
}

llvm::Value *CpuLowering::nibbleRow(llvm::Value *bytes, unsigned part) {
  unsigned lanes = laneCount(bytes->getType());
  auto *words = llvm::FixedVectorType::get(b.getInt32Ty(), lanes);
  auto constant = [&](uint32_t number) {
    return llvm::ConstantInt::get(words, number);
  };
  if (target.wordTable && lanes == 16) {
    // One lookup instead of shift, shift and conversion: it reads four bits of
    // its index.
    llvm::SmallVector<float> values;
    for (int i = 0; i < 16; ++i)
      values.push_back(static_cast<float>(i < 8 ? i : i - 16));
    llvm::Value *index = b.CreateZExt(bytes, words);
    if (part)
      index = b.CreateLShr(index, constant(4));
    return b.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
        {llvm::ConstantDataVector::get(b.getContext(), values), index});
  }
  llvm::Value *whole = b.CreateSExt(bytes, words);
  if (!part)
    whole = b.CreateShl(whole, constant(28));
  whole = b.CreateAShr(whole, constant(part ? 4 : 28));
  return b.CreateSIToFP(whole,
                        llvm::FixedVectorType::get(b.getFloatTy(), lanes));
}

} // namespace knapper::lower
