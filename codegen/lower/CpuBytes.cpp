// Sums of four products of bytes a lane.
#include "codegen/lower/Cpu.h"

#include "llvm/IR/IntrinsicsX86.h"

using namespace mlir;

namespace knapper::lower {

CpuEmitter::ByteRow CpuEmitter::byteRow(llvm::Value *bytes) {
  if (target.byteProducts)
    return {bytes};
  // The instruction for bytes saturates its sums of two in 16 bits; that for 16
  // bits does not. Bytes 0 and 2, and bytes 1 and 3 of a lane are pairs of it.
  llvm::Value *pairs = b.CreateBitCast(
      bytes, llvm::FixedVectorType::get(b.getInt16Ty(),
                                        laneCount(bytes->getType()) / 2));
  llvm::Value *eight = llvm::ConstantInt::get(pairs->getType(), 8);
  return {nullptr, b.CreateAShr(b.CreateShl(pairs, eight), eight),
          b.CreateAShr(pairs, eight)};
}

llvm::Value *CpuEmitter::addByteProducts(llvm::Value *sum, llvm::Value *a,
                                         const ByteRow &row) {
  unsigned lanes = laneCount(sum->getType());
  llvm::Value *four = splat(a, lanes);
  if (row.all) {
    auto *type = llvm::FixedVectorType::get(b.getInt8Ty(), 4 * lanes);
    return b.CreateIntrinsic(
        lanes == 16  ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
        : lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                     : llvm::Intrinsic::x86_avx512_vpdpbusd_128,
        {}, {sum, b.CreateBitCast(four, type), row.all});
  }
  auto *type = llvm::FixedVectorType::get(b.getInt16Ty(), 2 * lanes);
  llvm::Value *pairs = b.CreateBitCast(four, type);
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

} // namespace knapper::lower
