// Special functions, computed in f64 for the narrower floats. Of f64 itself
// they would have too few digits: those are left to torch.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

template <Value (*formula)(AtenNode &, Value)>
LogicalResult special(AtenNode &n) {
  Type element = n.element();
  if (!element || element.isF64())
    return n.unsupported("f64");
  Value x = n.operand("self", n.b.getF64Type());
  Value y = x ? formula(n, x) : x;
  return n.out(y ? n.convert(y, element) : y);
}

Value number(AtenNode &n, Value like, double value) {
  return n.scalarFor(like, value);
}

/// log |sin(pi x)|, with the whole part of x taken off first.
Value logSinPi(AtenNode &n, Value x) {
  Value part = n.sub(x, n.make<ts::FloorOp>(x));
  return n.make<ts::LogOp>(n.make<ts::SinOp>(n.mul(part, M_PI)));
}

/// log |gamma(x)| by Lanczos's sum, g = 7, n = 9 (Godfrey's coefficients), and
/// by reflection below 1/2.
Value lgamma(AtenNode &n, Value x) {
  constexpr double c[] = {
      0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
      771.32342877765313,   -176.61502916214059,   12.507343278686905,
      -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  Value below = n.compare(P::lt, x, number(n, x, 0.5));
  Value z = n.select(below, n.make<ts::NegOp>(x), n.add(x, -1.0));
  Value sum = number(n, x, c[0]);
  for (int i = 1; i < 9; ++i)
    sum = n.add(sum, n.div(number(n, x, c[i]), n.add(z, double(i))));
  Value t = n.add(z, 7.5);
  Value y = n.add(n.add(n.mul(n.add(z, 0.5), n.make<ts::LogOp>(t)),
                        n.sub(n.make<ts::LogOp>(sum), t)),
                  0.5 * std::log(2 * M_PI));
  Value reflected =
      n.sub(n.sub(number(n, x, std::log(M_PI)), logSinPi(n, x)), y);
  y = n.select(below, reflected, y);
  Value infinite = n.make<ts::IsInfOp>(x, true, true);
  return n.select(infinite, n.make<ts::AbsOp>(x), y);
}

/// The logarithmic derivative of gamma: ten steps up, then the asymptotic
/// series (Abramowitz and Stegun, 6.3.18).
Value digamma(AtenNode &n, Value x) {
  Value below = n.compare(P::lt, x, number(n, x, 0));
  Value z = n.select(below, n.sub(number(n, x, 1), x), x);
  Value sum = number(n, x, 0);
  for (int i = 0; i < 10; ++i)
    sum = n.sub(sum, n.div(number(n, x, 1), n.add(z, double(i))));
  Value a = n.add(z, 10.0), inverse = n.div(number(n, x, 1), a),
        square = n.mul(inverse, inverse);
  constexpr double c[] = {-1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240,
                          -1.0 / 132};
  Value series = number(n, x, c[4]);
  for (int i = 3; i >= 0; --i)
    series = n.add(n.mul(series, square), c[i]);
  Value y = n.add(sum, n.add(n.sub(n.make<ts::LogOp>(a), n.mul(inverse, 0.5)),
                             n.mul(series, square)));
  Value part = n.sub(x, n.make<ts::FloorOp>(x));
  Value turned =
      n.div(number(n, x, M_PI), n.make<ts::TanOp>(n.mul(part, M_PI)));
  Value whole = n.compare(P::eq, part, number(n, x, 0));
  Value reflected = n.select(whole, number(n, x, NAN), n.sub(y, turned));
  y = n.select(below, reflected, y);
  Value zero = n.compare(P::eq, x, number(n, x, 0));
  return n.select(zero, n.div(number(n, x, -1), x), y);
}

/// 1 - erf(x) by a Chebyshev fit of relative error 1.2e-7 (Press et al.,
/// "Numerical Recipes", 6.2.2).
Value erfcOf(AtenNode &n, Value size) {
  constexpr double c[] = {-1.26551223, 1.00002368, 0.37409196,  0.09678418,
                          -0.18628806, 0.27886807, -1.13520398, 1.48851587,
                          -0.82215223, 0.17087277};
  Value t = n.div(number(n, size, 1), n.add(n.mul(size, 0.5), 1.0));
  Value series = number(n, size, c[9]);
  for (int i = 8; i >= 0; --i)
    series = n.add(n.mul(series, t), c[i]);
  return n.mul(t, n.make<ts::ExpOp>(n.sub(series, n.mul(size, size))));
}
Value erfc(AtenNode &n, Value x) {
  Value size = n.make<ts::AbsOp>(x), tail = erfcOf(n, size);
  Value far = n.select(n.compare(P::lt, x, number(n, x, 0)),
                       n.sub(number(n, x, 2), tail), tail);
  Value near = n.sub(number(n, x, 1), n.make<ts::ErfOp>(x));
  return n.select(n.compare(P::lt, size, number(n, x, 1)), near, far);
}

/// Giles's approximation ("Approximating the erfinv function", 2012), then two
/// steps of Newton's method.
Value erfinv(AtenNode &n, Value x) {
  Value w =
      n.make<ts::NegOp>(n.make<ts::Log1pOp>(n.make<ts::NegOp>(n.mul(x, x))));
  constexpr double near[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                             -4.39150654e-06, 0.00021858087,  -0.00125372503,
                             -0.00417768164,  0.246640727,    1.50140941};
  constexpr double far[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                            -0.00367342844,  0.00573950773,  -0.0076224613,
                            0.00943887047,   1.00167406,     2.83297682};
  auto series = [&](const double *c, Value at) {
    Value y = number(n, x, c[0]);
    for (int i = 1; i < 9; ++i)
      y = n.add(n.mul(y, at), c[i]);
    return n.mul(y, x);
  };
  Value root = n.make<ts::SqrtOp>(n.binary<ts::MaxOp>(w, number(n, x, 0)));
  Value y =
      n.select(n.compare(P::lt, w, number(n, x, 5)),
               series(near, n.add(w, -2.5)), series(far, n.add(root, -3.0)));
  for (int i = 0; i < 2; ++i) {
    Value slope = n.mul(n.make<ts::ExpOp>(n.make<ts::NegOp>(n.mul(y, y))),
                        2 / std::sqrt(M_PI));
    y = n.sub(y, n.div(n.sub(n.make<ts::ErfOp>(y), x), slope));
  }
  Value end = n.compare(P::eq, n.make<ts::AbsOp>(x), number(n, x, 1));
  return n.select(end, n.div(x, number(n, x, 0)), y);
}

/// pi below 0, 0 elsewhere; NaN stays.
LogicalResult importAngle(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  Value y = n.select(n.compare(P::lt, x, n.scalarFor(x, 0)),
                     n.scalarFor(x, M_PI), n.scalarFor(x, 0));
  return n.out(n.select(n.make<ts::IsNanOp>(x), x, y));
}

constexpr AtenRow rows[] = {
    {"aten.angle.default", importAngle},
    {"aten.digamma.default", special<digamma>},
    {"aten.erfc.default", special<erfc>},
    {"aten.erfinv.default", special<erfinv>},
    {"aten.lgamma.default", special<lgamma>},
};

} // namespace

ArrayRef<AtenRow> atenSpecialRows() { return rows; }

} // namespace knapper
