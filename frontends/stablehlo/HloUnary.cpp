// Ops of one operand, elementwise.
#include "frontends/stablehlo/HloNarrow.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

bool isFloat(Value value) {
  return value && isa<FloatType>(ts::elementTypeOf(value));
}

template <typename Op> LogicalResult importUnary(HloNode &n) {
  return n.out(n.make<Op>(n[0]));
}

/// Rounding of what has no fraction gives it back.
template <typename Op> LogicalResult importRound(HloNode &n) {
  return n.out(isFloat(n[0]) ? n.make<Op>(n[0]) : n[0]);
}

/// To nearest, halves away from zero. x - trunc(x) is exact.
LogicalResult importRoundAway(HloNode &n) {
  Value x = n[0];
  Value whole = n.make<ts::TruncOp>(x);
  Value rest = n.make<ts::AbsOp>(n.sub(x, whole));
  Value away = n.add(whole, n.make<ts::SignOp>(x));
  return n.out(
      n.select(n.compare(P::ge, rest, n.scalarFor(x, 0.5)), away, whole));
}

/// |x|^(1/3) in f32 or f64, made better by one step of Newton's.
LogicalResult importCubeRoot(HloNode &n) {
  if (!isFloat(n[0]))
    return n.damaged("is of no float");
  Type element = ts::elementTypeOf(n[0]);
  Type wide = element.isF64() ? element : Type(n.b.getF32Type());
  Value x = n.convert(n[0], wide), size = n.make<ts::AbsOp>(x);
  Value root = n.binary<ts::PowOp>(size, n.scalarFor(size, 1.0 / 3.0));
  Value square = n.mul(root, root);
  Value better =
      n.sub(root, n.div(n.sub(n.mul(square, root), size), n.mul(square, 3.0)));
  // Zero, infinity and what overflows in the step are right without it.
  Value finite = n.binary<ts::AndOp>(
      n.compare(P::gt, square, n.scalarFor(x, 0)),
      n.compare(P::lt, n.mul(square, root),
                n.scalarFor(x, std::numeric_limits<double>::infinity())));
  root = n.select(finite, better, root);
  return n.out(n.convert(
      n.select(n.compare(P::lt, x, n.scalarFor(x, 0)), n.make<ts::NegOp>(root),
               n.select(n.compare(P::eq, x, n.scalarFor(x, 0)), x, root)),
      element));
}

LogicalResult importIsFinite(HloNode &n) {
  return n.out(n.make<ts::NotOp>(n.binary<ts::OrOp>(
      n.make<ts::IsNanOp>(n[0]), n.make<ts::IsInfOp>(n[0], true, true))));
}

/// Integers of the same width without a sign.
Value unsignedBits(NodeBuilder &n, Value x, Type *element) {
  if (!x)
    return {};
  *element = n.b.getIntegerType(ts::elementTypeOf(x).getIntOrFloatBitWidth(),
                                /*isSigned=*/false);
  return ts::elementTypeOf(x) == *element
             ? x
             : n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), *element),
                                       x);
}

/// Ones among the bits, summed in fields of twice the width each time.
Value countOnes(NodeBuilder &n, Value x) {
  if (!x)
    return {};
  Type element = ts::elementTypeOf(x);
  unsigned width = element.getIntOrFloatBitWidth();
  for (unsigned field = 1; field < width; field *= 2) {
    uint64_t mask = 0;
    for (unsigned at = 0; at < width; at += 2 * field)
      mask |= ((uint64_t(1) << field) - 1) << at;
    Value keep = n.integerScalar(static_cast<int64_t>(mask), element),
          by = n.integerScalar(field, element);
    Value high = n.binary<ts::ShiftRightOp>(x, by);
    x = n.add(n.binary<ts::AndOp>(x, keep), n.binary<ts::AndOp>(high, keep));
  }
  return x;
}

bool isCountable(Value value) {
  Type element = ts::elementTypeOf(value);
  return isa<IntegerType>(element) && element.getIntOrFloatBitWidth() >= 8;
}

Value asType(NodeBuilder &n, Value x, Type element) {
  return x ? n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), element), x)
           : x;
}

LogicalResult importPopulation(HloNode &n) {
  if (!isCountable(n[0]))
    return n.unsupported("integers of fewer than 8 bits");
  Type bits;
  Value x = countOnes(n, unsignedBits(n, n[0], &bits));
  return n.out(n.element() == bits ? x : asType(n, x, n.element()));
}

LogicalResult importLeadingZeros(HloNode &n) {
  if (!isCountable(n[0]))
    return n.unsupported("integers of fewer than 8 bits");
  Type bits;
  Value x = unsignedBits(n, n[0], &bits);
  if (!x)
    return failure();
  unsigned width = bits.getIntOrFloatBitWidth();
  for (unsigned by = 1; by < width; by *= 2)
    x = n.binary<ts::OrOp>(
        x, n.binary<ts::ShiftRightOp>(x, n.integerScalar(by, bits)));
  x = n.sub(n.integerScalar(width, bits), countOnes(n, x));
  return n.out(n.element() == bits ? x : asType(n, x, n.element()));
}

LogicalResult importConvert(HloNode &n) {
  return n.out(hloNarrowed(n, n[0], n.element()));
}

/// An element into `parts` narrower ones, the low bits first, along a last dim.
LogicalResult splitBits(HloNode &n, int64_t parts) {
  unsigned width = n.element().getIntOrFloatBitWidth();
  Type wide, narrow = n.b.getIntegerType(width, /*isSigned=*/false);
  Value x = unsignedBits(n, n[0], &wide);
  SmallVector<int64_t> shape = n.shape(n[0]);
  shape.push_back(1);
  SmallVector<Value> pieces;
  for (int64_t i = 0; i < parts && x; ++i) {
    Value low =
        i ? n.binary<ts::ShiftRightOp>(x, n.integerScalar(i * width, wide)) : x;
    pieces.push_back(n.reshapeTo(n.convert(low, narrow), shape));
  }
  if (llvm::is_contained(pieces, Value()) || n.failed())
    return failure();
  Value y =
      n.make<ts::ConcatOp>(ValueRange(pieces), uint64_t(shape.size() - 1));
  return n.out(n.element() == narrow ? y : asType(n, y, n.element()));
}

/// `parts` elements along the last dim into a wider one.
LogicalResult joinBits(HloNode &n, int64_t parts) {
  unsigned width = ts::elementTypeOf(n[0]).getIntOrFloatBitWidth();
  SmallVector<int64_t> shape = n.shape(n[0]);
  if (shape.empty() || shape.back() != parts)
    return n.damaged("joins another number of elements than its last dim has");
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  shape.pop_back();
  Type narrow, wide = n.b.getIntegerType(width * parts, /*isSigned=*/false);
  Value x = unsignedBits(n, n[0], &narrow), y;
  for (int64_t i = 0; i < parts && x; ++i) {
    Value piece = n.convert(
        n.reshapeTo(n.sliceDim(x, last, n.dim(i), n.dim(1)), shape), wide);
    if (i)
      piece =
          n.binary<ts::ShiftLeftOp>(piece, n.integerScalar(i * width, wide));
    y = y ? n.binary<ts::OrOp>(y, piece) : piece;
  }
  return n.out(n.element() == wide ? y : asType(n, y, n.element()));
}

LogicalResult importBitcast(HloNode &n) {
  Type element = n.element();
  if (!element)
    return failure();
  if (element == ts::elementTypeOf(n[0]))
    return n.out(n[0]);
  unsigned from = ts::elementTypeOf(n[0]).getIntOrFloatBitWidth(),
           to = element.getIntOrFloatBitWidth();
  if ((from < 8 && isFloat(n[0])) || (to < 8 && isa<FloatType>(element)) ||
      from == 1 || to == 1)
    return from == to ? n.out(asType(n, n[0], element))
                      : n.unsupported("of floats of fewer than 8 bits");
  if (from == to)
    return n.out(asType(n, n[0], element));
  return from > to ? splitBits(n, from / to) : joinBits(n, to / from);
}

/// The mantissa's last bits rounded away, to the even one where both are as
/// near.
Value roundMantissa(HloNode &n, Value x, Type bits, int64_t dropped) {
  Value one = n.integerScalar(1, bits);
  Value last = n.binary<ts::AndOp>(
      n.binary<ts::ShiftRightOp>(x, n.integerScalar(dropped, bits)), one);
  int64_t half = int64_t(1) << (dropped - 1);
  x = n.add(x, n.add(last, n.integerScalar(half - 1, bits)));
  return n.binary<ts::AndOp>(x, n.integerScalar(-2 * half, bits));
}

/// On the bits: the mantissa is rounded, then what the exponent cannot hold
/// becomes infinity or zero (also what would be subnormal, as XLA has it).
LogicalResult importReducePrecision(HloNode &n) {
  int64_t exponent = n.integer("exponent_bits"),
          mantissa = n.integer("mantissa_bits");
  Type element = ts::elementTypeOf(n[0]);
  if (!isFloat(n[0]) || exponent < 1 || mantissa < 0)
    return n.damaged("is of no float, or to no bits");
  if (element.getIntOrFloatBitWidth() < 8 || isa<Float8E8M0FNUType>(element))
    return n.unsupported("of floats without a mantissa of their own");
  if (n.failed())
    return failure();
  int64_t width = element.getIntOrFloatBitWidth();
  int64_t own = APFloat::semanticsPrecision(
                    cast<FloatType>(element).getFloatSemantics()) -
                1;
  int64_t ownExponent = width - 1 - own;
  Type bits;
  Value given = n[0], x = unsignedBits(n, given, &bits);
  if (!x)
    return failure();
  Value sign = n.integerScalar(int64_t(1) << (width - 1), bits);
  if (mantissa < own)
    x = roundMantissa(n, x, bits, own - mantissa);
  if (exponent < ownExponent) {
    int64_t bias = (int64_t(1) << (ownExponent - 1)) - 1,
            reduced = (int64_t(1) << (exponent - 1)) - 1;
    Value all = n.integerScalar(((int64_t(1) << ownExponent) - 1) << own, bits);
    Value size = n.binary<ts::AndOp>(x, all),
          zero = n.binary<ts::AndOp>(x, sign);
    Value infinite = n.binary<ts::OrOp>(zero, all);
    x = n.select(
        n.compare(P::gt, size, n.integerScalar((bias + reduced) << own, bits)),
        infinite, x);
    x = n.select(
        n.compare(P::le, size, n.integerScalar((bias - reduced) << own, bits)),
        zero, x);
  }
  return n.out(n.select(n.make<ts::IsNanOp>(hloWidened(n, given)), given,
                        asType(n, x, element)));
}

LogicalResult importSelf(HloNode &n) { return n.out(n[0]); }
LogicalResult importZero(HloNode &n) { return n.out(n.splatLike(0, n[0])); }
LogicalResult importSquare(HloNode &n) { return n.out(n.mul(n[0], n[0])); }

LogicalResult importIsInfinite(HloNode &n) {
  bool both = n.kind == "is_inf";
  return n.out(n.make<ts::IsInfOp>(n[0], both || n.kind == "is_neg_inf",
                                   both || n.kind == "is_pos_inf"));
}

LogicalResult importNot(HloNode &n) { return n.out(n.make<ts::NotOp>(n[0])); }

constexpr HloRow rows[] = {
    {"abs", 1, importUnary<ts::AbsOp>},
    {"acos", 1, importUnary<ts::AcosOp>},   // of chlo, as the others without a
    {"acosh", 1, importUnary<ts::AcoshOp>}, // name in StableHLO
    {"asin", 1, importUnary<ts::AsinOp>},
    {"asinh", 1, importUnary<ts::AsinhOp>},
    {"atan", 1, importUnary<ts::AtanOp>},
    {"atanh", 1, importUnary<ts::AtanhOp>},
    {"bitcast_convert", 1, importBitcast},
    {"cbrt", 1, importCubeRoot},
    {"ceil", 1, importRound<ts::CeilOp>},
    {"conj", 1, importSelf},
    {"convert", 1, importConvert},
    {"cosh", 1, importUnary<ts::CoshOp>},
    {"cosine", 1, importUnary<ts::CosOp>},
    {"count_leading_zeros", 1, importLeadingZeros},
    {"erf", 1, importUnary<ts::ErfOp>},
    {"exponential", 1, importUnary<ts::ExpOp>},
    {"exponential_minus_one", 1, importUnary<ts::Expm1Op>},
    {"floor", 1, importRound<ts::FloorOp>},
    {"imag", 1, importZero},
    {"is_finite", 1, importIsFinite},
    {"is_inf", 1, importIsInfinite},
    {"is_neg_inf", 1, importIsInfinite},
    {"is_pos_inf", 1, importIsInfinite},
    {"log", 1, importUnary<ts::LogOp>},
    {"log_plus_one", 1, importUnary<ts::Log1pOp>},
    {"logistic", 1, importUnary<ts::SigmoidOp>},
    {"negate", 1, importUnary<ts::NegOp>},
    {"not", 1, importNot},
    {"popcnt", 1, importPopulation},
    {"real", 1, importSelf},
    {"reduce_precision", 1, importReducePrecision},
    {"round_nearest_afz", 1, importRoundAway},
    {"round_nearest_even", 1, importRound<ts::RoundEvenOp>},
    {"rsqrt", 1, importUnary<ts::RsqrtOp>},
    {"sign", 1, importUnary<ts::SignOp>},
    {"sine", 1, importUnary<ts::SinOp>},
    {"sinh", 1, importUnary<ts::SinhOp>},
    {"sqrt", 1, importUnary<ts::SqrtOp>},
    {"square", 1, importSquare},
    {"tan", 1, importUnary<ts::TanOp>},
    {"tanh", 1, importUnary<ts::TanhOp>},
};

} // namespace

llvm::ArrayRef<HloRow> hloUnaryRows() { return rows; }

} // namespace knapper
