// Steps of elementary functions that some machines do in one instruction.
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/IR/IntrinsicsX86.h"

using namespace mlir;

namespace knapper::lower {

constexpr unsigned kWordsOfRegister = 16; // where there is such an instruction

/// The number that is every lane of a constant.
static const llvm::APFloat *numberOf(llvm::Value *value) {
  auto *constant = llvm::dyn_cast<llvm::Constant>(value);
  if (constant && constant->getType()->isVectorTy())
    constant = constant->getSplatValue();
  auto *number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number ? &number->getValueAPF() : nullptr;
}

// By the instruction itself: LLVM moves a sign taken from a number of f64
// across the rounding of a single number, and that of f64 to f16 needs a
// library.
static llvm::Value *roundToHalf(llvm::IRBuilderBase &b, llvm::Value *value) {
  constexpr int lanes = 4, asTheModeSays = 4;
  llvm::Value *number = value->getType()->isVectorTy()
                            ? b.CreateExtractElement(value, uint64_t(0))
                            : value;
  auto *floats = llvm::FixedVectorType::get(b.getFloatTy(), lanes);
  llvm::Value *words = b.CreateIntrinsic(
      llvm::Intrinsic::x86_vcvtps2ph_128, {},
      {b.CreateInsertElement(llvm::Constant::getNullValue(floats), number,
                             uint64_t(0)),
       b.getInt32(asTheModeSays)});
  llvm::Value *word = b.CreateExtractElement(words, uint64_t(0));
  return b.CreateBitCast(word, withElement(value->getType(), b.getHalfTy()));
}

// The larger of two floats by an instruction that knows -0 from 0 and passes
// over a NaN; a sum under a mask brings that back. LLVM takes six for both.
// Beside a number it takes three, where a comparison that is true of a NaN, and
// false of the zero that gives way, takes two.
llvm::Value *CpuLowering::special(Operation *op,
                                  llvm::ArrayRef<llvm::Value *> operands) {
  if (isa<arith::TruncFOp>(op) && laneCount(operands[0]->getType()) == 1 &&
      getElementTypeOrSelf(op->getOperand(0).getType()).isF32() &&
      getElementTypeOrSelf(op->getResult(0).getType()).isF16())
    return roundToHalf(b, operands[0]);
  constexpr unsigned avx512 = 64; // bytes of its registers
  if (!isa<arith::MaximumFOp, arith::MinimumFOp>(op) ||
      target.vectorBytes != avx512)
    return nullptr;
  llvm::Value *x = operands[0], *y = operands[1];
  bool larger = isa<arith::MaximumFOp>(op);
  if (numberOf(x))
    std::swap(x, y);
  if (const llvm::APFloat *number = numberOf(y);
      number && !llvm::isa<llvm::Constant>(x) && !number->isNaN() &&
      !(number->isZero() && number->isNegative() == larger))
    return b.CreateSelect(
        larger ? b.CreateFCmpUGT(x, y) : b.CreateFCmpULT(x, y), x, y);
  if (llvm::isa<llvm::Constant>(x) || llvm::isa<llvm::Constant>(y))
    return nullptr;
  llvm::Type *type = x->getType();
  if (!type->getScalarType()->isFloatTy() || laneCount(type) != 16)
    return nullptr;
  constexpr int least = 4, most = 5, roundAsUsual = 4;
  llvm::Value *number =
      b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_range_ps_512, {},
                        {x, y, b.getInt32(larger ? most : least),
                         llvm::Constant::getNullValue(type), b.getInt16(-1),
                         b.getInt32(roundAsUsual)});
  llvm::Value *strange = b.CreateFCmpUNO(x, y), *sum = b.CreateFAdd(x, y);
  return b.CreateSelect(strange, sum, number);
}

void CpuLowering::lookup(tile::LookupOp op) {
  llvm::ArrayRef<int32_t> words = op.getTable();
  llvm::SmallVector<uint32_t> table(words.begin(), words.end());
  Parts result;
  for (llvm::Value *index : parts(op.getIndex())) {
    unsigned lanes = laneCount(index->getType());
    if (target.wordTable && lanes % kWordsOfRegister == 0 &&
        table.size() == 2 * kWordsOfRegister) {
      auto half = [&](unsigned first) {
        return llvm::ConstantDataVector::get(
            module.getContext(),
            llvm::ArrayRef(table).slice(first, kWordsOfRegister));
      };
      Parts pieces;
      for (int at = 0; at < int(lanes); at += kWordsOfRegister) {
        auto mask = llvm::to_vector(llvm::seq<int>(at, at + kWordsOfRegister));
        // Takes the low five bits of each index itself.
        pieces.push_back(
            b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_d_512, {},
                              {half(0), b.CreateShuffleVector(index, mask),
                               half(kWordsOfRegister)}));
      }
      result.push_back(join(pieces));
      continue;
    }
    auto *data = llvm::ConstantDataArray::get(module.getContext(), table);
    auto *global = new llvm::GlobalVariable(
        module, data->getType(), /*isConstant=*/true,
        llvm::GlobalValue::PrivateLinkage, data, "table");
    llvm::Value *within = b.CreateAnd(
        index, llvm::ConstantInt::get(index->getType(), table.size() - 1));
    result.push_back(b.CreateMaskedGather(
        index->getType(), b.CreateGEP(b.getInt32Ty(), global, within),
        llvm::Align(4)));
  }
  set(op.getResult(), result);
}

void CpuLowering::scaleByPower(tile::ScaleByPowerOp op) {
  Parts result;
  for (auto [value, power] :
       llvm::zip_equal(parts(op.getValue()), parts(op.getPower()))) {
    llvm::Type *floats = value->getType();
    unsigned lanes = laneCount(floats);
    if (target.powerScale && lanes % kWordsOfRegister == 0) {
      Parts pieces;
      for (int at = 0; at < int(lanes); at += kWordsOfRegister) {
        auto mask = llvm::to_vector(llvm::seq<int>(at, at + kWordsOfRegister));
        llvm::Value *piece = b.CreateShuffleVector(value, mask);
        constexpr int roundAsUsual = 4;
        pieces.push_back(b.CreateIntrinsic(
            llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
            {piece, b.CreateShuffleVector(power, mask),
             llvm::Constant::getNullValue(piece->getType()), b.getInt16(-1),
             b.getInt32(roundAsUsual)}));
      }
      result.push_back(join(pieces));
      continue;
    }
    // Three factors, each a normal number, reach from the largest number below
    // the smallest.
    llvm::Type *ints = floats->getWithNewType(b.getInt32Ty());
    llvm::Value *rest = b.CreateIntrinsic(
        llvm::Intrinsic::fptosi_sat, {ints, floats},
        {b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, power)});
    for (int factor = 0; factor < 3; ++factor) {
      llvm::Value *most = llvm::ConstantInt::getSigned(ints, 126);
      llvm::Value *least = llvm::ConstantInt::getSigned(ints, -126);
      llvm::Value *part =
          b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rest, most);
      part = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, part, least);
      rest = b.CreateSub(rest, part);
      llvm::Value *bias = llvm::ConstantInt::get(ints, 127);
      llvm::Value *bits = b.CreateShl(b.CreateAdd(part, bias), 23);
      value = b.CreateFMul(value, b.CreateBitCast(bits, floats));
    }
    result.push_back(value);
  }
  set(op.getResult(), result);
}

} // namespace knapper::lower
