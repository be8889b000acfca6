// The scalar function of every elementwise op, in arith and math ops on scalars
// or vectors in compute form.
#include "ir/tensor/Dialect.h"
#include "ir/tensor/SmallTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// A splat of the value's type.
Value splat(OpBuilder &b, Location loc, Type type, double number) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr scalar;
  if (isa<FloatType>(element))
    scalar = b.getFloatAttr(element, number);
  else
    scalar = b.getIntegerAttr(element, static_cast<int64_t>(number));
  if (auto vector = dyn_cast<VectorType>(type))
    scalar = DenseElementsAttr::get(vector, Attribute(scalar));
  return arith::ConstantOp::create(b, loc, scalar);
}

bool isUnsigned(Value tensor) {
  return elementTypeOf(tensor).isUnsignedInteger();
}

} // namespace

#define MATH(OP, MATHOP)                                                       \
  Value OP::buildElement(OpBuilder &b, Location loc, ValueRange x) {           \
    return MATHOP::create(b, loc, x[0]);                                       \
  }
MATH(ExpOp, math::ExpOp)
MATH(Expm1Op, math::ExpM1Op)
MATH(LogOp, math::LogOp) MATH(Log1pOp, math::Log1pOp) MATH(SqrtOp, math::SqrtOp)
    MATH(RsqrtOp, math::RsqrtOp) MATH(TanhOp, math::TanhOp)
        MATH(ErfOp, math::ErfOp) MATH(SinOp, math::SinOp)
            MATH(CosOp, math::CosOp) MATH(TanOp, math::TanOp)
                MATH(AsinOp, math::AsinOp) MATH(AcosOp, math::AcosOp)
                    MATH(AtanOp, math::AtanOp) MATH(SinhOp, math::SinhOp)
                        MATH(CoshOp, math::CoshOp) MATH(AsinhOp, math::AsinhOp)
                            MATH(AcoshOp, math::AcoshOp)
                                MATH(AtanhOp, math::AtanhOp)
                                    MATH(CeilOp, math::CeilOp)
                                        MATH(FloorOp, math::FloorOp)
                                            MATH(RoundEvenOp, math::RoundEvenOp)
                                                MATH(TruncOp, math::TruncOp)
#undef MATH

                                                    Value
    NegOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return arith::NegFOp::create(b, loc, x[0]);
  return arith::SubIOp::create(b, loc, splat(b, loc, x[0].getType(), 0), x[0]);
}

Value AbsOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return math::AbsFOp::create(b, loc, x[0]);
  if (isUnsigned(getInput()))
    return x[0];
  return math::AbsIOp::create(b, loc, x[0]);
}

Value SignOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  Type type = x[0].getType();
  Value zero = splat(b, loc, type, 0), one = splat(b, loc, type, 1);
  if (isFloat(x[0])) {
    // x where it is 0 or NaN, else 1 with the sign of x.
    Value isSigned =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ONE, x[0], zero);
    Value unit = math::CopySignOp::create(b, loc, one, x[0]);
    return arith::SelectOp::create(b, loc, isSigned, unit, x[0]);
  }
  Value nonZero =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, x[0], zero);
  Value positive = arith::SelectOp::create(b, loc, nonZero, one, zero);
  if (isUnsigned(getInput()))
    return positive;
  Value negative =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x[0], zero);
  return arith::SelectOp::create(b, loc, negative, splat(b, loc, type, -1),
                                 positive);
}

/// 1 / (1 + e^-x): e^-x overflows to infinity for very negative x, which gives
/// the right limit 0.
static Value buildSigmoid(OpBuilder &b, Location loc, Value x) {
  Value one = splat(b, loc, x.getType(), 1);
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
  return arith::DivFOp::create(b, loc, one,
                               arith::AddFOp::create(b, loc, one, e));
}
Value SigmoidOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return buildSigmoid(b, loc, x[0]);
}

/// max(x, 0) + log(1 + e^-|x|)
Value SoftplusOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  Value size = math::AbsFOp::create(b, loc, x[0]);
  Value power =
      math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, size));
  Value positive =
      arith::MaximumFOp::create(b, loc, x[0], splat(b, loc, x[0].getType(), 0));
  return arith::AddFOp::create(b, loc, positive,
                               math::Log1pOp::create(b, loc, power));
}

Value NotOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return arith::XOrIOp::create(b, loc, x[0], splat(b, loc, x[0].getType(), -1));
}

#define FLOAT_OR_INT(OP, FLOATOP, INTOP)                                       \
  Value OP::buildElement(OpBuilder &b, Location loc, ValueRange x) {           \
    if (isFloat(x[0]))                                                         \
      return FLOATOP::create(b, loc, x[0], x[1]);                              \
    return INTOP::create(b, loc, x[0], x[1]);                                  \
  }
FLOAT_OR_INT(AddOp, arith::AddFOp, arith::AddIOp)
FLOAT_OR_INT(SubOp, arith::SubFOp, arith::SubIOp)
FLOAT_OR_INT(MulOp, arith::MulFOp, arith::MulIOp)
#undef FLOAT_OR_INT

Value MaxOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return arith::MaximumFOp::create(b, loc, x[0], x[1]);
  if (isUnsigned(getLhs()))
    return arith::MaxUIOp::create(b, loc, x[0], x[1]);
  return arith::MaxSIOp::create(b, loc, x[0], x[1]);
}

Value MinOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return arith::MinimumFOp::create(b, loc, x[0], x[1]);
  if (isUnsigned(getLhs()))
    return arith::MinUIOp::create(b, loc, x[0], x[1]);
  return arith::MinSIOp::create(b, loc, x[0], x[1]);
}

namespace {

/// Integer division that never traps: x / 0 is 0, and the smallest number
/// divided by -1 wraps. `build` makes the division from safe operands.
Value guardDivision(OpBuilder &b, Location loc, Value x, Value y,
                    bool isUnsignedDivision,
                    llvm::function_ref<Value(Value, Value)> build) {
  Type type = x.getType();
  Value zero = splat(b, loc, type, 0), one = splat(b, loc, type, 1);
  Value byZero =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y, zero);
  Value safe = arith::SelectOp::create(b, loc, byZero, one, y);
  Value byMinusOne;
  if (!isUnsignedDivision) {
    byMinusOne = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y,
                                       splat(b, loc, type, -1));
    safe = arith::SelectOp::create(b, loc, byMinusOne, one, safe);
  }
  Value quotient = build(x, safe);
  if (byMinusOne) {
    // x / -1 = -x, x % -1 = 0: build(x, 1) gave x or 0, so negate it.
    Value negated = arith::SubIOp::create(b, loc, zero, quotient);
    quotient = arith::SelectOp::create(b, loc, byMinusOne, negated, quotient);
  }
  return arith::SelectOp::create(b, loc, byZero, zero, quotient);
}

Value buildRemainder(OpBuilder &b, Location loc, Value x, Value y,
                     bool isUnsignedDivision) {
  if (isFloat(x))
    return arith::RemFOp::create(b, loc, x, y);
  return guardDivision(b, loc, x, y, isUnsignedDivision,
                       [&](Value n, Value d) -> Value {
                         if (isUnsignedDivision)
                           return arith::RemUIOp::create(b, loc, n, d);
                         return arith::RemSIOp::create(b, loc, n, d);
                       });
}

} // namespace

Value DivOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return arith::DivFOp::create(b, loc, x[0], x[1]);
  bool isUnsignedDivision = isUnsigned(getLhs());
  return guardDivision(b, loc, x[0], x[1], isUnsignedDivision,
                       [&](Value n, Value d) -> Value {
                         if (isUnsignedDivision)
                           return arith::DivUIOp::create(b, loc, n, d);
                         return arith::DivSIOp::create(b, loc, n, d);
                       });
}

Value RemOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return buildRemainder(b, loc, x[0], x[1], isUnsigned(getLhs()));
}

Value ModOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  Value r = buildRemainder(b, loc, x[0], x[1], isUnsigned(getLhs()));
  if (isUnsigned(getLhs()))
    return r;
  // r has the sign of x; move it by one divisor where signs differ.
  Type type = r.getType();
  Value zero = splat(b, loc, type, 0);
  Value nonZero, differs, moved;
  if (isFloat(r)) {
    auto less = arith::CmpFPredicate::OLT;
    nonZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ONE, r, zero);
    differs = arith::XOrIOp::create(
        b, loc, arith::CmpFOp::create(b, loc, less, r, zero),
        arith::CmpFOp::create(b, loc, less, x[1], zero));
    moved = arith::AddFOp::create(b, loc, r, x[1]);
  } else {
    auto less = arith::CmpIPredicate::slt;
    nonZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, r, zero);
    differs = arith::XOrIOp::create(
        b, loc, arith::CmpIOp::create(b, loc, less, r, zero),
        arith::CmpIOp::create(b, loc, less, x[1], zero));
    moved = arith::AddIOp::create(b, loc, r, x[1]);
  }
  Value move = arith::AndIOp::create(b, loc, nonZero, differs);
  return arith::SelectOp::create(b, loc, move, moved, r);
}

Value PowOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return math::PowFOp::create(b, loc, x[0], x[1]);
  if (!isUnsigned(getLhs()))
    return math::IPowIOp::create(b, loc, x[0], x[1]);
  // IPowI takes a set upper bit for a sign. To the power 2^(width - 1) an odd
  // number is 1 and an even one 0, modulo 2^width.
  Type type = x[0].getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  Value one = splat(b, loc, type, 1), zero = splat(b, loc, type, 0);
  Value shift = splat(b, loc, type, width - 1);
  Value upper = arith::ShLIOp::create(b, loc, one, shift);
  Value most = arith::SubIOp::create(b, loc, upper, one);
  Value exponent = arith::AndIOp::create(b, loc, x[1], most);
  Value power = math::IPowIOp::create(b, loc, x[0], exponent);
  Value isLarge =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, most, x[1]);
  Value low = arith::AndIOp::create(b, loc, x[0], one);
  Value isEven =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, low, zero);
  Value vanishes = arith::AndIOp::create(b, loc, isLarge, isEven);
  return arith::SelectOp::create(b, loc, vanishes, zero, power);
}

Value Atan2Op::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return math::Atan2Op::create(b, loc, x[0], x[1]);
}

#define INT(OP, INTOP)                                                         \
  Value OP::buildElement(OpBuilder &b, Location loc, ValueRange x) {           \
    return INTOP::create(b, loc, x[0], x[1]);                                  \
  }
INT(AndOp, arith::AndIOp)
INT(OrOp, arith::OrIOp)
INT(XorOp, arith::XOrIOp)
#undef INT

    namespace {
  /// Shifts by the width or more are poison in LLVM; they give 0 here.
  template <typename Shift>
  Value buildShift(OpBuilder & b, Location loc, Value x, Value y) {
    Type type = x.getType();
    unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    Value inRange = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, y,
                                          splat(b, loc, type, width));
    Value zero = splat(b, loc, type, 0);
    Value amount = arith::SelectOp::create(b, loc, inRange, y, zero);
    return arith::SelectOp::create(b, loc, inRange,
                                   Shift::create(b, loc, x, amount), zero);
  }
} // namespace

Value ShiftLeftOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return buildShift<arith::ShLIOp>(b, loc, x[0], x[1]);
}
Value ShiftRightOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return buildShift<arith::ShRUIOp>(b, loc, x[0], x[1]);
}

Value CompareOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0])) {
    constexpr arith::CmpFPredicate predicates[] = {
        arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE,
        arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
        arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    return arith::CmpFOp::create(
        b, loc, predicates[static_cast<uint32_t>(getPredicate())], x[0], x[1]);
  }
  using P = arith::CmpIPredicate;
  constexpr P predicates[2][6] = {
      {P::eq, P::ne, P::slt, P::sle, P::sgt, P::sge},
      {P::eq, P::ne, P::ult, P::ule, P::ugt, P::uge}};
  // i1 compares as 0 < 1.
  bool asUnsigned =
      isUnsigned(getLhs()) || elementTypeOf(getLhs()).isInteger(1);
  return arith::CmpIOp::create(
      b, loc, predicates[asUnsigned][static_cast<uint32_t>(getPredicate())],
      x[0], x[1]);
}

Value SelectOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return arith::SelectOp::create(b, loc, x[0], x[1], x[2]);
}

Value IsNanOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x[0], x[0]);
}

Value IsInfOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  double infinity = std::numeric_limits<double>::infinity();
  auto is = [&](double sign) -> Value {
    return arith::CmpFOp::create(
        b, loc, arith::CmpFPredicate::OEQ, x[0],
        splat(b, loc, x[0].getType(), sign * infinity));
  };
  if (getPositive() && getNegative())
    return arith::OrIOp::create(b, loc, is(1), is(-1));
  if (getPositive())
    return is(1);
  if (getNegative())
    return is(-1);
  Value one = is(1);
  return splat(b, loc, one.getType(), 0);
}

Value GeluOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  Type type = x[0].getType();
  Value half = splat(b, loc, type, 0.5), one = splat(b, loc, type, 1);
  Value inner;
  if (getTanh()) {
    // tanh(sqrt(2/pi) * (x + 0.044715 x^3))
    Value square = arith::MulFOp::create(b, loc, x[0], x[0]);
    Value poly =
        math::FmaOp::create(b, loc, square, splat(b, loc, type, 0.044715), one);
    Value scaled = arith::MulFOp::create(
        b, loc, x[0], splat(b, loc, type, 0.79788456080286535588));
    inner = math::TanhOp::create(b, loc,
                                 arith::MulFOp::create(b, loc, scaled, poly));
  } else {
    inner = math::ErfOp::create(
        b, loc,
        arith::MulFOp::create(b, loc, x[0],
                              splat(b, loc, type, 0.70710678118654752440)));
  }
  Value sum = arith::AddFOp::create(b, loc, one, inner);
  return arith::MulFOp::create(b, loc,
                               arith::MulFOp::create(b, loc, half, x[0]), sum);
}

namespace {

/// What a value of the element type is computed in: f16 and bf16 in f32; the
/// signs of integers are the ops'; storage types are bytes.
Type computeElement(Type element) {
  MLIRContext *context = element.getContext();
  if (element.isF16() || element.isBF16())
    return Float32Type::get(context);
  if (isStorage(element))
    return IntegerType::get(context, 8);
  if (element.isUnsignedInteger())
    return IntegerType::get(context, element.getIntOrFloatBitWidth());
  return element;
}

/// `value`, of type `from`, as `to`; neither is a storage type.
Value convertElement(OpBuilder &b, Location loc, Value value, Type from,
                     Type to) {
  Type element = computeElement(to), source = computeElement(from);
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);

  if (to.isInteger(1)) {
    Value zero = splat(b, loc, value.getType(), 0);
    if (isFloat(value))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, value,
                                   zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  bool fromUnsigned = from.isInteger(1) || from.isUnsignedInteger();
  if (isa<FloatType>(element)) {
    // A 16-bit result is rounded here, so that a fused chain and separate
    // kernels agree.
    auto roundTo16Bits = [&] {
      Type narrow = to;
      if (auto vector = dyn_cast<VectorType>(value.getType()))
        narrow = vector.clone(to);
      value = arith::TruncFOp::create(b, loc, narrow, value);
      return arith::ExtFOp::create(b, loc, type, value);
    };
    // Once: what float32 makes of a float64 may be a tie of the result.
    if (source.isF64() && to != element)
      return roundTo16Bits();
    if (isa<FloatType>(source)) {
      unsigned a = source.getIntOrFloatBitWidth(),
               c = element.getIntOrFloatBitWidth();
      if (a < c)
        value = arith::ExtFOp::create(b, loc, type, value);
      else if (a > c)
        value = arith::TruncFOp::create(b, loc, type, value);
    } else if (fromUnsigned) {
      value = arith::UIToFPOp::create(b, loc, type, value);
    } else {
      value = arith::SIToFPOp::create(b, loc, type, value);
    }
    return to != element && from != to ? roundTo16Bits() : value;
  }
  if (isa<FloatType>(source)) {
    // The lowering makes these conversions saturate and NaN give 0.
    if (to.isUnsignedInteger())
      return arith::FPToUIOp::create(b, loc, type, value);
    return arith::FPToSIOp::create(b, loc, type, value);
  }
  unsigned a = source.getIntOrFloatBitWidth(),
           c = element.getIntOrFloatBitWidth();
  if (a < c)
    return fromUnsigned ? Value(arith::ExtUIOp::create(b, loc, type, value))
                        : Value(arith::ExtSIOp::create(b, loc, type, value));
  if (a > c)
    return arith::TruncIOp::create(b, loc, type, value);
  return value;
}

} // namespace

Value ConvertOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  Type from = elementTypeOf(getInput()), to = elementTypeOf(getResult());
  Value value = x[0];
  if (from == to)
    return value;
  // A storage type goes by a type that holds all its values.
  if (isStorage(from)) {
    bool isFloatType = isa<FloatType>(from);
    value = isFloatType ? buildFromSmallFloat(b, loc, value, from)
                        : buildFromSmallInteger(b, loc, value, from);
    from = isFloatType                ? Type(b.getF32Type())
           : from.isUnsignedInteger() ? Type(b.getIntegerType(8, false))
                                      : Type(b.getIntegerType(8));
  }
  if (!isStorage(to))
    return from == to ? value : convertElement(b, loc, value, from, to);
  if (isa<FloatType>(to)) {
    bool wide = from.isF64() ||
                (isa<IntegerType>(from) && from.getIntOrFloatBitWidth() > 16);
    Type by =
        wide && !isa<Float8E8M0FNUType>(to) ? b.getF64Type() : b.getF32Type();
    if (from != by)
      value = convertElement(b, loc, value, from, by);
    return buildToSmallFloat(b, loc, value, to, getSaturate(), getRounding());
  }
  bool fromFloat = isa<FloatType>(from);
  Type by = to.isUnsignedInteger() ? b.getIntegerType(8, false)
                                   : Type(b.getIntegerType(8));
  if (from != by)
    value = convertElement(b, loc, value, from, by);
  return buildToSmallInteger(b, loc, value, to, /*saturate=*/fromFloat);
}

Value BitcastOp::buildElement(OpBuilder &b, Location loc, ValueRange x) {
  Type from = elementTypeOf(getInput()), to = elementTypeOf(getResult());
  auto typed = [&](Type element) -> Type {
    if (auto vector = dyn_cast<VectorType>(x[0].getType()))
      return vector.clone(element);
    return element;
  };
  Value value = x[0];
  Type compute = computeElement(from);
  unsigned width = compute.getIntOrFloatBitWidth();
  if (from.isInteger(1)) {
    value = arith::ExtUIOp::create(b, loc, typed(b.getIntegerType(8)), value);
  } else if (isa<FloatType>(compute)) {
    if (compute != from) {
      value = arith::TruncFOp::create(b, loc, typed(from), value);
      width = 16;
    }
    value =
        arith::BitcastOp::create(b, loc, typed(b.getIntegerType(width)), value);
  }
  if (to.isInteger(1)) {
    Value zero = splat(b, loc, value.getType(), 0);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (unsigned bits = to.getIntOrFloatBitWidth(); bits < 8) {
    if (isa<FloatType>(to))
      return arith::AndIOp::create(
          b, loc, value, splat(b, loc, value.getType(), (1 << bits) - 1));
    return buildFromSmallInteger(b, loc, value, to);
  }
  compute = computeElement(to);
  if (!isa<FloatType>(compute))
    return value;
  value = arith::BitcastOp::create(b, loc, typed(to), value);
  if (compute != to)
    value = arith::ExtFOp::create(b, loc, typed(compute), value);
  return value;
}

int64_t CompareOp::elementFlops() { return 1; }
int64_t SelectOp::elementFlops() { return 1; }
int64_t ConvertOp::elementFlops() { return 1; }
int64_t BitcastOp::elementFlops() { return 0; }
int64_t IsNanOp::elementFlops() { return 1; }
int64_t IsInfOp::elementFlops() { return 2; }
int64_t GeluOp::elementFlops() { return 20; }
