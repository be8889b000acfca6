// Reductions, and which element wins one.
#include "frontends/stablehlo/HloBodies.h"
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

/// Of any region: halves are combined until one element is left, which is
/// combined with what the reduction begins with. The order is free.
LogicalResult reduceByHalves(HloNode &n, ArrayRef<int64_t> dims) {
  size_t count = n.results.size();
  auto rank = static_cast<int64_t>(ts::rankOf(n[0]));
  SmallVector<int64_t> order, own = n.shape(n[0]), shape;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(dims, dim)) {
      order.push_back(dim);
      shape.push_back(own[dim]);
    }
  auto last = static_cast<int64_t>(order.size());
  int64_t length = 1;
  for (int64_t dim : dims) {
    order.push_back(dim);
    length *= own[dim];
  }
  auto both = [&](ArrayRef<Value> x, ArrayRef<Value> y) {
    SmallVector<Value> arguments(x);
    llvm::append_range(arguments, y);
    return hloApply(n, 0, arguments);
  };
  SmallVector<ts::Dim> rest;
  for (int64_t size : shape)
    rest.push_back(n.dim(size));
  SmallVector<Value> begins, x;
  for (size_t i = 0; i < count; ++i)
    begins.push_back(n.broadcastTo(n[count + i], rest));
  if (length == 0 || llvm::is_contained(shape, 0))
    return giveHloResults(n, begins);
  shape.push_back(length);
  for (size_t i = 0; i < count; ++i)
    x.push_back(n.reshapeTo(n.transpose(n[i], order), shape));
  while (length > 1) {
    int64_t half = length / 2;
    SmallVector<Value> first, second, kept;
    for (Value each : x) {
      first.push_back(n.sliceDim(each, last, n.dim(0), n.dim(half)));
      second.push_back(n.sliceDim(each, last, n.dim(half), n.dim(half)));
      if (length % 2)
        kept.push_back(n.sliceDim(each, last, n.dim(length - 1), n.dim(1)));
    }
    std::optional<SmallVector<Value>> made = both(first, second);
    if (!made || made->size() != count)
      return made ? n.damaged("its region gives another number of results")
                  : failure();
    x = *made;
    for (auto [i, each] : llvm::enumerate(kept))
      x[i] = n.make<ts::ConcatOp>(ValueRange{x[i], each}, uint64_t(last));
    length = half + length % 2;
  }
  for (Value &each : x)
    each = n.reshape(each, rest);
  std::optional<SmallVector<Value>> made = both(begins, x);
  return made ? giveHloResults(n, *made) : failure();
}

/// argmax and argmin: values with their indices.
LogicalResult importArgReduce(HloNode &n, ArrayRef<int64_t> dims) {
  std::optional<ReduceKind> kind = hloArgReduction(n.op);
  Value x = n[0];
  if (!kind || dims.size() != 1 || countsAlong(n[1]) != dims[0] ||
      !hloIsNeutral(*kind, n[2]))
    return reduceByHalves(n, dims);
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
    return reduceByHalves(n, dims);
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
