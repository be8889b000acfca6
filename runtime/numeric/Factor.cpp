#include "runtime/numeric/Matrix.h"
#include "runtime/numeric/Rows.h"

#include <algorithm>
#include <cmath>

namespace knapper::numeric {

int32_t factorLu(double *a, int64_t m, int64_t n, int32_t *pivots, bool swaps) {
  int32_t info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; swaps && i < m; ++i)
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k]))
        pivot = i;
    pivots[k] = static_cast<int32_t>(pivot + 1);
    if (a[pivot * n + k] == 0) {
      if (!info)
        info = static_cast<int32_t>(k + 1);
      continue;
    }
    if (pivot != k)
      std::swap_ranges(a + k * n, a + k * n + n, a + pivot * n);
    for (int64_t i = k + 1; i < m; ++i) {
      double factor = a[i * n + k] /= a[k * n + k];
      if (factor != 0)
        subtractRows(a + i * n + k + 1, n - k - 1, a + k * n + k + 1, n,
                     &factor, 1, 1);
    }
  }
  return info;
}

namespace {

/// Several sums at once: one would wait for itself at every term.
double dot(const double *x, const double *y, int64_t n) {
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += x[i + lane] * y[i + lane];
  double sum = 0;
  for (; i < n; ++i)
    sum += x[i] * y[i];
  for (double each : sums)
    sum += each;
  return sum;
}

} // namespace

int32_t factorCholesky(double *a, int64_t n) {
  // By rows of the transposed factor, which lie in one run.
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j)
      a[j * n + i] = a[i * n + j];
  int32_t info = 0;
  for (int64_t j = 0; j < n && !info; ++j) {
    double *row = a + j * n + j;
    subtractRows(row, n - j, a + j, n, a + j, n, j);
    if (!(row[0] > 0)) {
      info = static_cast<int32_t>(j + 1);
      continue;
    }
    double root = std::sqrt(row[0]);
    row[0] = root; // also of infinity
    for (int64_t i = 1; i < n - j; ++i)
      row[i] /= root;
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) {
      a[i * n + j] = a[j * n + i];
      a[j * n + i] = 0;
    }
  return info;
}

void solveTriangular(const double *a, double *b, int64_t n, int64_t k,
                     bool upper, bool unit) {
  for (int64_t at = 0; at < n; ++at) {
    int64_t i = upper ? n - 1 - at : at;
    double *row = b + i * k;
    int64_t from = upper ? i + 1 : 0, to = upper ? n : i;
    if (k == 1) // b is one run
      row[0] -= dot(a + i * n + from, b + from, to - from);
    else
      subtractRows(row, k, b + from * k, k, a + i * n + from, 1, to - from);
    for (int64_t c = 0; !unit && c < k; ++c)
      row[c] /= a[i * n + i];
  }
}

void solveLu(const double *lu, const int32_t *pivots, double *b, int64_t n,
             int64_t k) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t other = pivots[i] - 1;
    if (other != i && other >= 0 && other < n)
      std::swap_ranges(b + i * k, b + i * k + k, b + other * k);
  }
  solveTriangular(lu, b, n, k, /*upper=*/false, /*unit=*/true);
  solveTriangular(lu, b, n, k, /*upper=*/true, /*unit=*/false);
}

/// c [m, n] from column `from` on becomes (1 - tau v v^T) c, v's elements above
/// row k being 0 and that in row k being 1; v is column k of a [m, width].
static void reflect(const double *a, int64_t width, int64_t k, double tau,
                    double *c, int64_t m, int64_t n, int64_t from) {
  int64_t length = n - from;
  if (tau == 0 || length <= 0)
    return;
  const double *v = a + (k + 1) * width + k;
  double *first = c + k * n + from;
  std::vector<double> sums(length);
  for (int64_t j = 0; j < length; ++j)
    sums[j] = -first[j];
  subtractRows(sums.data(), length, first + n, n, v, width, m - k - 1);
  for (int64_t j = 0; j < length; ++j) {
    sums[j] *= -tau;
    first[j] -= sums[j];
  }
  for (int64_t i = k + 1; i < m; ++i)
    subtractRows(c + i * n + from, length, sums.data(), length,
                 a + i * width + k, 1, 1);
}

/// One step of factorQr.
static void eliminateColumn(double *a, int64_t m, int64_t n, int64_t k,
                            double *tau) {
  double alpha = a[k * n + k], below = 0;
  for (int64_t i = k + 1; i < m; ++i)
    below = hypotenuse(below, a[i * n + k]);
  tau[k] = 0;
  if (below == 0)
    return;
  double beta = -std::copysign(hypotenuse(alpha, below), alpha);
  tau[k] = (beta - alpha) / beta;
  for (int64_t i = k + 1; i < m; ++i)
    a[i * n + k] /= alpha - beta;
  a[k * n + k] = beta;
  reflect(a, n, k, tau[k], a, m, n, k + 1);
}

void factorQr(double *a, int64_t m, int64_t n, double *tau) {
  for (int64_t k = 0; k < std::min(m, n); ++k)
    eliminateColumn(a, m, n, k, tau);
}

void factorPivotedQr(double *a, int64_t m, int64_t n, int32_t *pivots,
                     double *tau) {
  auto swap = [&](int64_t x, int64_t y) {
    for (int64_t i = 0; x != y && i < m; ++i)
      std::swap(a[i * n + x], a[i * n + y]);
    std::swap(pivots[x], pivots[y]);
  };
  int64_t fixed = 0;
  for (int64_t j = 0; j < n; ++j) {
    bool first = pivots[j] != 0;
    pivots[j] = static_cast<int32_t>(j + 1);
    if (first)
      swap(fixed++, j);
  }
  std::vector<double> lengths(n);
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    std::fill(lengths.begin(), lengths.end(), 0.0);
    for (int64_t i = k; k >= fixed && i < m; ++i)
      for (int64_t j = k; j < n; ++j)
        lengths[j] = hypotenuse(lengths[j], a[i * n + j]);
    swap(k, std::max_element(lengths.begin() + k, lengths.end()) -
                lengths.begin());
    eliminateColumn(a, m, n, k, tau);
  }
}

void productOfHouseholders(const double *a, int64_t m, int64_t n,
                           const double *tau, int64_t count, double *q,
                           int64_t columns) {
  std::fill(q, q + m * columns, 0.0);
  for (int64_t i = 0; i < std::min(m, columns); ++i)
    q[i * columns + i] = 1;
  for (int64_t k = std::min({count, m, n}); k-- > 0;)
    reflect(a, n, k, tau[k], q, m, columns, 0);
}

/// y = a b, all [n, n].
static void multiply(const double *a, const double *b, int64_t n, double *y) {
  std::fill(y, y + n * n, 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k) {
      double factor = a[i * n + k];
      for (int64_t j = 0; j < n; ++j)
        y[i * n + j] += factor * b[k * n + j];
    }
}

void exponential(const double *a, int64_t n, double *y) {
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += std::fabs(a[i * n + j]);
    norm = std::max(norm, sum);
  }
  int halvings = 0;
  if (norm > 0.25 && std::isfinite(norm))
    halvings = std::max(0, std::ilogb(norm) + 3);
  std::vector<double> small(a, a + n * n), term(n * n, 0.0), next(n * n);
  for (double &x : small)
    x = std::ldexp(x, -halvings);
  std::fill(y, y + n * n, 0.0);
  for (int64_t i = 0; i < n; ++i)
    y[i * n + i] = term[i * n + i] = 1;
  // Of norm 1/4 at most: fourteen terms of the series are exact.
  for (int k = 1; k <= 14; ++k) {
    multiply(term.data(), small.data(), n, next.data());
    for (int64_t i = 0; i < n * n; ++i)
      y[i] += term[i] = next[i] / k;
  }
  for (int k = 0; k < halvings; ++k) {
    multiply(y, y, n, next.data());
    std::copy(next.begin(), next.end(), y);
  }
}

} // namespace knapper::numeric
