// Functions of one element.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

/// One op of tensor IR in the result's type.
template <typename Op> LogicalResult unary(AtenNode &n) {
  return n.out(n.make<Op>(n.operand("self")));
}

/// A formula of several ops, in a wide type.
template <Value (*formula)(AtenNode &, Value)>
LogicalResult composed(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  return x ? n.out(formula(n, x)) : failure();
}

/// Rounding; integers stay as they are.
template <typename Op> LogicalResult rounding(AtenNode &n) {
  Value x = n.operand("self");
  if (x && !isa<FloatType>(ts::elementTypeOf(x)))
    return n.out(x);
  return n.out(n.make<Op>(x));
}

Value exp2(AtenNode &n, Value x) {
  return n.binary<ts::PowOp>(n.scalarFor(x, 2), x);
}
Value log2(AtenNode &n, Value x) {
  return n.mul(n.make<ts::LogOp>(x), 1 / std::log(2.0));
}
Value log10(AtenNode &n, Value x) {
  return n.mul(n.make<ts::LogOp>(x), 1 / std::log(10.0));
}
Value reciprocal(AtenNode &n, Value x) { return n.div(n.scalarFor(x, 1), x); }
Value degrees(AtenNode &n, Value x) { return n.mul(x, 180 / M_PI); }
Value radians(AtenNode &n, Value x) { return n.mul(x, M_PI / 180); }
Value square(AtenNode &n, Value x) { return n.mul(x, x); }
Value frac(AtenNode &n, Value x) { return n.sub(x, n.make<ts::TruncOp>(x)); }
Value sinc(AtenNode &n, Value x) {
  Value scaled = n.mul(x, M_PI);
  return n.select(n.compare(P::eq, x, n.scalarFor(x, 0)), n.scalarFor(x, 1),
                  n.div(n.make<ts::SinOp>(scaled), scaled));
}

LogicalResult importAbs(AtenNode &n) {
  Value x = n.operand("self");
  Type element = n.element();
  // There is nothing to change of what has no sign.
  if (x && (element.isInteger(1) || element.isUnsignedInteger()))
    return n.out(x);
  return n.out(n.make<ts::AbsOp>(x));
}

LogicalResult importSign(AtenNode &n) {
  Value x = n.operand("self");
  if (x && n.element().isInteger(1))
    return n.out(x);
  // NaN and -0 give 0 in torch.
  Value sign = n.make<ts::SignOp>(x);
  if (sign && isa<FloatType>(n.element())) {
    Value zero = n.scalarFor(x, 0);
    sign = n.select(n.compare(P::gt, n.make<ts::AbsOp>(x), zero), sign, zero);
  }
  return n.out(sign);
}

LogicalResult importSignBit(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  Type element = ts::elementTypeOf(x);
  if (auto floating = dyn_cast<FloatType>(element)) {
    Type bits = n.b.getIntegerType(floating.getWidth());
    x = n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), bits), x);
  } else if (element.isInteger(1) || element.isUnsignedInteger()) {
    return n.out(n.splatLike(0, n.convert(x, n.element())));
  }
  return n.out(n.compare(P::lt, x, n.scalarFor(x, 0)));
}

LogicalResult importLogicalNot(AtenNode &n) {
  Value x = n.tensor("self");
  return x ? n.out(n.make<ts::NotOp>(n.convert(x, n.b.getI1Type())))
           : failure();
}

/// A test of a float; integers are none of it.
template <typename Op, bool integers> LogicalResult test(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  auto element = dyn_cast<FloatType>(ts::elementTypeOf(x));
  if (!element)
    return n.out(n.broadcastTo(n.integerScalar(integers, n.b.getI1Type()),
                               ts::dimsOf(x)));
  if (element.getWidth() < 16) // float32 holds floats of eight bits
    x = n.convert(x, n.b.getF32Type());
  return n.out(n.make<Op>(x));
}

template <bool positive, bool negative>
LogicalResult testInfinite(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  if (!isa<FloatType>(ts::elementTypeOf(x)))
    return n.out(
        n.broadcastTo(n.integerScalar(0, n.b.getI1Type()), ts::dimsOf(x)));
  return n.out(n.make<ts::IsInfOp>(x, bool(positive), bool(negative)));
}

LogicalResult importRoundDecimals(AtenNode &n) {
  int64_t decimals = n.integer("decimals");
  Value x = n.operand("self");
  if (!x || !isa<FloatType>(n.element()))
    return x ? n.out(x) : failure();
  double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  x = n.convert(x, n.wide());
  Value by = n.scalarFor(x, scale);
  Value moved = decimals < 0 ? n.div(x, by) : n.mul(x, by);
  Value rounded = n.make<ts::RoundEvenOp>(moved);
  return n.out(decimals < 0 ? n.mul(rounded, by) : n.div(rounded, by));
}

LogicalResult importNanToNum(AtenNode &n) {
  Value x = n.operand("self");
  auto element = dyn_cast<FloatType>(n.element());
  if (!x || !element)
    return x ? n.out(x) : failure();
  double largest =
      llvm::APFloat::getLargest(element.getFloatSemantics()).convertToDouble();
  if (!element.isF64()) {
    llvm::APFloat most = llvm::APFloat::getLargest(element.getFloatSemantics());
    bool lost;
    most.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
    largest = most.convertToDouble();
  }
  auto replace = [&](Value condition, double by, Value otherwise) {
    return n.select(condition, n.scalarFor(x, by), otherwise);
  };
  Value y = replace(n.make<ts::IsNanOp>(x), n.real("nan", 0), x);
  y = replace(n.make<ts::IsInfOp>(x, true, false), n.real("posinf", largest),
              y);
  return n.out(replace(n.make<ts::IsInfOp>(x, false, true),
                       n.real("neginf", -largest), y));
}

constexpr AtenRow rows[] = {
    {"aten.abs.default", importAbs},
    {"aten.acos.default", unary<ts::AcosOp>},
    {"aten.acosh.default", unary<ts::AcoshOp>},
    {"aten.asin.default", unary<ts::AsinOp>},
    {"aten.asinh.default", unary<ts::AsinhOp>},
    {"aten.atan.default", unary<ts::AtanOp>},
    {"aten.atanh.default", unary<ts::AtanhOp>},
    {"aten.bitwise_not.default", unary<ts::NotOp>},
    {"aten.ceil.default", rounding<ts::CeilOp>},
    {"aten.cos.default", unary<ts::CosOp>},
    {"aten.cosh.default", unary<ts::CoshOp>},
    {"aten.deg2rad.default", composed<radians>},
    {"aten.erf.default", unary<ts::ErfOp>},
    {"aten.exp.default", unary<ts::ExpOp>},
    {"aten.exp2.default", composed<exp2>},
    {"aten.expm1.default", unary<ts::Expm1Op>},
    {"aten.floor.default", rounding<ts::FloorOp>},
    {"aten.frac.default", composed<frac>},
    {"aten.isinf.default", testInfinite<true, true>},
    {"aten.isnan.default", test<ts::IsNanOp, false>},
    {"aten.isneginf.default", testInfinite<false, true>},
    {"aten.isposinf.default", testInfinite<true, false>},
    {"aten.log.default", unary<ts::LogOp>},
    {"aten.log10.default", composed<log10>},
    {"aten.log1p.default", unary<ts::Log1pOp>},
    {"aten.log2.default", composed<log2>},
    {"aten.logical_not.default", importLogicalNot},
    {"aten.nan_to_num.default", importNanToNum},
    {"aten.neg.default", unary<ts::NegOp>},
    {"aten.rad2deg.default", composed<degrees>},
    {"aten.reciprocal.default", composed<reciprocal>},
    {"aten.round.decimals", importRoundDecimals},
    {"aten.round.default", rounding<ts::RoundEvenOp>},
    {"aten.rsqrt.default", unary<ts::RsqrtOp>},
    {"aten.sgn.default", importSign},
    {"aten.sign.default", importSign},
    {"aten.signbit.default", importSignBit},
    {"aten.sin.default", unary<ts::SinOp>},
    {"aten.sinc.default", composed<sinc>},
    {"aten.sinh.default", unary<ts::SinhOp>},
    {"aten.sqrt.default", unary<ts::SqrtOp>},
    {"aten.square.default", composed<square>},
    {"aten.tan.default", unary<ts::TanOp>},
    {"aten.tanh.default", unary<ts::TanhOp>},
    {"aten.trunc.default", rounding<ts::TruncOp>},
};

} // namespace

ArrayRef<AtenRow> atenUnaryRows() { return rows; }

} // namespace knapper
