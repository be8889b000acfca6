// Reductions, and which element wins one.
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::ReduceKind;

/// The dim along which a tensor counts from 0; nothing for other tensors.
std::optional<int64_t> countsAlong(Value value) {
  if (auto iota = value.getDefiningOp<ts::IotaOp>())
    return static_cast<int64_t>(iota.getDim());
  if (auto broadcast = value.getDefiningOp<ts::BroadcastOp>())
    if (std::optional<int64_t> dim = countsAlong(broadcast.getInput()))
      return broadcast.getDims()[*dim];
  if (auto reshape = value.getDefiningOp<ts::ReshapeOp>())
    if (auto iota = reshape.getInput().getDefiningOp<ts::IotaOp>();
        iota && ts::rankOf(iota) == 1)
      for (auto [i, dim] : llvm::enumerate(ts::dimsOf(value)))
        if (dim == ts::dimOf(iota, 0))
          return static_cast<int64_t>(i);
  return std::nullopt;
}

/// argmax and argmin: values with their indices.
LogicalResult importArgReduce(HloNode &n, ArrayRef<int64_t> dims) {
  std::optional<ReduceKind> kind = hloArgReduction(n.op);
  Value x = n[0];
  if (!kind || dims.size() != 1)
    return n.unsupported("of several operands with a region that is not that "
                         "of argmax or argmin");
  if (countsAlong(n[1]) != dims[0] || !hloIsNeutral(*kind, n[2]))
    return n.unsupported("of values with others than their indices");
  if (n.resultDims(1) != n.resultDims(0) || n.failed())
    return n.damaged("its results differ");
  // false comes before true.
  Type element = ts::elementTypeOf(x);
  if (element.isInteger(1))
    x = n.convert(x, n.b.getIntegerType(8, /*isSigned=*/false));
  Value index = n.make<ts::ArgReduceOp>(*kind, x, uint64_t(dims[0]), false);
  if (mlir::failed(n.out(n.convert(index, n.element(1)), 1)))
    return failure();
  return n.out(n.convert(n.reduce(*kind, x, dims, false), element));
}

LogicalResult importReduce(HloNode &n) {
  if (n.size() % 2 || n.size() / 2 != n.results.size() || n.results.empty())
    return n.damaged("has " + Twine(n.size()) + " operands for " +
                     Twine(n.results.size()) + " results");
  SmallVector<int64_t> dims = n.dims("dimensions", ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  llvm::sort(dims);
  size_t count = n.results.size();
  for (size_t i = 0; i < count; ++i)
    if (ts::rankOf(n[count + i]) != 0 || ts::dimsOf(n[i]) != ts::dimsOf(n[0]))
      return n.damaged("its operands differ in shape");
  if (count == 2)
    return importArgReduce(n, dims);
  std::optional<ReduceKind> kind = hloCombiner(n.op, 0);
  if (count > 2 || !kind)
    return n.unsupported("with a region that is not one add, multiply, "
                         "maximum, minimum, and, or");
  Value result = dims.empty() ? n[0] : n.reduce(*kind, n[0], dims, false);
  if (!hloIsNeutral(*kind, n[1]))
    result = hloCombine(n, *kind, result, n[1]);
  return n.out(result);
}

constexpr HloRow rows[] = {
    {"reduce", 2, importReduce},
};

} // namespace

llvm::ArrayRef<HloRow> hloReductionRows() { return rows; }

} // namespace knapper
