// How numbers are made of bits and of factors.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;
using ts::Dim;

Value bitsOf(AtenNode &n, Value x) {
  if (!x)
    return {};
  Type type = n.b.getIntegerType(ts::elementTypeOf(x).getIntOrFloatBitWidth());
  return n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), type), x);
}
Value asFloat(AtenNode &n, Value bits, Type element) {
  return bits ? n.makeAs<ts::BitcastOp>(
                    ts::withElement(bits.getType(), element), bits)
              : Value();
}

/// The same bits as elements of this type and size.
Value bitsAs(AtenNode &n, Value x, Type element) {
  if (!x || ts::elementTypeOf(x) == element)
    return x;
  return n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), element), x);
}

/// Several elements of the last dim become one, the first of them its low bits.
Value joined(AtenNode &n, Value x, Type element, int64_t count) {
  Type whole = n.b.getIntegerType(ts::elementBytes(element) * 8, false);
  int64_t width = ts::elementBytes(ts::elementTypeOf(x)) * 8;
  Type part = n.b.getIntegerType(width, false);
  SmallVector<Dim> dims = ts::dimsOf(x);
  std::optional<Dim> size = dims.back().exactDiv(n.dim(count));
  if (!size) {
    (void)n.unsupported("a view as larger elements of a symbolic dim");
    return {};
  }
  dims.back() = *size;
  dims.push_back(n.dim(count));
  bool isBool = ts::elementTypeOf(x).isInteger(1);
  x = n.convert(n.reshape(isBool ? x : bitsAs(n, x, part), dims), whole);
  Value place = n.makeAs<ts::IotaOp>(n.type(n.dim(count), whole), uint64_t(0));
  x = n.binary<ts::ShiftLeftOp>(x, n.mul(place, n.integerScalar(width, whole)));
  int64_t last = static_cast<int64_t>(dims.size()) - 1;
  return bitsAs(n, n.reduce(ts::ReduceKind::add, x, {last}, false), element);
}

/// Each element becomes several of the last dim, its low bits the first.
Value split(AtenNode &n, Value x, Type element, int64_t count) {
  Type whole =
      n.b.getIntegerType(ts::elementBytes(ts::elementTypeOf(x)) * 8, false);
  int64_t width = ts::elementBytes(element) * 8;
  SmallVector<Dim> dims = ts::dimsOf(x), each = dims;
  dims.back() = dims.back() * count;
  each.push_back(n.dim(1));
  x = n.reshape(bitsAs(n, x, whole), each);
  Value place = n.makeAs<ts::IotaOp>(n.type(n.dim(count), whole), uint64_t(0));
  x = n.binary<ts::ShiftRightOp>(x,
                                 n.mul(place, n.integerScalar(width, whole)));
  x = n.binary<ts::AndOp>(x, n.integerScalar((int64_t(1) << width) - 1, whole));
  if (element.isInteger(1))
    return n.reshape(n.compare(ts::ComparePredicate::ne, x, n.scalarFor(x, 0)),
                     dims);
  x = n.convert(x, n.b.getIntegerType(width, false));
  return bitsAs(n, n.reshape(x, dims), element);
}

LogicalResult importViewDtype(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x || !n.element())
    return failure();
  int64_t from = ts::elementBytes(ts::elementTypeOf(x)),
          to = ts::elementBytes(n.element());
  if (from < to)
    return n.out(joined(n, x, n.element(), to / from));
  if (from > to)
    return n.out(split(n, x, n.element(), from / to));
  return n.out(bitsAs(n, x, n.element()));
}

/// The number beside self in the direction of other: one more or less as bits.
LogicalResult importNextAfter(AtenNode &n) {
  Type element = n.element();
  SmallVector<Value> v =
      n.broadcastAll({n.operand("self"), n.operand("other")});
  Value x = v[0], y = v[1];
  if (!x || !y || !isa<FloatType>(element))
    return failure();
  Value bits = bitsOf(n, x), zero = n.scalarFor(x, 0);
  Type type = ts::elementTypeOf(bits);
  unsigned width = type.getIntOrFloatBitWidth();
  Value away =
      n.binary<ts::XorOp>(n.compare(P::lt, x, y), n.compare(P::lt, x, zero));
  Value next = n.add(bits, n.select(away, n.integerScalar(1, type),
                                    n.integerScalar(-1, type)));
  // Beside 0 is the smallest number with the sign of other.
  Value sign = n.binary<ts::AndOp>(bitsOf(n, y),
                                   n.integerScalar(llvm::minIntN(width), type));
  next = n.select(n.compare(P::eq, x, zero),
                  n.binary<ts::OrOp>(sign, n.integerScalar(1, type)), next);
  Value z = n.select(n.compare(P::eq, x, y), y, asFloat(n, next, element));
  Value nan =
      n.binary<ts::OrOp>(n.make<ts::IsNanOp>(x), n.make<ts::IsNanOp>(y));
  return n.out(n.select(nan, n.add(x, y), z));
}

/// self = mantissa * 2^exponent with 1/2 <= |mantissa| < 1, read from the bits
/// of the f64. 0, infinities and NaN have the exponent 0.
LogicalResult importFrexp(AtenNode &n) {
  Type f64 = n.b.getF64Type(), i64 = n.b.getI64Type();
  Value x = n.operand("self", f64);
  if (!x)
    return failure();
  auto number = [&](int64_t value) { return n.integerScalar(value, i64); };
  // Of a denormal number the bits of 2^54 times it.
  Value tiny = n.compare(P::lt, n.make<ts::AbsOp>(x),
                         n.scalarFor(x, std::ldexp(1.0, -1022)));
  Value bits = bitsOf(n, n.select(tiny, n.mul(x, std::ldexp(1.0, 54)), x));
  int64_t mask = int64_t(0x7ff) << 52;
  Value exponent = n.binary<ts::ShiftRightOp>(
      n.binary<ts::AndOp>(bits, number(mask)), number(52));
  exponent = n.sub(exponent, n.select(tiny, number(1022 + 54), number(1022)));
  Value mantissa =
      asFloat(n,
              n.binary<ts::OrOp>(n.binary<ts::AndOp>(bits, number(~mask)),
                                 number(int64_t(1022) << 52)),
              f64);
  Value plain = n.binary<ts::OrOp>(
      n.compare(P::eq, x, n.scalarFor(x, 0)),
      n.binary<ts::OrOp>(n.make<ts::IsNanOp>(x),
                         n.make<ts::IsInfOp>(x, true, true)));
  Value y = n.select(plain, x, mantissa);
  if (!y || failed(n.out(n.convert(y, n.element()))))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  return n.out(n.convert(n.select(plain, number(0), exponent), n.element(1)),
               1);
}

Value greatestDivisor(AtenNode &n, Value x, Value y) {
  SmallVector<Value> v = n.broadcastAll({x, y});
  if (!v[0] || !v[1])
    return {};
  Operation *op = n.host("IntegerGcd", v, {v[0].getType()});
  return op ? op->getResult(0) : Value();
}

LogicalResult importGcd(AtenNode &n) {
  Type i64 = n.b.getI64Type();
  Value y = greatestDivisor(n, n.operand("self", i64), n.operand("other", i64));
  return n.out(y ? n.convert(y, n.element()) : y);
}

/// |self / gcd * other|; 0 where both are.
LogicalResult importLcm(AtenNode &n) {
  Type i64 = n.b.getI64Type();
  Value x = n.operand("self", i64), y = n.operand("other", i64);
  Value divisor = greatestDivisor(n, x, y);
  if (!divisor || !n.element())
    return failure();
  // In the result's type, in which the product wraps. Division by 0 gives 0.
  Value part = n.convert(n.div(x, divisor), n.element());
  Value product = n.mul(part, n.convert(y, n.element()));
  if (!product || n.element().isUnsignedInteger())
    return n.out(product);
  return n.out(n.make<ts::AbsOp>(product));
}

constexpr AtenRow rows[] = {
    {"aten.frexp.Tensor", importFrexp},
    {"aten.gcd.default", importGcd},
    {"aten.lcm.default", importLcm},
    {"aten.nextafter.default", importNextAfter},
    {"aten.view.dtype", importViewDtype},
};

} // namespace

ArrayRef<AtenRow> atenBitsRows() { return rows; }

} // namespace knapper
