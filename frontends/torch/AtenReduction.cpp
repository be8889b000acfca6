// Sums, extrema, scans and orders.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

SmallVector<int64_t> dimsOf(AtenNode &n, Value x) {
  return n.dimensions("dim", ts::rankOf(x));
}

/// The operand in the type that the reduction is made in.
template <K kind> LogicalResult reduction(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, x);
  K used = kind;
  if (n.element().isInteger(1)) {
    used = kind == K::add || kind == K::max   ? K::logical_or
           : kind == K::mul || kind == K::min ? K::logical_and
                                              : kind;
  }
  return n.out(n.reduce(used, x, dims, n.flag("keepdim")));
}

template <K kind> LogicalResult logical(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  Value y = n.reduce(kind, n.convert(x, n.b.getI1Type()), dimsOf(n, x),
                     n.flag("keepdim"));
  // Of bytes torch gives bytes.
  return n.out(y && n.element() ? n.convert(y, n.element()) : y);
}

LogicalResult importMean(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  return n.out(n.mean(x, dimsOf(n, x), n.flag("keepdim")));
}

/// One dim's product or extremum, of one dim or all.
LogicalResult importProd(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, x);
  return n.out(n.reduce(K::mul, x, dims, n.flag("keepdim")));
}

/// Where the extremum lies; the first NaN is one.
Value position(AtenNode &n, K kind, Value x, int64_t dim) {
  if (!x)
    return {};
  if (ts::elementTypeOf(x).isInteger(1))
    x = n.convert(x, n.b.getIntegerType(8));
  if (isa<FloatType>(ts::elementTypeOf(x))) {
    // NaN counts as the largest for both.
    double most = kind == K::max ? INFINITY : -INFINITY;
    Value nan = n.make<ts::IsNanOp>(x);
    Value firstNan =
        n.make<ts::ArgReduceOp>(K::max, n.convert(nan, n.b.getIntegerType(8)),
                                uint64_t(dim), bool(false));
    Value any = n.reduce(K::logical_or, nan, {dim}, false);
    Value plain = n.select(nan, n.scalarFor(x, most), x);
    Value first =
        n.make<ts::ArgReduceOp>(kind, plain, uint64_t(dim), bool(false));
    return n.select(any, firstNan, first);
  }
  return n.make<ts::ArgReduceOp>(kind, x, uint64_t(dim), bool(false));
}

/// x, of rank 0 as one of rank 1.
Value withDim(AtenNode &n, Value x) {
  return x && ts::rankOf(x) == 0 ? n.reshape(x, {n.dim(1)}) : x;
}

template <K kind> LogicalResult argument(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t dim = 0;
  if (n.has("dim"))
    dim = n.dimension("dim", ts::rankOf(x));
  else
    x = n.reshape(x, {ts::elementCount(x.getType())});
  if (n.failed())
    return failure();
  return n.out(n.reshape(position(n, kind, withDim(n, x), dim), n.dims()));
}

/// Values and indices along a dim.
template <K kind> LogicalResult extremum(AtenNode &n) {
  Value x = withDim(n, n.tensor("self"));
  if (!x)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  K used = !ts::elementTypeOf(x).isInteger(1) ? kind
           : kind == K::max                   ? K::logical_or
                                              : K::logical_and;
  if (failed(n.out(n.reshape(n.reduce(used, x, {dim}, false), n.dims()))))
    return failure();
  return n.wants(1) ? n.out(n.reshape(position(n, kind, x, dim), n.dims(1)), 1)
                    : mlir::success();
}

LogicalResult importAminmax(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  bool all = !n.has("dim");
  SmallVector<int64_t> dims =
      all ? llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(x)))
          : dimsOf(n, x);
  bool logical = ts::elementTypeOf(x).isInteger(1);
  if (failed(n.out(
          n.reshape(n.reduce(logical ? K::logical_and : K::min, x, dims, false),
                    n.dims()))))
    return failure();
  return n.out(
      n.reshape(n.reduce(logical ? K::logical_or : K::max, x, dims, false),
                n.dims(1)),
      1);
}

/// Variance in two passes; result 0 is it or its root, and result 1, where
/// there is one, the mean.
template <bool root> LogicalResult variance(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, x);
  Dim count = n.dim(1);
  for (int64_t dim : dims)
    count = count * ts::dimOf(x, dim);
  Value mean = n.mean(x, dims, true);
  Value off = n.sub(x, mean);
  Value sum = n.reduce(K::add, n.mul(off, off), dims, n.flag("keepdim"));
  Type type = ts::elementTypeOf(x);
  Value divisor =
      n.sub(n.sizeScalar(count, type), n.factor("correction", type, 1));
  divisor = n.binary<ts::MaxOp>(divisor, n.scalar(0, type));
  Value y = n.div(sum, divisor);
  if (root)
    y = n.make<ts::SqrtOp>(y);
  if (failed(n.out(y)))
    return failure();
  return n.resultCount() > 1 ? n.out(n.reshape(mean, n.dims(1)), 1)
                             : mlir::success();
}

LogicalResult importLogSumExp(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  return n.out(n.reshape(logSumExp(n, x, dimsOf(n, x)), n.dims()));
}

LogicalResult importVectorNorm(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, x);
  bool keep = n.flag("keepdim");
  StringRef name = n.has("ord") ? "ord" : "p";
  Value size = n.make<ts::AbsOp>(x);
  if (n.has(name) && !n.known(name)) { // known when it runs
    Value power = n.operand(name, ts::elementTypeOf(x));
    auto is = [&](double number) {
      return n.compare(P::eq, power, n.scalarFor(power, number));
    };
    Value any =
        n.convert(n.compare(P::ne, x, n.scalarFor(x, 0)), ts::elementTypeOf(x));
    Value norm = n.binary<ts::PowOp>(
        n.reduce(K::add, n.binary<ts::PowOp>(size, power), dims, keep),
        n.div(n.scalarFor(power, 1), power));
    norm = n.select(is(0), n.reduce(K::add, any, dims, keep), norm);
    double infinity = std::numeric_limits<double>::infinity();
    norm = n.select(is(infinity), n.reduce(K::max, size, dims, keep), norm);
    return n.out(
        n.select(is(-infinity), n.reduce(K::min, size, dims, keep), norm));
  }
  double ord = n.real(name, 2);
  if (std::isinf(ord))
    return n.out(n.reduce(ord > 0 ? K::max : K::min, size, dims, keep));
  if (ord == 0) {
    Value any =
        n.convert(n.compare(P::ne, x, n.scalarFor(x, 0)), ts::elementTypeOf(x));
    return n.out(n.reduce(K::add, any, dims, keep));
  }
  if (ord == 1)
    return n.out(n.reduce(K::add, size, dims, keep));
  if (ord == 2)
    return n.out(n.make<ts::SqrtOp>(n.reduce(K::add, n.mul(x, x), dims, keep)));
  Value powers = n.binary<ts::PowOp>(size, n.scalarFor(x, ord));
  return n.out(n.binary<ts::PowOp>(n.reduce(K::add, powers, dims, keep),
                                   n.scalarFor(x, 1 / ord)));
}

template <K kind> LogicalResult scan(AtenNode &n) {
  // Narrow floats are summed in f32.
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0)
    return n.out(x);
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  return n.out(
      n.make<ts::ScanOp>(kind, x, uint64_t(dim), bool(false), bool(false)));
}

LogicalResult importSoftmax(AtenNode &n, bool log) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0)
    return n.out(n.scalarFor(x, log ? 0 : 1));
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  return n.out(n.make<ts::SoftmaxOp>(x, uint64_t(dim), bool(log)));
}
LogicalResult importSoftmaxPlain(AtenNode &n) {
  return importSoftmax(n, false);
}
LogicalResult importLogSoftmax(AtenNode &n) { return importSoftmax(n, true); }

/// Softmax whose rows of nothing but -inf are 0.
LogicalResult importSafeSoftmax(AtenNode &n) {
  Value x = n.operand("self");
  if (!x || ts::rankOf(x) == 0)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  Value y = n.make<ts::SoftmaxOp>(x, uint64_t(dim), bool(false));
  Value empty = n.reduce(K::logical_and, n.make<ts::IsInfOp>(x, false, true),
                         {dim}, true);
  return n.out(n.select(empty, n.scalarFor(y, 0), y));
}

LogicalResult order(AtenNode &n, Dim k, bool largest) {
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
  if (!k)
    k = ts::dimOf(x, dim);
  Value source = x;
  bool logical = ts::elementTypeOf(x).isInteger(1);
  if (logical)
    source = n.convert(x, n.b.getIntegerType(8));
  Operation *op =
      n.makeOp<ts::TopKOp>(2, source, k.attr(), uint64_t(dim), bool(largest));
  if (!op)
    return failure();
  Value values = op->getResult(0);
  if (failed(n.out(logical ? n.convert(values, n.b.getI1Type()) : values)))
    return failure();
  return n.out(op->getResult(1), 1);
}

LogicalResult importSort(AtenNode &n) {
  return order(n, {}, n.flag("descending"));
}
LogicalResult importTopk(AtenNode &n) {
  return order(n, n.size("k"), n.flag("largest"));
}

constexpr AtenRow rows[] = {
    {"aten._log_softmax.default", importLogSoftmax},
    {"aten._safe_softmax.default", importSafeSoftmax},
    {"aten._softmax.default", importSoftmaxPlain},
    {"aten.all.default", logical<K::logical_and>},
    {"aten.all.dim", logical<K::logical_and>},
    {"aten.all.dims", logical<K::logical_and>},
    {"aten.amax.default", reduction<K::max>},
    {"aten.amin.default", reduction<K::min>},
    {"aten.aminmax.default", importAminmax},
    {"aten.any.default", logical<K::logical_or>},
    {"aten.any.dim", logical<K::logical_or>},
    {"aten.any.dims", logical<K::logical_or>},
    {"aten.argmax.default", argument<K::max>},
    {"aten.argmin.default", argument<K::min>},
    {"aten.cumprod.default", scan<K::mul>},
    {"aten.cumsum.default", scan<K::add>},
    {"aten.linalg_vector_norm.default", importVectorNorm},
    {"aten.logsumexp.default", importLogSumExp},
    {"aten.max.default", reduction<K::max>},
    {"aten.max.dim", extremum<K::max>},
    {"aten.mean.default", importMean},
    {"aten.mean.dim", importMean},
    {"aten.min.default", reduction<K::min>},
    {"aten.min.dim", extremum<K::min>},
    {"aten.prod.default", importProd},
    {"aten.prod.dim_int", importProd},
    {"aten.sort.default", importSort},
    {"aten.sort.stable", importSort},
    {"aten.std.correction", variance<true>},
    {"aten.std_mean.correction", variance<true>},
    {"aten.sum.default", reduction<K::add>},
    {"aten.sum.dim_IntList", reduction<K::add>},
    {"aten.topk.default", importTopk},
    {"aten.var.correction", variance<false>},
    {"aten.var_mean.correction", variance<false>},
};

} // namespace

Value logSumExp(AtenNode &n, Value x, ArrayRef<int64_t> dims) {
  Value most = n.reduce(K::max, x, dims, true);
  // Infinities would be taken from themselves.
  Value base =
      n.select(n.make<ts::IsInfOp>(most, true, true), n.scalarFor(x, 0), most);
  Value sum = n.reduce(K::add, n.make<ts::ExpOp>(n.sub(x, base)), dims, true);
  return n.add(n.make<ts::LogOp>(sum), base);
}

ArrayRef<AtenRow> atenReductionRows() { return rows; }

} // namespace knapper
