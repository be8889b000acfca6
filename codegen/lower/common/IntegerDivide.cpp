// Integer division: by zero gives zero (remainder: zero), never a trap, and
// vectors are not taken apart into scalar divisions where f64 can do it.
#include "codegen/lower/common/TileLowering.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace knapper::lower {

llvm::Value *TileLowering::divide(llvm::Value *n, llvm::Value *d, bool isSigned,
                                  bool remainder) {
  llvm::Type *type = n->getType();
  unsigned width = type->getScalarSizeInBits();
  llvm::Value *zero = llvm::Constant::getNullValue(type);
  llvm::Value *one = llvm::ConstantInt::get(type, 1);
  auto native = [&](llvm::Value *d) {
    if (remainder)
      return isSigned ? b.CreateSRem(n, d) : b.CreateURem(n, d);
    return isSigned ? b.CreateSDiv(n, d) : b.CreateUDiv(n, d);
  };
  if (auto *fixed = dyn_cast<llvm::Constant>(d)) {
    auto *splat = dyn_cast_or_null<llvm::ConstantInt>(
        type->isVectorTy() ? fixed->getSplatValue() : fixed);
    if (splat && splat->isZero())
      return zero;
    if (splat && !splat->isMinusOne())
      return native(d);
  }
  llvm::Value *byZero = b.CreateICmpEQ(d, zero);
  auto *vector = dyn_cast<llvm::FixedVectorType>(type);
  if (vector && width <= 32) {
    // A quotient of 32-bit integers rounded in f64 truncates to the right one.
    // Division by -1 is apart: INT_MIN / -1 leaves the range.
    auto lanes = [&](llvm::Type *element) {
      return llvm::FixedVectorType::get(element, vector->getNumElements());
    };
    auto number = [&](llvm::Value *x) {
      return isSigned ? b.CreateSIToFP(x, lanes(b.getDoubleTy()))
                      : b.CreateUIToFP(x, lanes(b.getDoubleTy()));
    };
    llvm::Value *negate =
        isSigned ? b.CreateICmpEQ(d, llvm::Constant::getAllOnesValue(type))
                 : llvm::Constant::getNullValue(byZero->getType());
    llvm::Value *safe = b.CreateSelect(b.CreateOr(byZero, negate), one, d);
    llvm::Type *whole =
        lanes(!isSigned && width == 32 ? b.getInt64Ty() : b.getInt32Ty());
    llvm::Value *q = b.CreateZExtOrTrunc(
        b.CreateFPToSI(b.CreateFDiv(number(n), number(safe)), whole), type);
    if (remainder) // n rem 1 is 0, right for -1 and for zero
      return b.CreateSub(n, b.CreateMul(q, safe));
    q = b.CreateSelect(negate, b.CreateNeg(n), q);
    return b.CreateSelect(byZero, zero, q);
  }
  llvm::Value *unsafe = byZero;
  if (isSigned)
    unsafe = b.CreateOr(
        byZero,
        b.CreateAnd(b.CreateICmpEQ(d, llvm::Constant::getAllOnesValue(type)),
                    b.CreateICmpEQ(
                        n, llvm::ConstantInt::get(
                               type, llvm::APInt::getSignedMinValue(width)))));
  llvm::Value *result = native(b.CreateSelect(unsafe, one, d));
  if (remainder) // n rem 1 is 0: right for INT_MIN rem -1 and for zero
    return result;
  return b.CreateSelect(byZero, zero, result); // INT_MIN / 1 is INT_MIN / -1
}

} // namespace knapper::lower
