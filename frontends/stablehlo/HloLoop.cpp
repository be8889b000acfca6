// Loops: while what data decides holds, or as often as is known now.
#include "frontends/stablehlo/HloBodies.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// The condition of a while on these values, built here.
Value condition(HloNode &n, HloFrame &around, ArrayRef<Value> carried) {
  Block *block = hloBlock(n.op, 0, carried.size());
  if (!block) {
    (void)n.damaged("its condition takes other values");
    return {};
  }
  HloFrame frame;
  frame.parent = &around;
  frame.body = around.body;
  frame.depth = around.depth + 1;
  for (auto [argument, value] : llvm::zip(block->getArguments(), carried))
    frame.values[argument] = value;
  std::optional<SmallVector<Value>> values = importHloBlock(n, *block, frame);
  if (!values)
    return {};
  if (values->size() != 1 || ts::rankOf((*values)[0]) != 0 ||
      !ts::elementTypeOf((*values)[0]).isInteger(1)) {
    (void)n.damaged("its condition is no boolean");
    return {};
  }
  return (*values)[0];
}

/// A carried integer that counts up to a number.
struct Counter {
  size_t index;
  int64_t first, trips;
};

/// The number that a scalar of the program is; nothing where data says it.
std::optional<int64_t> numberOf(HloNode &n, Value value) {
  if (Operation *op = value.getDefiningOp(); op && hloName(op) == "constant") {
    auto data = op->getAttrOfType<DenseElementsAttr>("value");
    if (data && data.getNumElements() == 1 &&
        data.getElementType().isSignlessInteger())
      return data.getSplatValue<APInt>().getSExtValue();
    return std::nullopt;
  }
  std::optional<Value> known = n.importer.lookup(value, n.frame);
  if (!known || !*known)
    return std::nullopt;
  std::optional<SmallVector<Dim>> sizes = n.importer.sizes(*known);
  return sizes && sizes->size() == 1 ? (*sizes)[0].asConstant() : std::nullopt;
}

/// Of `while (i < number) i = i + 1` with a number at the start, as scan and
/// fori_loop write it.
std::optional<Counter> findCounter(HloNode &n) {
  Block *test = hloBlock(n.op, 0, n.size()),
        *body = hloBlock(n.op, 1, n.size());
  if (!test || !body || test->back().getNumOperands() != 1 ||
      body->back().getNumOperands() != n.size())
    return std::nullopt;
  Operation *compare = test->back().getOperand(0).getDefiningOp();
  if (!compare || hloName(compare) != "compare" ||
      compare->getNumOperands() != 2)
    return std::nullopt;
  auto direction = compare->getAttrOfType<StringAttr>("comparison_direction");
  auto counter = dyn_cast<BlockArgument>(compare->getOperand(0));
  if (!direction || direction.getValue() != "LT" || !counter ||
      counter.getOwner() != test)
    return std::nullopt;
  size_t index = counter.getArgNumber();
  Value start = n[index];
  Type element = ts::elementTypeOf(start);
  if (ts::rankOf(start) != 0 ||
      !(element.isSignlessInteger(32) || element.isSignlessInteger(64)))
    return std::nullopt;
  Operation *step = body->back().getOperand(index).getDefiningOp();
  if (!step || hloName(step) != "add" || step->getNumOperands() != 2)
    return std::nullopt;
  Value x = step->getOperand(0), by = step->getOperand(1);
  if (x != body->getArgument(index))
    std::swap(x, by);
  if (x != body->getArgument(index) || numberOf(n, by) != 1)
    return std::nullopt;
  std::optional<SmallVector<Dim>> first = n.importer.sizes(start);
  std::optional<int64_t> begin =
      first && first->size() == 1 ? (*first)[0].asConstant() : std::nullopt;
  std::optional<int64_t> end = numberOf(n, compare->getOperand(1));
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (!begin || !end || *begin < 0 || *end > most)
    return std::nullopt;
  return Counter{index, *begin, std::max<int64_t>(*end - *begin, 0)};
}

LogicalResult importWhile(HloNode &n) {
  if (n.op->getNumRegions() != 2 || n.size() != n.results.size())
    return n.damaged("has other results than carried values");
  SmallVector<Type> types;
  for (Value operand : n.operands)
    types.push_back(operand.getType());
  std::optional<Counter> counted = findCounter(n);
  Value first = counted ? Value() : condition(n, n.frame, n.operands);
  if (!counted && !first)
    return failure();
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  Dim iteration = n.shared.freshSymbol("iteration");
  HloBody region;
  Block *block = beginHloBody(n, 1, "loop", types, region);
  if (!block)
    return failure();
  if (counted) { // made of the iteration: what it slices has a known place
    n.importer.iterations[*iteration.asSymbol()] = counted->trips;
    region.frame.values[block->getArgument(counted->index)] = n.sizeScalar(
        iteration + counted->first, ts::elementTypeOf(n[counted->index]));
  }
  std::optional<SmallVector<Value>> carried =
      importHloBlock(n, *block, region.frame);
  SmallVector<Value> returned;
  if (carried) {
    if (carried->size() != types.size())
      (void)n.damaged("its body gives another number of values");
    for (auto [value, type] : llvm::zip(*carried, types))
      if (value.getType() != type)
        (void)n.damaged("a carried value changes its type");
    if (!counted && !n.failed())
      if (Value next = condition(n, region.frame, *carried))
        returned.push_back(next);
    llvm::append_range(returned, *carried);
  }
  bool whole = carried && !n.failed() &&
               returned.size() == types.size() + (counted ? 0 : 1);
  if (!whole)
    returned.clear();
  n.importer.endBody(region.body, returned, at);
  if (!whole)
    return failure();
  auto op = ts::LoopOp::create(
      n.b, n.loc, types, SymbolRefAttr::get(region.body.function),
      n.b.getStringAttr(*iteration.asSymbol()),
      counted ? n.dim(counted->trips).attr() : ts::DimAttr(), first, n.operands,
      region.body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr({}));
  return giveHloResults(n, SmallVector<Value>(op.getResults()));
}

constexpr HloRow rows[] = {
    {"while", 0, importWhile},
};

} // namespace

llvm::ArrayRef<HloRow> hloLoopRows() { return rows; }

} // namespace knapper
