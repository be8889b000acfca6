// Sorts by one or several keys.
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// From the last key to the first, each time stable.
LogicalResult importSort(HloNode &n) {
  if (n.size() != n.results.size() || n.size() == 0)
    return n.damaged("has other results than operands");
  SmallVector<HloSortKey> keys = hloSortKeys(n.op, 2 * n.op->getNumOperands());
  if (keys.empty())
    return n.unsupported("with a comparator that is not one of keys");
  // Negative ones count from the end.
  int64_t rank = ts::rankOf(n[0]), dim = n.integer("dimension");
  dim += dim < 0 ? rank : 0;
  if (n.failed())
    return failure();
  if (dim < 0 || dim >= rank)
    return n.damaged("attribute 'dimension' names no dim of rank " +
                     Twine(rank));
  for (Value operand : n.operands)
    if (ts::dimsOf(operand) != ts::dimsOf(n[0]))
      return n.damaged("its operands differ in shape");
  SmallVector<Value> values = n.operands;
  for (const HloSortKey &key : llvm::reverse(keys)) {
    Value by = values[key.operand];
    if (ts::elementTypeOf(by).isInteger(1))
      by = n.convert(by, n.b.getIntegerType(8, false));
    Operation *sorted = n.makeOp<ts::TopKOp>(2, by, ts::dimOf(by, dim).attr(),
                                             uint64_t(dim), !key.ascending);
    if (!sorted)
      return failure();
    for (auto [i, value] : llvm::enumerate(values))
      value = i == key.operand && by == value
                  ? Value(sorted->getResult(0))
                  : n.make<ts::GatherElementsOp>(value, sorted->getResult(1),
                                                 uint64_t(dim));
  }
  for (auto [i, value] : llvm::enumerate(values))
    if (mlir::failed(n.out(value, i)))
      return failure();
  return mlir::success();
}

/// Of chlo.
LogicalResult importTopK(HloNode &n) {
  int64_t last = ts::rankOf(n[0]) - 1, k = n.integer("k");
  if (n.failed() || last < 0 || k < 0 || k > n.shape(n[0])[last] ||
      n.results.size() != 2)
    return n.damaged("takes no such number of elements");
  Operation *top =
      n.makeOp<ts::TopKOp>(2, n[0], n.dim(k).attr(), uint64_t(last), true);
  if (!top || mlir::failed(n.out(top->getResult(0))))
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
  if (keys.size() != 1 || keys[0].operand != 0)
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
