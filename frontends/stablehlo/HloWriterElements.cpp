// Elementwise ops as StableHLO's text. Where an edge is another there, a select
// says what ours is.
#include "frontends/stablehlo/HloWriter.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using W = HloWriter;
using T = HloText;

Type elementOf(const T &x) { return x.type.getElementType(); }
bool isFloat(const T &x) { return isa<FloatType>(elementOf(x)); }

SmallVector<T> operandsOf(W &w, Operation *op) {
  return llvm::map_to_vector(op->getOperands(),
                             [&](Value value) { return w.of(value); });
}

/// Our name of an op, and StableHLO's for the same.
constexpr std::pair<const char *, const char *> same[] = {
    {"abs", "abs"},
    {"add", "add"},
    {"and", "and"},
    {"atan2", "atan2"},
    {"ceil", "ceil"},
    {"cos", "cosine"},
    {"exp", "exponential"},
    {"expm1", "exponential_minus_one"},
    {"floor", "floor"},
    {"log", "log"},
    {"log1p", "log_plus_one"},
    {"max", "maximum"},
    {"min", "minimum"},
    {"mul", "multiply"},
    {"neg", "negate"},
    {"not", "not"},
    {"or", "or"},
    {"pow", "power"},
    {"round_even", "round_nearest_even"},
    {"rsqrt", "rsqrt"},
    {"select", "select"},
    {"shift_left", "shift_left"},
    {"shift_right", "shift_right_logical"},
    {"sigmoid", "logistic"},
    {"sign", "sign"},
    {"sin", "sine"},
    {"sqrt", "sqrt"},
    {"sub", "subtract"},
    {"tan", "tan"},
    {"tanh", "tanh"},
    {"xor", "xor"},
};

void writeSame(W &w, Operation *op) {
  StringRef name = op->getName().stripDialect();
  T x = w.of(op->getOperand(0));
  if (elementOf(x).isUnsignedInteger() && (name == "abs" || name == "sign"))
    return w.out(
        op, name == "abs" ? x : w.binary("minimum", x, w.splat(1, x.type)));
  for (auto [ours, theirs] : same)
    if (name == ours)
      w.out(op, w.make(theirs, operandsOf(w, op), op->getResult(0).getType()));
}

/// What a function of floats gives, computed in f32 where it is narrower.
template <typename F> void inF32(W &w, Operation *op, F function) {
  T x = w.of(op->getOperand(0));
  Type own = elementOf(x);
  if (!own.isF64())
    x = w.convert(x, Float32Type::get(own.getContext()));
  w.out(op, w.convert(function(x), own));
}

void writeTrunc(W &w, Operation *op) {
  T x = w.of(op->getOperand(0));
  w.out(op,
        w.select(w.compare("LT", x, w.splat(0, x.type)),
                 w.make("ceil", {x}, x.type), w.make("floor", {x}, x.type)));
}

T polynomial(W &w, T x, ArrayRef<double> coefficients) {
  T sum = w.splat(coefficients[0], x.type);
  for (double each : coefficients.drop_front())
    sum = w.binary("add", w.binary("multiply", sum, x), w.splat(each, x.type));
  return sum;
}

/// A quotient of polynomials, to a unit in the last place of f32.
void writeErf(W &w, Operation *op) {
  if (elementOf(w.of(op->getOperand(0))).isF64())
    return w.refuse(op, "erf of f64");
  inF32(w, op, [&](T x) {
    constexpr double most = 3.832506856900711;
    x = w.binary("minimum", w.binary("maximum", x, w.splat(-most, x.type)),
                 w.splat(most, x.type));
    T square = w.binary("multiply", x, x);
    T above = polynomial(w, square,
                         {0.00022905065861350646, 0.0034082910107109506,
                          0.050955695062380861, 0.18520832239976145,
                          1.128379143519084});
    T below = polynomial(w, square,
                         {-1.1791602954361697e-7, 0.000023547966471313185,
                          0.0010179625278914885, 0.014070470171167667,
                          0.11098505178285362, 0.49746925110067538, 1.0});
    return w.binary("divide", w.binary("multiply", x, above), below);
  });
}

T rootOfComplement(W &w, T x) { // sqrt((1 - x) (1 + x))
  T one = w.splat(1, x.type);
  return w.make("sqrt",
                {w.binary("multiply", w.binary("subtract", one, x),
                          w.binary("add", one, x))},
                x.type);
}

void writeAngle(W &w, Operation *op) {
  StringRef name = op->getName().stripDialect();
  inF32(w, op, [&](T x) {
    if (name == "atan")
      return w.binary("atan2", x, w.splat(1, x.type));
    T root = rootOfComplement(w, x);
    return name == "asin" ? w.binary("atan2", x, root)
                          : w.binary("atan2", root, x);
  });
}

/// By e^x - 1 near 0 and by halves of e^x, which overflows later, elsewhere.
void writeHyperbolic(W &w, Operation *op) {
  bool odd = op->getName().stripDialect() == "sinh";
  inF32(w, op, [&](T x) {
    T half = w.splat(std::log(0.5), x.type);
    auto grown = [&](T y) {
      return w.make("exponential", {w.binary("add", y, half)}, x.type);
    };
    T rising = grown(x), falling = grown(w.make("negate", {x}, x.type));
    if (!odd)
      return w.binary("add", rising, falling);
    T e = w.make("exponential_minus_one", {x}, x.type);
    T near =
        w.binary("multiply", w.splat(0.5, x.type),
                 w.binary("add", e,
                          w.binary("divide", e,
                                   w.binary("add", e, w.splat(1, x.type)))));
    return w.select(
        w.compare("LT", w.make("abs", {x}, x.type), w.splat(1, x.type)), near,
        w.binary("subtract", rising, falling));
  });
}

void writeInverseHyperbolic(W &w, Operation *op) {
  StringRef name = op->getName().stripDialect();
  inF32(w, op, [&](T x) {
    T one = w.splat(1, x.type);
    auto log1p = [&](T y) { return w.make("log_plus_one", {y}, x.type); };
    if (name == "atanh")
      return w.binary(
          "multiply", w.splat(0.5, x.type),
          w.binary("subtract", log1p(x), log1p(w.make("negate", {x}, x.type))));
    if (name == "acosh") {
      T t = w.binary("subtract", x, one);
      T root = w.make(
          "sqrt", {w.binary("multiply", t, w.binary("add", x, one))}, x.type);
      return log1p(w.binary("add", t, root));
    }
    T size = w.make("abs", {x}, x.type), square = w.binary("multiply", x, x);
    T root = w.make("sqrt", {w.binary("add", square, one)}, x.type);
    T y = log1p(w.binary(
        "add", size, w.binary("divide", square, w.binary("add", root, one))));
    return w.binary("multiply", w.make("sign", {x}, x.type), y);
  });
}

/// An integer divided by zero is 0, and leaves 0.
void writeDivision(W &w, Operation *op) {
  StringRef name = op->getName().stripDialect();
  T x = w.of(op->getOperand(0)), y = w.of(op->getOperand(1));
  bool integers = !isFloat(x);
  T zero = w.splat(0, x.type), none;
  if (integers) {
    none = w.compare("EQ", y, zero);
    y = w.select(none, w.splat(1, x.type), y);
  }
  T z = w.binary(name == "div" ? "divide" : "remainder", x, y);
  if (name == "mod" && !elementOf(x).isUnsignedInteger()) {
    // The rest has the divisor's sign.
    T signsDiffer = w.binary(
        "and", w.compare("NE", z, zero),
        w.binary("xor", w.compare("LT", z, zero), w.compare("LT", y, zero)));
    z = w.select(signsDiffer, w.binary("add", z, y), z);
  }
  w.out(op, integers ? w.select(none, zero, z) : z);
}

void writeCompare(W &w, Operation *given) {
  auto op = cast<ts::CompareOp>(given);
  using P = ts::ComparePredicate;
  constexpr std::pair<P, const char *> directions[] = {
      {P::eq, "EQ"}, {P::ne, "NE"}, {P::lt, "LT"},
      {P::le, "LE"}, {P::gt, "GT"}, {P::ge, "GE"}};
  StringRef direction;
  for (auto [predicate, name] : directions)
    if (op.getPredicate() == predicate)
      direction = name;
  w.out(op, w.compare(direction, w.of(op.getLhs()), w.of(op.getRhs())));
}

/// A float out of an integer's range becomes the nearest, NaN 0.
T toInteger(W &w, T x, Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  bool plain = element.isUnsignedInteger();
  x = w.convert(x, Float64Type::get(element.getContext()));
  x = w.select(w.compare("NE", x, x), w.splat(0, x.type), x);
  double low = plain ? 0 : -std::ldexp(1, static_cast<int>(width) - 1);
  double beyond = std::ldexp(1, static_cast<int>(width) - (plain ? 0 : 1));
  double most = width < 53 ? beyond - 1 : std::nextafter(beyond, 0);
  T inside = w.binary("minimum", w.binary("maximum", x, w.splat(low, x.type)),
                      w.splat(most, x.type));
  T y = w.convert(inside, element);
  if (width < 53)
    return y;
  auto largest =
      plain ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  T end = w.constant(DenseElementsAttr::get(
      y.type, Attribute(IntegerAttr::get(element, largest))));
  return w.select(w.compare("GE", x, w.splat(beyond, x.type)), end, y);
}

void writeConvert(W &w, Operation *given) {
  auto op = cast<ts::ConvertOp>(given);
  T x = w.of(op.getInput());
  Type from = elementOf(x), to = ts::elementTypeOf(op.getResult());
  if (from == to)
    return w.out(op, x);
  if (to.isInteger(1))
    return w.out(op, w.compare("NE", x, w.splat(0, x.type)));
  if (isa<FloatType>(to) && ts::isStorage(to) && op.getSaturate())
    return w.refuse(op, "a conversion that stops at the largest number of a "
                        "float of eight bits or less");
  if (isa<Float8E8M0FNUType>(to))
    return w.refuse(op, "a conversion to a float without a sign and a zero");
  if (isa<FloatType>(from) && isa<IntegerType>(to))
    return w.out(op, toInteger(w, x, to));
  w.out(op, w.convert(x, to));
}

void writeBitcast(W &w, Operation *op) {
  T x = w.of(op->getOperand(0));
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (elementOf(x).isInteger(1) || to.getElementType().isInteger(1))
    return w.refuse(op, "bits of booleans");
  w.out(op, w.make("bitcast_convert", {x}, to));
}

void writeIsNan(W &w, Operation *op) {
  T x = w.of(op->getOperand(0));
  w.out(op, w.compare("NE", x, x));
}

void writeIsInf(W &w, Operation *given) {
  auto op = cast<ts::IsInfOp>(given);
  T x = w.of(op.getInput());
  auto is = [&](double value) {
    return w.compare("EQ", x, w.splat(value, x.type));
  };
  double infinity = std::numeric_limits<double>::infinity();
  if (op.getPositive() && op.getNegative())
    return w.out(op, w.binary("or", is(infinity), is(-infinity)));
  if (!op.getPositive() && !op.getNegative())
    return w.out(op, w.splat(0, op.getType()));
  w.out(op, is(op.getPositive() ? infinity : -infinity));
}

constexpr HloWriterRow rows[] = {
    {"abs", writeSame},
    {"acos", writeAngle},
    {"acosh", writeInverseHyperbolic},
    {"add", writeSame},
    {"and", writeSame},
    {"asin", writeAngle},
    {"asinh", writeInverseHyperbolic},
    {"atan", writeAngle},
    {"atan2", writeSame},
    {"atanh", writeInverseHyperbolic},
    {"bitcast", writeBitcast},
    {"ceil", writeSame},
    {"compare", writeCompare},
    {"convert", writeConvert},
    {"cos", writeSame},
    {"cosh", writeHyperbolic},
    {"div", writeDivision},
    {"erf", writeErf},
    {"exp", writeSame},
    {"expm1", writeSame},
    {"floor", writeSame},
    {"is_inf", writeIsInf},
    {"is_nan", writeIsNan},
    {"log", writeSame},
    {"log1p", writeSame},
    {"max", writeSame},
    {"min", writeSame},
    {"mod", writeDivision},
    {"mul", writeSame},
    {"neg", writeSame},
    {"not", writeSame},
    {"or", writeSame},
    {"pow", writeSame},
    {"rem", writeDivision},
    {"round_even", writeSame},
    {"rsqrt", writeSame},
    {"select", writeSame},
    {"shift_left", writeSame},
    {"shift_right", writeSame},
    {"sigmoid", writeSame},
    {"sign", writeSame},
    {"sin", writeSame},
    {"sinh", writeHyperbolic},
    {"sqrt", writeSame},
    {"sub", writeSame},
    {"tan", writeSame},
    {"tanh", writeSame},
    {"trunc", writeTrunc},
    {"xor", writeSame},
};

} // namespace

llvm::ArrayRef<HloWriterRow> hloElementWriters() { return rows; }

} // namespace knapper
