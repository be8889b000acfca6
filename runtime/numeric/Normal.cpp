// The error function's relatives.
#include "runtime/numeric/Special.h"

#include <cmath>
#include <limits>

namespace knapper::numeric {

static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
static constexpr double infinity = std::numeric_limits<double>::infinity();

double complementOfErf(double x) { return std::erfc(x); }

double scaledComplementOfErf(double x) {
  if (x < 25)
    return std::exp(x * x) * std::erfc(x);
  // The asymptotic series.
  double square = 1 / (2 * x * x), term = 1, sum = 1;
  for (int k = 1; k < 8; ++k) {
    term *= -(2 * k - 1) * square;
    sum += term;
  }
  return sum / (x * std::sqrt(M_PI));
}

/// The quantile of p <= 1/2: Acklam's rational approximation of relative error
/// 1e-9, then Halley's steps.
static double lowQuantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                          -2.759285104469687e+02, 1.383577518672690e+02,
                          -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                          -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                          -2.400758277161838e+00, -2.549732539343734e+00,
                          4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01,
                          2.445134137142996e+00, 3.754408661907416e+00};
  auto horner = [](const double *c, int n, double x) {
    double y = 0;
    for (int i = 0; i < n; ++i)
      y = y * x + c[i];
    return y;
  };
  double x;
  if (p < 0.02425) {
    double q = std::sqrt(-2 * std::log(p));
    x = horner(c, 6, q) / (horner(d, 4, q) * q + 1);
  } else {
    double q = p - 0.5, r = q * q;
    x = horner(a, 6, r) * q / (horner(b, 5, r) * r + 1);
  }
  for (int i = 0; i < 2; ++i) {
    double off = 0.5 * std::erfc(-x / std::sqrt(2.0)) - p;
    double step = off * std::sqrt(2 * M_PI) * std::exp(x * x / 2);
    x -= step / (1 + x * step / 2);
  }
  return x;
}

double normalQuantile(double p) {
  if (p == 0)
    return -infinity;
  if (p == 1)
    return infinity;
  if (!(p > 0 && p < 1))
    return nan;
  return p <= 0.5 ? lowQuantile(p) : -lowQuantile(1 - p);
}

double inverseOfErf(double x) {
  if (std::fabs(x) == 1)
    return std::copysign(infinity, x);
  if (!(std::fabs(x) < 1))
    return nan;
  // Near 0 the quantile would be a difference of halves.
  double y = std::copysign(
      -normalQuantile((1 - std::fabs(x)) / 2) / std::sqrt(2.0), x);
  if (std::fabs(x) < 0.5)
    for (int i = 0; i < 2; ++i)
      y -= (std::erf(y) - x) * std::exp(y * y) * std::sqrt(M_PI) / 2;
  return y;
}

} // namespace knapper::numeric
