#include "runtime/numeric/Special.h"

#include <cmath>
#include <limits>

namespace knapper::numeric {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Beyond this the asymptotic series are exact before they diverge.
constexpr double farX = 24;

/// 1 + s a_1 / x + s^2 a_2 / x^2 + ..., Hankel's expansion (Abramowitz and
/// Stegun, 9.7.1 and 9.7.2) with s = -1 for I and 1 for K.
double hankel(double order, double x, double s) {
  double square = 4 * order * order, term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    double odd = 2 * k - 1;
    double next = term * s * (square - odd * odd) / (8 * k * x);
    if (std::fabs(next) >= std::fabs(term))
      break;
    term = next;
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum))
      break;
  }
  return sum;
}

/// e^-x I(x), x >= 0, order 0 or 1: all terms of the series have one sign.
double scaledI(int order, double x) {
  if (std::isinf(x))
    return 0;
  if (x > farX)
    return hankel(order, x, -1) / std::sqrt(2 * M_PI * x);
  double quarter = x * x / 4, term = order ? x / 2 : 1, sum = term;
  for (int k = 1; k < 200; ++k) {
    term *= quarter / (k * (k + order));
    sum += term;
    if (term < 1e-18 * sum)
      break;
  }
  return sum * std::exp(-x);
}

/// e^x K(x), x > 0: the integral of e^(-x (cosh t - 1)) cosh(order t) over
/// t >= 0 by the trapezoidal rule, whose error falls exponentially with 1/step.
double scaledK(double order, double x) {
  if (x > farX)
    return hankel(order, x, 1) * std::sqrt(M_PI / (2 * x));
  constexpr double step = 0.125;
  double sum = 0.5;
  for (int k = 1; k < 20000; ++k) {
    double t = k * step, half = std::sinh(t / 2);
    double term = std::exp(-2 * x * half * half + order * t) *
                  (1 + std::exp(-2 * order * t)) / 2;
    sum += term;
    if (term < 1e-18 * sum)
      break;
  }
  return sum * step;
}

double secondKind(double order, double x, bool scaled) {
  if (x == 0)
    return infinity;
  if (!(x > 0))
    return nan;
  double y = scaledK(order, x);
  return scaled ? y : y * std::exp(-x);
}

double finite(double x, double (*f)(double)) {
  return std::isinf(x) ? nan : f(x);
}

} // namespace

double besselJ0(double x) { return finite(x, ::j0); }
double besselJ1(double x) { return finite(x, ::j1); }
double besselY0(double x) { return x < 0 ? nan : finite(x, ::y0); }
double besselY1(double x) { return x < 0 ? nan : finite(x, ::y1); }

double scaledBesselI0(double x) { return scaledI(0, std::fabs(x)); }
double scaledBesselI1(double x) {
  return std::copysign(scaledI(1, std::fabs(x)), x);
}
double besselI0(double x) {
  double size = std::fabs(x);
  // e^x alone would overflow before the product does.
  return std::isinf(size)
             ? infinity
             : scaledI(0, size) * std::exp(size / 2) * std::exp(size / 2);
}
double besselI1(double x) {
  double size = std::fabs(x);
  double y = std::isinf(size)
                 ? infinity
                 : scaledI(1, size) * std::exp(size / 2) * std::exp(size / 2);
  return std::copysign(y, x);
}

double besselK0(double x) { return secondKind(0, x, false); }
double besselK1(double x) { return secondKind(1, x, false); }
double scaledBesselK0(double x) { return secondKind(0, x, true); }
double scaledBesselK1(double x) { return secondKind(1, x, true); }

double sphericalBesselJ0(double x) {
  if (std::isinf(x))
    return 0;
  return x == 0 ? 1 : std::sin(x) / x;
}

double airyAi(double x) {
  if (std::isnan(x) || std::isinf(x))
    return nan;
  if (x > 1) { // by K of order 1/3
    double root = std::sqrt(x), zeta = 2 * x * root / 3;
    return std::sqrt(x / 3) / M_PI * scaledK(1.0 / 3, zeta) * std::exp(-zeta);
  }
  if (x > -8.5) { // Maclaurin's series; its terms cancel below 0
    constexpr long double c1 = 0.355028053887817239260063186L,
                          c2 = 0.258819403792806798405183561L;
    long double cube = static_cast<long double>(x) * x * x, f = 1, g = x,
                even = 1, odd = x;
    for (int k = 1; k < 200; ++k) {
      even *= cube / ((3 * k - 1) * (3 * k));
      odd *= cube / ((3 * k) * (3 * k + 1));
      f += even;
      g += odd;
      if (std::fabs(even) < 1e-22L && std::fabs(odd) < 1e-22L)
        break;
    }
    return static_cast<double>(c1 * f - c2 * g);
  }
  // Abramowitz and Stegun, 10.4.60.
  double size = -x, zeta = 2 * size * std::sqrt(size) / 3;
  double term = 1, sine = 1, cosine = 0;
  for (int k = 1; k < 40; ++k) {
    double next = term * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) /
                  (216.0 * k * (2 * k - 1)) / zeta;
    if (next >= term)
      break;
    term = next;
    double sign = k / 2 % 2 ? -1 : 1;
    (k % 2 ? cosine : sine) += sign * term;
    if (term < 1e-18)
      break;
  }
  double angle = zeta + M_PI / 4;
  return (std::sin(angle) * sine - std::cos(angle) * cosine) /
         (std::sqrt(M_PI) * std::sqrt(std::sqrt(size)));
}

} // namespace knapper::numeric
