// Matrices that are not symmetric: Hessenberg and Schur forms, eigenvectors.
#include "runtime/numeric/Matrix.h"

#include <limits>

namespace knapper::numeric {
namespace {

using Complex = std::complex<double>;

constexpr double epsilon = std::numeric_limits<double>::epsilon() / 2;
constexpr double tiny = std::numeric_limits<double>::min();

double withSign(double size, double sign) {
  return std::copysign(size, sign == 0 ? 1.0 : sign);
}

/// What (1 - tau v v^T) takes x to (beta, 0, ...): v[0] is 1, x becomes beta
/// and the rest of v.
double reflector(double *x, int64_t count, int64_t stride) {
  double alpha = x[0], below = 0;
  for (int64_t i = 1; i < count; ++i)
    below = hypotenuse(below, x[i * stride]);
  if (below == 0)
    return 0;
  double beta = -withSign(hypotenuse(alpha, below), alpha);
  for (int64_t i = 1; i < count; ++i)
    x[i * stride] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

/// Rows `first`... of a [n, n] from column `from` to `to` become (1 - tau v
/// v^T) times what they are.
void reflectRows(double *a, int64_t n, const double *v, int64_t count,
                 double tau, int64_t first, int64_t from, int64_t to) {
  for (int64_t j = from; j < to; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += v[i] * a[(first + i) * n + j];
    for (int64_t i = 0; i < count; ++i)
      a[(first + i) * n + j] -= tau * sum * v[i];
  }
}
/// Columns `first`..., from row `from` to `to`.
void reflectColumns(double *a, int64_t n, const double *v, int64_t count,
                    double tau, int64_t first, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) {
    double *row = a + i * n + first, sum = 0;
    for (int64_t j = 0; j < count; ++j)
      sum += v[j] * row[j];
    for (int64_t j = 0; j < count; ++j)
      row[j] -= tau * sum * v[j];
  }
}

//===----------------------------------------------------------------------===//
// Blocks of two
//===----------------------------------------------------------------------===//

/// [[a, b], [c, d]] in the standard form: c is 0, or a is d and b c < 0.
struct StandardBlock {
  double a, b, c, d;
  double cosine = 1, sine = 0; ///< of the rotation that led there

  StandardBlock(double a, double b, double c, double d)
      : a(a), b(b), c(c), d(d) {
    if (c == 0)
      return;
    if (b == 0) {
      cosine = 0;
      sine = 1;
      std::swap(this->a, this->d);
      this->b = -c;
      this->c = 0;
      return;
    }
    if (a == d && (b > 0) != (c > 0))
      return;
    double half = (a - d) / 2, most = std::max(std::fabs(b), std::fabs(c)),
           least = std::min(std::fabs(b), std::fabs(c)) * withSign(1, b) *
                   withSign(1, c),
           scale = std::max(std::fabs(half), most),
           z = half / scale * half + most / scale * least;
    if (z >= 8 * epsilon)
      splitApart(half, most, least, scale, z);
    else
      equalise(half);
  }

  double imaginary() const { return std::sqrt(std::fabs(b * c)); }

private:
  /// Two real eigenvalues.
  void splitApart(double half, double most, double least, double scale,
                  double z) {
    z = half + withSign(std::sqrt(scale) * std::sqrt(z), half);
    a = d + z;
    d -= most / z * least;
    double length = hypotenuse(c, z);
    cosine = z / length;
    sine = c / length;
    b -= c;
    c = 0;
  }

  /// Complex eigenvalues, or real ones that are nearly equal.
  void equalise(double half) {
    double sigma = b + c, tau = hypotenuse(sigma, 2 * half);
    cosine = std::sqrt(0.5 * (1 + std::fabs(sigma) / tau));
    sine = -(half / (tau * cosine)) * withSign(1, sigma);
    double aa = a * cosine + b * sine, bb = -a * sine + b * cosine,
           cc = c * cosine + d * sine, dd = -c * sine + d * cosine;
    b = bb * cosine + dd * sine;
    c = -aa * sine + cc * cosine;
    double mean = 0.5 * (aa * cosine + cc * sine - bb * sine + dd * cosine);
    a = d = mean;
    if (c == 0)
      return;
    if (b == 0) {
      b = -c;
      c = 0;
      std::swap(cosine, sine);
      cosine = -cosine;
    } else if ((b > 0) == (c > 0)) {
      double rootB = std::sqrt(std::fabs(b)), rootC = std::sqrt(std::fabs(c)),
             p = withSign(rootB * rootC, c),
             each = 1 / std::sqrt(std::fabs(b + c)), cos1 = rootB * each,
             sin1 = rootC * each, rotated = cosine * cos1 - sine * sin1;
      a = mean + p;
      d = mean - p;
      b -= c;
      c = 0;
      sine = cosine * sin1 + sine * cos1;
      cosine = rotated;
    }
  }
};

/// The block at rows k, k + 1 of the form h is put in standard form.
void standardise(double *h, double *z, int64_t n, int64_t k) {
  double *upper = h + k * n, *lower = upper + n;
  StandardBlock block(upper[k], upper[k + 1], lower[k], lower[k + 1]);
  auto turn = [&](double &x, double &y) {
    double first = block.cosine * x + block.sine * y;
    y = block.cosine * y - block.sine * x;
    x = first;
  };
  for (int64_t j = k + 2; j < n; ++j)
    turn(upper[j], lower[j]);
  for (int64_t i = 0; i < k; ++i)
    turn(h[i * n + k], h[i * n + k + 1]);
  for (int64_t i = 0; i < n; ++i)
    turn(z[i * n + k], z[i * n + k + 1]);
  upper[k] = block.a;
  upper[k + 1] = block.b;
  lower[k] = block.c;
  lower[k + 1] = block.d;
}

//===----------------------------------------------------------------------===//
// The QR iteration with two shifts
//===----------------------------------------------------------------------===//

/// The first row from `last` upwards that has nothing left of its diagonal.
int64_t blockBegin(const double *h, int64_t n, int64_t last) {
  auto size = [&](int64_t i, int64_t j) { return std::fabs(h[i * n + j]); };
  for (int64_t k = last; k > 0; --k) {
    double off = size(k, k - 1), sum = size(k - 1, k - 1) + size(k, k);
    if (sum == 0) {
      sum += k > 1 ? size(k - 1, k - 2) : 0;
      sum += k < last ? size(k + 1, k) : 0;
    }
    if (off <= tiny)
      return k;
    if (off > epsilon * sum)
      continue;
    double other = size(k - 1, k), most = std::max(off, other),
           least = std::min(off, other),
           apart = std::fabs(h[(k - 1) * n + k - 1] - h[k * n + k]),
           large = std::max(size(k, k), apart),
           small = std::min(size(k, k), apart), s = large + most;
    if (least * (most / s) <= std::max(tiny, epsilon * (small * (large / s))))
      return k;
  }
  return 0;
}

/// Two shifts: eigenvalues of the last block, its trace and determinant.
struct Shifts {
  double sum, product;
};
Shifts shiftsOf(const double *h, int64_t n, int64_t first, int64_t last,
                int step) {
  auto at = [&](int64_t i, int64_t j) { return h[i * n + j]; };
  double a, b, c, d;
  bool top = step % 20 == 10;
  if (top || step % 20 == 0) { // out of a cycle
    int64_t corner = top ? first : last;
    double s =
        top ? std::fabs(at(first + 1, first)) +
                  std::fabs(at(first + 2, first + 1))
            : std::fabs(at(last, last - 1)) + std::fabs(at(last - 1, last - 2));
    a = d = 0.75 * s + at(corner, corner);
    b = -0.4375 * s;
    c = s;
  } else {
    a = at(last - 1, last - 1);
    b = at(last - 1, last);
    c = at(last, last - 1);
    d = at(last, last);
  }
  double half = (a + d) / 2, apart = (a - d) / 2,
         discriminant = apart * apart + b * c;
  if (discriminant < 0) // a pair
    return {a + d, a * d - b * c};
  // Twice the one that is nearer to the corner.
  double root = std::sqrt(discriminant), x = half + root, y = half - root;
  double near = std::fabs(x - d) <= std::fabs(y - d) ? x : y;
  return {2 * near, near * near};
}

/// One sweep over the rows from `first` to `last`.
void sweep(double *h, double *z, int64_t n, int64_t first, int64_t last,
           Shifts shifts) {
  auto at = [&](int64_t i, int64_t j) -> double & { return h[i * n + j]; };
  for (int64_t k = first; k < last; ++k) {
    double v[3];
    int64_t count = std::min<int64_t>(3, last - k + 1);
    if (k == first) { // the first column of (H - s1)(H - s2)
      double scale = std::fabs(at(k, k)) + std::fabs(at(k + 1, k)) +
                     std::sqrt(std::fabs(shifts.product));
      scale = scale > 0 ? scale : 1;
      v[0] = at(k, k) / scale * at(k, k) + at(k, k + 1) / scale * at(k + 1, k) -
             shifts.sum / scale * at(k, k) + shifts.product / scale;
      v[1] = at(k + 1, k) / scale * (at(k, k) + at(k + 1, k + 1) - shifts.sum);
      if (count == 3)
        v[2] = at(k + 1, k) / scale * at(k + 2, k + 1);
    } else {
      for (int64_t i = 0; i < count; ++i)
        v[i] = at(k + i, k - 1);
    }
    double tau = reflector(v, count, 1);
    if (k > first) {
      at(k, k - 1) = v[0];
      for (int64_t i = 1; i < count; ++i)
        at(k + i, k - 1) = 0;
    }
    v[0] = 1;
    reflectRows(h, n, v, count, tau, k, k, n);
    reflectColumns(h, n, v, count, tau, k, 0, std::min(k + 4, last + 1));
    reflectColumns(z, n, v, count, tau, k, 0, n);
  }
}

//===----------------------------------------------------------------------===//
// Eigenvectors
//===----------------------------------------------------------------------===//

/// x becomes the vector of the triangular t [n, n], whose blocks may be of two,
/// for the eigenvalue of the block that `at` is in.
void triangularVector(const std::vector<Complex> &t, int64_t n, int64_t at,
                      Complex value, double small, std::vector<Complex> &x) {
  auto of = [&](int64_t i, int64_t j) { return t[i * n + j]; };
  auto joined = [&](int64_t i) { return i > 0 && of(i, i - 1) != 0.0; };
  std::fill(x.begin(), x.end(), 0.0);
  int64_t last = at + 1 < n && joined(at + 1) ? at + 1 : at;
  int64_t i = joined(last) ? last - 1 : last;
  x[last] = 1;
  if (i != last) {
    x[i] = of(i, last);
    x[last] = value - of(i, i);
  }
  auto apart = [&](Complex number) {
    return std::abs(number) < small ? Complex(small) : number;
  };
  while (--i >= 0) {
    Complex sums[2] = {};
    int64_t above = joined(i) ? i - 1 : i;
    for (int64_t row = above; row <= i; ++row)
      for (int64_t j = i + 1; j <= last; ++j)
        sums[row - above] -= of(row, j) * x[j];
    if (above == i) {
      x[i] = sums[0] / apart(of(i, i) - value);
    } else {
      Complex a = of(above, above) - value, b = of(above, i), c = of(i, above),
              d = of(i, i) - value, determinant = apart(a * d - b * c);
      x[above] = (sums[0] * d - b * sums[1]) / determinant;
      x[i] = (a * sums[1] - c * sums[0]) / determinant;
    }
    i = above;
    double most = std::max(std::abs(x[i]), std::abs(x[above]));
    if (most > 1e100)
      for (Complex &each : x)
        each /= most;
  }
}

/// Column `at` of v becomes z x, of length 1 and with its largest part real.
void place(const double *z, const std::vector<Complex> &x, int64_t n,
           int64_t at, Complex *v) {
  double length = 0, most = -1;
  int64_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    Complex sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += z[i * n + j] * x[j];
    v[i * n + at] = sum;
    length = hypotenuse(length, std::abs(sum));
    if (std::abs(sum) > most) {
      most = std::abs(sum);
      largest = i;
    }
  }
  bool isReal = true;
  for (const Complex &each : x)
    isReal &= each.imag() == 0;
  Complex factor = isReal ? Complex(1 / length)
                          : std::conj(v[largest * n + at]) / most / length;
  for (int64_t i = 0; i < n; ++i)
    v[i * n + at] *= factor;
  v[largest * n + at].imag(0);
}

} // namespace

void reduceHessenberg(double *a, int64_t n, double *tau) {
  std::vector<double> v(n);
  for (int64_t k = 0; k + 1 < n; ++k) {
    int64_t count = n - k - 1;
    tau[k] = reflector(a + (k + 1) * n + k, count, n);
    v[0] = 1;
    for (int64_t i = 1; i < count; ++i)
      v[i] = a[(k + 1 + i) * n + k];
    reflectColumns(a, n, v.data(), count, tau[k], k + 1, 0, n);
    reflectRows(a, n, v.data(), count, tau[k], k + 1, k + 1, n);
  }
}

bool schurForm(double *a, int64_t n, double *z, Complex *w) {
  bool good =
      std::all_of(a, a + n * n, [](double x) { return std::isfinite(x); });
  std::vector<double> tau(std::max<int64_t>(n, 1));
  if (good)
    reduceHessenberg(a, n, tau.data());
  std::fill(z, z + n * n, 0.0);
  for (int64_t i = 0; i < n; ++i)
    z[i * n + i] = 1;
  std::vector<double> v(n);
  for (int64_t k = n - 1; good && k-- > 0;) {
    v[0] = 1;
    for (int64_t i = 1; i < n - k - 1; ++i) {
      v[i] = a[(k + 1 + i) * n + k];
      a[(k + 1 + i) * n + k] = 0;
    }
    reflectRows(z, n, v.data(), n - k - 1, tau[k], k + 1, k + 1, n);
  }
  int step = 0;
  for (int64_t last = n - 1; good && last >= 0;) {
    int64_t first = blockBegin(a, n, last);
    if (first > 0)
      a[first * n + first - 1] = 0;
    if (first + 1 < last) {
      good = ++step <= 30 * std::max<int64_t>(10, n);
      sweep(a, z, n, first, last, shiftsOf(a, n, first, last, step));
      continue;
    }
    if (first < last)
      standardise(a, z, n, first);
    last = first - 1;
    step = 0;
  }
  for (int64_t i = 0; good && i < n; ++i) {
    w[i] = a[i * n + i];
    if (i > 0 && a[i * n + i - 1] != 0) {
      double part = std::sqrt(std::fabs(a[i * n + i - 1])) *
                    std::sqrt(std::fabs(a[(i - 1) * n + i]));
      w[i - 1].imag(part);
      w[i].imag(-part);
    }
  }
  if (!good) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    std::fill(a, a + n * n, nan);
    std::fill(z, z + n * n, nan);
    std::fill(w, w + n, Complex(nan, nan));
  }
  return good;
}

void schurVectors(const double *t, const double *z, const Complex *w, int64_t n,
                  bool left, Complex *v) {
  // Those on the left are those of the transpose on the right, which is
  // triangular with its dims reversed.
  std::vector<Complex> upper(n * n), x(n);
  double norm = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      upper[i * n + j] = left ? t[(n - 1 - j) * n + (n - 1 - i)] : t[i * n + j];
      norm = std::max(norm, std::fabs(t[i * n + j]));
    }
  double small = std::max(epsilon * norm, tiny);
  for (int64_t k = 0; k < n; ++k) {
    triangularVector(upper, n, left ? n - 1 - k : k,
                     left ? std::conj(w[k]) : w[k], small, x);
    if (left)
      std::reverse(x.begin(), x.end());
    place(z, x, n, k, v);
  }
}

} // namespace knapper::numeric
