// Reductions, and which element wins one.
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
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
/// combined with what the reduction begins with. The order is free. The planes
/// of complex numbers stay in front.
LogicalResult reduceByHalves(HloNode &n, ArrayRef<int64_t> dims) {
  size_t count = n.results.size();
  SmallVector<bool> complex;
  for (size_t i = 0; i < count; ++i)
    complex.push_back(isHloComplex(n.op->getOperand(i).getType()));
  SmallVector<int64_t> order, own = n.shape(n[0]), shape;
  own.erase(own.begin(), own.begin() + complex[0]);
  for (int64_t dim = 0; dim < static_cast<int64_t>(own.size()); ++dim)
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
    begins.push_back(hloLifted(n, n[count + i],
                               n.op->getOperand(count + i).getType(), rest));
  if (length == 0 || llvm::is_contained(shape, 0))
    return giveHloResults(n, begins);
  shape.push_back(length);
  for (size_t i = 0; i < count; ++i) {
    SmallVector<int64_t> permutation(order), to(shape);
    if (complex[i]) {
      for (int64_t &dim : permutation)
        ++dim;
      permutation.insert(permutation.begin(), 0);
      to.insert(to.begin(), 2);
    }
    x.push_back(n.reshapeTo(n.transpose(n[i], permutation), to));
  }
  while (length > 1) {
    int64_t half = length / 2;
    SmallVector<Value> first, second, kept;
    for (auto [i, each] : llvm::enumerate(x)) {
      int64_t along = last + complex[i];
      first.push_back(n.sliceDim(each, along, n.dim(0), n.dim(half)));
      second.push_back(n.sliceDim(each, along, n.dim(half), n.dim(half)));
      if (length % 2)
        kept.push_back(n.sliceDim(each, along, n.dim(length - 1), n.dim(1)));
    }
    std::optional<SmallVector<Value>> made = both(first, second);
    if (!made || made->size() != count)
      return made ? n.damaged("its region gives another number of results")
                  : failure();
    x = *made;
    for (auto [i, each] : llvm::enumerate(kept))
      x[i] = n.make<ts::ConcatOp>(ValueRange{x[i], each},
                                  uint64_t(last + complex[i]));
    length = half + length % 2;
  }
  for (auto [i, each] : llvm::enumerate(x)) {
    SmallVector<ts::Dim> to(rest);
    if (complex[i])
      to.insert(to.begin(), n.dim(2));
    each = n.reshape(each, to);
  }
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
  size_t count = n.results.size();
  // Of the program's own dims: not that of the planes.
  auto planesOf = [&](size_t i) -> int64_t {
    return !n.onPlanes && isHloComplex(n.op->getOperand(i).getType());
  };
  auto dimsOf = [&](size_t i) {
    return llvm::to_vector(llvm::drop_begin(ts::dimsOf(n[i]), planesOf(i)));
  };
  bool complex = false;
  for (size_t i = 0; i < count; ++i) {
    if (ts::rankOf(n[i]) < planesOf(i) ||
        ts::rankOf(n[count + i]) != planesOf(i) || dimsOf(i) != dimsOf(0))
      return n.damaged("its operands differ in shape");
    complex |= planesOf(i);
  }
  SmallVector<int64_t> dims = n.dims("dimensions", dimsOf(0).size());
  if (n.failed())
    return failure();
  llvm::sort(dims);
  if (complex)
    return reduceByHalves(n, dims);
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
