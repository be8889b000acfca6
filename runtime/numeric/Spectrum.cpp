#include "runtime/numeric/Matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace knapper::numeric {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr int sweeps = 60;

bool isFinite(const double *a, int64_t count) {
  return std::all_of(a, a + count, [](double x) { return std::isfinite(x); });
}

struct Rotation {
  double c, s;
};

/// Takes `off` of the symmetric [[p, off], [off, q]] to 0.
Rotation rotation(double p, double q, double off) {
  double zeta = (q - p) / (2 * off);
  double t = std::copysign(1 / (std::fabs(zeta) + hypotenuse(1, zeta)), zeta);
  double c = 1 / hypotenuse(1, t);
  return {c, c * t};
}

void rotate(double *x, double *y, int64_t count, int64_t stride, Rotation r) {
  for (int64_t i = 0; i < count * stride; i += stride) {
    double a = x[i], b = y[i];
    x[i] = r.c * a - r.s * b;
    y[i] = r.s * a + r.c * b;
  }
}

double dot(const double *x, const double *y, int64_t count) {
  return std::inner_product(x, x + count, y, 0.0);
}

/// Rows of a [k, length], k <= length, become orthogonal; v [k, k] collects
/// the rotations, so that v * (a before) = a.
void orthogonalise(std::vector<double> &a, int64_t k, int64_t length,
                   std::vector<double> &v) {
  constexpr double small = std::numeric_limits<double>::epsilon();
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool rotated = false;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i + 1; j < k; ++j) {
        double *x = &a[i * length], *y = &a[j * length];
        double p = dot(x, x, length), q = dot(y, y, length),
               off = dot(x, y, length);
        if (off == 0 || std::fabs(off) <= small * std::sqrt(p) * std::sqrt(q))
          continue;
        Rotation r = rotation(p, q, off);
        rotate(x, y, length, 1, r);
        rotate(&v[i * k], &v[j * k], k, 1, r);
        rotated = true;
      }
    if (!rotated)
      return;
  }
}

} // namespace

void singular(const double *a, int64_t m, int64_t n, double *u, double *s,
              double *vh) {
  int64_t k = std::min(m, n), length = std::max(m, n);
  if (!isFinite(a, m * n)) {
    std::fill(u, u + m * k, nan);
    std::fill(s, s + k, nan);
    std::fill(vh, vh + k * n, nan);
    return;
  }
  double most = 0;
  for (int64_t i = 0; i < m * n; ++i)
    most = std::max(most, std::fabs(a[i]));
  // The shorter side's vectors as rows: those of A where it is wide, else its
  // columns.
  bool wide = m <= n;
  std::vector<double> rows(k * length), turns(k * k, 0.0);
  for (int64_t i = 0; i < k; ++i) {
    turns[i * k + i] = 1;
    for (int64_t j = 0; j < length; ++j)
      rows[i * length + j] =
          (wide ? a[i * n + j] : a[j * n + i]) / (most > 0 ? most : 1);
  }
  orthogonalise(rows, k, length, turns);
  std::vector<double> sizes(k);
  for (int64_t i = 0; i < k; ++i)
    sizes[i] = std::sqrt(dot(&rows[i * length], &rows[i * length], length));
  std::vector<int64_t> order(k);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return sizes[x] != sizes[y] ? sizes[x] > sizes[y] : x < y;
  });
  for (int64_t i = 0; i < k; ++i) {
    int64_t from = order[i];
    double size = sizes[from];
    s[i] = size * most;
    // turns * A = sizes * directions (wide), or A * turns^T = directions^T *
    // sizes.
    for (int64_t j = 0; j < length; ++j) {
      double direction = size > 0 ? rows[from * length + j] / size : 0;
      (wide ? vh[i * n + j] : u[j * k + i]) = direction;
    }
    for (int64_t j = 0; j < k; ++j)
      (wide ? u[j * k + i] : vh[i * n + j]) = turns[from * k + j];
  }
}

void eigenvalues(const double *a, int64_t n, double *w, double *v) {
  if (n == 1) { // also where it is not finite, as LAPACK has it
    w[0] = a[0];
    if (v)
      v[0] = 1;
    return;
  }
  std::vector<double> b(n * n), turns(v ? n * n : 0, 0.0);
  double scale = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      b[i * n + j] = b[j * n + i] = a[i * n + j];
      scale = std::max(scale, std::fabs(a[i * n + j]));
    }
  if (!isFinite(b.data(), n * n)) {
    std::fill(w, w + n, nan);
    if (v)
      std::fill(v, v + n * n, nan);
    return;
  }
  for (int64_t i = 0; v && i < n; ++i)
    turns[i * n + i] = 1;
  double small = std::numeric_limits<double>::epsilon() * scale * 1e-2;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool rotated = false;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) {
        double off = b[i * n + j];
        if (std::fabs(off) <= small)
          continue;
        Rotation r = rotation(b[i * n + i], b[j * n + j], off);
        rotate(&b[i * n], &b[j * n], n, 1, r);
        rotate(&b[i], &b[j], n, n, r);
        if (v)
          rotate(&turns[i * n], &turns[j * n], n, 1, r);
        rotated = true;
      }
    if (!rotated)
      break;
  }
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return std::pair(b[x * n + x], x) < std::pair(b[y * n + y], y);
  });
  for (int64_t i = 0; i < n; ++i) {
    w[i] = b[order[i] * n + order[i]];
    for (int64_t j = 0; v && j < n; ++j)
      v[j * n + i] = turns[order[i] * n + j];
  }
}

} // namespace knapper::numeric
