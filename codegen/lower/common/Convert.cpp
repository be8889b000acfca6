// Conversions between element types, spelled so that LLVM calls no library and
// no value is undefined.
#include "codegen/lower/common/TileLowering.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace knapper::lower {

llvm::Value *TileLowering::widen(llvm::Value *value, Type from) {
  llvm::Type *f32 = withElement(value->getType(), b.getFloatTy());
  if (from.isBF16()) {
    llvm::Type *i32 = withElement(value->getType(), b.getInt32Ty());
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(value, i32), 16), f32);
  }
  return from.isF16() ? b.CreateFPExt(value, f32) : value;
}

llvm::Value *TileLowering::narrow(llvm::Value *value, Type to) {
  llvm::Type *type = withElement(value->getType(), scalarType(to));
  if (!to.isBF16())
    return to.isF16() ? b.CreateFPTrunc(value, type) : value;
  // Round to nearest even on the bits; a NaN keeps its upper bits and is made
  // quiet, so that it stays a NaN when they are zero.
  llvm::Type *i32 = withElement(value->getType(), b.getInt32Ty());
  llvm::Value *bits = b.CreateBitCast(value, i32);
  llvm::Value *upper = b.CreateLShr(bits, 16);
  llvm::Value *odd = b.CreateAnd(upper, 1);
  llvm::Value *rounded = b.CreateLShr(
      b.CreateAdd(bits, b.CreateAdd(odd, llvm::ConstantInt::get(i32, 0x7fff))),
      16);
  llvm::Value *quiet = b.CreateOr(upper, 0x40);
  return b.CreateTrunc(
      b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded), type);
}

llvm::Value *TileLowering::floatCast(llvm::Value *value, Type from, Type to) {
  if (from == to)
    return value;
  if (from.isF64() && (to.isF16() || to.isBF16())) {
    // Through f32 rounded to odd: the second rounding then sees whether
    // anything was lost in the first.
    llvm::Type *f32 = withElement(value->getType(), b.getFloatTy());
    llvm::Type *i32 = withElement(value->getType(), b.getInt32Ty());
    llvm::Value *single = b.CreateFPTrunc(value, f32);
    llvm::Value *back = b.CreateFPExt(single, value->getType());
    auto abs = [&](llvm::Value *x) {
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    };
    llvm::Value *inexact = b.CreateFCmpONE(back, value);
    llvm::Value *above = b.CreateFCmpOGT(abs(back), abs(value));
    llvm::Value *bits = b.CreateBitCast(single, i32);
    llvm::Value *odd = b.CreateOr(b.CreateSub(bits, b.CreateZExt(above, i32)),
                                  b.CreateZExt(inexact, i32));
    return narrow(b.CreateBitCast(odd, f32), to);
  }
  llvm::Type *type = withElement(value->getType(), scalarType(to));
  if (to.isF64() || to.isF32()) {
    value = widen(value, from); // f64 is left alone
    if (value->getType() == type)
      return value;
    return to.isF64() ? b.CreateFPExt(value, type)
                      : b.CreateFPTrunc(value, type);
  }
  return narrow(widen(value, from), to);
}

// Saturates, NaN gives zero.
llvm::Value *TileLowering::floatToInt(llvm::Value *value, Type to,
                                      bool isSigned) {
  llvm::Type *type = withElement(value->getType(), scalarType(to));
  unsigned width = to.getIntOrFloatBitWidth();
  bool isShort = width < 32;
  bool fits = width == 32 && isSigned &&
              value->getType()->getScalarType()->isDoubleTy();
  bool isCpu = !target.simt;
  // LLVM takes saturating conversions of vectors apart.
  if (isCpu && width == 32 && isSigned && value->getType()->isVectorTy() &&
      value->getType()->getScalarType()->isFloatTy()) {
    auto number = [&](double n) {
      return llvm::ConstantFP::get(value->getType(), n);
    };
    constexpr double end = 2147483648.0; // the largest i32 is no float
    value = b.CreateSelect(b.CreateFCmpORD(value, value), value, number(0));
    value = b.CreateSelect(b.CreateFCmpOGT(value, number(-end)), value,
                           number(-end));
    // What is past the end is not looked at.
    return b.CreateSelect(b.CreateFCmpOLT(value, number(end)),
                          b.CreateFPToSI(value, type),
                          llvm::ConstantInt::getSigned(
                              type, std::numeric_limits<int32_t>::max()));
  }
  if (!isShort && !(isCpu && fits))
    return b.CreateIntrinsic(isSigned ? llvm::Intrinsic::fptosi_sat
                                      : llvm::Intrinsic::fptoui_sat,
                             {type, value->getType()}, {value});
  llvm::Type *i32 = withElement(value->getType(), b.getInt32Ty());
  int64_t low = isSigned ? -(int64_t(1) << (width - 1)) : 0;
  int64_t high = (int64_t(1) << (isSigned ? width - 1 : width)) - 1;
  if (isCpu) {
    // As above. The ends are numbers of the float type; a comparison with NaN
    // takes what stands last.
    auto number = [&](int64_t n) {
      return llvm::ConstantFP::get(value->getType(), static_cast<double>(n));
    };
    if (isSigned)
      value = b.CreateSelect(b.CreateFCmpORD(value, value), value, number(0));
    value =
        b.CreateSelect(b.CreateFCmpOGT(value, number(low)), value, number(low));
    value = b.CreateSelect(b.CreateFCmpOLT(value, number(high)), value,
                           number(high));
    llvm::Value *whole = b.CreateFPToSI(value, i32);
    return isShort ? b.CreateTrunc(whole, type) : whole;
  }
  llvm::Value *whole = b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat,
                                         {i32, value->getType()}, {value});
  whole = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole,
                                  llvm::ConstantInt::getSigned(i32, low));
  whole = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole,
                                  llvm::ConstantInt::getSigned(i32, high));
  return b.CreateTrunc(whole, type);
}

llvm::Value *TileLowering::convert(Operation *op, llvm::Value *value) {
  Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  llvm::Type *type = withElement(value->getType(), scalarType(to));
  return llvm::TypeSwitch<Operation *, llvm::Value *>(op)
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return floatCast(value, from, to); })
      .Case([&](arith::ExtUIOp) { return b.CreateZExt(value, type); })
      .Case([&](arith::ExtSIOp) { return b.CreateSExt(value, type); })
      .Case([&](arith::TruncIOp) { return b.CreateTrunc(value, type); })
      .Case<arith::IndexCastOp>(
          [&](auto) { return b.CreateSExtOrTrunc(value, type); })
      .Case<arith::IndexCastUIOp>(
          [&](auto) { return b.CreateZExtOrTrunc(value, type); })
      .Case([&](arith::BitcastOp) { return b.CreateBitCast(value, type); })
      .Case<arith::SIToFPOp, arith::UIToFPOp>([&](auto) {
        bool half = to.isBF16() || to.isF16();
        llvm::Type *through =
            half ? withElement(value->getType(), b.getFloatTy()) : type;
        llvm::Value *number = isa<arith::SIToFPOp>(op)
                                  ? b.CreateSIToFP(value, through)
                                  : b.CreateUIToFP(value, through);
        return half ? narrow(number, to) : number;
      })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](auto) {
        return floatToInt(widen(value, from), to, isa<arith::FPToSIOp>(op));
      })
      .Default([](Operation *) { return nullptr; });
}

} // namespace knapper::lower
