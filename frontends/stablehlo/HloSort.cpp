// Sorts by one or several keys.
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

/// From the last key to the first, each time stable.
LogicalResult importSort(HloNode &n) {
  if (n.size() != n.results.size() || n.size() == 0)
    return n.damaged("has other results than operands");
  SmallVector<HloSortKey> keys = hloSortKeys(n.op);
  if (keys.empty())
    return n.unsupported("with a comparator that is not one of keys");
  int64_t dim = n.dimension("dimension", ts::rankOf(n[0]));
  if (n.failed())
    return failure();
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

constexpr HloRow rows[] = {
    {"sort", 1, importSort},
};

} // namespace

llvm::ArrayRef<HloRow> hloSortRows() { return rows; }

} // namespace knapper
