// Fourier transforms. Complex numbers have a last dim of two, their parts.
#include "frontends/common/FourierTransform.h"
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

using Kind = FourierKind;

/// `made` of the rows that lie along a dim: `made` takes [rows, length] and
/// gives [rows, another length]; both have parts behind where numbers are
/// complex.
template <typename Function>
Value along(AtenNode &n, Value x, int64_t dim, bool isComplex, bool stays,
            Function made) {
  if (!x)
    return {};
  int64_t rank = ts::rankOf(x) - (isComplex ? 1 : 0);
  SmallVector<int64_t> order, back(rank);
  SmallVector<Dim> around;
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim) {
      order.push_back(i);
      around.push_back(ts::dimOf(x, i));
    }
  order.push_back(dim);
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = static_cast<int64_t>(to);
  SmallVector<Dim> flat{ts::product(n.importer.context, around),
                        ts::dimOf(x, dim)};
  if (isComplex) {
    order.push_back(rank);
    flat.push_back(n.dim(2));
  }
  Value y = made(n.reshape(n.transpose(x, order), flat));
  if (!y)
    return {};
  for (Dim size : ArrayRef<Dim>(ts::dimsOf(y)).drop_front())
    around.push_back(size);
  if (stays)
    back.push_back(rank);
  return n.transpose(n.reshape(y, around), back);
}

SmallVector<int64_t> dimsOf(AtenNode &n, int64_t rank) {
  SmallVector<int64_t> dims = n.integers("dim");
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rank : dim;
  return dims;
}

Value transformed(AtenNode &n, Value x, ArrayRef<int64_t> dims, bool inverse) {
  for (int64_t dim : dims)
    x = along(n, x, dim, true, true, [&](Value rows) {
      return fourierTransform(n, rows, ts::dimOf(rows, 1), inverse,
                              Kind::complex);
    });
  return x;
}

/// Divided as torch asks: not at all, by the root of the number of elements or
/// by that number.
Value scaled(AtenNode &n, Value x, ArrayRef<Dim> lengths) {
  int64_t how = n.integer("normalization");
  if (!x || how == 0 || lengths.empty())
    return x;
  Value count =
      n.sizeScalar(ts::product(n.importer.context, lengths), n.b.getF64Type());
  if (how == 1)
    count = n.make<ts::SqrtOp>(count);
  count = count ? n.convert(count, ts::elementTypeOf(x)) : count;
  return n.div(x, count);
}

SmallVector<Dim> lengthsOf(Value x, ArrayRef<int64_t> dims) {
  SmallVector<Dim> lengths;
  for (int64_t dim : dims)
    lengths.push_back(ts::dimOf(x, dim));
  return lengths;
}

LogicalResult give(AtenNode &n, Value made) {
  return made ? n.out(n.reshape(made, n.dims())) : failure();
}

LogicalResult importComplex(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, ts::rankOf(x) - 1);
  SmallVector<Dim> lengths = lengthsOf(x, dims);
  x = transformed(n, x, dims, !n.flag("forward"));
  return give(n, scaled(n, x, lengths));
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
  SmallVector<Dim> lengths = lengthsOf(x, dims);
  int64_t last = dims.pop_back_val();
  bool half = n.flag("onesided");
  Value y = along(n, x, last, false, true, [&](Value rows) {
    Dim length = ts::dimOf(rows, 1);
    if (half)
      return fourierTransform(n, rows, length, false, Kind::fromReal);
    return fourierTransform(n, complexOf(n, rows, n.splatLike(0, rows)), length,
                            false, Kind::complex);
  });
  return give(n, scaled(n, transformed(n, y, dims, false), lengths));
}

/// Half of a spectrum that is symmetric, to real numbers.
LogicalResult importToReal(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  SmallVector<int64_t> dims = dimsOf(n, ts::rankOf(x) - 1);
  if (dims.empty())
    return n.unsupported("no dims");
  Dim length = n.size("last_dim_size");
  SmallVector<Dim> lengths = lengthsOf(x, dims);
  lengths.back() = length;
  int64_t last = dims.pop_back_val();
  x = transformed(n, x, dims, true);
  x = along(n, x, last, true, false, [&](Value rows) {
    Dim half = length.floorDiv(n.dim(2)) + 1;
    if (rows)
      rows = n.castDims(rows, {ts::dimOf(rows, 0), half, n.dim(2)});
    return fourierTransform(n, rows, length, true, Kind::toReal);
  });
  return give(n, scaled(n, x, lengths));
}

constexpr AtenRow rows[] = {
    {"aten._fft_c2c.default of complex numbers", importComplex},
    {"aten._fft_c2r.default of complex numbers", importToReal},
    {"aten._fft_r2c.default of complex numbers", importOfReal},
};

} // namespace

ArrayRef<AtenRow> atenFourierRows() { return rows; }

} // namespace knapper
