// Special functions of chlo, which stand in text. The runtime computes them on
// the host, in f32 or f64.
#include "frontends/stablehlo/HloSpecial.h"
#include "runtime/operators/HostDomain.h"

#include <limits>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

/// A function of the runtime's of operands of one shape, in their type.
Value hosted(HloNode &n, StringRef name, ArrayRef<Value> operands) {
  if (n.failed() || llvm::is_contained(operands, Value()))
    return {};
  Type own = ts::elementTypeOf(operands[0]);
  if (!isa<FloatType>(own)) {
    (void)n.damaged("is of no float");
    return {};
  }
  Type wide = own.isF64() ? own : Type(n.b.getF32Type());
  SmallVector<Value> inputs;
  for (Value operand : operands)
    inputs.push_back(n.convert(operand, wide));
  if (llvm::is_contained(inputs, Value()))
    return {};
  Operation *op = n.external(kHostDomain, ("Special" + name).str(), 1,
                             n.b.getDictionaryAttr({}),
                             SmallVector<bool>(inputs.size(), true), inputs, {},
                             {ts::withElement(operands[0].getType(), wide)});
  return op ? n.convert(op->getResult(0), own) : Value();
}

/// NaN at 0, where the runtime has an infinity of the zero's sign.
Value digamma(HloNode &n, Value x) {
  Value zero = n.compare(P::eq, x, n.scalarFor(x, 0));
  return n.select(zero,
                  n.scalarFor(x, std::numeric_limits<double>::quiet_NaN()),
                  hosted(n, "Digamma", {x}));
}

LogicalResult importUnary(HloNode &n) {
  if (n.kind == "digamma")
    return n.out(digamma(n, n[0]));
  StringRef name = llvm::StringSwitch<StringRef>(n.kind)
                       .Case("bessel_i1e", "ScaledBesselI1")
                       .Case("erf_inv", "Erfinv")
                       .Case("erfc", "Erfc")
                       .Default("LogGamma");
  return n.out(hosted(n, name, {n[0]}));
}

LogicalResult importZeta(HloNode &n) {
  return n.out(hosted(n, "Zeta", {n[0], n[1]}));
}

/// The derivative of order n + 1 of lgamma: (-1)^(n + 1) n! zeta(n + 1, x).
LogicalResult importPolygamma(HloNode &n) {
  Value order = n[0], x = n[1];
  Value next = n.add(order, 1.0), half = n.mul(next, 0.5);
  Value isEven = n.compare(P::eq, n.make<ts::FloorOp>(half), half);
  Value factor = n.make<ts::ExpOp>(hosted(n, "LogGamma", {next}));
  Value size = n.mul(factor, hosted(n, "Zeta", {next, x}));
  Value y = n.select(isEven, size, n.make<ts::NegOp>(size));
  Value first = n.compare(P::eq, order, n.scalarFor(order, 0));
  y = n.select(first, digamma(n, x), y);
  Value bad =
      n.binary<ts::OrOp>(n.compare(P::lt, order, n.scalarFor(order, 0)),
                         n.compare(P::ne, order, n.make<ts::FloorOp>(order)));
  return n.out(n.select(
      bad, n.scalarFor(x, std::numeric_limits<double>::quiet_NaN()), y));
}

/// The next number in the direction of the second operand.
LogicalResult importNextAfter(HloNode &n) {
  Value x = n[0], y = n[1];
  Type element = ts::elementTypeOf(x);
  if (!isa<FloatType>(element) || x.getType() != y.getType())
    return n.damaged("is of no float, or of two types");
  if (n.onWide)
    return n.unsupported("of floats of fewer than 16 bits");
  unsigned width = element.getIntOrFloatBitWidth();
  Type type = n.b.getIntegerType(width);
  auto bitsOf = [&](Value value) {
    return n.makeAs<ts::BitcastOp>(ts::withElement(value.getType(), type),
                                   value);
  };
  Value bits = bitsOf(x), zero = n.scalarFor(x, 0);
  Value away =
      n.binary<ts::XorOp>(n.compare(P::lt, x, y), n.compare(P::lt, x, zero));
  Value next = n.add(bits, n.select(away, n.integerScalar(1, type),
                                    n.integerScalar(-1, type)));
  // Beside 0 is the smallest number with the sign of the second.
  Value sign = n.binary<ts::AndOp>(bitsOf(y),
                                   n.integerScalar(llvm::minIntN(width), type));
  next = n.select(n.compare(P::eq, x, zero),
                  n.binary<ts::OrOp>(sign, n.integerScalar(1, type)), next);
  Value z = n.select(n.compare(P::eq, x, y), y,
                     n.makeAs<ts::BitcastOp>(x.getType(), next));
  Value nan =
      n.binary<ts::OrOp>(n.make<ts::IsNanOp>(x), n.make<ts::IsNanOp>(y));
  return n.out(n.select(nan, n.add(x, y), z));
}

LogicalResult importConstantLike(HloNode &n) {
  auto value = n.op->getAttrOfType<TypedAttr>("value");
  auto type = dyn_cast<RankedTensorType>(n.op->getOperand(0).getType());
  if (!value || !isa<FloatAttr, IntegerAttr>(value) || !type ||
      value.getType() != type.getElementType())
    return n.damaged("has no value of its operand's type");
  Value scalar = n.constant(DenseElementsAttr::get(
      RankedTensorType::get({}, value.getType()), Attribute(value)));
  if (n.onWide) // of what the operand was
    scalar = n.convert(scalar, ts::elementTypeOf(n[0]));
  return n.out(n.broadcastTo(scalar, ts::dimsOf(n[0])));
}

constexpr HloRow rows[] = {
    {"bessel_i1e", 1, importUnary},
    {"constant_like", 1, importConstantLike},
    {"digamma", 1, importUnary},
    {"erf_inv", 1, importUnary},
    {"erfc", 1, importUnary},
    {"lgamma", 1, importUnary},
    {"next_after", 2, importNextAfter},
    {"polygamma", 2, importPolygamma},
    {"zeta", 2, importZeta},
};

} // namespace

llvm::ArrayRef<HloRow> hloSpecialRows() { return rows; }

} // namespace knapper
