// Special functions against tabulated values and identities; factorisations
// against the products that they stand for.
#include "runtime/numeric/Matrix.h"
#include "runtime/numeric/Rows.h"
#include "runtime/numeric/Special.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace knapper::numeric;

namespace {

void expectNear(double got, double want, double relative = 1e-13) {
  EXPECT_NEAR(got, want, std::fabs(want) * relative) << want;
}

/// [m, n] whose elements look random.
std::vector<double> matrix(int64_t m, int64_t n, int seed = 1) {
  std::vector<double> a(m * n);
  for (int64_t i = 0; i < m * n; ++i)
    a[i] = std::sin(static_cast<double>(seed * 7 + i * i * 3 + i));
  return a;
}

/// a [m, k] times b [k, n].
std::vector<double> times(const std::vector<double> &a,
                          const std::vector<double> &b, int64_t m, int64_t k,
                          int64_t n) {
  std::vector<double> y(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        y[i * n + j] += a[i * k + l] * b[l * n + j];
  return y;
}

void expectClose(const std::vector<double> &a, const std::vector<double> &b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

} // namespace

TEST(Special, BesselFunctionsHaveTheirTabulatedValues) {
  // Abramowitz and Stegun, tables 9.1, 9.8 and 10.11.
  expectNear(besselJ0(2), 0.2238907791412357);
  expectNear(besselY1(2), -0.1070324315409375);
  expectNear(besselI0(1), 1.2660658777520084);
  expectNear(besselI1(-1), -0.5651591039924850);
  expectNear(besselK0(1), 0.4210244382407083);
  expectNear(besselK1(0.1), 9.853844780870606);
  expectNear(airyAi(1), 0.1352924163128814);
  EXPECT_NEAR(airyAi(-10), 0.0402412384864431, 1e-11);
  EXPECT_TRUE(std::isinf(besselK0(0)));
  EXPECT_TRUE(std::isnan(besselY0(-1)));
}

TEST(Special, SeriesMeetWhereTheyChange) {
  auto meets = [](double (*f)(double), double at, double relative) {
    expectNear(f(std::nextafter(at, 100)), f(at), relative);
  };
  meets(scaledBesselI0, 24, 1e-13);
  meets(scaledBesselI1, 24, 1e-13);
  meets(scaledBesselK0, 24, 1e-13);
  meets(airyAi, 1, 1e-12);
  meets(airyAi, -8.5, 1e-10);
  meets(scaledComplementOfErf, 25, 1e-12);
}

TEST(Special, GammaFunctions) {
  expectNear(digamma(1), -0.5772156649015329);
  expectNear(trigamma(0.5), M_PI * M_PI / 2);
  expectNear(hurwitzZeta(2, 1), M_PI * M_PI / 6);
  expectNear(hurwitzZeta(4, 0.5), std::pow(M_PI, 4) / 6);
  for (double a : {0.3, 2.0, 40.0})
    for (double x : {0.1, 1.9, 50.0})
      EXPECT_NEAR(lowerGamma(a, x) + upperGamma(a, x), 1, 1e-14);
  expectNear(upperGamma(1, 3), std::exp(-3.0));
  EXPECT_TRUE(std::isnan(lowerGamma(-1, 1)));
}

TEST(Special, InversesUndoTheirFunctions) {
  for (double x : {-3.5, -0.4, 1e-12, 0.2, 0.7, 4.0})
    expectNear(inverseOfErf(std::erf(x)), x, 1e-7);
  for (double p : {1e-300, 1e-5, 0.2, 0.5, 0.9})
    expectNear(0.5 * std::erfc(-normalQuantile(p) / std::sqrt(2.0)), p, 1e-12);
}

TEST(Special, PolynomialsAgreeWithTheirFormulas) {
  double x = 0.3;
  expectNear(chebyshevT(x, 3.0), 4 * x * x * x - 3 * x);
  expectNear(chebyshevU(x, 2.0), 4 * x * x - 1);
  expectNear(hermiteH(x, 3.0), 8 * x * x * x - 12 * x);
  expectNear(hermiteHe(x, 2.0), x * x - 1);
  expectNear(laguerre(x, 2.0), (x * x - 4 * x + 2) / 2);
  expectNear(legendre(x, 2.0), (3 * x * x - 1) / 2);
  expectNear(chebyshevV(x, 9.0), chebyshevU(x, 9.0) - chebyshevU(x, 8.0),
             1e-12);
  expectNear(shiftedChebyshevW(x, 4.0), chebyshevW(2 * x - 1, 4.0));
  EXPECT_EQ(chebyshevW(-1.0, 3.0), -1);
  EXPECT_EQ(legendre(x, -2.0), 0);
  EXPECT_TRUE(std::isnan(hermiteH(0.5F, 129.0F)));
  // Near a root, where steps in float would leave three digits.
  for (float at : {-3.3279209F, 1.7320509F, 2.8569701F})
    for (float degree : {3.0F, 5.0F, 6.0F, 9.0F})
      EXPECT_EQ(hermiteHe(at, degree),
                static_cast<float>(hermiteHe<double>(at, degree)));
  // What overflows a float on the way is no number in the end, as in float.
  EXPECT_TRUE(std::isinf(hermiteHe(100.0F, 20.0F)));
  EXPECT_TRUE(std::isnan(hermiteHe(100.0F, 22.0F)));
}

TEST(Matrix, FactorisationsMultiplyBack) {
  for (auto [m, n] :
       {std::pair<int64_t, int64_t>{4, 4}, {6, 3}, {3, 6}, {1, 1}, {90, 71}}) {
    int64_t k = std::min(m, n);
    std::vector<double> a = matrix(m, n), qr = a, tau(k), q(m * k), r(k * n);
    factorQr(qr.data(), m, n, tau.data());
    std::vector<double> vectors(m * k);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j)
        vectors[i * k + j] = qr[i * n + j];
    productOfHouseholders(vectors.data(), m, k, tau.data(), k, q.data(), k);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i; j < n; ++j)
        r[i * n + j] = qr[i * n + j];
    expectClose(times(q, r, m, k, n), a);

    std::vector<double> u(m * k), s(k), vh(k * n);
    singular(a.data(), m, n, u.data(), s.data(), vh.data());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j)
        u[i * k + j] *= s[j];
    expectClose(times(u, vh, m, k, n), a);
    EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend()));
  }
}

TEST(Matrix, SystemsAreSolved) {
  constexpr int64_t n = 5, k = 2;
  std::vector<double> a = matrix(n, n), x = matrix(n, k, 2),
                      b = times(a, x, n, n, k), lu = a;
  int32_t pivots[n];
  EXPECT_EQ(factorLu(lu.data(), n, n, pivots, true), 0);
  solveLu(lu.data(), pivots, b.data(), n, k);
  expectClose(b, x);
  std::vector<double> singularOne = {1, 2, 2, 4};
  EXPECT_EQ(factorLu(singularOne.data(), 2, 2, pivots, true), 2);
  std::vector<double> positive = {4, 9, 2, 10};
  EXPECT_EQ(factorCholesky(positive.data(), 2), 0);
  expectClose(positive, {2, 0, 1, 3});
  std::vector<double> negative = {1, 0, 0, -1};
  EXPECT_EQ(factorCholesky(negative.data(), 2), 2);
  std::vector<double> infinite = {INFINITY, 0, 1, 4};
  EXPECT_EQ(factorCholesky(infinite.data(), 2), 0);
  expectClose({infinite.begin() + 1, infinite.end()}, {0, 0, 2});
  EXPECT_EQ(infinite[0], INFINITY);
}

TEST(Matrix, RowsOfEveryLength) {
  constexpr int64_t most = 150, count = 5;
  std::vector<double> x = matrix(count, most, 3), f = matrix(count, 2, 4);
  for (int64_t n = 0; n < most; ++n) {
    std::vector<double> y = matrix(1, most, 5), wanted = y;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t t = 0; t < count; ++t)
        wanted[i] -= f[t * 2] * x[t * most + i];
    subtractRows(y.data(), n, x.data(), most, f.data(), 2, count);
    expectClose(y, wanted);
  }
}

TEST(Matrix, LargeSystems) {
  for (int64_t n : {3, 33, 100, 131}) {
    std::vector<double> a = matrix(n, n), transposed(n * n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        a[i * n + j] *= j < i ? 1.0 / static_cast<double>(n) : 0;
      a[i * n + i] = 2;
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        transposed[j * n + i] = a[i * n + j];
    std::vector<double> square = times(a, transposed, n, n, n), factor = square;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j)
        factor[i * n + j] = NAN; // the upper triangle is not read
    EXPECT_EQ(factorCholesky(factor.data(), n), 0);
    expectClose(factor, a);
    for (int64_t k : {1, 2, 99}) {
      std::vector<double> x = matrix(n, k, 6), b = times(a, x, n, n, k);
      solveTriangular(a.data(), b.data(), n, k, false, false);
      expectClose(b, x);
      b = times(transposed, x, n, n, k);
      solveTriangular(transposed.data(), b.data(), n, k, true, false);
      expectClose(b, x);
    }
    std::vector<int32_t> pivots(n);
    std::vector<double> x = matrix(n, 3, 7), b = times(square, x, n, n, 3);
    EXPECT_EQ(factorLu(square.data(), n, n, pivots.data(), true), 0);
    solveLu(square.data(), pivots.data(), b.data(), n, 3);
    expectClose(b, x);
  }
}

TEST(Matrix, SpectraAndExponentials) {
  std::vector<double> a = {2, 99, 1, 2}; // the upper triangle is not read
  double w[2];
  eigenvalues(a.data(), 2, w);
  expectNear(w[0], 1);
  expectNear(w[1], 3);
  std::vector<double> turn = {0, -M_PI / 2, M_PI / 2, 0}, y(4);
  exponential(turn.data(), 2, y.data());
  expectClose(y, {0, -1, 1, 0});
  std::vector<double> bad = {1, NAN, NAN, 1};
  eigenvalues(bad.data(), 2, w);
  EXPECT_TRUE(std::isnan(w[0]));
  std::vector<double> one = {INFINITY}, v(1);
  eigenvalues(one.data(), 1, w, v.data());
  EXPECT_EQ(w[0], INFINITY);
  EXPECT_EQ(v[0], 1);
}

TEST(Matrix, SchurFormsAndHessenbergFormsMultiplyToTheMatrix) {
  for (int64_t n : {0, 1, 2, 5, 30}) {
    std::vector<double> a = matrix(n, n), t = a, z(n * n), w(n);
    std::vector<std::complex<double>> values(n), v(n * n);
    ASSERT_TRUE(schurForm(t.data(), n, z.data(), values.data()));
    std::vector<double> transposed(n * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        transposed[i * n + j] = z[j * n + i];
    expectClose(times(times(z, t, n, n, n), transposed, n, n, n), a);
    for (bool left : {false, true}) {
      schurVectors(t.data(), z.data(), values.data(), n, left, v.data());
      for (int64_t k = 0; k < n; ++k)
        for (int64_t i = 0; i < n; ++i) {
          std::complex<double> sum = 0;
          for (int64_t j = 0; j < n; ++j)
            sum += (left ? a[j * n + i] : a[i * n + j]) * v[j * n + k];
          std::complex<double> value = left ? std::conj(values[k]) : values[k];
          EXPECT_NEAR(std::abs(sum - value * v[i * n + k]), 0, 1e-12);
        }
    }
  }
  double bad[1] = {NAN}, z[1];
  std::complex<double> value;
  EXPECT_FALSE(schurForm(bad, 1, z, &value));
}

TEST(Matrix, PivotedQrKeepsChosenColumnsFirst) {
  std::vector<double> a = matrix(4, 3), q(12), tau(3), r(9, 0.0);
  std::vector<double> packed = a;
  int32_t pivots[3] = {0, 0, 1};
  factorPivotedQr(packed.data(), 4, 3, pivots, tau.data());
  EXPECT_EQ(pivots[0], 3);
  productOfHouseholders(packed.data(), 4, 3, tau.data(), 3, q.data(), 3);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = i; j < 3; ++j)
      r[i * 3 + j] = packed[i * 3 + j];
  std::vector<double> product = times(q, r, 4, 3, 3);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_NEAR(product[i * 3 + j], a[i * 3 + pivots[j] - 1], 1e-12);
}
