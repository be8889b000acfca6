#include "frontends/stablehlo/HloRegions.h"
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloNarrow.h"

using namespace mlir;

namespace knapper {

using ts::ReduceKind;

namespace {

/// The op of that name that makes the value; null otherwise.
Operation *made(Value value, StringRef name, unsigned operands) {
  Operation *op = value.getDefiningOp();
  return op && hloName(op) == name && op->getNumOperands() == operands
             ? op
             : nullptr;
}

/// Whether the value is the comparison of the two in that direction.
bool isCompare(Value value, StringRef direction, Value x, Value y) {
  Operation *op = made(value, "compare", 2);
  if (!op || !op->getAttrOfType<StringAttr>("comparison_direction"))
    return false;
  StringRef own =
      op->getAttrOfType<StringAttr>("comparison_direction").getValue();
  StringRef turned = direction == "GT"   ? "LT"
                     : direction == "LT" ? "GT"
                     : direction == "GE" ? "LE"
                     : direction == "LE" ? "GE"
                                         : direction;
  return (own == direction && op->getOperand(0) == x &&
          op->getOperand(1) == y) ||
         (own == turned && op->getOperand(0) == y && op->getOperand(1) == x);
}

bool isSelect(Value value, Value condition, Value x, Value y) {
  Operation *op = made(value, "select", 3);
  return op && op->getOperand(0) == condition && op->getOperand(1) == x &&
         op->getOperand(2) == y;
}

} // namespace

std::optional<ReduceKind> hloCombiner(Operation *op, unsigned region) {
  Block *block = hloBlock(op, region, 2);
  if (!block || block->back().getNumOperands() != 1)
    return std::nullopt;
  Operation *body = block->back().getOperand(0).getDefiningOp();
  if (!body || body->getNumOperands() != 2)
    return std::nullopt;
  Value a = block->getArgument(0), b = block->getArgument(1);
  Value x = body->getOperand(0), y = body->getOperand(1);
  if (!((x == a && y == b) || (x == b && y == a)))
    return std::nullopt;
  auto tensor = dyn_cast<RankedTensorType>(a.getType());
  if (!tensor)
    return std::nullopt;
  bool boolean = tensor.getElementType().isInteger(1);
  using Kind = std::optional<ReduceKind>;
  StringRef name = hloName(body);
  if (boolean)
    return llvm::StringSwitch<Kind>(name)
        .Cases({"or", "add", "maximum"}, ReduceKind::logical_or)
        .Cases({"and", "multiply", "minimum"}, ReduceKind::logical_and)
        .Default(std::nullopt);
  return llvm::StringSwitch<Kind>(name)
      .Case("add", ReduceKind::add)
      .Case("multiply", ReduceKind::mul)
      .Case("maximum", ReduceKind::max)
      .Case("minimum", ReduceKind::min)
      .Default(std::nullopt);
}

bool hloReplaces(Operation *op, unsigned region) {
  Block *block = hloBlock(op, region, 2);
  return block && block->back().getNumOperands() == 1 &&
         block->back().getOperand(0) == block->getArgument(1);
}

bool hloSubtracts(Operation *op, unsigned region) {
  Block *block = hloBlock(op, region, 2);
  if (!block || block->back().getNumOperands() != 1)
    return false;
  Operation *body = made(block->back().getOperand(0), "subtract", 2);
  return body && body->getOperand(0) == block->getArgument(0) &&
         body->getOperand(1) == block->getArgument(1);
}

std::optional<ReduceKind> hloArgReduction(Operation *op) {
  Block *block = hloBlock(op, 0, 4);
  if (!block || block->back().getNumOperands() != 2)
    return std::nullopt;
  Value x = block->getArgument(0), i = block->getArgument(1),
        y = block->getArgument(2), j = block->getArgument(3);
  Operation *value = made(block->back().getOperand(0), "select", 3),
            *index = made(block->back().getOperand(1), "select", 3);
  if (!value || !index)
    return std::nullopt;
  Value wins = value->getOperand(0), first = index->getOperand(0);
  if (!isSelect(value->getResult(0), wins, x, y) ||
      !isSelect(index->getResult(0), first, i, j))
    return std::nullopt;
  // wins = x > y or x is NaN, first = wins or (x == y and i < j)
  Operation *either = made(wins, "or", 2), *tie = made(first, "or", 2);
  if (!either || !tie || !isCompare(either->getOperand(1), "NE", x, x) ||
      tie->getOperand(0) != wins)
    return std::nullopt;
  Operation *both = made(tie->getOperand(1), "and", 2);
  if (!both || !isCompare(both->getOperand(0), "EQ", x, y) ||
      !isCompare(both->getOperand(1), "LT", i, j))
    return std::nullopt;
  if (isCompare(either->getOperand(0), "GT", x, y))
    return ReduceKind::max;
  if (isCompare(either->getOperand(0), "LT", x, y))
    return ReduceKind::min;
  return std::nullopt;
}

std::optional<ts::ComparePredicate> hloSelector(Operation *op,
                                                unsigned region) {
  using P = ts::ComparePredicate;
  Block *block = hloBlock(op, region, 2);
  if (!block || block->back().getNumOperands() != 1)
    return std::nullopt;
  Value result = block->back().getOperand(0), x = block->getArgument(0),
        y = block->getArgument(1);
  for (auto [direction, predicate] :
       {std::pair("GE", P::ge), std::pair("GT", P::gt), std::pair("LE", P::le),
        std::pair("LT", P::lt)})
    if (isCompare(result, direction, x, y))
      return predicate;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Comparators of sorts
//===----------------------------------------------------------------------===//

/// A constant of one float.
std::optional<APFloat> floatConstant(Value value) {
  Operation *op = value.getDefiningOp();
  auto data = op && hloName(op) == "constant"
                  ? op->getAttrOfType<DenseElementsAttr>("value")
                  : DenseElementsAttr();
  if (!data || !data.isSplat() || !isa<FloatType>(data.getElementType()))
    return std::nullopt;
  return data.getSplatValue<APFloat>();
}

/// The argument that a comparator compares, through selects that make zeros
/// alike and NaNs alike; null for anything else.
static BlockArgument comparedArgument(Value value, bool &isCanonical) {
  for (unsigned i = 0; i < 3; ++i) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument;
    Operation *select = made(value, "select", 3);
    Operation *test =
        select ? made(select->getOperand(0), "compare", 2) : nullptr;
    auto argument =
        test ? dyn_cast<BlockArgument>(test->getOperand(0)) : BlockArgument();
    if (!argument)
      return {};
    // select(x == 0, 0, x) or select(x != x, NaN, x)
    // Text has the zero twice.
    std::optional<APFloat> number = floatConstant(select->getOperand(1)),
                           against = floatConstant(test->getOperand(1));
    bool zero =
        number && number->isZero() && against && against->isZero() &&
        isCompare(test->getResult(0), "EQ", argument, test->getOperand(1));
    bool nan = number && number->isNaN() &&
               isCompare(test->getResult(0), "NE", argument, argument);
    if (!zero && !nan)
      return {};
    isCanonical = true;
    value = select->getOperand(2);
  }
  return {};
}

/// A comparison of one operand's two elements; nothing for anything else.
static std::optional<HloSortKey> keyOf(Value value, StringRef lower,
                                       StringRef upper) {
  Operation *op = made(value, "compare", 2);
  if (!op)
    return std::nullopt;
  auto direction = op->getAttrOfType<StringAttr>("comparison_direction");
  if (!direction ||
      (direction.getValue() != lower && direction.getValue() != upper))
    return std::nullopt;
  bool canonical = false;
  BlockArgument x = comparedArgument(op->getOperand(0), canonical),
                y = comparedArgument(op->getOperand(1), canonical);
  if (!x || !y || x.getArgNumber() / 2 != y.getArgNumber() / 2 ||
      x.getArgNumber() == y.getArgNumber())
    return std::nullopt;
  bool turned = x.getArgNumber() % 2 == 1;
  return HloSortKey{x.getArgNumber() / 2,
                    (direction.getValue() == lower) != turned};
}

SmallVector<HloSortKey> hloSortKeys(Operation *op, unsigned arguments) {
  Block *block = hloBlock(op, 0, arguments);
  if (!block || block->back().getNumOperands() != 1)
    return {};
  SmallVector<HloSortKey> keys;
  Value value = block->back().getOperand(0);
  // x < y, or x0 < y0 or (x0 == y0 and the rest)
  while (keys.size() < 16) {
    if (std::optional<HloSortKey> key = keyOf(value, "LT", "GT")) {
      keys.push_back(*key);
      return keys;
    }
    Operation *either = made(value, "or", 2);
    Operation *both = either ? made(either->getOperand(1), "and", 2) : nullptr;
    if (!both)
      return {};
    std::optional<HloSortKey> key = keyOf(either->getOperand(0), "LT", "GT"),
                              tie = keyOf(both->getOperand(0), "EQ", "EQ");
    if (!key || !tie || tie->operand != key->operand)
      return {};
    keys.push_back(*key);
    value = both->getOperand(1);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Combinations
//===----------------------------------------------------------------------===//

Value hloCombine(HloNode &n, ReduceKind kind, Value x, Value y) {
  switch (kind) {
  case ReduceKind::add:
    return n.add(x, y);
  case ReduceKind::mul:
    return n.mul(x, y);
  case ReduceKind::max:
    return n.binary<ts::MaxOp>(x, y);
  case ReduceKind::min:
    return n.binary<ts::MinOp>(x, y);
  case ReduceKind::logical_and:
    return n.binary<ts::AndOp>(x, y);
  case ReduceKind::logical_or:
    return n.binary<ts::OrOp>(x, y);
  }
  return {};
}

/// The largest or smallest number of a type.
static Attribute extreme(Type element, bool largest) {
  if (auto floating = dyn_cast<FloatType>(element))
    return FloatAttr::get(
        element, APFloat::getInf(floating.getFloatSemantics(), !largest));
  unsigned width = element.getIntOrFloatBitWidth();
  bool plain = element.isUnsignedInteger() || element.isInteger(1);
  return IntegerAttr::get(element,
                          largest ? (plain ? APInt::getMaxValue(width)
                                           : APInt::getSignedMaxValue(width))
                                  : (plain ? APInt::getMinValue(width)
                                           : APInt::getSignedMinValue(width)));
}

Value hloNeutral(HloNode &n, ReduceKind kind, Type element) {
  auto constant = [&](Attribute value) {
    return n.constant(
        DenseElementsAttr::get(RankedTensorType::get({}, element), value));
  };
  switch (kind) {
  case ReduceKind::add: // -0 + 0 is 0
    return n.scalar(isa<FloatType>(element) ? -0.0 : 0, element);
  case ReduceKind::mul:
  case ReduceKind::logical_and:
    return n.scalar(1, element);
  case ReduceKind::logical_or:
    return n.scalar(0, element);
  case ReduceKind::max:
    return constant(extreme(element, false));
  case ReduceKind::min:
    return constant(extreme(element, true));
  }
  return {};
}

bool hloIsNeutral(ReduceKind kind, Value scalar) {
  while (scalar && isa_and_present<ts::BroadcastOp, ts::ReshapeOp>(
                       scalar.getDefiningOp()))
    scalar = scalar.getDefiningOp()->getOperand(0);
  auto op = scalar ? scalar.getDefiningOp<ts::ConstantOp>() : ts::ConstantOp();
  auto data =
      op ? dyn_cast<DenseElementsAttr>(op.getValue()) : DenseElementsAttr();
  if (!data || !data.isSplat())
    return false;
  Type element = data.getElementType();
  if (kind == ReduceKind::max || kind == ReduceKind::min)
    return data.getSplatValue<Attribute>() ==
           extreme(element, kind == ReduceKind::min);
  bool one = kind == ReduceKind::mul || kind == ReduceKind::logical_and;
  if (isa<FloatType>(element)) {
    APFloat value = data.getSplatValue<APFloat>();
    return one ? value.isExactlyValue(1.0) : value.isZero();
  }
  APInt value = data.getSplatValue<APInt>();
  return one ? value.isOne() : value.isZero();
}

std::optional<SmallVector<Value>> hloApply(HloNode &n, unsigned region,
                                           ArrayRef<Value> arguments) {
  Block *block = hloBlock(n.op, region, arguments.size());
  if (!block || n.failed() || llvm::is_contained(arguments, Value())) {
    if (!block)
      (void)n.damaged("a region has not " + Twine(arguments.size()) +
                      " arguments and one block");
    return std::nullopt;
  }
  // Results stand for the first arguments: planes are put in front of both or
  // of none.
  for (auto [given, taken] :
       llvm::zip(block->back().getOperandTypes(), block->getArgumentTypes()))
    if (isHloComplex(given) != isHloComplex(taken)) {
      (void)n.damaged("a region gives another type than it takes");
      return std::nullopt;
    }
  HloFrame frame;
  frame.parent = &n.frame;
  frame.body = n.frame.body;
  frame.depth = n.frame.depth + 1;
  frame.lift = ts::dimsOf(arguments[0]);
  if (isHloComplex(block->getArgument(0).getType()) && !frame.lift->empty())
    frame.lift->erase(frame.lift->begin());
  for (auto [argument, given] : llvm::zip(block->getArguments(), arguments)) {
    Value value = given;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (type && n.onWide && ts::elementTypeOf(value) != type.getElementType())
      value = hloNarrowed(n, value, type.getElementType());
    auto complex =
        type ? dyn_cast<ComplexType>(type.getElementType()) : ComplexType();
    Type element = complex ? complex.getElementType()
                   : type  ? type.getElementType()
                           : Type();
    if (!type || type.getRank() != 0 || !value ||
        element != ts::elementTypeOf(value) ||
        static_cast<size_t>(ts::rankOf(value)) !=
            frame.lift->size() + (complex ? 1 : 0)) {
      (void)n.damaged("a region's argument is of another type");
      return std::nullopt;
    }
    frame.values[argument] = value;
  }
  std::optional<SmallVector<Value>> values = importHloBlock(n, *block, frame);
  if (values)
    for (auto [value, given] :
         llvm::zip(*values, block->back().getOperandTypes()))
      value = hloLifted(n, n.onWide ? hloWidened(n, value) : value, given,
                        *frame.lift);
  return values;
}

} // namespace knapper
