// Elementwise functions of complex numbers, and Fourier transforms. Quotients
// and absolute values do not overflow where the result does not (Smith,
// Algorithm 116, Communications of the ACM 5, 1962); the other formulas are
// those of real and imaginary parts in Abramowitz and Stegun, chapter 4.
#include "frontends/stablehlo/HloComplexMath.h"
#include "frontends/common/FourierTransform.h"
#include "frontends/stablehlo/HloComplex.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;
using ts::Dim;
using C = HloComplex;

constexpr double infinity = std::numeric_limits<double>::infinity();

Value positive(HloNode &n, Value x) { return n.make<ts::AbsOp>(x); }
Value negative(HloNode &n, Value x) { return n.make<ts::NegOp>(x); }
Value isZero(HloNode &n, Value x) {
  return n.compare(P::eq, x, n.scalarFor(x, 0));
}
Value oneLike(HloNode &n, Value x) { return n.splatLike(1, x); }

C multiply(HloNode &n, C x, C y) {
  return {n.sub(n.mul(x.re, y.re), n.mul(x.im, y.im)),
          n.add(n.mul(x.re, y.im), n.mul(x.im, y.re))};
}

/// By the larger part of the divisor; each part by a zero. Of a divisor with
/// two infinite parts the quotient of finite numbers is 0.
C divide(HloNode &n, C x, C y) {
  Value byReal = n.compare(P::ge, positive(n, y.re), positive(n, y.im));
  Value large = n.select(byReal, y.re, y.im),
        small = n.select(byReal, y.im, y.re);
  Value none = n.binary<ts::AndOp>(isZero(n, large), isZero(n, small));
  Value zero = n.scalarFor(large, 0), one = n.scalarFor(large, 1);
  Value both =
      n.compare(P::eq, positive(n, small), n.scalarFor(small, infinity));
  Value ratio = n.select(none, zero, n.select(both, one, n.div(small, large)));
  Value divisor = n.select(n.binary<ts::OrOp>(none, both), large,
                           n.add(large, n.mul(small, ratio)));
  Value first = n.select(byReal, x.re, x.im),
        second = n.select(byReal, x.im, x.re);
  Value re = n.div(n.add(first, n.mul(second, ratio)), divisor);
  Value im = n.div(n.sub(second, n.mul(first, ratio)), divisor);
  return {re, n.select(byReal, im, negative(n, im))};
}

Value absolute(HloNode &n, C x) {
  Value a = positive(n, x.re), b = positive(n, x.im);
  Value large = n.binary<ts::MaxOp>(a, b), small = n.binary<ts::MinOp>(a, b);
  Value ratio = n.div(small, large);
  Value root =
      n.make<ts::SqrtOp>(n.add(oneLike(n, ratio), n.mul(ratio, ratio)));
  // Nothing to divide by; and an infinite part wins over NaN.
  Value size = n.select(isZero(n, large), large, n.mul(large, root));
  Value limit = n.scalarFor(a, infinity);
  Value unbounded = n.binary<ts::OrOp>(n.compare(P::eq, a, limit),
                                       n.compare(P::eq, b, limit));
  return n.select(unbounded, limit, size);
}

C exponential(HloNode &n, C x) {
  Value size = n.make<ts::ExpOp>(x.re);
  // A real number stays one, also where the factor is infinite.
  Value im =
      n.select(isZero(n, x.im), x.im, n.mul(size, n.make<ts::SinOp>(x.im)));
  return {n.select(isZero(n, x.im), size, n.mul(size, n.make<ts::CosOp>(x.im))),
          im};
}

C logarithm(HloNode &n, C x) {
  return {n.make<ts::LogOp>(absolute(n, x)), n.binary<ts::Atan2Op>(x.im, x.re)};
}

C expm1(HloNode &n, C x) {
  Value half = n.make<ts::SinOp>(n.mul(x.im, 0.5));
  Value size = n.make<ts::Expm1Op>(x.re);
  Value re = n.sub(n.mul(size, n.make<ts::CosOp>(x.im)),
                   n.mul(n.mul(half, half), 2.0));
  return {re, exponential(n, x).im};
}

/// log |1 + z| by (1 + a)^2 + b^2 - 1.
C log1p(HloNode &n, C x) {
  Value more = n.add(n.mul(x.re, n.add(x.re, 2.0)), n.mul(x.im, x.im));
  Value near = n.compare(P::lt, positive(n, more), n.scalarFor(more, 0.5));
  C shifted{n.add(x.re, 1.0), x.im};
  Value re = n.select(near, n.mul(n.make<ts::Log1pOp>(more), 0.5),
                      n.make<ts::LogOp>(absolute(n, shifted)));
  return {re, n.binary<ts::Atan2Op>(shifted.im, shifted.re)};
}

C squareRoot(HloNode &n, C x) {
  Value size = absolute(n, x);
  Value root = n.make<ts::SqrtOp>(n.mul(n.add(size, positive(n, x.re)), 0.5));
  Value other = n.select(isZero(n, size), size,
                         n.div(positive(n, x.im), n.mul(root, 2.0)));
  Value right = n.compare(P::ge, x.re, n.scalarFor(x.re, 0));
  Value im = n.select(right, other, root);
  // The sign of the imaginary part, also of a zero.
  Value zero = n.scalarFor(x.im, 0);
  Value below =
      n.binary<ts::OrOp>(n.compare(P::lt, x.im, zero),
                         n.compare(P::lt, n.div(oneLike(n, x.im), x.im), zero));
  return {n.select(right, root, other), n.select(below, negative(n, im), im)};
}

struct Hyperbolic {
  Value sine, cosine;
};
Hyperbolic hyperbolic(HloNode &n, Value x) {
  Value grown = n.make<ts::Expm1Op>(x),
        shrunk = n.make<ts::Expm1Op>(negative(n, x));
  return {n.mul(n.sub(grown, shrunk), 0.5),
          n.add(n.mul(n.add(grown, shrunk), 0.5), 1.0)};
}

C sine(HloNode &n, C x) {
  Hyperbolic h = hyperbolic(n, x.im);
  return {n.mul(n.make<ts::SinOp>(x.re), h.cosine),
          n.mul(n.make<ts::CosOp>(x.re), h.sine)};
}

C cosine(HloNode &n, C x) {
  Hyperbolic h = hyperbolic(n, x.im);
  return {n.mul(n.make<ts::CosOp>(x.re), h.cosine),
          negative(n, n.mul(n.make<ts::SinOp>(x.re), h.sine))};
}

/// (tanh a + i tan b) / (1 + i tanh a tan b). Of an infinite a 1 or -1,
/// whatever b is; a real number stays one.
C hyperbolicTangent(HloNode &n, C x) {
  Value t = n.make<ts::TanhOp>(x.re), u = n.make<ts::TanOp>(x.im);
  C z = divide(n, {t, u}, {oneLike(n, t), n.mul(t, u)});
  Value unbounded =
      n.compare(P::eq, positive(n, x.re), n.scalarFor(x.re, infinity));
  Value im = n.select(unbounded, n.scalarFor(t, 0), z.im);
  return {n.select(unbounded, t, z.re), n.select(isZero(n, x.im), x.im, im)};
}

C tangent(HloNode &n, C x) {
  C y = hyperbolicTangent(n, {negative(n, x.im), x.re});
  return {y.im, negative(n, y.re)};
}

C one(HloNode &n, Value like) {
  return {oneLike(n, like), n.splatLike(0, like)};
}

C inverseRoot(HloNode &n, C x) {
  return divide(n, one(n, x.re), squareRoot(n, x));
}

C logistic(HloNode &n, C x) {
  C e = exponential(n, {negative(n, x.re), negative(n, x.im)});
  return divide(n, one(n, x.re), {n.add(e.re, 1.0), e.im});
}

C direction(HloNode &n, C x) {
  Value size = absolute(n, x), none = isZero(n, size);
  Value zero = n.scalarFor(size, 0);
  return {n.select(none, zero, n.div(x.re, size)),
          n.select(none, zero, n.div(x.im, size))};
}

/// exp(y log x); 0 to the power of 0 is 1, of a positive real number 0, of any
/// other NaN.
C power(HloNode &n, C x, C y) {
  C z = exponential(n, multiply(n, y, logarithm(n, x)));
  Value atZero = isZero(n, absolute(n, x));
  Value isOne = isZero(n, absolute(n, y));
  Value zero = n.scalarFor(z.re, 0);
  Value nan = n.scalarFor(z.re, std::numeric_limits<double>::quiet_NaN());
  Value real =
      n.binary<ts::AndOp>(isZero(n, y.im), n.compare(P::ge, y.re, zero));
  Value ofZero = n.select(real, zero, nan);
  return {n.select(isOne, n.scalarFor(z.re, 1), n.select(atZero, ofZero, z.re)),
          n.select(isOne, zero, n.select(atZero, ofZero, z.im))};
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

template <C (*Function)(HloNode &, C)> LogicalResult importUnary(HloNode &n) {
  return n.out(hloJoin(n, Function(n, hloPlanes(n, n[0]))));
}

template <C (*Function)(HloNode &, C, C)>
LogicalResult importBinary(HloNode &n) {
  return n.out(hloJoin(n, Function(n, hloPlanes(n, n[0]), hloPlanes(n, n[1]))));
}

LogicalResult importComplex(HloNode &n) {
  return n.out(hloJoin(n, {n[0], n[1]}));
}
LogicalResult importReal(HloNode &n) { return n.out(hloPlanes(n, n[0]).re); }
LogicalResult importImaginary(HloNode &n) {
  return n.out(hloPlanes(n, n[0]).im);
}
LogicalResult importAbs(HloNode &n) {
  return n.out(absolute(n, hloPlanes(n, n[0])));
}

LogicalResult importCompare(HloNode &n) {
  StringRef direction = n.text("comparison_direction");
  if (direction != "EQ" && direction != "NE")
    return n.unsupported("an order of complex numbers");
  C x = hloPlanes(n, n[0]), y = hloPlanes(n, n[1]);
  if (direction == "EQ")
    return n.out(n.binary<ts::AndOp>(n.compare(P::eq, x.re, y.re),
                                     n.compare(P::eq, x.im, y.im)));
  return n.out(n.binary<ts::OrOp>(n.compare(P::ne, x.re, y.re),
                                  n.compare(P::ne, x.im, y.im)));
}

LogicalResult importIota(HloNode &n) {
  std::string problem;
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(n.op->getResult(0).getType()).getShape());
  int64_t dim =
      n.dimension("iota_dimension", static_cast<int64_t>(shape.size()));
  Value re = n.iota(shape, dim, n.element());
  return n.out(hloJoin(n, {re, n.splatLike(0, re)}));
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

/// Along one dim, which goes to the end and back; it has `length` elements
/// where the numbers are in time.
C alongDim(HloNode &n, C x, int64_t dim, int64_t length, bool inverse,
           FourierKind kind) {
  if (!x.re)
    return {};
  int64_t rank = ts::rankOf(x.re), last = rank - 1;
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i)
    order.push_back(i);
  std::swap(order[dim], order[last]);
  auto swapped = [&](Value part) {
    return part && dim != last ? n.transpose(part, order) : part;
  };
  x = {swapped(x.re), swapped(x.im)};
  if (!x.re)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x.re);
  Dim own = dims.back(), rows = n.dim(1);
  for (Dim each : ArrayRef<Dim>(dims).drop_back())
    rows = rows * each;
  auto flat = [&](Value part) { return n.reshape(part, {rows, own}); };
  Value given = kind == FourierKind::fromReal
                    ? flat(x.re)
                    : complexOf(n, flat(x.re), flat(x.im));
  Value y = fourierTransform(n, given, n.dim(length), inverse, kind);
  if (!y)
    return {};
  dims.back() = ts::dimOf(y, 1);
  auto back = [&](Value part) { return swapped(n.reshape(part, dims)); };
  if (kind == FourierKind::toReal)
    return {back(y), Value()};
  return {back(partOf(n, y, 0)), back(partOf(n, y, 1))};
}

LogicalResult importFft(HloNode &n) {
  StringRef kind = n.text("fft_type");
  bool fromReal = kind == "RFFT", toReal = kind == "IRFFT";
  bool back = kind == "IFFT" || toReal;
  if (!fromReal && !back && kind != "FFT")
    return n.damaged("is of no kind");
  SmallVector<int64_t> lengths = n.integers("fft_length");
  bool isComplex = isHloComplex(n.op->getOperand(0).getType());
  if (isComplex == fromReal)
    return n.damaged("is of another type of numbers");
  C x = isComplex ? hloPlanes(n, n[0]) : C{n[0], Value()};
  if (!x.re)
    return failure();
  SmallVector<int64_t> shape = n.shape(x.re);
  auto rank = static_cast<int64_t>(shape.size());
  auto count = static_cast<int64_t>(lengths.size());
  if (count < 1 || count > 3 || count > rank)
    return n.damaged("is of " + Twine(count) + " dims of " + Twine(rank));
  double elements = 1;
  SmallVector<int64_t> others;
  for (int64_t i = 0; i < count; ++i) {
    int64_t dim = rank - count + i, own = shape[dim];
    bool halved = toReal && i == count - 1;
    if (lengths[i] < 0 || own != (halved ? lengths[i] / 2 + 1 : lengths[i]))
      return n.damaged("has " + Twine(own) + " elements for a length of " +
                       Twine(lengths[i]));
    elements *= static_cast<double>(lengths[i]);
    if (i < count - 1)
      others.push_back(dim);
  }
  int64_t last = rank - 1;
  if (elements == 0) { // sums of nothing
    int64_t length = lengths.back();
    shape[last] = fromReal && length ? length / 2 + 1 : length;
    SmallVector<Dim> dims;
    for (int64_t size : shape)
      dims.push_back(n.dim(size));
    Value zeros = n.broadcastTo(n.scalarFor(x.re, 0), dims);
    return n.out(toReal ? zeros : hloJoin(n, {zeros, zeros}));
  }
  auto alongOthers = [&] {
    for (int64_t dim : others)
      x = alongDim(n, x, dim, lengths[count - rank + dim], back,
                   FourierKind::complex);
  };
  if (toReal)
    alongOthers();
  x = alongDim(n, x, last, lengths.back(), back,
               fromReal ? FourierKind::fromReal
               : toReal ? FourierKind::toReal
                        : FourierKind::complex);
  if (!toReal)
    alongOthers();
  if (back && x.re)
    x = {n.mul(x.re, 1 / elements),
         x.im ? n.mul(x.im, 1 / elements) : Value()};
  return n.out(toReal ? x.re : hloJoin(n, x));
}

constexpr HloRow rows[] = {
    {"abs", 1, importAbs},
    {"compare", 2, importCompare},
    {"complex", 2, importComplex},
    {"cosine", 1, importUnary<cosine>},
    {"divide", 2, importBinary<divide>},
    {"exponential", 1, importUnary<exponential>},
    {"exponential_minus_one", 1, importUnary<expm1>},
    {"fft", 1, importFft},
    {"imag", 1, importImaginary},
    {"iota", 0, importIota},
    {"log", 1, importUnary<logarithm>},
    {"log_plus_one", 1, importUnary<log1p>},
    {"logistic", 1, importUnary<logistic>},
    {"multiply", 2, importBinary<multiply>},
    {"power", 2, importBinary<power>},
    {"real", 1, importReal},
    {"rsqrt", 1, importUnary<inverseRoot>},
    {"sign", 1, importUnary<direction>},
    {"sine", 1, importUnary<sine>},
    {"sqrt", 1, importUnary<squareRoot>},
    {"tan", 1, importUnary<tangent>},
    {"tanh", 1, importUnary<hyperbolicTangent>},
};

} // namespace

llvm::ArrayRef<HloRow> hloComplexRows() { return rows; }

} // namespace knapper
