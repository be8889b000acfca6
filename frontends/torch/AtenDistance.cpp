// Distances between vectors, and sums of products of three tensors.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

/// The norm of order p along the last dim.
Value normOf(AtenNode &n, Value x, double p) {
  if (!x)
    return {};
  int64_t last = ts::rankOf(x) - 1;
  Value size = n.make<ts::AbsOp>(x);
  if (ts::dimOf(x, last).isConstant(0)) // of nothing
    return n.reduce(K::add, x, {last}, false);
  if (std::isinf(p))
    return n.reduce(K::max, size, {last}, false);
  if (p == 0)
    return n.reduce(
        K::add,
        n.convert(n.compare(P::ne, x, n.scalarFor(x, 0)), ts::elementTypeOf(x)),
        {last}, false);
  if (p == 1)
    return n.reduce(K::add, size, {last}, false);
  if (p == 2)
    return n.make<ts::SqrtOp>(n.reduce(K::add, n.mul(x, x), {last}, false));
  Value sum = n.reduce(K::add, n.binary<ts::PowOp>(size, n.scalarFor(x, p)),
                       {last}, false);
  return n.binary<ts::PowOp>(sum, n.scalarFor(x, 1 / p));
}

/// Of each row of x1 [.., P, M] from each of x2 [.., R, M].
LogicalResult importCdist(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("x1", type), y = n.operand("x2", type);
  if (!x || !y)
    return failure();
  SmallVector<Dim> a = ts::dimsOf(x), b = ts::dimsOf(y);
  a.insert(a.end() - 1, n.dim(1)); // [.., P, 1, M]
  b.insert(b.end() - 2, n.dim(1)); // [.., 1, R, M]
  Value off = n.sub(n.reshape(x, a), n.reshape(y, b));
  return n.out(normOf(n, off, n.real("p", 2)));
}

/// Of each row from each later one.
LogicalResult importPdist(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  std::optional<int64_t> count = ts::dimOf(x, 0).asConstant();
  if (!count || *count > 4096)
    return n.unsupported("more than 4096 rows, or a symbolic number");
  SmallVector<int64_t> first, second;
  for (int64_t i = 0; i < *count; ++i)
    for (int64_t j = i + 1; j < *count; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  if (first.empty())
    return n.out(n.broadcastTo(n.scalarFor(x, 0), n.dims()));
  auto rows = [&](ArrayRef<int64_t> at) {
    Value index = n.constant(DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(at.size())},
                              n.b.getI64Type()),
        at));
    return n.make<ts::GatherOp>(x, index, uint64_t(0));
  };
  return n.out(normOf(n, n.sub(rows(first), rows(second)), n.real("p", 2)));
}

/// The sum over `sumdim` of the product of three tensors, each with dims of
/// size 1 put in where `expand` says.
LogicalResult importTrilinear(AtenNode &n) {
  Type type = isa_and_nonnull<FloatType>(n.element()) ? n.wide() : n.element();
  Value product;
  for (int i = 1; i <= 3; ++i) {
    Value x = n.operand(("i" + Twine(i)).str(), type);
    if (!x)
      return failure();
    SmallVector<Dim> dims = ts::dimsOf(x);
    SmallVector<int64_t> at = n.integers(("expand" + Twine(i)).str());
    llvm::sort(at);
    for (int64_t dim : at) {
      if (dim < 0 || dim > static_cast<int64_t>(dims.size()))
        return n.fail("has a dim to expand that is out of range");
      dims.insert(dims.begin() + dim, n.dim(1));
    }
    x = n.reshape(x, dims);
    product = product ? n.mul(product, x) : x;
  }
  SmallVector<int64_t> dims = n.integers("sumdim");
  llvm::sort(dims);
  return n.out(dims.empty() || !product
                   ? product
                   : n.reduce(K::add, product, dims, false));
}

constexpr AtenRow rows[] = {
    {"aten._cdist_forward.default", importCdist},
    {"aten._pdist_forward.default", importPdist},
    {"aten._trilinear.default", importTrilinear},
};

} // namespace

ArrayRef<AtenRow> atenDistanceRows() { return rows; }

} // namespace knapper
