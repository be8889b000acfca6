// Parts of a dim: slices, elements, and what is written to them.
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Where a slice of a dim of this size starts: 0 where it does not say, from
/// the end where that is negative, never past the end.
Dim startOf(AtenNode &n, Dim size) {
  if (!n.has("start"))
    return n.dim(0);
  Dim start = n.size("start");
  if (std::optional<int64_t> number = start.asConstant(); number && *number < 0)
    start = (size + start).max(n.dim(0));
  if (std::optional<int64_t> low = ts::lowerBound(size - start);
      !low || *low < 0)
    start = start.min(size);
  return start;
}

/// Whether torch has named a dim of the result by a symbol that nothing has
/// bound: data says how long it is.
bool isSaidByData(AtenNode &n, int64_t dim) {
  std::optional<StringRef> symbol = n.dims()[dim].asSymbol();
  return symbol &&
         !n.importer.isBound(StringAttr::get(n.b.getContext(), *symbol));
}

/// A slice from and to where data says, as Python has it: counted from the end
/// where negative, no further than the dim.
LogicalResult importSliceByData(AtenNode &n, Value x, int64_t dim,
                                int64_t step) {
  Type i64 = n.b.getI64Type();
  Value zero = n.integerScalar(0, i64);
  Value size = n.sizeScalar(ts::dimOf(x, dim), i64);
  auto place = [&](StringRef name, Value otherwise) -> Value {
    if (!n.has(name))
      return otherwise;
    Value at = n.sizeScalar(n.size(name), i64);
    at = n.select(n.compare(ts::ComparePredicate::lt, at, zero),
                  n.add(at, size), at);
    at = n.binary<ts::MaxOp>(at, zero);
    return n.binary<ts::MinOp>(at, size);
  };
  Value first = place("start", zero), last = place("end", size);
  Value length = n.binary<ts::MaxOp>(n.sub(last, first), zero);
  length = n.div(n.add(length, n.integerScalar(step - 1, i64)),
                 n.integerScalar(step, i64));
  if (n.failed())
    return failure();
  Dim start = n.bindSize(first, "start"), count = n.bindClaimed(length, 0, dim);
  return n.out(n.sliceDim(x, dim, start, count, step));
}

LogicalResult importSlice(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x)), step = n.integer("step", 1);
  if (n.failed())
    return failure();
  if (isSaidByData(n, dim))
    return importSliceByData(n, x, dim, step);
  Dim start = startOf(n, ts::dimOf(x, dim));
  return n.out(n.sliceDim(x, dim, start, n.dims()[dim], step));
}

LogicalResult importSelect(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  Dim index = n.size("index");
  if (n.failed())
    return failure();
  if (std::optional<int64_t> number = index.asConstant(); number && *number < 0)
    index = ts::dimOf(x, dim) + *number;
  return n.out(n.reshape(n.sliceDim(x, dim, index, n.dim(1)), n.dims()));
}

/// `self` with `src` in the places `from`, `from + step`... of a dim.
Value scatteredDim(AtenNode &n, Value self, Value src, int64_t dim, Dim start,
                   int64_t step) {
  if (!self || !src)
    return {};
  Dim size = ts::dimOf(self, dim), count = ts::dimOf(src, dim);
  if (step == 1) {
    SmallVector<Value> parts;
    Dim rest = size - start - count;
    if (!start.isConstant(0))
      parts.push_back(n.sliceDim(self, dim, n.dim(0), start));
    parts.push_back(src);
    if (!rest.isConstant(0))
      parts.push_back(n.sliceDim(self, dim, start + count, rest));
    Value y = parts.size() == 1 ? parts[0]
                                : n.make<ts::ConcatOp>(ValueRange(parts), dim);
    return y ? n.castDims(y, ts::dimsOf(self)) : y;
  }
  Type i64 = n.b.getI64Type();
  Value index = n.add(
      n.mul(n.makeAs<ts::IotaOp>(n.type(ts::dimsOf(src), i64), uint64_t(dim)),
            n.integerScalar(step, i64)),
      n.sizeScalar(start, i64));
  return n.make<ts::ScatterElementsOp>(self, index, src, uint64_t(dim),
                                       ts::ReduceKindAttr());
}

LogicalResult importSliceScatter(AtenNode &n) {
  Value self = n.tensor("self"), src = n.operand("src");
  if (!self || !src)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(self)),
          step = n.integer("step", 1);
  if (n.failed())
    return failure();
  Dim start = startOf(n, ts::dimOf(self, dim));
  SmallVector<Dim> part = ts::dimsOf(self);
  part[dim] = ts::dimOf(src, dim);
  return n.out(
      scatteredDim(n, self, n.broadcastTo(src, part), dim, start, step));
}

LogicalResult importSelectScatter(AtenNode &n) {
  Value self = n.tensor("self"), src = n.operand("src");
  if (!self || !src)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(self));
  Dim index = n.size("index");
  if (n.failed())
    return failure();
  if (std::optional<int64_t> number = index.asConstant(); number && *number < 0)
    index = ts::dimOf(self, dim) + *number;
  SmallVector<Dim> part = ts::dimsOf(self);
  part[dim] = n.dim(1);
  return n.out(scatteredDim(n, self, n.reshape(src, part), dim, index, 1));
}

constexpr AtenRow rows[] = {
    {"aten.select.int", importSelect},
    {"aten.select_copy.int", importSelect},
    {"aten.select_scatter.default", importSelectScatter},
    {"aten.slice.Tensor", importSlice},
    {"aten.slice_copy.Tensor", importSlice},
    {"aten.slice_scatter.default", importSliceScatter},
};

} // namespace

ArrayRef<AtenRow> atenSliceRows() { return rows; }

} // namespace knapper
