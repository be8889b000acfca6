// Types and constants.
#include "codegen/lower/common/TileLowering.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace knapper::lower {

// bf16 is kept as its bits: LLVM has no conversions without libcalls for it.
llvm::Type *TileLowering::scalarType(Type type) {
  llvm::LLVMContext &c = module.getContext();
  if (type.isF32())
    return llvm::Type::getFloatTy(c);
  if (type.isF64())
    return llvm::Type::getDoubleTy(c);
  if (type.isF16())
    return llvm::Type::getHalfTy(c);
  if (type.isBF16())
    return llvm::Type::getInt16Ty(c);
  if (type.isIndex())
    return llvm::Type::getInt64Ty(c);
  if (auto integer = dyn_cast<IntegerType>(type))
    return llvm::Type::getIntNTy(c, integer.getWidth());
  return nullptr;
}

llvm::Type *TileLowering::vectorType(Type element, unsigned lanes) {
  return llvm::FixedVectorType::get(scalarType(element), lanes);
}

llvm::Value *TileLowering::splat(llvm::Value *value, unsigned lanes) {
  return b.CreateVectorSplat(lanes, value);
}

llvm::Value *TileLowering::splatLike(llvm::Value *value, llvm::Type *type) {
  if (auto vector = dyn_cast<llvm::FixedVectorType>(type))
    return splat(value, vector->getNumElements());
  return value;
}

llvm::Constant *TileLowering::constant(Type element, Attribute value) {
  llvm::Type *type = scalarType(element);
  if (auto attr = dyn_cast<IntegerAttr>(value))
    return llvm::ConstantInt::get(
        type, attr.getValue().sextOrTrunc(type->getIntegerBitWidth()));
  llvm::APFloat number = cast<FloatAttr>(value).getValue();
  if (element.isBF16())
    return llvm::ConstantInt::get(type, number.bitcastToAPInt());
  return llvm::ConstantFP::get(type, number);
}

llvm::Value *TileLowering::step(unsigned lanes, llvm::Type *element) {
  llvm::SmallVector<llvm::Constant *> numbers;
  for (unsigned i = 0; i < lanes; ++i)
    numbers.push_back(llvm::ConstantInt::get(element, i));
  return llvm::ConstantVector::get(numbers);
}

} // namespace knapper::lower
