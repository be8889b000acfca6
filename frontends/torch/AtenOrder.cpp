// What depends on the order of elements: medians, running extrema, searches.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

/// Sorted along a dim, rising, NaN last: values and where they stood.
std::pair<Value, Value> sorted(AtenNode &n, Value x, int64_t dim) {
  if (!x)
    return {};
  Operation *op = n.makeOp<ts::TopKOp>(2, x, ts::dimOf(x, dim).attr(),
                                       uint64_t(dim), bool(false));
  if (!op)
    return {};
  return {op->getResult(0), op->getResult(1)};
}

/// Element k along the dim of the sorted values and of their indices, as
/// results 0 and 1.
LogicalResult pick(AtenNode &n, Value values, Value indices, int64_t dim,
                   Dim k) {
  Value value = n.sliceDim(values, dim, k, n.dim(1)),
        index = n.sliceDim(indices, dim, k, n.dim(1));
  if (failed(n.out(value ? n.reshape(value, n.dims()) : value)))
    return failure();
  return n.wants(1) ? n.out(index ? n.reshape(index, n.dims(1)) : index, 1)
                    : mlir::success();
}

/// The elements at `at`, one a row along the dim, as results 0 and 1.
LogicalResult outAt(AtenNode &n, Value values, Value indices, Value at,
                    int64_t dim) {
  Value value = n.make<ts::GatherElementsOp>(values, at, uint64_t(dim));
  if (failed(n.out(value ? n.reshape(value, n.dims()) : value)))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  Value index = n.make<ts::GatherElementsOp>(indices, at, uint64_t(dim));
  return n.out(index ? n.reshape(index, n.dims(1)) : index, 1);
}

LogicalResult importKthValue(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0)
    x = n.reshape(x, {n.dim(1)});
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  Dim k = n.size("k") - 1;
  if (n.failed())
    return failure();
  auto [values, indices] = sorted(n, x, dim);
  return pick(n, values, indices, dim, k);
}

/// The median of a tensor without elements is NaN; of integers what conversion
/// makes of it on x86.
LogicalResult medianOfNone(AtenNode &n) {
  Type element = n.element();
  unsigned width = element.getIntOrFloatBitWidth();
  Value none;
  if (isa<FloatType>(element))
    none = n.scalar(std::numeric_limits<double>::quiet_NaN(), element);
  else
    none = n.integerScalar(width < 32 ? 0 : llvm::minIntN(width), element);
  return n.out(none);
}

/// The lower median: NaN where there is one or, `ofNumbers`, of what is not
/// NaN.
template <bool ofNumbers> LogicalResult importMedian(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  bool all = !n.has("dim");
  if (all && ts::elementCount(x.getType()).isConstant(0))
    return medianOfNone(n);
  if (all || ts::rankOf(x) == 0)
    x = n.reshape(x, {ts::elementCount(x.getType())});
  int64_t dim = all ? 0 : n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  auto [values, indices] = sorted(n, x, dim);
  if (!values)
    return failure();
  Dim size = ts::dimOf(x, dim), middle = (size - 1).floorDiv(n.dim(2));
  if (!isa<FloatType>(ts::elementTypeOf(x)))
    return pick(n, values, indices, dim, middle);
  // NaN stands at the end.
  Type i64 = n.b.getI64Type();
  Value zero = n.integerScalar(0, i64), isNan = n.make<ts::IsNanOp>(x), at;
  auto count = [&](Value truths) {
    return n.reduce(K::add, n.convert(truths, i64), {dim}, true);
  };
  if (ofNumbers) { // (count - 1) / 2, or 0 where there is none
    Value numbers = count(n.make<ts::NotOp>(isNan));
    at = n.div(n.binary<ts::MaxOp>(n.add(numbers, -1.0), zero),
               n.integerScalar(2, i64));
  } else { // the first NaN is element size - count
    Value nans = count(isNan);
    at = n.select(n.compare(P::gt, nans, zero),
                  n.sub(n.sizeScalar(size, i64), nans),
                  n.sizeScalar(middle, i64));
  }
  return outAt(n, values, indices, at, dim);
}

/// The most frequent element, of several the smallest, and the last place where
/// it stands: the end of the first of the longest runs of the sorted elements.
LogicalResult importMode(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0)
    x = n.reshape(x, {n.dim(1)});
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  bool logical = ts::elementTypeOf(x).isInteger(1);
  auto [values, indices] =
      sorted(n, logical ? n.convert(x, n.b.getIntegerType(8)) : x, dim);
  if (!values)
    return failure();
  Type i64 = n.b.getI64Type();
  Value place = n.makeAs<ts::IotaOp>(n.type(ts::dimsOf(x), i64), uint64_t(dim));
  Value zero = n.integerScalar(0, i64);
  Value before = n.make<ts::GatherElementsOp>(
      values, n.binary<ts::MaxOp>(n.add(place, -1.0), zero), uint64_t(dim));
  Value begins = n.compare(P::ne, values, before);
  Value start = n.make<ts::ScanOp>(K::max, n.select(begins, place, zero),
                                   uint64_t(dim), bool(false), bool(false));
  Value best = n.make<ts::ArgReduceOp>(K::max, n.sub(place, start),
                                       uint64_t(dim), bool(false));
  if (!best)
    return failure();
  SmallVector<Dim> one = ts::dimsOf(x);
  one[dim] = n.dim(1);
  best = n.reshape(best, one);
  Value value = n.make<ts::GatherElementsOp>(values, best, uint64_t(dim));
  if (!value ||
      failed(n.out(n.reshape(n.convert(value, n.element()), n.dims()))))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  Value index = n.make<ts::GatherElementsOp>(indices, best, uint64_t(dim));
  return n.out(index ? n.reshape(index, n.dims(1)) : index, 1);
}

/// log(e^x + e^y), of infinities too.
Value logAddExp(AtenNode &n, Value x, Value y) {
  Value most = n.binary<ts::MaxOp>(x, y), least = n.binary<ts::MinOp>(x, y);
  if (!most || !least)
    return {};
  Value sum =
      n.add(most, n.make<ts::Log1pOp>(n.make<ts::ExpOp>(n.sub(least, most))));
  // Infinities would be taken from themselves.
  return n.select(n.make<ts::IsInfOp>(most, true, true), most, sum);
}

/// Every element against all that stand before it, which lie along a dim of
/// their own behind `dim`.
LogicalResult logCumSumExpOfPairs(AtenNode &n, Value x, int64_t dim) {
  SmallVector<Dim> grid = ts::dimsOf(x);
  SmallVector<int64_t> at;
  for (int64_t i : llvm::seq<int64_t>(0, ts::rankOf(x)))
    at.push_back(i < dim ? i : i + 1);
  grid.insert(grid.begin() + dim, grid[dim]);
  Type places = n.type(grid, n.b.getI64Type());
  Value earlier =
      n.compare(P::le, n.makeAs<ts::IotaOp>(places, uint64_t(dim + 1)),
                n.makeAs<ts::IotaOp>(places, uint64_t(dim)));
  Value terms =
      n.select(earlier, n.broadcastAt(x, at, grid), n.scalarFor(x, -INFINITY));
  return n.out(n.reshape(logSumExp(n, terms, {dim + 1}), n.dims()));
}

/// In log2(size) steps, each of which adds what lies 1, 2, 4... elements
/// before: no common factor is taken out, so that none is lost.
LogicalResult importLogCumSumExp(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0)
    return n.out(x);
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  std::optional<int64_t> size = ts::dimOf(x, dim).asConstant();
  if (!size)
    return logCumSumExpOfPairs(n, x, dim);
  SmallVector<Dim> none(ts::rankOf(x), n.dim(0)), low = none;
  MLIRContext *context = n.shared.context;
  for (int64_t step = 1; step < *size; step *= 2) {
    low[dim] = n.dim(step);
    Value earlier = n.make<ts::PadOp>(
        n.sliceDim(x, dim, n.dim(0), n.dim(*size - step)),
        Optional{n.scalarFor(x, -INFINITY)}, ts::dimArray(context, low),
        ts::dimArray(context, none), ts::PadMode::constant);
    x = logAddExp(n, x, earlier);
  }
  return n.out(x);
}

/// The running extremum and the last place where it was reached.
template <K kind> LogicalResult running(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0) {
    if (failed(n.out(x)))
      return failure();
    return n.out(n.integerScalar(0, n.b.getI64Type()), 1);
  }
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  bool logical = ts::elementTypeOf(x).isInteger(1);
  Value source = logical ? n.convert(x, n.b.getIntegerType(8)) : x;
  Value values =
      n.make<ts::ScanOp>(kind, source, uint64_t(dim), bool(false), bool(false));
  if (!values ||
      failed(n.out(logical ? n.convert(values, n.b.getI1Type()) : values)))
    return failure();
  Type i64 = n.b.getI64Type();
  Value reached = n.compare(P::eq, source, values);
  if (isa<FloatType>(ts::elementTypeOf(source)))
    reached = n.binary<ts::OrOp>(reached, n.make<ts::IsNanOp>(source));
  Value place = n.makeAs<ts::IotaOp>(n.type(ts::dimsOf(x), i64), uint64_t(dim));
  Value marked = n.select(reached, place, n.integerScalar(0, i64));
  return n.out(n.make<ts::ScanOp>(K::max, marked, uint64_t(dim), bool(false),
                                  bool(false)),
               1);
}

/// How many elements of each sorted row stand before a value.
LogicalResult importSearchSorted(AtenNode &n) {
  Value rows = n.tensor("sorted_sequence"), x = n.tensor("self");
  if (!rows || !x)
    return n.unsupported("a number to search for");
  if (n.has("sorter"))
    return n.unsupported("a sorter");
  Type common = n.commonElement();
  if (!common)
    return failure();
  rows = n.convert(rows, common);
  x = n.convert(x, common);
  bool right = n.flag("right") || n.text("side") == "right";
  SmallVector<Dim> r = ts::dimsOf(rows), grid = ts::dimsOf(x);
  Dim count = r.back();
  auto rank = static_cast<int64_t>(grid.size());
  grid.push_back(count);
  SmallVector<int64_t> front = llvm::to_vector(llvm::seq<int64_t>(0, rank)),
                       at = front;
  if (r.size() == 1)
    at = {rank};
  else if (rank > 0)
    at.back() = rank;
  Value a = n.broadcastAt(rows, at, grid), b = n.broadcastAt(x, front, grid);
  Value before = n.compare(right ? P::le : P::lt, a, b);
  if (isa<FloatType>(ts::elementTypeOf(x))) // NaN is the largest
    before = n.binary<ts::OrOp>(
        before,
        right ? n.make<ts::IsNanOp>(b)
              : n.binary<ts::AndOp>(n.make<ts::IsNanOp>(b),
                                    n.make<ts::NotOp>(n.make<ts::IsNanOp>(a))));
  if (!before || !n.element())
    return failure();
  return n.out(n.reduce(K::add, n.convert(before, n.element()), {rank}, false));
}

constexpr AtenRow rows[] = {
    {"aten.cummax.default", running<K::max>},
    {"aten.cummin.default", running<K::min>},
    {"aten.kthvalue.default", importKthValue},
    {"aten.logcumsumexp.default", importLogCumSumExp},
    {"aten.median.default", importMedian<false>},
    {"aten.median.dim", importMedian<false>},
    {"aten.mode.default", importMode},
    {"aten.nanmedian.default", importMedian<true>},
    {"aten.nanmedian.dim", importMedian<true>},
    {"aten.searchsorted.Tensor", importSearchSorted},
};

} // namespace

ArrayRef<AtenRow> atenOrderRows() { return rows; }

} // namespace knapper
