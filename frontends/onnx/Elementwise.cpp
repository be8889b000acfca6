// Arithmetic, comparison, logic, bits, conversion: one element at a time.
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {
namespace {

template <typename Op> LogicalResult unary(Node &n) {
  return n.out(n.make<Op>(n[0]));
}

template <typename Op> LogicalResult binary(Node &n) {
  return n.out(n.binary<Op>(n[0], n[1]));
}

/// Max, Min, Sum: any number of operands.
template <typename Op> LogicalResult variadic(Node &n) {
  SmallVector<Value> values = n.broadcastAll(n.all());
  Value result = values[0];
  for (Value value : ArrayRef<Value>(values).drop_front())
    result = n.make<Op>(result, value);
  return n.out(result);
}

LogicalResult importMean(Node &n) {
  SmallVector<Value> values = n.broadcastAll(n.all());
  Value result = values[0];
  for (Value value : ArrayRef<Value>(values).drop_front())
    result = n.add(result, value);
  return n.out(n.mul(result, 1.0 / static_cast<double>(values.size())));
}

template <ts::ComparePredicate predicate> LogicalResult compare(Node &n) {
  return n.out(n.compare(predicate, n[0], n[1]));
}

LogicalResult importReciprocal(Node &n) {
  return n.out(n.div(n.splatLike(1, n[0]), n[0]));
}

LogicalResult importMod(Node &n) {
  if (n.flag("fmod", false))
    return binary<ts::RemOp>(n);
  if (n.opset < 28 && isa<FloatType>(ts::elementTypeOf(n[0])))
    return n.fail("fmod must be 1 for floating-point operands",
                  "set fmod to 1");
  return binary<ts::ModOp>(n);
}

LogicalResult importPow(Node &n) {
  Type base = ts::elementTypeOf(n[0]), exponent = ts::elementTypeOf(n[1]);
  if (base == exponent)
    return binary<ts::PowOp>(n);
  if (isa<FloatType>(base))
    return n.out(n.binary<ts::PowOp>(n[0], n.convert(n[1], base)));
  // An integer base with another exponent: in the exponent's type.
  Type wide = isa<FloatType>(exponent) ? exponent : n.b.getI64Type();
  return n.out(n.convert(
      n.binary<ts::PowOp>(n.convert(n[0], wide), n.convert(n[1], wide)), base));
}

LogicalResult importWhere(Node &n) { return n.out(n.select(n[0], n[1], n[2])); }

LogicalResult importClip(Node &n) {
  Value x = n[0];
  if (n.has(1))
    x = n.binary<ts::MaxOp>(x, n[1]);
  if (n.has(2))
    x = n.binary<ts::MinOp>(x, n[2]);
  return n.out(x);
}

/// Until opset 10 the bounds are attributes.
LogicalResult importClipAttributes(Node &n) {
  Value x = n[0];
  if (n.hasAttr("min"))
    x = n.binary<ts::MaxOp>(x, n.scalarFor(x, n.real("min", 0)));
  if (n.hasAttr("max"))
    x = n.binary<ts::MinOp>(x, n.scalarFor(x, n.real("max", 0)));
  return n.out(x);
}

/// `saturate` and `round_mode` count where the result is a float of eight bits.
LogicalResult castTo(Node &n, Type element) {
  Value x = n[0];
  // A number beyond the few of a small integer leaves its low bits, as one
  // integer does in another: what the official cases ask for.
  if (isa<IntegerType>(element) && ts::isStorage(element) &&
      isa<FloatType>(ts::elementTypeOf(x)))
    x = n.convert(x, n.b.getI32Type());
  if (!isa<FloatType>(element) || !ts::isStorage(element) ||
      ts::elementTypeOf(x) == element)
    return n.out(n.convert(x, element));
  bool saturate = n.flag("saturate", true);
  ts::Rounding rounding = ts::Rounding::nearest;
  if (isa<Float8E8M0FNUType>(element)) {
    std::string mode = n.text("round_mode", "up");
    if (mode != "up" && mode != "down" && mode != "nearest")
      return n.fail("round_mode is '" + mode + "'",
                    "set it to up, down or nearest");
    rounding = mode == "up"     ? ts::Rounding::up
               : mode == "down" ? ts::Rounding::down
                                : ts::Rounding::nearest;
  }
  return n.out(n.makeAs<ts::ConvertOp>(ts::withElement(x.getType(), element), x,
                                       saturate, rounding));
}

/// The type that attribute `to` names; null, and an error, where we lack it.
Type targetType(Node &n) {
  auto to = static_cast<int32_t>(n.integer("to", 0));
  Type element = onnxElementType(n.importer.context, to);
  if (!element)
    (void)n.unsupported("conversion to " + onnxTypeName(to));
  return element;
}

LogicalResult importCast(Node &n) {
  if (n.integer("to", 0) == onnx::TensorProto::STRING)
    return castToStrings(n);
  Type element = targetType(n);
  if (element && isString(n[0]))
    return castFromStrings(n, element);
  return element ? castTo(n, element) : failure();
}

LogicalResult importBitCast(Node &n) {
  Type element = targetType(n), from = ts::elementTypeOf(n[0]);
  if (!element)
    return failure();
  auto bits = [](Type type) {
    unsigned width = type.getIntOrFloatBitWidth();
    return width == 1 ? 8 : width;
  };
  if (bits(element) != bits(from))
    return n.fail("elements of " + Twine(bits(from)) +
                      " bits cannot be seen as " + Twine(bits(element)) +
                      " bits",
                  "give a type of the same width");
  return n.out(
      n.makeAs<ts::BitcastOp>(ts::withElement(n[0].getType(), element), n[0]));
}

LogicalResult importCastLike(Node &n) {
  return castTo(n, ts::elementTypeOf(n[1]));
}

LogicalResult importIsInf(Node &n) {
  return n.out(n.make<ts::IsInfOp>(n[0], n.flag("detect_positive", true),
                                   n.flag("detect_negative", true)));
}

/// The sign bit moves in from the left: for negative x, ~(~x >> s).
LogicalResult importBitShift(Node &n) {
  std::string direction = n.text("direction", "");
  if (direction == "LEFT")
    return binary<ts::ShiftLeftOp>(n);
  if (direction != "RIGHT")
    return n.fail("direction is '" + direction + "'",
                  "set it to LEFT or RIGHT");
  if (ts::elementTypeOf(n[0]).isUnsignedInteger())
    return binary<ts::ShiftRightOp>(n);
  SmallVector<Value> v = n.broadcastAll(n.all());
  Value flipped = n.make<ts::NotOp>(
      n.make<ts::ShiftRightOp>(n.make<ts::NotOp>(v[0]), v[1]));
  Value negative =
      n.compare(ts::ComparePredicate::lt, v[0], n.scalarFor(n[0], 0));
  return n.out(
      n.select(negative, flipped, n.make<ts::ShiftRightOp>(v[0], v[1])));
}

LogicalResult importIdentity(Node &n) { return n.out(n[0]); }

using P = ts::ComparePredicate;

constexpr OpRow rows[] = {
    {"", "Abs", 1, 1, 1, unary<ts::AbsOp>},
    {"", "Acos", 7, 1, 1, unary<ts::AcosOp>},
    {"", "Acosh", 9, 1, 1, unary<ts::AcoshOp>},
    {"", "Add", 7, 2, 2, binary<ts::AddOp>},
    {"", "And", 7, 2, 2, binary<ts::AndOp>},
    {"", "Asin", 7, 1, 1, unary<ts::AsinOp>},
    {"", "Asinh", 9, 1, 1, unary<ts::AsinhOp>},
    {"", "Atan", 7, 1, 1, unary<ts::AtanOp>},
    {"", "Atanh", 9, 1, 1, unary<ts::AtanhOp>},
    {"", "BitCast", 26, 1, 1, importBitCast},
    {"", "BitShift", 11, 2, 2, importBitShift},
    {"", "BitwiseAnd", 18, 2, 2, binary<ts::AndOp>},
    {"", "BitwiseNot", 18, 1, 1, unary<ts::NotOp>},
    {"", "BitwiseOr", 18, 2, 2, binary<ts::OrOp>},
    {"", "BitwiseXor", 18, 2, 2, binary<ts::XorOp>},
    {"", "Cast", 6, 1, 1, importCast},
    {"", "CastLike", 15, 2, 2, importCastLike},
    {"", "Ceil", 1, 1, 1, unary<ts::CeilOp>},
    {"", "Clip", 11, 1, 3, importClip},
    {"", "Clip", 1, 1, 1, importClipAttributes, 10},
    {"", "Cos", 7, 1, 1, unary<ts::CosOp>},
    {"", "Cosh", 9, 1, 1, unary<ts::CoshOp>},
    {"", "Div", 7, 2, 2, binary<ts::DivOp>},
    {"", "Equal", 7, 2, 2, compare<P::eq>},
    {"", "Erf", 9, 1, 1, unary<ts::ErfOp>},
    {"", "Exp", 1, 1, 1, unary<ts::ExpOp>},
    {"", "Floor", 1, 1, 1, unary<ts::FloorOp>},
    {"", "Greater", 7, 2, 2, compare<P::gt>},
    {"", "GreaterOrEqual", 12, 2, 2, compare<P::ge>},
    {"", "Identity", 1, 1, 1, importIdentity},
    {"", "IsInf", 10, 1, 1, importIsInf},
    {"", "IsNaN", 9, 1, 1, unary<ts::IsNanOp>},
    {"", "Less", 7, 2, 2, compare<P::lt>},
    {"", "LessOrEqual", 12, 2, 2, compare<P::le>},
    {"", "Log", 1, 1, 1, unary<ts::LogOp>},
    {"", "Max", 1, 1, anyNumber, variadic<ts::MaxOp>},
    {"", "Mean", 1, 1, anyNumber, importMean},
    {"", "Min", 1, 1, anyNumber, variadic<ts::MinOp>},
    {"", "Mod", 10, 2, 2, importMod},
    {"", "Mul", 7, 2, 2, binary<ts::MulOp>},
    {"", "Neg", 1, 1, 1, unary<ts::NegOp>},
    {"", "Not", 1, 1, 1, unary<ts::NotOp>},
    {"", "Or", 7, 2, 2, binary<ts::OrOp>},
    {"", "Pow", 7, 2, 2, importPow},
    {"", "Reciprocal", 1, 1, 1, importReciprocal},
    {"", "Round", 11, 1, 1, unary<ts::RoundEvenOp>},
    {"", "Sign", 9, 1, 1, unary<ts::SignOp>},
    {"", "Sin", 7, 1, 1, unary<ts::SinOp>},
    {"", "Sinh", 9, 1, 1, unary<ts::SinhOp>},
    {"", "Sqrt", 1, 1, 1, unary<ts::SqrtOp>},
    {"", "Sub", 7, 2, 2, binary<ts::SubOp>},
    {"", "Sum", 1, 1, anyNumber, variadic<ts::AddOp>},
    {"", "Tan", 7, 1, 1, unary<ts::TanOp>},
    {"", "Where", 9, 3, 3, importWhere},
    {"", "Xor", 7, 2, 2, binary<ts::XorOp>},
};

} // namespace

ArrayRef<OpRow> elementwiseRows() { return rows; }

} // namespace knapper
