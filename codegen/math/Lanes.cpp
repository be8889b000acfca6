#include "codegen/math/Lanes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper::vecmath {

Type withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

static Value splat(const V &like, Type type, TypedAttr scalar) {
  TypedAttr attr = scalar;
  if (auto vector = dyn_cast<VectorType>(type))
    attr = SplatElementsAttr::get(vector, Attribute(scalar));
  return arith::ConstantOp::create(*like.builder, like.loc, attr);
}

V V::constant(double c) const {
  auto scalar = FloatAttr::get(element(), c);
  return with(splat(*this, type(), scalar));
}

V V::integer(uint64_t c) const {
  Type element = builder->getIntegerType(width());
  auto scalar = IntegerAttr::get(element, APInt(width(), c, false, true));
  return with(splat(*this, withElement(type(), element), scalar));
}

template <typename FloatOp, typename IntOp> static V either(V a, V b) {
  if (a.isFloat())
    return a.make<FloatOp>(a.value, b.value);
  return a.make<IntOp>(a.value, b.value);
}

V operator+(V a, V b) { return either<arith::AddFOp, arith::AddIOp>(a, b); }
V operator-(V a, V b) { return either<arith::SubFOp, arith::SubIOp>(a, b); }
V operator*(V a, V b) { return either<arith::MulFOp, arith::MulIOp>(a, b); }
V operator/(V a, V b) { return a.make<arith::DivFOp>(a.value, b.value); }
V operator-(V a) { return a.make<arith::NegFOp>(a.value); }
V operator+(V a, double b) { return a + a.constant(b); }
V operator-(V a, double b) { return a - a.constant(b); }
V operator-(double a, V b) { return b.constant(a) - b; }
V operator*(V a, double b) { return a * a.constant(b); }
V operator/(double a, V b) { return b.constant(a) / b; }

V fma(V a, V b, V c) { return a.make<math::FmaOp>(a.value, b.value, c.value); }
V fma(V a, double b, V c) { return fma(a, a.constant(b), c); }
V fma(V a, double b, double c) { return fma(a, a.constant(b), a.constant(c)); }
V fma(V a, V b, double c) { return fma(a, b, a.constant(c)); }

V operator&(V a, V b) { return a.make<arith::AndIOp>(a.value, b.value); }
V operator|(V a, V b) { return a.make<arith::OrIOp>(a.value, b.value); }
V operator^(V a, V b) { return a.make<arith::XOrIOp>(a.value, b.value); }
V operator&(V a, uint64_t b) { return a & a.integer(b); }
V operator^(V a, uint64_t b) { return a ^ a.integer(b); }
V shl(V a, V n) { return a.make<arith::ShLIOp>(a.value, n.value); }
V shr(V a, V n) { return a.make<arith::ShRUIOp>(a.value, n.value); }
V shl(V a, unsigned n) { return shl(a, a.integer(n)); }
V shr(V a, unsigned n) { return shr(a, a.integer(n)); }
V sar(V a, unsigned n) {
  return a.make<arith::ShRSIOp>(a.value, a.integer(n).value);
}

static V compareF(arith::CmpFPredicate predicate, V a, V b) {
  return a.make<arith::CmpFOp>(predicate, a.value, b.value);
}
V operator<(V a, V b) { return compareF(arith::CmpFPredicate::OLT, a, b); }
V operator>(V a, V b) { return compareF(arith::CmpFPredicate::OGT, a, b); }
V operator>=(V a, V b) { return compareF(arith::CmpFPredicate::OGE, a, b); }
V operator==(V a, V b) { return compareF(arith::CmpFPredicate::OEQ, a, b); }
V operator!=(V a, V b) { return compareF(arith::CmpFPredicate::UNE, a, b); }
V operator<(V a, double b) { return a < a.constant(b); }
V operator>(V a, double b) { return a > a.constant(b); }
V operator>=(V a, double b) { return a >= a.constant(b); }
V operator==(V a, double b) { return a == a.constant(b); }
V isNaN(V a) { return compareF(arith::CmpFPredicate::UNO, a, a); }
V compare(arith::CmpIPredicate predicate, V a, V b) {
  return a.make<arith::CmpIOp>(predicate, a.value, b.value);
}
V operator!(V mask) { return mask ^ mask.integer(1); }

V select(V mask, V a, V b) {
  return a.make<arith::SelectOp>(mask.value, a.value, b.value);
}
V select(V mask, double a, V b) { return select(mask, b.constant(a), b); }
V select(V mask, V a, double b) { return select(mask, a, a.constant(b)); }
V select(V mask, double a, double b, V like) {
  return select(mask, like.constant(a), like.constant(b));
}

// In this form they are one instruction of x86, which returns its second
// operand when one of the two is a NaN.
V atMost(double bound, V a) { return select(a.constant(bound) < a, bound, a); }
V atLeast(double bound, V a) { return select(a.constant(bound) > a, bound, a); }

V abs(V a) { return a.make<math::AbsFOp>(a.value); }
V copysign(V magnitude, V sign) {
  return magnitude.make<math::CopySignOp>(magnitude.value, sign.value);
}
V sqrt(V a) { return a.make<math::SqrtOp>(a.value); }
V trunc(V a) { return a.make<math::TruncOp>(a.value); }

V bits(V a) {
  Type type = withElement(a.type(), a.builder->getIntegerType(a.width()));
  return a.make<arith::BitcastOp>(type, a.value);
}

V asFloat(V a) {
  Type element = a.width() == 64 ? Type(a.builder->getF64Type())
                                 : Type(a.builder->getF32Type());
  return a.make<arith::BitcastOp>(withElement(a.type(), element), a.value);
}

V toFloat(V a, V like) { return a.make<arith::SIToFPOp>(like.type(), a.value); }

V convert(V a, Type element) {
  Type type = withElement(a.type(), element);
  if (type == a.type())
    return a;
  if (element.getIntOrFloatBitWidth() > a.width())
    return a.make<arith::ExtFOp>(type, a.value);
  return a.make<arith::TruncFOp>(type, a.value);
}

V zext(V a, Type element) {
  return a.make<arith::ExtUIOp>(withElement(a.type(), element), a.value);
}

V truncInt(V a, Type element) {
  return a.make<arith::TruncIOp>(withElement(a.type(), element), a.value);
}

V horner(ArrayRef<double> c, V x) {
  V r = x.constant(c.back());
  for (double ck : llvm::reverse(c.drop_back()))
    r = fma(r, x, ck);
  return r;
}

V anyLane(V mask) {
  auto vector = dyn_cast<VectorType>(mask.type());
  if (!vector)
    return mask;
  if (vector.getRank() != 1) {
    auto flat =
        VectorType::get({vector.getNumElements()}, vector.getElementType());
    mask = mask.make<vector::ShapeCastOp>(flat, mask.value);
  }
  return mask.make<vector::ReductionOp>(vector::CombiningKind::OR, mask.value);
}

} // namespace knapper::vecmath
