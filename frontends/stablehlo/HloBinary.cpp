// Ops of two and three operands, elementwise. Where the dialect's rule at an
// edge is another than StableHLO's (as XLA computes it), a select says so.
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {

/// The bits of a float as an integer of the same order: negative ones have
/// their magnitude inverted. It is its own inverse.
static Value invertNegatives(HloNode &n, Value bits) {
  if (!bits)
    return {};
  Type type = ts::elementTypeOf(bits);
  Value magnitude = n.integerScalar(
      static_cast<int64_t>(llvm::maxIntN(type.getIntOrFloatBitWidth())), type);
  return n.select(
      n.compare(ts::ComparePredicate::lt, bits, n.integerScalar(0, type)),
      n.binary<ts::XorOp>(bits, magnitude), bits);
}

Value hloTotallyOrdered(HloNode &n, Value x) {
  Type bits = n.b.getIntegerType(ts::elementTypeOf(x).getIntOrFloatBitWidth());
  return invertNegatives(
      n, n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), bits), x));
}

Value hloFromTotalOrder(HloNode &n, Value ordered, Type type) {
  return type ? n.makeAs<ts::BitcastOp>(type, invertNegatives(n, ordered))
              : Value();
}

namespace {

using P = ts::ComparePredicate;

bool isInteger(Value value) {
  return isa<IntegerType>(ts::elementTypeOf(value));
}
bool isBoolean(Value value) { return ts::elementTypeOf(value).isInteger(1); }

/// `OnBooleans`: what it is of i1.
template <typename Op, typename OnBooleans = Op>
LogicalResult importBinary(HloNode &n) {
  return n.out(isBoolean(n[0]) ? n.make<OnBooleans>(n[0], n[1])
                               : n.make<Op>(n[0], n[1]));
}

/// Whether it is 0 or 1: booleans converted, whose dims may be others since.
bool isTruth(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && op->getNumOperands() == 1 &&
         (hloName(op) == "broadcast_in_dim" || hloName(op) == "reshape"))
    op = op->getOperand(0).getDefiningOp();
  if (!op || op->getNumOperands() != 1 || hloName(op) != "convert")
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  return type && type.getElementType().isInteger(1);
}

/// A number times a truth is the number or 0: XLA makes a select of it, and
/// what masks infinities relies on that. Not of bf16, which it widens first.
LogicalResult importMultiply(HloNode &n) {
  Type element = n.element();
  bool isFloat = element.isF16() || element.isF32() || element.isF64();
  if (n.op->getNumOperands() == 2 && isFloat)
    for (unsigned i : {0u, 1u})
      if (isTruth(n.op->getOperand(i))) {
        Value none = n.scalar(0, n.element());
        return n.out(n.select(n.compare(P::ne, n[i], none), n[1 - i], none));
      }
  return importBinary<ts::MulOp, ts::AndOp>(n);
}

/// The elements of a constant, none of which is zero.
bool isNeverZero(Value value) {
  while (auto broadcast = value.getDefiningOp<ts::BroadcastOp>())
    value = broadcast.getInput();
  auto op = value.getDefiningOp<ts::ConstantOp>();
  auto data =
      op ? dyn_cast<DenseElementsAttr>(op.getValue()) : DenseElementsAttr();
  return data && isa<IntegerType>(data.getElementType()) &&
         llvm::all_of(data.getValues<APInt>(),
                      [](const APInt &each) { return !each.isZero(); });
}

/// x / 0 is -1, or all ones without a sign.
LogicalResult importDivide(HloNode &n) {
  Value x = n[0], y = n[1], quotient = n.make<ts::DivOp>(x, y);
  if (!quotient || !isInteger(x) || isNeverZero(y))
    return n.out(quotient);
  Type element = ts::elementTypeOf(x);
  return n.out(n.select(n.compare(P::eq, y, n.integerScalar(0, element)),
                        n.integerScalar(-1, element), quotient));
}

/// x rem 0 is x.
LogicalResult importRemainder(HloNode &n) {
  Value x = n[0], y = n[1], rest = n.make<ts::RemOp>(x, y);
  if (!rest || !isInteger(x) || isNeverZero(y))
    return n.out(rest);
  return n.out(n.select(
      n.compare(P::eq, y, n.integerScalar(0, ts::elementTypeOf(x))), x, rest));
}

/// The bits as an integer without a sign: then a negative shift is a large one.
Value unsignedBits(HloNode &n, Value x) {
  Type element = ts::elementTypeOf(x);
  Type bits = n.b.getIntegerType(element.getIntOrFloatBitWidth(), false);
  return element == bits
             ? x
             : n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), bits), x);
}

template <typename Op> LogicalResult importShift(HloNode &n) {
  if (!isInteger(n[0]) || !isInteger(n[1]))
    return n.damaged("is of no integers");
  Value shifted = n.make<Op>(unsignedBits(n, n[0]), unsignedBits(n, n[1]));
  if (!shifted || shifted.getType() == n[0].getType())
    return n.out(shifted);
  return n.out(n.makeAs<ts::BitcastOp>(n[0].getType(), shifted));
}

/// The complement of a negative number, shifted, is filled with zeros.
LogicalResult importShiftArithmetic(HloNode &n) {
  if (!isInteger(n[0]) || !isInteger(n[1]))
    return n.damaged("is of no integers");
  Type element = ts::elementTypeOf(n[0]);
  if (element.isInteger(1))
    return n.unsupported("of booleans");
  // The highest bit is copied, whatever it means.
  Type given = n[0].getType();
  if (element.isUnsignedInteger()) {
    element = n.b.getIntegerType(element.getIntOrFloatBitWidth());
    n.operands[0] =
        n.makeAs<ts::BitcastOp>(ts::withElement(given, element), n[0]);
  }
  Value negative = n.compare(P::lt, n[0], n.integerScalar(0, element));
  Value bits = n.select(negative, n.make<ts::NotOp>(n[0]), n[0]);
  if (!bits)
    return failure();
  Value shifted =
      n.make<ts::ShiftRightOp>(unsignedBits(n, bits), unsignedBits(n, n[1]));
  shifted =
      shifted ? n.makeAs<ts::BitcastOp>(n[0].getType(), shifted) : shifted;
  shifted = n.select(negative, n.make<ts::NotOp>(shifted), shifted);
  if (!shifted || shifted.getType() == given)
    return n.out(shifted);
  return n.out(n.makeAs<ts::BitcastOp>(given, shifted));
}

LogicalResult importCompare(HloNode &n) {
  std::optional<P> predicate =
      llvm::StringSwitch<std::optional<P>>(n.text("comparison_direction"))
          .Case("EQ", P::eq)
          .Case("NE", P::ne)
          .Case("LT", P::lt)
          .Case("LE", P::le)
          .Case("GT", P::gt)
          .Case("GE", P::ge)
          .Default(std::nullopt);
  if (!predicate)
    return n.damaged("has no direction");
  if (n[0].getType() != n[1].getType())
    return n.damaged("compares different types");
  if (n.text("compare_type") == "TOTALORDER" && !isInteger(n[0])) {
    return n.out(n.make<ts::CompareOp>(*predicate, hloTotallyOrdered(n, n[0]),
                                       hloTotallyOrdered(n, n[1])));
  }
  return n.out(n.make<ts::CompareOp>(*predicate, n[0], n[1]));
}

/// A scalar where the others are tensors.
Value spread(HloNode &n, Value value, Value like) {
  return ts::rankOf(value) == 0 ? n.broadcastTo(value, ts::dimsOf(like))
                                : value;
}

LogicalResult importSelect(HloNode &n) {
  if (!isBoolean(n[0]))
    return n.damaged("chooses by what is not boolean");
  return n.out(n.make<ts::SelectOp>(spread(n, n[0], n[1]), n[1], n[2]));
}

LogicalResult importClamp(HloNode &n) {
  Value low = spread(n, n[0], n[1]), high = spread(n, n[2], n[1]);
  return n.out(n.make<ts::MinOp>(n.make<ts::MaxOp>(n[1], low), high));
}

constexpr HloRow rows[] = {
    {"add", 2, importBinary<ts::AddOp, ts::OrOp>},
    {"and", 2, importBinary<ts::AndOp>},
    {"atan2", 2, importBinary<ts::Atan2Op>},
    {"clamp", 3, importClamp},
    {"compare", 2, importCompare},
    {"divide", 2, importDivide},
    {"maximum", 2, importBinary<ts::MaxOp, ts::OrOp>},
    {"minimum", 2, importBinary<ts::MinOp, ts::AndOp>},
    {"multiply", 2, importMultiply},
    {"or", 2, importBinary<ts::OrOp>},
    {"power", 2, importBinary<ts::PowOp>},
    {"remainder", 2, importRemainder},
    {"select", 3, importSelect},
    {"shift_left", 2, importShift<ts::ShiftLeftOp>},
    {"shift_right_arithmetic", 2, importShiftArithmetic},
    {"shift_right_logical", 2, importShift<ts::ShiftRightOp>},
    {"subtract", 2, importBinary<ts::SubOp>},
    {"xor", 2, importBinary<ts::XorOp>},
};

} // namespace

llvm::ArrayRef<HloRow> hloBinaryRows() { return rows; }

} // namespace knapper
