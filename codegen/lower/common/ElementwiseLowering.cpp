// Elementwise arith and math operations, one part at a time.
#include "codegen/lower/common/TileLowering.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;
using llvm::Intrinsic::ID;

namespace knapper::lower {

static llvm::FastMathFlags fastMath(Operation *op) {
  llvm::FastMathFlags flags;
  auto interface = dyn_cast<arith::ArithFastMathInterface>(op);
  if (!interface)
    return flags;
  arith::FastMathFlags given = interface.getFastMathFlagsAttr()
                                   ? interface.getFastMathFlagsAttr().getValue()
                                   : arith::FastMathFlags::none;
  auto has = [&](arith::FastMathFlags flag) {
    return bitEnumContainsAll(given, flag);
  };
  flags.setAllowReassoc(has(arith::FastMathFlags::reassoc));
  flags.setNoNaNs(has(arith::FastMathFlags::nnan));
  flags.setNoInfs(has(arith::FastMathFlags::ninf));
  flags.setNoSignedZeros(has(arith::FastMathFlags::nsz));
  flags.setAllowReciprocal(has(arith::FastMathFlags::arcp));
  flags.setAllowContract(has(arith::FastMathFlags::contract));
  flags.setApproxFunc(has(arith::FastMathFlags::afn));
  return flags;
}

static llvm::CmpInst::Predicate predicate(arith::CmpIPredicate p) {
  using P = llvm::CmpInst::Predicate;
  constexpr P table[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_SLT, P::ICMP_SLE,
                         P::ICMP_SGT, P::ICMP_SGE, P::ICMP_ULT, P::ICMP_ULE,
                         P::ICMP_UGT, P::ICMP_UGE};
  return table[static_cast<unsigned>(p)];
}

static llvm::CmpInst::Predicate predicate(arith::CmpFPredicate p) {
  using P = llvm::CmpInst::Predicate;
  constexpr P table[] = {P::FCMP_FALSE, P::FCMP_OEQ, P::FCMP_OGT, P::FCMP_OGE,
                         P::FCMP_OLT,   P::FCMP_OLE, P::FCMP_ONE, P::FCMP_ORD,
                         P::FCMP_UEQ,   P::FCMP_UGT, P::FCMP_UGE, P::FCMP_ULT,
                         P::FCMP_ULE,   P::FCMP_UNE, P::FCMP_UNO, P::FCMP_TRUE};
  return table[static_cast<unsigned>(p)];
}

llvm::Value *TileLowering::elementwise(Operation *op,
                                       llvm::ArrayRef<llvm::Value *> v) {
  if (llvm::Value *value = special(op, v))
    return value;
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return b.CreateSelect(v[0], v[1], v[2]);
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::ExtUIOp, arith::ExtSIOp,
          arith::TruncIOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
          arith::FPToUIOp, arith::BitcastOp, arith::IndexCastOp,
          arith::IndexCastUIOp>(op))
    return convert(op, v[0]);
  Type type = getElementTypeOrSelf(op->getOperand(0).getType());
  if (!isa<FloatType>(type))
    return integer(op, v);
  // Half precision is computed in f32 and rounded once.
  bool half = type.isBF16() || type.isF16();
  llvm::SmallVector<llvm::Value *, 3> wide(v);
  if (half)
    for (llvm::Value *&value : wide)
      value = widen(value, type);
  b.setFastMathFlags(fastMath(op));
  llvm::Value *result = floating(op, wide);
  b.clearFastMathFlags();
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  return result && half && to == type ? narrow(result, type) : result;
}

llvm::Value *TileLowering::integer(Operation *op,
                                   llvm::ArrayRef<llvm::Value *> v) {
  auto binary = [&](ID id) { return b.CreateBinaryIntrinsic(id, v[0], v[1]); };
  // A shift by the width or more gives what shifting step by step would.
  auto shift = [&](llvm::Instruction::BinaryOps code) {
    llvm::Type *type = v[0]->getType();
    unsigned width = type->getScalarSizeInBits();
    llvm::Value *limit = llvm::ConstantInt::get(type, width - 1);
    llvm::Value *amount =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, v[1], limit);
    llvm::Value *shifted = b.CreateBinOp(code, v[0], amount);
    if (code == llvm::Instruction::AShr)
      return shifted;
    return b.CreateSelect(b.CreateICmpUGT(v[1], limit),
                          llvm::Constant::getNullValue(type), shifted);
  };
  auto flag = llvm::ConstantInt::getFalse(module.getContext());
  return llvm::TypeSwitch<Operation *, llvm::Value *>(op)
      .Case([&](arith::AddIOp) { return b.CreateAdd(v[0], v[1]); })
      .Case([&](arith::SubIOp) { return b.CreateSub(v[0], v[1]); })
      .Case([&](arith::MulIOp) { return b.CreateMul(v[0], v[1]); })
      .Case([&](arith::AndIOp) { return b.CreateAnd(v[0], v[1]); })
      .Case([&](arith::OrIOp) { return b.CreateOr(v[0], v[1]); })
      .Case([&](arith::XOrIOp) { return b.CreateXor(v[0], v[1]); })
      .Case([&](arith::ShLIOp) { return shift(llvm::Instruction::Shl); })
      .Case([&](arith::ShRUIOp) { return shift(llvm::Instruction::LShr); })
      .Case([&](arith::ShRSIOp) { return shift(llvm::Instruction::AShr); })
      .Case([&](arith::MaxSIOp) { return binary(llvm::Intrinsic::smax); })
      .Case([&](arith::MinSIOp) { return binary(llvm::Intrinsic::smin); })
      .Case([&](arith::MaxUIOp) { return binary(llvm::Intrinsic::umax); })
      .Case([&](arith::MinUIOp) { return binary(llvm::Intrinsic::umin); })
      .Case([&](arith::DivSIOp) { return divide(v[0], v[1], true, false); })
      .Case([&](arith::DivUIOp) { return divide(v[0], v[1], false, false); })
      .Case([&](arith::RemSIOp) { return divide(v[0], v[1], true, true); })
      .Case([&](arith::RemUIOp) { return divide(v[0], v[1], false, true); })
      .Case([&](arith::FloorDivSIOp) {
        llvm::Value *q = divide(v[0], v[1], true, false);
        llvm::Value *r = b.CreateSub(v[0], b.CreateMul(q, v[1]));
        llvm::Value *zero = llvm::Constant::getNullValue(r->getType());
        llvm::Value *down = b.CreateAnd(
            b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpNE(v[1], zero)),
            b.CreateICmpSLT(b.CreateXor(v[0], v[1]), zero));
        return b.CreateAdd(q, b.CreateSExt(down, q->getType()));
      })
      .Case([&](arith::CeilDivSIOp) {
        llvm::Value *q = divide(v[0], v[1], true, false);
        llvm::Value *r = b.CreateSub(v[0], b.CreateMul(q, v[1]));
        llvm::Value *zero = llvm::Constant::getNullValue(r->getType());
        llvm::Value *up = b.CreateAnd(
            b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpNE(v[1], zero)),
            b.CreateICmpSGE(b.CreateXor(v[0], v[1]), zero));
        return b.CreateAdd(q, b.CreateZExt(up, q->getType()));
      })
      .Case([&](arith::CeilDivUIOp) {
        llvm::Value *q = divide(v[0], v[1], false, false);
        llvm::Value *r = b.CreateSub(v[0], b.CreateMul(q, v[1]));
        llvm::Value *zero = llvm::Constant::getNullValue(r->getType());
        llvm::Value *up =
            b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpNE(v[1], zero));
        return b.CreateAdd(q, b.CreateZExt(up, q->getType()));
      })
      .Case([&](arith::CmpIOp op) {
        return b.CreateICmp(predicate(op.getPredicate()), v[0], v[1]);
      })
      .Case([&](math::AbsIOp) {
        return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, v[0], flag);
      })
      .Case([&](math::CtPopOp) {
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, v[0]);
      })
      .Case([&](math::CountLeadingZerosOp) {
        return b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, v[0], flag);
      })
      .Case([&](math::CountTrailingZerosOp) {
        return b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, v[0], flag);
      })
      .Default([](Operation *) { return nullptr; });
}

LogicalResult TileLowering::extended(Operation &op) {
  Parts low, high;
  for (auto [x, y] :
       llvm::zip(parts(op.getOperand(0)), parts(op.getOperand(1)))) {
    if (isa<arith::AddUIExtendedOp>(op)) {
      llvm::Value *sum = b.CreateAdd(x, y);
      low.push_back(sum);
      high.push_back(b.CreateICmpULT(sum, x));
      continue;
    }
    llvm::Type *type = x->getType();
    unsigned width = type->getScalarSizeInBits();
    llvm::Type *wide = type->getExtendedType();
    auto extend = [&](llvm::Value *v) {
      return isa<arith::MulSIExtendedOp>(op) ? b.CreateSExt(v, wide)
                                             : b.CreateZExt(v, wide);
    };
    llvm::Value *product = b.CreateMul(extend(x), extend(y));
    low.push_back(b.CreateTrunc(product, type));
    high.push_back(b.CreateTrunc(b.CreateLShr(product, width), type));
  }
  set(op.getResult(0), low);
  set(op.getResult(1), high);
  return success();
}

llvm::Value *TileLowering::floating(Operation *op,
                                    llvm::ArrayRef<llvm::Value *> v) {
  auto unary = [&](ID id) { return b.CreateUnaryIntrinsic(id, v[0]); };
  auto binary = [&](ID id) { return b.CreateBinaryIntrinsic(id, v[0], v[1]); };
  auto number = [&](double x) {
    return llvm::ConstantFP::get(v[0]->getType(), x);
  };
  return llvm::TypeSwitch<Operation *, llvm::Value *>(op)
      .Case([&](arith::AddFOp) { return b.CreateFAdd(v[0], v[1]); })
      .Case([&](arith::SubFOp) { return b.CreateFSub(v[0], v[1]); })
      .Case([&](arith::MulFOp) { return b.CreateFMul(v[0], v[1]); })
      .Case([&](arith::DivFOp) { return b.CreateFDiv(v[0], v[1]); })
      .Case([&](arith::NegFOp) { return b.CreateFNeg(v[0]); })
      .Case([&](arith::MaximumFOp) { return binary(llvm::Intrinsic::maximum); })
      .Case([&](arith::MinimumFOp) { return binary(llvm::Intrinsic::minimum); })
      .Case([&](arith::MaxNumFOp) { return binary(llvm::Intrinsic::maxnum); })
      .Case([&](arith::MinNumFOp) { return binary(llvm::Intrinsic::minnum); })
      .Case([&](arith::CmpFOp op) {
        return b.CreateFCmp(predicate(op.getPredicate()), v[0], v[1]);
      })
      .Case<math::FmaOp>([&](auto) {
        return b.CreateIntrinsic(llvm::Intrinsic::fma, {v[0]->getType()},
                                 {v[0], v[1], v[2]});
      })
      .Case([&](math::AbsFOp) { return unary(llvm::Intrinsic::fabs); })
      .Case([&](math::SqrtOp) { return unary(llvm::Intrinsic::sqrt); })
      .Case([&](math::RsqrtOp) {
        return b.CreateFDiv(number(1), unary(llvm::Intrinsic::sqrt));
      })
      .Case([&](math::FloorOp) { return unary(llvm::Intrinsic::floor); })
      .Case([&](math::CeilOp) { return unary(llvm::Intrinsic::ceil); })
      .Case([&](math::TruncOp) { return unary(llvm::Intrinsic::trunc); })
      .Case([&](math::RoundOp) { return unary(llvm::Intrinsic::round); })
      .Case(
          [&](math::RoundEvenOp) { return unary(llvm::Intrinsic::roundeven); })
      .Case([&](math::CopySignOp) { return binary(llvm::Intrinsic::copysign); })
      .Case([&](math::ClampFOp) {
        llvm::Value *low =
            b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, v[0], v[1]);
        return b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, low, v[2]);
      })
      .Case([&](math::IsNaNOp) { return b.CreateFCmpUNO(v[0], v[0]); })
      .Case([&](math::IsInfOp) {
        return b.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs),
                               llvm::ConstantFP::getInfinity(v[0]->getType()));
      })
      .Case([&](math::IsFiniteOp) {
        return b.CreateFCmpONE(unary(llvm::Intrinsic::fabs),
                               llvm::ConstantFP::getInfinity(v[0]->getType()));
      })
      .Default([](Operation *) { return nullptr; });
}

} // namespace knapper::lower
