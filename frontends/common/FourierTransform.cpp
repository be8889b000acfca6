#include "frontends/common/FourierTransform.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr int64_t largestMatrix = 64, largestPrime = 2048;

/// The largest divisor of `length` up to `largestMatrix`, or 1.
int64_t divisorOf(int64_t length) {
  for (int64_t d = std::min(largestMatrix, length); d > 1; --d)
    if (length % d == 0)
      return d;
  return 1;
}

/// Tables of cos and sin of 2 pi row * column / length; a negative `sign`
/// mirrors the sine.
FourierPlanes roots(NodeBuilder &n, Dim rows, Dim columns, Dim length,
                    double sign, Type element) {
  Type i64 = n.b.getI64Type(), f64 = n.b.getF64Type();
  RankedTensorType type = n.type({rows, columns}, i64);
  if (!type)
    return {};
  // The product modulo the length keeps the angle exact.
  Value row = n.makeAs<ts::IotaOp>(type, uint64_t(0)),
        column = n.makeAs<ts::IotaOp>(type, uint64_t(1));
  Value phase =
      n.binary<ts::ModOp>(n.mul(row, column), n.sizeScalar(length, i64));
  Value angle =
      n.mul(n.div(n.convert(phase, f64), n.sizeScalar(length, f64)), 2 * M_PI);
  Value sine = n.mul(n.make<ts::SinOp>(angle), sign);
  return {n.convert(n.make<ts::CosOp>(angle), element),
          n.convert(sine, element)};
}

FourierPlanes multiply(NodeBuilder &n, FourierPlanes a, FourierPlanes b) {
  return {n.sub(n.mul(a.re, b.re), n.mul(a.im, b.im)),
          n.add(n.mul(a.re, b.im), n.mul(a.im, b.re))};
}

/// Along dim 1 of [rows, length, ...rest] with a matmul; the result is
/// [rows, ...rest, length].
FourierPlanes matrixTransform(NodeBuilder &n, FourierPlanes x, Dim length,
                              double sign) {
  FourierPlanes w =
      roots(n, length, length, length, sign, ts::elementTypeOf(x.re));
  auto product = [&](Value a, Value b) {
    return n.make<ts::DotOp>(a, b, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                             ArrayRef<int64_t>{1}, ArrayRef<int64_t>{0},
                             TypeAttr());
  };
  FourierPlanes y{product(x.re, w.re), product(x.re, w.im)};
  if (!x.im)
    return y;
  return {n.sub(y.re, product(x.im, w.im)), n.add(y.im, product(x.im, w.re))};
}

} // namespace

FourierPlanes fourierTransform(NodeBuilder &n, FourierPlanes x, double sign) {
  if (!x.re)
    return {};
  Dim rows = ts::dimOf(x.re, 0), length = ts::dimOf(x.re, 1);
  std::optional<int64_t> known = length.asConstant();
  int64_t d = known && *known > largestMatrix ? divisorOf(*known) : 1;
  if (d == 1) {
    if (known && *known > largestPrime) {
      (void)n.unsupported("a transform of " + std::to_string(*known) +
                          " elements, which has a prime factor above " +
                          std::to_string(largestPrime));
      return {};
    }
    return matrixTransform(n, x, length, sign);
  }
  Dim first = n.dim(d), second = n.dim(*known / d);
  auto split = [&](Value part) {
    return part ? n.reshape(part, {rows, first, second}) : Value();
  };
  FourierPlanes y = matrixTransform(n, {split(x.re), split(x.im)}, first, sign);
  FourierPlanes turn =
      roots(n, second, first, length, sign, ts::elementTypeOf(x.re));
  if (!y.re || !turn.re)
    return {};
  SmallVector<Dim> dims{rows, second, first};
  y = multiply(n, y,
               {n.broadcastTo(turn.re, dims), n.broadcastTo(turn.im, dims)});
  auto merge = [&](Value part) {
    return n.reshape(n.transpose(part, {0, 2, 1}), {rows * first, second});
  };
  y = fourierTransform(n, {merge(y.re), merge(y.im)}, sign);
  auto order = [&](Value part) {
    return n.reshape(
        n.transpose(n.reshape(part, {rows, first, second}), {0, 2, 1}),
        {rows, length});
  };
  return {order(y.re), order(y.im)};
}

} // namespace knapper
