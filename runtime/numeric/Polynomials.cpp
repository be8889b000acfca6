#include "runtime/numeric/Special.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace knapper::numeric {
namespace {

/// -1: the polynomial is 0.
template <typename T> int64_t wholeOf(T degree) {
  if (!(degree > -1))
    return -1;
  return static_cast<int64_t>(std::fmin(degree, T(1e18)));
}

/// A step of a recurrence, infinite where T would overflow. Steps are taken in
/// double, for differences of nearly equal numbers leave few digits of a float.
template <typename T> double inRange(double step) {
  T rounded = static_cast<T>(step);
  return std::isinf(rounded) ? rounded : step;
}

/// The polynomial of degree n by P(k) = 2 y P(k-1) - P(k-2).
template <typename T> T recurrence(T y, T first, int64_t n) {
  double before = 1, now = first, twice = 2.0 * y;
  if (n == 0)
    return 1;
  for (int64_t k = 2; k <= n && !std::isnan(now); ++k) {
    double next = inRange<T>(twice * now - before);
    before = now;
    now = next;
  }
  return static_cast<T>(now);
}

enum class Kind { t, u, v, w };

/// Between -1 and 1 the recurrence grows wrong with the degree: from `far` on
/// the polynomials are quotients of sines and cosines.
template <typename T> T chebyshev(Kind kind, T y, T degree, int64_t far) {
  int64_t n = wholeOf(degree);
  if (n < 0)
    return 0;
  T twice = y + y;
  // Values at 1; at -1 that of the other kind with the sign of (-1)^n.
  auto one = [&](Kind of) {
    return of == Kind::u ? T(n + 1) : of == Kind::w ? T(2 * n + 1) : T(1);
  };
  if (y == 1)
    return one(kind);
  if (y == -1) {
    Kind other = kind == Kind::v ? Kind::w : kind == Kind::w ? Kind::v : kind;
    return n % 2 ? -one(other) : one(other);
  }
  if (n > far && std::fabs(y) < 1) {
    T angle = std::acos(y);
    switch (kind) {
    case Kind::t:
      return std::cos(n * angle);
    case Kind::u:
      return std::sin((n + 1) * angle) / std::sin(angle);
    case Kind::v:
      return std::cos((n + T(0.5)) * angle) / std::cos(angle / 2);
    case Kind::w:
      return std::sin((n + T(0.5)) * angle) / std::sin(angle / 2);
    }
  }
  T first = kind == Kind::t   ? y
            : kind == Kind::u ? twice
            : kind == Kind::v ? twice - 1
                              : twice + 1;
  return recurrence(y, first, n);
}

template <typename T> int64_t most() {
  return sizeof(T) == sizeof(double) ? 512 : 128;
}

} // namespace

template <typename T> T chebyshevT(T x, T degree) {
  return chebyshev(Kind::t, x, degree, 6);
}
template <typename T> T chebyshevU(T x, T degree) {
  return chebyshev(Kind::u, x, degree, 8);
}
template <typename T> T chebyshevV(T x, T degree) {
  return chebyshev(Kind::v, x, degree, 8);
}
template <typename T> T chebyshevW(T x, T degree) {
  return chebyshev(Kind::w, x, degree, 8);
}
template <typename T> T shiftedChebyshevT(T x, T degree) {
  return chebyshev(Kind::t, x + x - 1, degree, 6);
}
template <typename T> T shiftedChebyshevU(T x, T degree) {
  return chebyshev(Kind::u, x + x - 1, degree, 6);
}
template <typename T> T shiftedChebyshevV(T x, T degree) {
  return chebyshev(Kind::v, x + x - 1, degree, 6);
}
template <typename T> T shiftedChebyshevW(T x, T degree) {
  return chebyshev(Kind::w, x + x - 1, degree, 4);
}

template <typename T> T hermiteH(T x, T degree) {
  int64_t n = wholeOf(degree);
  if (n < 0)
    return 0;
  if (n > most<T>())
    return std::numeric_limits<T>::quiet_NaN();
  double twice = 2.0 * x, before = 1, now = inRange<T>(twice);
  for (int64_t k = 1; k < n; ++k) {
    double next = inRange<T>(twice * now - 2.0 * k * before);
    before = now;
    now = next;
  }
  return n == 0 ? T(1) : static_cast<T>(now);
}

template <typename T> T hermiteHe(T x, T degree) {
  int64_t n = wholeOf(degree);
  if (n < 0)
    return 0;
  if (n > most<T>())
    return std::numeric_limits<T>::quiet_NaN();
  double before = 1, now = x;
  for (int64_t k = 1; k < n; ++k) {
    double next = inRange<T>(x * now - k * before);
    before = now;
    now = next;
  }
  return n == 0 ? T(1) : static_cast<T>(now);
}

template <typename T> T laguerre(T x, T degree) {
  int64_t n = wholeOf(degree);
  if (n < 0)
    return 0;
  if (n == 0 || x == 0)
    return 1;
  double before = 1, now = 1.0 - x;
  for (int64_t k = 1; k < n && !std::isnan(now); ++k) {
    double next =
        inRange<T>((((k + k) + (1.0 - x)) * now - k * before) / (k + 1));
    before = now;
    now = next;
  }
  return static_cast<T>(now);
}

template <typename T> T legendre(T x, T degree) {
  int64_t n = wholeOf(degree);
  if (n < 0)
    return 0;
  if (std::fabs(x) == 1)
    return x > 0 || n % 2 == 0 ? 1 : -1;
  double before = 1, now = x;
  for (int64_t k = 1; k < n && !std::isnan(now); ++k) {
    double next = inRange<T>(((k + k + 1) * now * x - k * before) / (k + 1));
    before = now;
    now = next;
  }
  return n == 0 ? T(1) : static_cast<T>(now);
}

template float chebyshevT(float, float);
template double chebyshevT(double, double);
template float chebyshevU(float, float);
template double chebyshevU(double, double);
template float chebyshevV(float, float);
template double chebyshevV(double, double);
template float chebyshevW(float, float);
template double chebyshevW(double, double);
template float shiftedChebyshevT(float, float);
template double shiftedChebyshevT(double, double);
template float shiftedChebyshevU(float, float);
template double shiftedChebyshevU(double, double);
template float shiftedChebyshevV(float, float);
template double shiftedChebyshevV(double, double);
template float shiftedChebyshevW(float, float);
template double shiftedChebyshevW(double, double);
template float hermiteH(float, float);
template double hermiteH(double, double);
template float hermiteHe(float, float);
template double hermiteHe(double, double);
template float laguerre(float, float);
template double laguerre(double, double);
template float legendre(float, float);
template double legendre(double, double);

} // namespace knapper::numeric
