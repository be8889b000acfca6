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

/// Where a real transform is two matmuls by matrices of at most this many
/// rows, or one.
constexpr int64_t largestRealMatrix = 128, largestSingleMatrix = 96;

/// The divisor of `length` that is nearest to its root and leaves matrices of
/// at most `largest` rows, or 1.
int64_t middleDivisor(int64_t length, int64_t largest) {
  for (auto d = static_cast<int64_t>(std::sqrt(length)); d > 1; --d)
    if (length % d == 0)
      return length / d <= largest ? d : 1;
  return 1;
}

/// Multiply-adds an element of a complex transform (`fourierTransform`), and of
/// a real one whose first matrix has `d` rows.
int64_t complexCost(int64_t length) {
  int64_t d = length > largestMatrix ? divisorOf(length) : 1;
  return d == 1 ? 4 * length : 4 * d + complexCost(length / d);
}
int64_t realCost(int64_t length, int64_t d) {
  return 2 * (d > 1 ? d + length / d : length / 2);
}

/// Into how many rows a real transform's first matrix parts `length`; 1: one
/// matrix; 0: the half of a complex transform takes fewer steps.
int64_t firstOfReal(int64_t length) {
  if (length <= largestSingleMatrix)
    return 1;
  if (int64_t d = middleDivisor(length, largestRealMatrix); d > 1)
    return d;
  // One matmul is done in less time than several of as many steps.
  constexpr int64_t mostRows = 1024;
  int64_t whole = length <= mostRows ? realCost(length, 1) : length * 4;
  int64_t d = middleDivisor(length, mostRows);
  if (d <= 1 && length > largestPrime)
    return 0; // refused there
  int64_t parted = d > 1 ? realCost(length, d) : length * 4;
  if (complexCost(length) * 3 < std::min(whole, parted) * 2)
    return 0;
  return whole <= parted ? 1 : d;
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
  auto matmul = [&](Value a, Value b) {
    return n.make<ts::DotOp>(a, b, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                             ArrayRef<int64_t>{1}, ArrayRef<int64_t>{0},
                             TypeAttr());
  };
  FourierPlanes y{matmul(x.re, w.re), matmul(x.re, w.im)};
  if (!x.im)
    return y;
  return {n.sub(y.re, matmul(x.im, w.im)), n.add(y.im, matmul(x.im, w.re))};
}

/// [rows, columns] twice as [rows, 2 * columns], an element of each in turn.
Value inTurn(NodeBuilder &n, Value a, Value b) {
  if (!a || !b)
    return {};
  Dim rows = ts::dimOf(a, 0), columns = ts::dimOf(a, 1);
  SmallVector<Dim> column{rows, columns, n.dim(1)};
  Value both = n.make<ts::ConcatOp>(
      ValueRange{n.reshape(a, column), n.reshape(b, column)}, int64_t(2));
  return n.reshape(both, {rows, columns * 2});
}

/// The last dim of `x` times a matrix.
Value times(NodeBuilder &n, Value x, Value matrix) {
  if (!x || !matrix)
    return {};
  return n.make<ts::DotOp>(x, matrix, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                           ArrayRef<int64_t>{ts::rankOf(x) - 1},
                           ArrayRef<int64_t>{0}, TypeAttr());
}

/// The whole transform, of which the half is taken.
Value halfOfTransform(NodeBuilder &n, Value x, double sign) {
  Dim half = ts::dimOf(x, 1).floorDiv(n.dim(2)) + 1;
  FourierPlanes y = fourierTransform(n, {x, Value()}, sign);
  if (!y.re || !y.im)
    return {};
  SmallVector<Dim> column{ts::dimOf(x, 0), half, n.dim(1)};
  auto part = [&](Value whole) {
    return n.reshape(n.sliceDim(whole, 1, n.dim(0), half), column);
  };
  return n.make<ts::ConcatOp>(ValueRange{part(y.re), part(y.im)}, int64_t(2));
}

} // namespace

FourierPlanes mirroredSpectrum(NodeBuilder &n, FourierPlanes half, Dim length) {
  Dim rest = length - (length.floorDiv(n.dim(2)) + 1);
  auto whole = [&](Value part, double sign) -> Value {
    if (!part || rest.isConstant(0))
      return part;
    Value back = n.sliceDim(part, 1, rest, rest, -1);
    Value made = n.make<ts::ConcatOp>(ValueRange{part, n.mul(back, sign)},
                                      int64_t(1));
    return made ? n.castDims(made, {ts::dimOf(part, 0), length}) : made;
  };
  return {whole(half.re, 1), whole(half.im, -1)};
}

Value realTransform(NodeBuilder &n, Value x, double sign) {
  if (!x)
    return {};
  Type element = ts::elementTypeOf(x);
  Dim rows = ts::dimOf(x, 0), length = ts::dimOf(x, 1);
  Dim half = length.floorDiv(n.dim(2)) + 1;
  std::optional<int64_t> known = length.asConstant();
  int64_t d = known ? firstOfReal(*known) : 1;
  if (d == 1) {
    FourierPlanes w = roots(n, length, half, length, sign, element);
    return n.reshape(times(n, x, inTurn(n, w.re, w.im)),
                     {rows, half, n.dim(2)});
  }
  if (d == 0)
    return halfOfTransform(n, x, sign);
  Dim first = n.dim(d), second = n.dim(*known / d);
  FourierPlanes y = matrixTransform(
      n, {n.reshape(x, {rows, first, second}), Value()}, first, sign);
  FourierPlanes twiddles = roots(n, second, first, length, sign, element);
  if (!y.re || !y.im || !twiddles.re)
    return {};
  SmallVector<Dim> dims{rows, second, first};
  y = multiply(
      n, y,
      {n.broadcastTo(twiddles.re, dims), n.broadcastTo(twiddles.im, dims)});
  // Of the second transform's results those below the half: [rows, first,
  // 2 * second] by [2 * second, 2 * kept].
  Dim kept = n.dim(*known / 2 / d + 1);
  FourierPlanes w = roots(n, second, kept, second, sign, element);
  if (!y.re || !y.im || !w.re || !w.im)
    return {};
  Value matrix = n.make<ts::ConcatOp>(
      ValueRange{inTurn(n, w.re, w.im), inTurn(n, n.mul(w.im, -1), w.re)},
      int64_t(0));
  Value parts = n.transpose(
      n.make<ts::ConcatOp>(ValueRange{y.re, y.im}, int64_t(1)), {0, 2, 1});
  Value made =
      n.reshape(times(n, parts, matrix), {rows, first, kept, n.dim(2)});
  made = n.reshape(n.transpose(made, {0, 2, 1, 3}),
                   {rows, first * kept, n.dim(2)});
  return n.sliceDim(made, 1, n.dim(0), half);
}

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
  FourierPlanes twiddles =
      roots(n, second, first, length, sign, ts::elementTypeOf(x.re));
  if (!y.re || !twiddles.re)
    return {};
  SmallVector<Dim> dims{rows, second, first};
  y = multiply(
      n, y,
      {n.broadcastTo(twiddles.re, dims), n.broadcastTo(twiddles.im, dims)});
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
