// Fourier transforms. Complex numbers have a last dim of two, their parts.
#include "frontends/common/FourierTransform.h"
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

FourierPlanes partsOf(AtenNode &n, Value x) {
  if (!x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  dims.pop_back();
  int64_t last = ts::rankOf(x) - 1;
  auto part = [&](int64_t i) {
    return n.reshape(n.sliceDim(x, last, n.dim(i), n.dim(1)), dims);
  };
  return {part(0), part(1)};
}

Value joined(AtenNode &n, FourierPlanes x) {
  if (!x.re || !x.im)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x.re);
  int64_t last = ts::rankOf(x.re);
  dims.push_back(n.dim(1));
  return n.make<ts::ConcatOp>(
      ValueRange{n.reshape(x.re, dims), n.reshape(x.im, dims)}, last);
}

template <typename Function>
FourierPlanes each(FourierPlanes x, Function function) {
  return {function(x.re), x.im ? function(x.im) : Value()};
}

/// `made` of the rows that lie along a dim: `made` takes [rows, length] and
/// gives [rows, another length].
template <typename Function>
FourierPlanes along(AtenNode &n, FourierPlanes x, int64_t dim, Function made) {
  if (!x.re)
    return {};
  int64_t rank = ts::rankOf(x.re);
  SmallVector<int64_t> order, back(rank);
  SmallVector<Dim> around;
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim) {
      order.push_back(i);
      around.push_back(ts::dimOf(x.re, i));
    }
  order.push_back(dim);
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = static_cast<int64_t>(to);
  Dim rows = ts::product(n.importer.context, around),
      length = ts::dimOf(x.re, dim);
  FourierPlanes y = made(each(x, [&](Value part) {
    return n.reshape(n.transpose(part, order), {rows, length});
  }));
  if (!y.re)
    return {};
  around.push_back(ts::dimOf(y.re, 1));
  return each(y, [&](Value part) {
    return n.transpose(n.reshape(part, around), back);
  });
}

SmallVector<int64_t> dimsOf(AtenNode &n, int64_t rank) {
  SmallVector<int64_t> dims = n.integers("dim");
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rank : dim;
  return dims;
}

FourierPlanes transformed(AtenNode &n, FourierPlanes x, ArrayRef<int64_t> dims,
                          double sign) {
  for (int64_t dim : dims)
    x = along(n, x, dim, [&](FourierPlanes rows) {
      return fourierTransform(n, rows, sign);
    });
  return x;
}

/// Divided as torch asks: not at all, by the root of the number of elements or
/// by that number.
FourierPlanes scaled(AtenNode &n, FourierPlanes x, ArrayRef<Dim> lengths) {
  int64_t how = n.integer("normalization");
  if (!x.re || how == 0 || lengths.empty())
    return x;
  Value count =
      n.sizeScalar(ts::product(n.importer.context, lengths), n.b.getF64Type());
  if (how == 1)
    count = n.make<ts::SqrtOp>(count);
  count = count ? n.convert(count, ts::elementTypeOf(x.re)) : count;
  return each(x, [&](Value part) { return n.div(part, count); });
}

SmallVector<Dim> lengthsOf(FourierPlanes x, ArrayRef<int64_t> dims) {
  SmallVector<Dim> lengths;
  for (int64_t dim : dims)
    lengths.push_back(ts::dimOf(x.re, dim));
  return lengths;
}

LogicalResult give(AtenNode &n, Value made) {
  return made ? n.out(n.reshape(made, n.dims())) : failure();
}

LogicalResult importComplex(AtenNode &n) {
  FourierPlanes x = partsOf(n, n.operand("self"));
  if (!x.re || !x.im)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, ts::rankOf(x.re));
  SmallVector<Dim> lengths = lengthsOf(x, dims);
  x = transformed(n, x, dims, n.flag("forward") ? -1 : 1);
  return give(n, joined(n, scaled(n, x, lengths)));
}

/// Real numbers; the last of the dims has only a half of its results where
/// `onesided`.
LogicalResult importOfReal(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, ts::rankOf(x));
  if (dims.empty())
    return n.unsupported("no dims");
  SmallVector<Dim> lengths = lengthsOf({x, Value()}, dims);
  int64_t last = dims.pop_back_val();
  bool half = n.flag("onesided");
  FourierPlanes y =
      along(n, {x, Value()}, last, [&](FourierPlanes rows) -> FourierPlanes {
        return half ? partsOf(n, realTransform(n, rows.re, -1))
                    : fourierTransform(n, rows, -1);
      });
  return give(n, joined(n, scaled(n, transformed(n, y, dims, -1), lengths)));
}

/// Half of a spectrum that is symmetric, to real numbers.
LogicalResult importToReal(AtenNode &n) {
  FourierPlanes x = partsOf(n, n.operand("self"));
  if (!x.re || !x.im)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, ts::rankOf(x.re));
  if (dims.empty())
    return n.unsupported("no dims");
  Dim length = n.size("last_dim_size");
  SmallVector<Dim> lengths = lengthsOf(x, dims);
  lengths.back() = length;
  int64_t last = dims.pop_back_val();
  x = transformed(n, x, dims, 1);
  x = along(n, x, last, [&](FourierPlanes rows) -> FourierPlanes {
    FourierPlanes whole = mirroredSpectrum(n, rows, length);
    return {fourierTransform(n, whole, 1).re, Value()};
  });
  Value made = scaled(n, x, lengths).re;
  return give(n, made);
}

constexpr AtenRow rows[] = {
    {"aten._fft_c2c.default of complex numbers", importComplex},
    {"aten._fft_c2r.default of complex numbers", importToReal},
    {"aten._fft_r2c.default of complex numbers", importOfReal},
};

} // namespace

ArrayRef<AtenRow> atenFourierRows() { return rows; }

} // namespace knapper
