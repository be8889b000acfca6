// Special functions of one or two numbers. Relative errors, where nothing else
// is said, are some 1e-14; outside of a function's domain the result is NaN.
// Thread-safe.
#pragma once

namespace knapper::numeric {

//===----------------------------------------------------------------------===//
// Bessel.cpp
//===----------------------------------------------------------------------===//
/// Of the first kind, J, and of the second, Y; order 0 and 1. Infinities give
/// NaN.
double besselJ0(double x);
double besselJ1(double x);
double besselY0(double x);
double besselY1(double x);
/// Modified, of the first kind: I; scaled by e^-|x|.
double besselI0(double x);
double besselI1(double x);
double scaledBesselI0(double x);
double scaledBesselI1(double x);
/// Modified, of the second kind: K; scaled by e^x. Infinity at 0.
double besselK0(double x);
double besselK1(double x);
double scaledBesselK0(double x);
double scaledBesselK1(double x);
/// sin(x) / x; 0 at infinity.
double sphericalBesselJ0(double x);
/// Airy's function of the first kind; absolute error below 1e-11 for negative
/// x.
double airyAi(double x);

//===----------------------------------------------------------------------===//
// Gamma.cpp
//===----------------------------------------------------------------------===//
double logGamma(double x);
/// The first and second derivative of logGamma.
double digamma(double x);
double trigamma(double x);
/// The same with the reflection at 1/2 computed in single precision: at the
/// poles float's sine is not 0.
float trigammaOfFloat(float x);
/// Hurwitz's zeta function, the sum of (q + k)^-s over k >= 0.
double hurwitzZeta(double s, double q);
/// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P.
double lowerGamma(double a, double x);
double upperGamma(double a, double x);

//===----------------------------------------------------------------------===//
// Normal.cpp
//===----------------------------------------------------------------------===//
double complementOfErf(double x);
/// e^(x^2) erfc(x).
double scaledComplementOfErf(double x);
double inverseOfErf(double x);
/// Where the normal distribution has the probability p below.
double normalQuantile(double p);

//===----------------------------------------------------------------------===//
// Polynomials.cpp: in the precision of T, by recurrence. `degree` is cut to a
// whole number; below 0 (and for NaN) the result is 0.
//===----------------------------------------------------------------------===//
template <typename T> T chebyshevT(T x, T degree);
template <typename T> T chebyshevU(T x, T degree);
template <typename T> T chebyshevV(T x, T degree);
template <typename T> T chebyshevW(T x, T degree);
/// Of 2x - 1.
template <typename T> T shiftedChebyshevT(T x, T degree);
template <typename T> T shiftedChebyshevU(T x, T degree);
template <typename T> T shiftedChebyshevV(T x, T degree);
template <typename T> T shiftedChebyshevW(T x, T degree);
/// The physicist's and the probabilist's; NaN beyond degree 128 (float) or 512.
template <typename T> T hermiteH(T x, T degree);
template <typename T> T hermiteHe(T x, T degree);
template <typename T> T laguerre(T x, T degree);
template <typename T> T legendre(T x, T degree);

} // namespace knapper::numeric
