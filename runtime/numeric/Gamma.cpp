#include "runtime/numeric/Special.h"

#include <cmath>
#include <limits>

namespace knapper::numeric {

static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
static constexpr double infinity = std::numeric_limits<double>::infinity();

double logGamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (x == 0)
    return std::copysign(infinity, -x);
  if (x < 0) {
    if (x == std::trunc(x))
      return nan;
    double whole;
    return digamma(1 - x) - M_PI / std::tan(M_PI * std::modf(x, &whole));
  }
  double sum = 0;
  for (; x < 12; ++x)
    sum -= 1 / x;
  // Abramowitz and Stegun, 6.3.18.
  constexpr double c[] = {1.0 / 12,   -1.0 / 120, 1.0 / 252,
                          -1.0 / 240, 1.0 / 132,  -691.0 / 32760};
  double square = 1 / (x * x), series = 0;
  for (int i = 5; i >= 0; --i)
    series = (series + c[i]) * square;
  return sum + std::log(x) - 0.5 / x - series;
}

/// The second derivative of log gamma above 0.
static double trigammaAbove(double x) {
  double sum = 0;
  for (; x < 12; ++x)
    sum += 1 / (x * x);
  constexpr double c[] = {1.0 / 6,   -1.0 / 30, 1.0 / 42,
                          -1.0 / 30, 5.0 / 66,  -691.0 / 2730};
  double square = 1 / (x * x), series = 0;
  for (int i = 5; i >= 0; --i)
    series = (series + c[i]) * square;
  return sum + (1 + 0.5 / x + series) / x;
}

double trigamma(double x) {
  if (!(x < 0.5))
    return trigammaAbove(x);
  double sine = std::sin(M_PI * x);
  return M_PI * M_PI / (sine * sine) - trigammaAbove(1 - x);
}

float trigammaOfFloat(float x) {
  if (!(x < 0.5F))
    return static_cast<float>(trigammaAbove(x));
  constexpr auto pi = static_cast<float>(M_PI);
  float sine = std::sin(pi * x);
  return pi * pi / (sine * sine) -
         static_cast<float>(trigammaAbove(1 - static_cast<double>(x)));
}

double hurwitzZeta(double s, double q) {
  if (s == 1)
    return infinity;
  if (s < 1)
    return nan;
  if (q <= 0) {
    if (q == std::floor(q))
      return infinity;
    if (s != std::floor(s)) // a power of a negative number
      return nan;
  }
  if (std::isnan(s) || std::isnan(q))
    return nan;
  // Euler and Maclaurin's formula from the tenth term on, with B_2k / (2k)!.
  constexpr double c[] = {1.0 / 12,
                          -1.0 / 720,
                          1.0 / 30240,
                          -1.0 / 1209600,
                          1.0 / 47900160,
                          -691.0 / 1307674368000.0,
                          1.0 / 74724249600.0,
                          -3617.0 / 10670622842880000.0,
                          43867.0 / 5109094217170944000.0};
  double sum = 0, a = q;
  for (int k = 0; k < 10 || a <= 10; ++k, ++a) {
    double term = std::pow(a, -s);
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum))
      return sum;
  }
  double power = std::pow(a, -s);
  sum += a * power / (s - 1) + power / 2;
  double factor = s, scale = power / a;
  for (int k = 0; k < 9; ++k) {
    double term = c[k] * factor * scale;
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum))
      break;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    scale /= a * a;
  }
  return sum;
}

/// x^a e^-x / gamma(a).
static double scaleOf(double a, double x) {
  return std::exp(a * std::log(x) - x - logGamma(a));
}

/// Where P has a fast series; elsewhere Q has a fast continued fraction.
static bool isLow(double a, double x) { return x < a + 1; }

static double lowerSeries(double a, double x) {
  double term = 1 / a, sum = term;
  for (int k = 1; k < 100000; ++k) {
    term *= x / (a + k);
    sum += term;
    if (term < 1e-17 * sum)
      break;
  }
  return sum * scaleOf(a, x);
}

/// By Lentz's method.
static double upperFraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int k = 1; k < 100000; ++k) {
    double an = -k * (k - a);
    b += 2;
    d = an * d + b;
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    c = b + an / c;
    c = std::fabs(c) < tiny ? tiny : c;
    h *= d * c;
    if (std::fabs(d * c - 1) < 1e-16)
      break;
  }
  return h * scaleOf(a, x);
}

double lowerGamma(double a, double x) {
  if (a < 0 || x < 0)
    return nan;
  if (a == 0)
    return x > 0 ? 1 : nan;
  if (x == 0)
    return 0;
  if (std::isinf(a))
    return std::isinf(x) ? nan : 0;
  if (std::isinf(x))
    return 1;
  if (std::isnan(a) || std::isnan(x))
    return nan;
  return isLow(a, x) ? lowerSeries(a, x) : 1 - upperFraction(a, x);
}

double upperGamma(double a, double x) {
  if (a < 0 || x < 0)
    return nan;
  if (a == 0)
    return x > 0 ? 0 : nan;
  if (x == 0)
    return 1;
  if (std::isinf(a))
    return std::isinf(x) ? nan : 1;
  if (std::isinf(x))
    return 0;
  if (std::isnan(a) || std::isnan(x))
    return nan;
  return isLow(a, x) ? 1 - lowerSeries(a, x) : upperFraction(a, x);
}

} // namespace knapper::numeric
