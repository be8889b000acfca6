// Special functions. Common ones are formulas, computed in f64 for the narrower
// floats; of f64 itself these would have too few digits. Those and the rarer
// functions are the runtime's, on the host.
#include "frontends/torch/AtenNode.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

/// How the runtime calls the functions that it computes.
StringRef hostName(StringRef overload) {
  return llvm::StringSwitch<StringRef>(overload)
      .Case("aten.digamma.default", "Digamma")
      .Case("aten.erfc.default", "Erfc")
      .Case("aten.erfinv.default", "Erfinv")
      .Case("aten.i0.default", "BesselI0")
      .Case("aten.igamma.default", "LowerGamma")
      .Case("aten.igammac.default", "UpperGamma")
      .Case("aten.lgamma.default", "LogGamma")
      .Case("aten.special_airy_ai.default", "AiryAi")
      .Case("aten.special_bessel_j0.default", "BesselJ0")
      .Case("aten.special_bessel_j1.default", "BesselJ1")
      .Case("aten.special_bessel_y0.default", "BesselY0")
      .Case("aten.special_bessel_y1.default", "BesselY1")
      .StartsWith("aten.special_chebyshev_polynomial_t.", "ChebyshevT")
      .StartsWith("aten.special_chebyshev_polynomial_u.", "ChebyshevU")
      .StartsWith("aten.special_chebyshev_polynomial_v.", "ChebyshevV")
      .StartsWith("aten.special_chebyshev_polynomial_w.", "ChebyshevW")
      .Case("aten.special_erfcx.default", "Erfcx")
      .StartsWith("aten.special_hermite_polynomial_h.", "HermiteH")
      .StartsWith("aten.special_hermite_polynomial_he.", "HermiteHe")
      .Case("aten.special_i0e.default", "ScaledBesselI0")
      .Case("aten.special_i1.default", "BesselI1")
      .Case("aten.special_i1e.default", "ScaledBesselI1")
      .StartsWith("aten.special_laguerre_polynomial_l.", "Laguerre")
      .StartsWith("aten.special_legendre_polynomial_p.", "Legendre")
      .Case("aten.special_modified_bessel_i0.default", "BesselI0")
      .Case("aten.special_modified_bessel_i1.default", "BesselI1")
      .Case("aten.special_modified_bessel_k0.default", "BesselK0")
      .Case("aten.special_modified_bessel_k1.default", "BesselK1")
      .Case("aten.special_ndtri.default", "NormalQuantile")
      .Case("aten.special_scaled_modified_bessel_k0.default", "ScaledBesselK0")
      .Case("aten.special_scaled_modified_bessel_k1.default", "ScaledBesselK1")
      .StartsWith("aten.special_shifted_chebyshev_polynomial_t.",
                  "ShiftedChebyshevT")
      .StartsWith("aten.special_shifted_chebyshev_polynomial_u.",
                  "ShiftedChebyshevU")
      .StartsWith("aten.special_shifted_chebyshev_polynomial_v.",
                  "ShiftedChebyshevV")
      .StartsWith("aten.special_shifted_chebyshev_polynomial_w.",
                  "ShiftedChebyshevW")
      .Case("aten.special_spherical_bessel_j0.default", "SphericalBesselJ0")
      .StartsWith("aten.special_zeta.", "Zeta")
      .Default("");
}

/// A function of the runtime's, of f32 or f64.
Value hosted(AtenNode &n, StringRef name, ArrayRef<Value> operands) {
  SmallVector<Value> inputs = n.broadcastAll(operands);
  if (inputs.empty() || !inputs[0])
    return {};
  Operation *op =
      n.host(("Special" + name).str(), inputs, {inputs[0].getType()});
  return op ? op->getResult(0) : Value();
}

Value number(AtenNode &n, Value like, double value) {
  return n.scalarFor(like, value);
}

LogicalResult hostUnary(AtenNode &n) {
  return n.out(hosted(n, hostName(n.overload),
                      {n.operand(n.has("self") ? "self" : "x", n.wide())}));
}

/// Torch's I0 and I1 of an infinity are NaN: its formula takes 0 times
/// infinity.
LogicalResult besselI(AtenNode &n) {
  Value x = n.operand(n.has("self") ? "self" : "x", n.wide());
  if (!x)
    return failure();
  Value finite =
      n.compare(P::lt, n.make<ts::AbsOp>(x),
                number(n, x, std::numeric_limits<double>::infinity()));
  return n.out(hosted(n, hostName(n.overload),
                      {n.select(finite, x, number(n, x, std::nan("")))}));
}

/// Operands are called self and other, or x and n.
LogicalResult hostBinary(AtenNode &n) {
  bool named = n.has("x");
  return n.out(hosted(n, hostName(n.overload),
                      {n.operand(named ? "x" : "self", n.wide()),
                       n.operand(named ? "n" : "other", n.wide())}));
}

template <Value (*formula)(AtenNode &, Value)>
LogicalResult special(AtenNode &n) {
  Type element = n.element();
  if (!element || element.isF64())
    return hostUnary(n);
  Value x = n.operand("self", n.b.getF64Type());
  Value y = x ? formula(n, x) : x;
  return n.out(y ? n.convert(y, element) : y);
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
  // Its zeros are exact: they decide what is false.
  Value zeros = n.mul(n.add(x, -1.0), n.add(x, -2.0));
  y = n.select(n.compare(P::eq, zeros, number(n, x, 0)), number(n, x, 0), y);
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
  Value cotangent =
      n.div(number(n, x, M_PI), n.make<ts::TanOp>(n.mul(part, M_PI)));
  Value whole = n.compare(P::eq, part, number(n, x, 0));
  Value reflected = n.select(whole, number(n, x, NAN), n.sub(y, cotangent));
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

/// The derivative of order n + 1 of lgamma.
LogicalResult importPolygamma(AtenNode &n) {
  int64_t order = n.integer("n");
  Type type = n.wide();
  Value x = n.operand("self", type);
  if (!x)
    return failure();
  if (order == 0)
    return n.out(
        type.isF64()
            ? hosted(n, "Digamma", {x})
            : n.convert(digamma(n, n.convert(x, n.b.getF64Type())), type));
  if (order == 1)
    return n.out(hosted(n, "Trigamma", {x}));
  Value sum =
      hosted(n, "Zeta", {n.scalarFor(x, static_cast<double>(order + 1)), x});
  double factor = std::tgamma(static_cast<double>(order + 1));
  return n.out(n.mul(sum, order % 2 ? factor : -factor));
}

constexpr AtenRow rows[] = {
    {"aten.angle.default", importAngle},
    {"aten.digamma.default", special<digamma>},
    {"aten.erfc.default", special<erfc>},
    {"aten.erfinv.default", special<erfinv>},
    {"aten.i0.default", besselI},
    {"aten.igamma.default", hostBinary},
    {"aten.igammac.default", hostBinary},
    {"aten.lgamma.default", special<lgamma>},
    {"aten.polygamma.default", importPolygamma},
    {"aten.special_airy_ai.default", hostUnary},
    {"aten.special_bessel_j0.default", hostUnary},
    {"aten.special_bessel_j1.default", hostUnary},
    {"aten.special_bessel_y0.default", hostUnary},
    {"aten.special_bessel_y1.default", hostUnary},
    {"aten.special_chebyshev_polynomial_t.default", hostBinary},
    {"aten.special_chebyshev_polynomial_t.n_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_t.x_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_u.default", hostBinary},
    {"aten.special_chebyshev_polynomial_u.n_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_u.x_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_v.default", hostBinary},
    {"aten.special_chebyshev_polynomial_v.n_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_v.x_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_w.default", hostBinary},
    {"aten.special_chebyshev_polynomial_w.n_scalar", hostBinary},
    {"aten.special_chebyshev_polynomial_w.x_scalar", hostBinary},
    {"aten.special_erfcx.default", hostUnary},
    {"aten.special_hermite_polynomial_h.default", hostBinary},
    {"aten.special_hermite_polynomial_h.n_scalar", hostBinary},
    {"aten.special_hermite_polynomial_h.x_scalar", hostBinary},
    {"aten.special_hermite_polynomial_he.default", hostBinary},
    {"aten.special_hermite_polynomial_he.n_scalar", hostBinary},
    {"aten.special_hermite_polynomial_he.x_scalar", hostBinary},
    {"aten.special_i0e.default", hostUnary},
    {"aten.special_i1.default", besselI},
    {"aten.special_i1e.default", hostUnary},
    {"aten.special_laguerre_polynomial_l.default", hostBinary},
    {"aten.special_laguerre_polynomial_l.n_scalar", hostBinary},
    {"aten.special_laguerre_polynomial_l.x_scalar", hostBinary},
    {"aten.special_legendre_polynomial_p.default", hostBinary},
    {"aten.special_legendre_polynomial_p.n_scalar", hostBinary},
    {"aten.special_legendre_polynomial_p.x_scalar", hostBinary},
    {"aten.special_modified_bessel_i0.default", besselI},
    {"aten.special_modified_bessel_i1.default", besselI},
    {"aten.special_modified_bessel_k0.default", hostUnary},
    {"aten.special_modified_bessel_k1.default", hostUnary},
    {"aten.special_ndtri.default", hostUnary},
    {"aten.special_scaled_modified_bessel_k0.default", hostUnary},
    {"aten.special_scaled_modified_bessel_k1.default", hostUnary},
    {"aten.special_shifted_chebyshev_polynomial_t.default", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_t.n_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_t.x_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_u.default", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_u.n_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_u.x_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_v.default", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_v.n_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_v.x_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_w.default", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_w.n_scalar", hostBinary},
    {"aten.special_shifted_chebyshev_polynomial_w.x_scalar", hostBinary},
    {"aten.special_spherical_bessel_j0.default", hostUnary},
    {"aten.special_zeta.default", hostBinary},
    {"aten.special_zeta.other_scalar", hostBinary},
    {"aten.special_zeta.self_scalar", hostBinary},
};

} // namespace

ArrayRef<AtenRow> atenSpecialRows() { return rows; }

} // namespace knapper
