#include "frontends/stablehlo/HloRegions.h"
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloNarrow.h"

using namespace mlir;

namespace knapper {

using ts::ReduceKind;

Operation *hloMade(Value value, StringRef name, unsigned operands) {
  Operation *op = value.getDefiningOp();
  return op && hloName(op) == name && op->getNumOperands() == operands
             ? op
             : nullptr;
}

bool hloIsCompare(Value value, StringRef direction, Value x, Value y) {
  Operation *op = hloMade(value, "compare", 2);
  if (!op || !op->getAttrOfType<StringAttr>("comparison_direction"))
    return false;
  StringRef own =
      op->getAttrOfType<StringAttr>("comparison_direction").getValue();
  StringRef mirrored = direction == "GT"   ? "LT"
                       : direction == "LT" ? "GT"
                       : direction == "GE" ? "LE"
                       : direction == "LE" ? "GE"
                                           : direction;
  return (own == direction && op->getOperand(0) == x &&
          op->getOperand(1) == y) ||
         (own == mirrored && op->getOperand(0) == y && op->getOperand(1) == x);
}

namespace {

/// What a part of a region returns, and its arguments.
struct RegionPart {
  Value result, first, second;
};
std::optional<RegionPart> partOf(Operation *op, unsigned region,
                                 HloRegionPart part) {
  Block *block = hloBlock(op, region, size_t(2) * part.results);
  if (!block || block->back().getNumOperands() != part.results)
    return std::nullopt;
  return RegionPart{block->back().getOperand(part.result),
                    block->getArgument(part.result),
                    block->getArgument(part.results + part.result)};
}

bool isSelect(Value value, Value condition, Value x, Value y) {
  Operation *op = hloMade(value, "select", 3);
  return op && op->getOperand(0) == condition && op->getOperand(1) == x &&
         op->getOperand(2) == y;
}

} // namespace

std::optional<ReduceKind> hloCombiner(Operation *op, unsigned region,
                                      HloRegionPart part) {
  std::optional<RegionPart> own = partOf(op, region, part);
  Operation *body = own ? own->result.getDefiningOp() : nullptr;
  if (!body || body->getNumOperands() != 2)
    return std::nullopt;
  Value a = own->first, b = own->second;
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

bool hloReplaces(Operation *op, unsigned region, HloRegionPart part) {
  std::optional<RegionPart> own = partOf(op, region, part);
  return own && own->result == own->second;
}

bool hloSubtracts(Operation *op, unsigned region, HloRegionPart part) {
  std::optional<RegionPart> own = partOf(op, region, part);
  Operation *body = own ? hloMade(own->result, "subtract", 2) : nullptr;
  return body && body->getOperand(0) == own->first &&
         body->getOperand(1) == own->second;
}

std::optional<ReduceKind> hloArgReduction(Operation *op) {
  Block *block = hloBlock(op, 0, 4);
  if (!block || block->back().getNumOperands() != 2)
    return std::nullopt;
  Value x = block->getArgument(0), i = block->getArgument(1),
        y = block->getArgument(2), j = block->getArgument(3);
  Operation *value = hloMade(block->back().getOperand(0), "select", 3),
            *index = hloMade(block->back().getOperand(1), "select", 3);
  if (!value || !index)
    return std::nullopt;
  Value wins = value->getOperand(0), first = index->getOperand(0);
  if (!isSelect(value->getResult(0), wins, x, y) ||
      !isSelect(index->getResult(0), first, i, j))
    return std::nullopt;
  // wins = x > y or x is NaN, first = wins or (x == y and i < j)
  Operation *either = hloMade(wins, "or", 2), *tie = hloMade(first, "or", 2);
  if (!either || !tie || !hloIsCompare(either->getOperand(1), "NE", x, x) ||
      tie->getOperand(0) != wins)
    return std::nullopt;
  Operation *both = hloMade(tie->getOperand(1), "and", 2);
  if (!both || !hloIsCompare(both->getOperand(0), "EQ", x, y) ||
      !hloIsCompare(both->getOperand(1), "LT", i, j))
    return std::nullopt;
  if (hloIsCompare(either->getOperand(0), "GT", x, y))
    return ReduceKind::max;
  if (hloIsCompare(either->getOperand(0), "LT", x, y))
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
    if (hloIsCompare(result, direction, x, y))
      return predicate;
  return std::nullopt;
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

/// Lets the arguments of a region of scalars stand for tensors of one shape.
static bool bindScalars(HloNode &n, Block &block, ArrayRef<Value> arguments,
                        HloFrame &frame) {
  frame.parent = &n.frame;
  frame.body = n.frame.body;
  frame.depth = n.frame.depth + 1;
  frame.lift = ts::dimsOf(arguments[0]);
  if (isHloComplex(block.getArgument(0).getType()) && !frame.lift->empty())
    frame.lift->erase(frame.lift->begin());
  for (auto [argument, given] : llvm::zip(block.getArguments(), arguments)) {
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
      return false;
    }
    frame.values[argument] = value;
  }
  return true;
}

/// The block of a region for these arguments, or null and an error.
static Block *blockFor(HloNode &n, unsigned region, ArrayRef<Value> arguments) {
  Block *block = hloBlock(n.op, region, arguments.size());
  if (!block || arguments.empty()) {
    (void)n.damaged("a region has not " + Twine(arguments.size()) +
                    " arguments and one block");
    return nullptr;
  }
  return n.failed() || llvm::is_contained(arguments, Value()) ? nullptr : block;
}

std::optional<SmallVector<Value>> hloApply(HloNode &n, unsigned region,
                                           ArrayRef<Value> arguments) {
  Block *block = blockFor(n, region, arguments);
  if (!block)
    return std::nullopt;
  // Results stand for the first arguments: planes are put in front of both or
  // of none.
  for (auto [given, taken] :
       llvm::zip(block->back().getOperandTypes(), block->getArgumentTypes()))
    if (isHloComplex(given) != isHloComplex(taken)) {
      (void)n.damaged("a region gives another type than it takes");
      return std::nullopt;
    }
  HloFrame frame;
  if (!bindScalars(n, *block, arguments, frame))
    return std::nullopt;
  std::optional<SmallVector<Value>> values = importHloBlock(n, *block, frame);
  if (values)
    for (auto [value, given] :
         llvm::zip(*values, block->back().getOperandTypes()))
      value = hloLifted(n, n.onWide ? hloWidened(n, value) : value, given,
                        *frame.lift);
  return values;
}

std::optional<SmallVector<Value>> hloValuesIn(HloNode &n, unsigned region,
                                              ArrayRef<Value> arguments,
                                              ArrayRef<Value> wanted) {
  Block *block = blockFor(n, region, arguments);
  HloFrame frame;
  if (!block || !bindScalars(n, *block, arguments, frame) ||
      !importHloBlock(n, *block, frame))
    return std::nullopt;
  SmallVector<Value> values;
  for (Value each : wanted) {
    std::optional<Value> value = n.importer.lookup(each, frame);
    values.push_back(value && *value
                         ? hloLifted(n,
                                     n.onWide ? hloWidened(n, *value) : *value,
                                     each.getType(), *frame.lift)
                         : Value());
  }
  if (llvm::is_contained(values, Value()))
    return std::nullopt;
  return values;
}

} // namespace knapper
