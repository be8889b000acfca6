// Comparators of sorts that compare keys: the first decides, then the next.
#include "frontends/stablehlo/HloSortKeys.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

constexpr unsigned kMostKeys = 16, kMostOps = 64;

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
BlockArgument comparedArgument(Value value, bool &isCanonical) {
  bool zeros = false, nans = false;
  BlockArgument tested;
  for (unsigned i = 0; i < 3; ++i) {
    isCanonical = zeros && nans;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return !tested || tested == argument ? argument : BlockArgument();
    Operation *select = hloMade(value, "select", 3);
    Operation *test =
        select ? hloMade(select->getOperand(0), "compare", 2) : nullptr;
    auto argument =
        test ? dyn_cast<BlockArgument>(test->getOperand(0)) : BlockArgument();
    if (!argument || (tested && tested != argument))
      return {};
    tested = argument;
    // select(x == 0, 0, x) or select(x != x, NaN, x)
    // Text has the zero twice.
    std::optional<APFloat> number = floatConstant(select->getOperand(1)),
                           against = floatConstant(test->getOperand(1));
    bool zero =
        number && number->isZero() && against && against->isZero() &&
        hloIsCompare(test->getResult(0), "EQ", argument, test->getOperand(1));
    bool nan = number && number->isNaN() && !number->isNegative() &&
               hloIsCompare(test->getResult(0), "NE", argument, argument);
    if (!zero && !nan)
      return {};
    zeros |= zero;
    nans |= nan;
    value = select->getOperand(2);
  }
  return {};
}

/// Whether `y` is computed as `x` is, from the arguments' partners (`swapped`)
/// or the same. What stands before the comparator (constants are often moved
/// there) is one value for all elements.
bool isAlike(Value x, Value y, Block *block, bool swapped, unsigned &budget) {
  if (budget == 0)
    return false;
  --budget;
  if (x == y && (!swapped || x.getParentBlock() != block))
    return true;
  auto from = dyn_cast<BlockArgument>(x), to = dyn_cast<BlockArgument>(y);
  if (from || to)
    return from && to && from.getOwner() == block && to.getOwner() == block &&
           to.getArgNumber() == (from.getArgNumber() ^ unsigned(swapped));
  Operation *a = x.getDefiningOp(), *b = y.getDefiningOp();
  if (a == b) // swapped, it would be of other arguments
    return x == y && a->getNumOperands() == 0 && a->getNumRegions() == 0;
  if (a->getName() != b->getName() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      a->getPropertiesAsAttribute() != b->getPropertiesAsAttribute() ||
      a->getNumOperands() != b->getNumOperands() || a->getNumRegions() ||
      b->getNumRegions() || x.getType() != y.getType() ||
      a->getNumResults() != 1)
    return false;
  for (auto [p, q] : llvm::zip(a->getOperands(), b->getOperands()))
    if (!isAlike(p, q, block, swapped, budget))
      return false;
  return true;
}

bool isAlike(Value x, Value y, Block *block, bool swapped) {
  unsigned budget = kMostOps;
  return isAlike(x, y, block, swapped, budget);
}

/// An argument of `block` that the value is computed from, from first elements
/// alone or from second ones; null for what stands before the block.
BlockArgument sourceOf(Value value, Block *block, unsigned &budget,
                       bool &isOneSide) {
  if (value.getParentBlock() != block)
    return {};
  if (budget == 0) {
    isOneSide = false;
    return {};
  }
  --budget;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument;
  BlockArgument found;
  for (Value operand : value.getDefiningOp()->getOperands()) {
    BlockArgument source = sourceOf(operand, block, budget, isOneSide);
    isOneSide &= !found || !source ||
                 found.getArgNumber() % 2 == source.getArgNumber() % 2;
    found = found ? found : source;
  }
  return found;
}

StringRef textOf(Operation *op, StringRef name) {
  auto text = op->getAttrOfType<StringAttr>(name);
  return text ? text.getValue() : StringRef();
}

bool isOfFloats(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return !type || isa<FloatType>(type.getElementType());
}

/// A comparison of what two elements give; nothing for anything else.
std::optional<HloSortKey> keyOf(Value value, Block *block, StringRef lower,
                                StringRef upper) {
  Operation *op = hloMade(value, "compare", 2);
  if (!op)
    return std::nullopt;
  StringRef direction = textOf(op, "comparison_direction");
  if (direction != lower && direction != upper)
    return std::nullopt;
  Value x = op->getOperand(0), y = op->getOperand(1);
  unsigned budget = kMostOps;
  bool oneSide = true;
  BlockArgument source = sourceOf(x, block, budget, oneSide);
  if (!source || !oneSide || !isAlike(x, y, block, /*swapped=*/true))
    return std::nullopt;
  bool swapped = source.getArgNumber() % 2 == 1, canonical = false;
  BlockArgument argument = comparedArgument(x, canonical);
  bool total = textOf(op, "compare_type") == "TOTALORDER";
  canonical = (argument && canonical) || !isOfFloats(x);
  return HloSortKey{source.getArgNumber() / 2,
                    (direction == lower) != swapped,
                    argument && (!total || canonical),
                    total,
                    canonical,
                    /*keepsNan=*/false,
                    swapped ? y : x,
                    swapped ? x : y};
}

/// What is left to decide where one key does not.
struct DecidedKey {
  HloSortKey key;
  Value rest;
};

/// Whether later keys decide where `tie` says so: it compares what `key` does.
/// Comparisons of two kinds part zeros and NaNs in two ways.
bool isTieOf(const std::optional<HloSortKey> &tie,
             std::optional<HloSortKey> &key, Block *block) {
  if (!tie || !key || !isAlike(tie->first, key->first, block, false) ||
      (tie->isTotal != key->isTotal && !key->isCanonical))
    return false;
  key->keepsNan = !tie->isTotal && isOfFloats(key->first);
  return true;
}

/// key < or (key == and rest), in any order of operands.
std::optional<DecidedKey> byLogic(Value value, Block *block) {
  Operation *either = hloMade(value, "or", 2);
  for (unsigned i : {0, 1}) {
    Operation *both =
        either ? hloMade(either->getOperand(1 - i), "and", 2) : nullptr;
    for (unsigned k : {0, 1}) {
      std::optional<HloSortKey> key =
          both ? keyOf(either->getOperand(i), block, "LT", "GT") : std::nullopt;
      std::optional<HloSortKey> tie =
          key ? keyOf(both->getOperand(k), block, "EQ", "EQ") : std::nullopt;
      if (isTieOf(tie, key, block))
        return DecidedKey{*key, both->getOperand(1 - k)};
    }
  }
  return std::nullopt;
}

/// key == ? rest : key <, or key != ? key < : rest.
std::optional<DecidedKey> bySelect(Value value, Block *block) {
  Operation *select = hloMade(value, "select", 3);
  for (auto [direction, less, rest] :
       {std::tuple("EQ", 2, 1), std::tuple("NE", 1, 2)}) {
    std::optional<HloSortKey> tie =
        select ? keyOf(select->getOperand(0), block, direction, direction)
               : std::nullopt;
    std::optional<HloSortKey> key =
        tie ? keyOf(select->getOperand(less), block, "LT", "GT") : std::nullopt;
    if (isTieOf(tie, key, block))
      return DecidedKey{*key, select->getOperand(rest)};
  }
  return std::nullopt;
}

} // namespace

SmallVector<HloSortKey> hloSortKeys(Operation *op, unsigned arguments) {
  Block *block = hloBlock(op, 0, arguments);
  if (!block || block->back().getNumOperands() != 1)
    return {};
  SmallVector<HloSortKey> keys;
  Value value = block->back().getOperand(0);
  while (keys.size() < kMostKeys) {
    if (std::optional<HloSortKey> key = keyOf(value, block, "LT", "GT")) {
      keys.push_back(*key);
      return keys;
    }
    std::optional<DecidedKey> step = byLogic(value, block);
    if (!step)
      step = bySelect(value, block);
    if (!step)
      return {};
    keys.push_back(step->key);
    value = step->rest;
  }
  return {};
}

} // namespace knapper
