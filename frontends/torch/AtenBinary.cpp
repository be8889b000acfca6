// Arithmetic, comparisons and choices of two operands or more.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

template <typename Op> LogicalResult binary(AtenNode &n) {
  return n.out(n.binary<Op>(n.operand("self"), n.operand("other")));
}

/// self + sign * alpha * other; of booleans, or.
LogicalResult addScaled(AtenNode &n, StringRef left, StringRef right,
                        bool minus) {
  Type element = n.element();
  if (!element)
    return failure();
  if (element.isInteger(1)) {
    Value x = n.operand(left), y = n.operand(right);
    if (n.has("alpha") && !n.flag("alpha"))
      y = n.splatLike(0, y);
    return n.out(minus ? n.binary<ts::XorOp>(x, y) : n.binary<ts::OrOp>(x, y));
  }
  bool scaled = n.has("alpha") && n.known("alpha") != 1;
  // The product is not rounded on the way.
  Type type = scaled ? n.wide() : element;
  Value x = n.operand(left, type), y = n.operand(right, type);
  if (scaled)
    y = n.mul(y, n.operand("alpha", type));
  return n.out(minus ? n.sub(x, y) : n.add(x, y));
}
LogicalResult importAdd(AtenNode &n) {
  return addScaled(n, "self", "other", false);
}
LogicalResult importSub(AtenNode &n) {
  return addScaled(n, "self", "other", true);
}
LogicalResult importReverseSub(AtenNode &n) {
  return addScaled(n, "other", "self", true);
}

LogicalResult importMul(AtenNode &n) {
  if (n.element() && n.element().isInteger(1))
    return binary<ts::AndOp>(n);
  return binary<ts::MulOp>(n);
}

/// The quotient rounded down, exactly as for numbers that divide.
Value floorDivide(AtenNode &n, Value x, Value y) {
  SmallVector<Value> v = n.broadcastAll({x, y});
  x = v[0], y = v[1];
  if (!x || !y)
    return {};
  Value zero = n.scalarFor(x, 0), rest = n.binary<ts::RemOp>(x, y);
  // The remainder has another sign than the divisor: one less.
  Value uneven =
      n.binary<ts::AndOp>(n.compare(P::ne, rest, zero),
                          n.binary<ts::XorOp>(n.compare(P::lt, rest, zero),
                                              n.compare(P::lt, y, zero)));
  if (!isa<FloatType>(ts::elementTypeOf(x))) {
    Value quotient = n.div(x, y);
    if (ts::elementTypeOf(x).isUnsignedInteger())
      return quotient;
    return n.select(uneven, n.sub(quotient, n.scalarFor(x, 1)), quotient);
  }
  Value quotient = n.div(n.sub(x, rest), y);
  quotient = n.select(uneven, n.add(quotient, -1.0), quotient);
  Value down = n.make<ts::FloorOp>(quotient);
  down = n.select(n.compare(P::gt, n.sub(quotient, down), n.scalarFor(x, 0.5)),
                  n.add(down, 1.0), down);
  // A zero has the sign of the plain quotient.
  Value plain = n.div(x, y);
  down = n.select(n.compare(P::eq, quotient, zero), n.mul(plain, 0.0), down);
  return n.select(n.compare(P::eq, y, zero), plain, down);
}

LogicalResult importDiv(AtenNode &n) {
  StringRef mode = n.text("rounding_mode");
  Type type = n.wide();
  Value x = n.operand("self", type), y = n.operand("other", type);
  if (mode.empty())
    return n.out(n.div(x, y));
  if (mode == "floor")
    return n.out(floorDivide(n, x, y));
  Value quotient = n.div(x, y);
  if (quotient && isa<FloatType>(type))
    quotient = n.make<ts::TruncOp>(quotient);
  return n.out(quotient);
}

LogicalResult importFloorDivide(AtenNode &n) {
  Type type = n.wide();
  return n.out(
      floorDivide(n, n.operand("self", type), n.operand("other", type)));
}

LogicalResult importPow(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("self", type);
  if (!x)
    return failure();
  if (std::optional<double> known = n.known("exponent")) {
    double exponent = *known;
    auto out = [&](Value y) { return n.out(y); };
    if (exponent == 1)
      return out(x);
    if (exponent == 2)
      return out(n.mul(x, x));
    if (exponent == 3)
      return out(n.mul(n.mul(x, x), x));
    if (isa<FloatType>(type)) {
      Value one = n.scalarFor(x, 1);
      if (exponent == 0.5)
        return out(n.make<ts::SqrtOp>(x));
      if (exponent == -0.5)
        return out(n.make<ts::RsqrtOp>(x));
      if (exponent == -1)
        return out(n.div(one, x));
      if (exponent == -2)
        return out(n.div(one, n.mul(x, x)));
    }
  }
  return n.out(n.binary<ts::PowOp>(x, n.operand("exponent", type)));
}

/// The remainder with the divisor's sign.
LogicalResult importRemainder(AtenNode &n) {
  Type type = n.wide();
  return n.out(
      n.binary<ts::ModOp>(n.operand("self", type), n.operand("other", type)));
}
LogicalResult importFmod(AtenNode &n) {
  Type type = n.wide();
  return n.out(
      n.binary<ts::RemOp>(n.operand("self", type), n.operand("other", type)));
}

template <P predicate> LogicalResult compare(AtenNode &n) {
  Type type = n.commonElement();
  if (!type)
    return failure();
  // float32 holds floats of eight bits.
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 16)
    type = n.b.getF32Type();
  return n.out(
      n.compare(predicate, n.operand("self", type), n.operand("other", type)));
}

template <typename Op> LogicalResult logical(AtenNode &n) {
  Type type = n.b.getI1Type();
  return n.out(n.binary<Op>(n.operand("self", type), n.operand("other", type)));
}

/// Shifts of the width or more, and by negative numbers, give 0, or copies of
/// the sign.
template <bool left> LogicalResult shift(AtenNode &n) {
  Value x = n.operand("self"), y = n.operand("other");
  SmallVector<Value> v = n.broadcastAll({x, y});
  x = v[0], y = v[1];
  if (!x || !y)
    return failure();
  Type element = ts::elementTypeOf(x);
  auto width = static_cast<double>(element.getIntOrFloatBitWidth());
  Value zero = n.scalarFor(x, 0);
  Value outside = n.compare(P::ge, y, n.scalarFor(y, width));
  if (!element.isUnsignedInteger())
    outside = n.binary<ts::OrOp>(outside, n.compare(P::lt, y, zero));
  Value amount = n.select(outside, zero, y);
  if (left)
    return n.out(n.select(outside, zero, n.make<ts::ShiftLeftOp>(x, amount)));
  if (element.isUnsignedInteger())
    return n.out(n.select(outside, zero, n.make<ts::ShiftRightOp>(x, amount)));
  // The sign is copied: ~(~x >> y) of negative numbers.
  Value negative = n.compare(P::lt, x, zero);
  Value flipped = n.select(negative, n.make<ts::NotOp>(x), x);
  Value moved = n.make<ts::ShiftRightOp>(flipped, amount);
  moved = n.select(outside, zero, moved);
  return n.out(n.select(negative, n.make<ts::NotOp>(moved), moved));
}

LogicalResult importWhere(AtenNode &n) {
  Value condition = n.tensor("condition");
  if (!condition)
    return failure();
  return n.out(n.select(n.convert(condition, n.b.getI1Type()),
                        n.operand("self"), n.operand("other")));
}

LogicalResult importMaskedFill(AtenNode &n) {
  Value mask = n.tensor("mask");
  if (!mask)
    return failure();
  Value y = n.select(n.convert(mask, n.b.getI1Type()), n.operand("value"),
                     n.operand("self"));
  return n.out(y);
}

/// The greater, of booleans or.
Value greater(AtenNode &n, Value x, Value y) {
  return n.element() && n.element().isInteger(1) ? n.binary<ts::OrOp>(x, y)
                                                 : n.binary<ts::MaxOp>(x, y);
}
/// The lesser, of booleans and.
Value lesser(AtenNode &n, Value x, Value y) {
  return n.element() && n.element().isInteger(1) ? n.binary<ts::AndOp>(x, y)
                                                 : n.binary<ts::MinOp>(x, y);
}

LogicalResult importClamp(AtenNode &n) {
  Value x = n.operand("self");
  if (n.has("min"))
    x = greater(n, x, n.operand("min"));
  if (n.has("max"))
    x = lesser(n, x, n.operand("max"));
  return n.out(x);
}

using Choice = Value (*)(AtenNode &, Value, Value);

/// The other one where one is NaN.
template <Choice choice> LogicalResult ignoringNan(AtenNode &n) {
  Value x = n.operand("self"), y = n.operand("other");
  SmallVector<Value> v = n.broadcastAll({x, y});
  Value best = choice(n, v[0], v[1]);
  if (!best || !isa<FloatType>(n.element()))
    return n.out(best);
  return n.out(n.select(n.make<ts::IsNanOp>(v[0]), v[1],
                        n.select(n.make<ts::IsNanOp>(v[1]), v[0], best)));
}

template <Choice choice> LogicalResult extremum(AtenNode &n) {
  return n.out(choice(n, n.operand("self"), n.operand("other")));
}

LogicalResult importLerp(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("self", type), y = n.operand("end", type),
        w = n.operand("weight", type);
  Value by = n.sub(y, x);
  // From the nearer end.
  Value low = n.add(x, n.mul(w, by));
  Value high = n.sub(y, n.mul(by, n.sub(n.scalarFor(w, 1), w)));
  if (!w)
    return failure();
  return n.out(n.select(
      n.compare(P::lt, n.make<ts::AbsOp>(w), n.scalarFor(w, 0.5)), low, high));
}

/// self + value * tensor1 (*|/) tensor2.
template <bool divides> LogicalResult addProduct(AtenNode &n) {
  Type type = n.wide();
  Value a = n.operand("tensor1", type), b = n.operand("tensor2", type);
  Value product;
  bool scaled = n.has("value") && n.known("value") != 1;
  if (divides)
    product = n.div(scaled ? n.mul(a, n.operand("value", type)) : a, b);
  else
    product =
        scaled ? n.mul(n.mul(a, n.operand("value", type)), b) : n.mul(a, b);
  return n.out(n.add(n.operand("self", type), product));
}

/// a * b + c, as optimisers write their steps.
LogicalResult importFma(AtenNode &n) {
  Type type = n.wide();
  return n.out(n.add(n.mul(n.operand("a", type), n.operand("b", type)),
                     n.operand("c", type)));
}

LogicalResult importHypot(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("self", type), y = n.operand("other", type);
  if (!x || !y)
    return failure();
  x = n.make<ts::AbsOp>(x), y = n.make<ts::AbsOp>(y);
  SmallVector<Value> v = n.broadcastAll({x, y});
  Value large = n.make<ts::MaxOp>(v[0], v[1]),
        small = n.make<ts::MinOp>(v[0], v[1]);
  Value ratio = n.div(small, large);
  Value length =
      n.mul(large, n.make<ts::SqrtOp>(n.add(n.mul(ratio, ratio), 1.0)));
  // 0 and infinities have no ratio; one infinity beside a NaN is one.
  length =
      n.select(n.compare(P::eq, large, n.scalarFor(large, 0)), large, length);
  Value infinite = n.binary<ts::OrOp>(n.make<ts::IsInfOp>(v[0], true, false),
                                      n.make<ts::IsInfOp>(v[1], true, false));
  return n.out(n.select(infinite, n.scalarFor(length, INFINITY), length));
}

LogicalResult importCopySign(AtenNode &n) {
  Value x = n.operand("self"), y = n.operand("other");
  SmallVector<Value> v = n.broadcastAll({x, y});
  auto floating = dyn_cast_or_null<FloatType>(n.element());
  if (!v[0] || !v[1] || !floating)
    return failure();
  Type bits = n.b.getIntegerType(floating.getWidth());
  Value sign = n.compare(
      P::lt,
      n.makeAs<ts::BitcastOp>(ts::withElement(v[1].getType(), bits), v[1]),
      n.integerScalar(0, bits));
  Value size = n.make<ts::AbsOp>(v[0]);
  return n.out(n.select(sign, n.make<ts::NegOp>(size), size));
}

/// self * 2^other.
LogicalResult importLdexp(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("self", type), y = n.operand("other", type);
  if (!y)
    return failure();
  return n.out(n.mul(x, n.binary<ts::PowOp>(n.scalarFor(y, 2), y)));
}

LogicalResult importXlogy(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("self", type), y = n.operand("other", type);
  SmallVector<Value> v = n.broadcastAll({x, y});
  if (!v[0] || !v[1])
    return failure();
  Value product = n.mul(v[0], n.make<ts::LogOp>(v[1]));
  Value zero = n.compare(P::eq, v[0], n.scalarFor(v[0], 0));
  return n.out(n.select(n.make<ts::IsNanOp>(v[1]), v[1],
                        n.select(zero, n.scalarFor(v[0], 0), product)));
}

constexpr AtenRow rows[] = {
    {"aten.add.Scalar", importAdd},
    {"aten.add.Tensor", importAdd},
    {"aten.addcdiv.default", addProduct<true>},
    {"aten.addcmul.default", addProduct<false>},
    {"aten.atan2.default", binary<ts::Atan2Op>},
    {"aten.bitwise_and.Scalar", binary<ts::AndOp>},
    {"aten.bitwise_and.Tensor", binary<ts::AndOp>},
    {"aten.__lshift__.Scalar", shift<true>},
    {"aten.__lshift__.Tensor", shift<true>},
    {"aten.__rshift__.Scalar", shift<false>},
    {"aten.__rshift__.Tensor", shift<false>},
    {"aten.bitwise_left_shift.Tensor", shift<true>},
    {"aten.bitwise_left_shift.Tensor_Scalar", shift<true>},
    {"aten.bitwise_or.Scalar", binary<ts::OrOp>},
    {"aten.bitwise_or.Tensor", binary<ts::OrOp>},
    {"aten.bitwise_right_shift.Tensor", shift<false>},
    {"aten.bitwise_right_shift.Tensor_Scalar", shift<false>},
    {"aten.bitwise_xor.Scalar", binary<ts::XorOp>},
    {"aten.bitwise_xor.Tensor", binary<ts::XorOp>},
    {"aten.clamp.Tensor", importClamp},
    {"aten.clamp.default", importClamp},
    {"aten.clamp_max.Tensor", importClamp},
    {"aten.clamp_max.default", importClamp},
    {"aten.clamp_min.Tensor", importClamp},
    {"aten.clamp_min.default", importClamp},
    {"aten.copysign.Scalar", importCopySign},
    {"aten.copysign.Tensor", importCopySign},
    {"aten.div.Scalar", importDiv},
    {"aten.div.Scalar_mode", importDiv},
    {"aten.div.Tensor", importDiv},
    {"aten.div.Tensor_mode", importDiv},
    {"aten.eq.Scalar", compare<P::eq>},
    {"aten.eq.Tensor", compare<P::eq>},
    {"aten.floor_divide.Scalar", importFloorDivide},
    {"aten.floor_divide.default", importFloorDivide},
    {"aten.fmax.default", ignoringNan<greater>},
    {"aten.fmin.default", ignoringNan<lesser>},
    {"aten.fmod.Scalar", importFmod},
    {"aten.fmod.Tensor", importFmod},
    {"aten.ge.Scalar", compare<P::ge>},
    {"aten.ge.Tensor", compare<P::ge>},
    {"aten.gt.Scalar", compare<P::gt>},
    {"aten.gt.Tensor", compare<P::gt>},
    {"aten.hypot.default", importHypot},
    {"aten.ldexp.Tensor", importLdexp},
    {"aten.le.Scalar", compare<P::le>},
    {"aten.le.Tensor", compare<P::le>},
    {"aten.lerp.Scalar", importLerp},
    {"aten.lerp.Tensor", importLerp},
    {"aten.logical_and.default", logical<ts::AndOp>},
    {"aten.logical_or.default", logical<ts::OrOp>},
    {"aten.logical_xor.default", logical<ts::XorOp>},
    {"aten.lt.Scalar", compare<P::lt>},
    {"aten.lt.Tensor", compare<P::lt>},
    {"aten.masked_fill.Scalar", importMaskedFill},
    {"aten.masked_fill.Tensor", importMaskedFill},
    {"aten.maximum.default", extremum<greater>},
    {"aten.minimum.default", extremum<lesser>},
    {"aten.mul.Scalar", importMul},
    {"aten.mul.Tensor", importMul},
    {"aten.ne.Scalar", compare<P::ne>},
    {"aten.ne.Tensor", compare<P::ne>},
    {"aten.pow.Scalar", importPow},
    {"aten.pow.Tensor_Scalar", importPow},
    {"aten.pow.Tensor_Tensor", importPow},
    {"aten.remainder.Scalar", importRemainder},
    {"aten.remainder.Scalar_Tensor", importRemainder},
    {"aten.remainder.Tensor", importRemainder},
    {"aten.rsub.Scalar", importReverseSub},
    {"aten.rsub.Tensor", importReverseSub},
    {"aten.sub.Scalar", importSub},
    {"aten.sub.Tensor", importSub},
    {"aten.true_divide.Tensor", importDiv},
    {"aten.where.Scalar", importWhere},
    {"aten.where.ScalarOther", importWhere},
    {"aten.where.ScalarSelf", importWhere},
    {"aten.where.self", importWhere},
    {"aten.xlogy.Scalar_Other", importXlogy},
    {"aten.xlogy.Scalar_Self", importXlogy},
    {"aten.xlogy.Tensor", importXlogy},
    {"prims.fma.default", importFma},
};

} // namespace

ArrayRef<AtenRow> atenBinaryRows() { return rows; }

} // namespace knapper
