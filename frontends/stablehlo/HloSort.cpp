// Sorts by one or several keys.
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloRegions.h"
#include "frontends/stablehlo/HloSortKeys.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Of elements that a comparator is called for.
constexpr int64_t kMostPairs = 1 << 28;

/// The program's own dims of an operand: not that of the planes.
int64_t planesOf(HloNode &n, size_t i) {
  return isHloComplex(n.op->getOperand(i).getType());
}

/// Elements of an operand in an order along a dim.
Value inOrder(HloNode &n, size_t i, Value value, Value order, int64_t dim) {
  if (!planesOf(n, i))
    return n.make<ts::GatherElementsOp>(value, order, uint64_t(dim));
  HloComplex planes = hloPlanes(n, value);
  return hloJoin(
      n, {n.make<ts::GatherElementsOp>(planes.re, order, uint64_t(dim)),
          n.make<ts::GatherElementsOp>(planes.im, order, uint64_t(dim))});
}

/// From the last key to the first, each time stable.
LogicalResult sortByKeys(HloNode &n, ArrayRef<HloSortKey> keys, int64_t dim) {
  // What the comparator makes of its elements, for all of them.
  SmallVector<Value> values = n.operands, both, computed(keys.size()), wanted;
  for (Value operand : n.operands)
    both.append({operand, operand});
  for (const HloSortKey &key : keys)
    if (!isa<BlockArgument>(key.first) && !key.isOperand)
      wanted.push_back(key.first);
  if (!wanted.empty()) {
    std::optional<SmallVector<Value>> found = hloValuesIn(n, 0, both, wanted);
    if (!found)
      return failure();
    size_t next = 0;
    for (auto [key, value] : llvm::zip(keys, computed))
      if (!isa<BlockArgument>(key.first) && !key.isOperand)
        value = (*found)[next++];
  }
  for (size_t k = keys.size(); k-- > 0;) {
    const HloSortKey &key = keys[k];
    Value given = computed[k] ? computed[k] : values[key.operand], by = given;
    bool total = !key.isOperand && key.isTotal &&
                 isa<FloatType>(ts::elementTypeOf(given));
    if (total)
      by = hloTotallyOrdered(n, by);
    if (by && ts::elementTypeOf(by).isInteger(1))
      by = n.convert(by, n.b.getIntegerType(8, false));
    Value settled; // by an earlier key, whose NaNs stay in order
    for (size_t i = 0; i < k; ++i)
      if (keys[i].keepsNan) {
        Value nan = n.make<ts::IsNanOp>(computed[i] ? computed[i]
                                                    : values[keys[i].operand]);
        settled = settled ? n.binary<ts::OrOp>(settled, nan) : nan;
      }
    bool carries = !settled && (total || by == given);
    if (settled && by)
      by = n.select(settled, n.scalarFor(by, 0), by);
    if (!by)
      return failure();
    Operation *sorted = n.makeOp<ts::TopKOp>(2, by, ts::dimOf(by, dim).attr(),
                                             uint64_t(dim), !key.ascending);
    if (!sorted)
      return failure();
    Value order = sorted->getResult(1), first = sorted->getResult(0);
    for (auto [i, value] : llvm::enumerate(values))
      if (computed[k] || i != key.operand || !carries)
        value = inOrder(n, i, value, order, dim);
      else
        value = total ? hloFromTotalOrder(n, first, given.getType()) : first;
    for (Value &value : llvm::MutableArrayRef(computed).take_front(k))
      if (value)
        value = n.make<ts::GatherElementsOp>(value, order, uint64_t(dim));
  }
  return giveHloResults(n, values);
}

/// By any comparator: an element's place is the number of those that come
/// before it, each compared with each.
LogicalResult sortByRank(HloNode &n, int64_t dim) {
  Block *block = hloBlock(n.op, 0, 2 * n.size());
  if (!block || block->back().getNumOperands() != 1)
    return n.damaged("its comparator has not two arguments an operand");
  SmallVector<int64_t> shape = n.shape(n[0]);
  shape.erase(shape.begin(), shape.begin() + planesOf(n, 0));
  if (n.failed())
    return failure();
  int64_t length = shape[dim], pairs = length;
  bool many = false;
  for (int64_t size : shape)
    many |= llvm::MulOverflow(pairs, size, pairs);
  if ((many || pairs > kMostPairs) && !llvm::is_contained(shape, 0))
    return n.unsupported("of lines of " + Twine(length) +
                         " elements with a comparator that is not one of "
                         "keys: more than " +
                         Twine(kMostPairs) + " pairs to compare");
  SmallVector<int64_t> grid(shape); // [..., the one, the other]
  grid.insert(grid.begin() + dim, length);
  auto spread = [&](size_t i, int64_t at) {
    SmallVector<int64_t> from(shape), to(grid);
    from.insert(from.begin() + at, 1);
    if (planesOf(n, i)) {
      from.insert(from.begin(), 2);
      to.insert(to.begin(), 2);
    }
    SmallVector<Dim> dims;
    for (int64_t size : to)
      dims.push_back(n.dim(size));
    return n.broadcastTo(n.reshapeTo(n[i], from), dims);
  };
  SmallVector<Value> forward, backward;
  for (size_t i = 0; i < n.size(); ++i) {
    Value one = spread(i, dim), other = spread(i, dim + 1);
    // The other stands along `dim`, the one along `dim + 1`.
    forward.append({other, one});
    backward.append({one, other});
  }
  Value decision = block->back().getOperand(0);
  std::optional<SmallVector<Value>> before =
                                        hloValuesIn(n, 0, forward, decision),
                                    after =
                                        hloValuesIn(n, 0, backward, decision);
  if (!before || !after)
    return failure();
  Type i32 = n.b.getI32Type();
  // Those that are alike stay in order.
  Value earlier = n.compare(ts::ComparePredicate::lt, n.iota(grid, dim, i32),
                            n.iota(grid, dim + 1, i32));
  Value alike = n.binary<ts::AndOp>(n.make<ts::NotOp>((*after)[0]), earlier);
  Value precedes = n.binary<ts::OrOp>((*before)[0], alike);
  Value places = n.reduce(ts::ReduceKind::add, n.convert(precedes, i32), dim,
                          /*keepDims=*/false);
  Operation *sorted =
      places ? n.makeOp<ts::TopKOp>(2, places, ts::dimOf(places, dim).attr(),
                                    uint64_t(dim), /*largest=*/false)
             : nullptr;
  if (!sorted)
    return failure();
  SmallVector<Value> values;
  for (size_t i = 0; i < n.size(); ++i)
    values.push_back(inOrder(n, i, n[i], sorted->getResult(1), dim));
  return giveHloResults(n, values);
}

LogicalResult importSort(HloNode &n) {
  if (n.size() != n.results.size() || n.size() == 0)
    return n.damaged("has other results than operands");
  auto dimsOf = [&](size_t i) {
    return llvm::to_vector(llvm::drop_begin(ts::dimsOf(n[i]), planesOf(n, i)));
  };
  // Negative ones count from the end.
  auto rank = static_cast<int64_t>(dimsOf(0).size());
  int64_t dim = n.integer("dimension");
  dim += dim < 0 ? rank : 0;
  if (n.failed())
    return failure();
  if (dim < 0 || dim >= rank)
    return n.damaged("attribute 'dimension' names no dim of rank " +
                     Twine(rank));
  for (size_t i = 0; i < n.size(); ++i)
    if (dimsOf(i) != dimsOf(0))
      return n.damaged("its operands differ in shape");
  SmallVector<HloSortKey> keys = hloSortKeys(n.op, 2 * n.op->getNumOperands());
  return keys.empty() ? sortByRank(n, dim) : sortByKeys(n, keys, dim);
}

/// Of chlo.
LogicalResult importTopK(HloNode &n) {
  int64_t last = ts::rankOf(n[0]) - 1, k = n.integer("k");
  if (n.failed() || last < 0 || k < 0 || k > n.shape(n[0])[last] ||
      n.results.size() != 2)
    return n.damaged("takes no such number of elements");
  // In the total order, as its decomposition has it: 0 is before -0.
  bool total = isa<FloatType>(ts::elementTypeOf(n[0]));
  Value by = total ? hloTotallyOrdered(n, n[0]) : n[0];
  Operation *top =
      by ? n.makeOp<ts::TopKOp>(2, by, n.dim(k).attr(), uint64_t(last), true)
         : nullptr;
  if (!top)
    return failure();
  Value first = top->getResult(0);
  if (total)
    first = hloFromTotalOrder(
        n, first, ts::withElement(first.getType(), ts::elementTypeOf(n[0])));
  if (mlir::failed(n.out(first)))
    return failure();
  return n.out(n.convert(top->getResult(1), n.element(1)), 1);
}

/// Of a function that XLA's partial reductions call: the largest or smallest
/// along a dim, with what a second operand has there. Found exactly, which
/// meets every `recall_target`.
LogicalResult importApproxTopK(HloNode &n) {
  auto settings = n.op->getAttrOfType<DictionaryAttr>("mhlo.backend_config");
  auto called = n.op->getAttrOfType<ArrayAttr>("called_computations");
  auto integer = [&](StringRef name) -> std::optional<int64_t> {
    auto value = settings ? settings.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? std::optional(value.getInt()) : std::nullopt;
  };
  std::optional<int64_t> dim = integer("reduction_dim");
  // Text has a symbol, bytecode its name.
  StringRef comparator;
  if (called && called.size() == 1) {
    if (auto symbol = dyn_cast<FlatSymbolRefAttr>(called[0]))
      comparator = symbol.getValue();
    else if (auto name = dyn_cast<StringAttr>(called[0]))
      comparator = name.getValue();
  }
  if (!dim || comparator.empty() || *dim < 0 || *dim >= ts::rankOf(n[0]) ||
      !n[1] || ts::dimsOf(n[0]) != ts::dimsOf(n[1]))
    return n.damaged("has no reduction_dim, comparator or operands of a shape");
  Operation *function = n.importer.function(comparator);
  SmallVector<HloSortKey> keys =
      function ? hloSortKeys(function, 4) : SmallVector<HloSortKey>();
  if (keys.size() != 1 || keys[0].operand != 0 ||
      !(keys[0].isOperand || isa<BlockArgument>(keys[0].first)))
    return n.unsupported("with a comparator that is not one of values");
  SmallVector<Dim> dims = n.resultDims();
  if (n.failed() || size_t(*dim) >= dims.size())
    return n.damaged("has a result of another rank");
  std::optional<int64_t> kept = dims[*dim].asConstant();
  std::optional<int64_t> given = ts::dimOf(n[0], *dim).asConstant();
  if (kept && given && *kept > *given)
    return n.damaged("takes no such number of elements");
  Operation *top =
      n.makeOp<ts::TopKOp>(2, n[0], dims[*dim].attr(), uint64_t(*dim),
                           /*largest=*/!keys[0].ascending);
  if (!top || mlir::failed(n.out(top->getResult(0))))
    return failure();
  return n.out(
      n.make<ts::GatherElementsOp>(n[1], top->getResult(1), uint64_t(*dim)), 1);
}

constexpr HloTarget targets[] = {{"ApproxTopK", 4, 2, importApproxTopK}};

constexpr HloRow rows[] = {
    {"sort", 1, importSort},
    {"top_k", 1, importTopK},
};

} // namespace

llvm::ArrayRef<HloRow> hloSortRows() { return rows; }
llvm::ArrayRef<HloTarget> hloSortTargets() { return targets; }

} // namespace knapper
