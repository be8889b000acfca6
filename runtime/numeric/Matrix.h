// Factorisations of one dense matrix of doubles, row-major and without gaps.
// Sizes may be 0. Signs and pivots are LAPACK's. Thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

namespace knapper::numeric {

/// sqrt(a^2 + b^2); the squares do not overflow. std::hypot needs a C library
/// newer than those that Knapper runs on.
inline double hypotenuse(double a, double b) {
  double sum = std::fabs(a) + std::fabs(b);
  if (!(sum > 0) || std::isinf(sum))
    return sum;
  double longer = std::max(std::fabs(a), std::fabs(b));
  double ratio = std::min(std::fabs(a), std::fabs(b)) / longer;
  return longer * std::sqrt(1 + ratio * ratio);
}

//===----------------------------------------------------------------------===//
// Factor.cpp
//===----------------------------------------------------------------------===//
/// a [m, n] becomes L (unit, below the diagonal) and U of P A = L U with rows
/// swapped by size; pivots [min(m, n)] has, counted from 1, the row that each
/// row was swapped with. `swaps` off: no rows are swapped. Returns the number
/// of the first pivot that is 0, counted from 1, or 0.
int32_t factorLu(double *a, int64_t m, int64_t n, int32_t *pivots, bool swaps);
/// a [n, n], of which the lower triangle is read, becomes L with zeros above.
/// Returns the order of the first leading minor that is not positive, or 0.
int32_t factorCholesky(double *a, int64_t n);
/// b [n, k] becomes the X of T X = B with a triangle T of a [n, n]; `unit`: the
/// diagonal counts as 1.
void solveTriangular(const double *a, double *b, int64_t n, int64_t k,
                     bool upper, bool unit);
/// b [n, k] becomes the X of A X = B with what factorLu gave.
void solveLu(const double *lu, const int32_t *pivots, double *b, int64_t n,
             int64_t k);
/// a [m, n] becomes R and, below the diagonal, the Householder vectors of
/// A = Q R; tau [min(m, n)] their factors.
void factorQr(double *a, int64_t m, int64_t n, double *tau);
/// The same of A P = Q R with columns swapped by what is left of their length;
/// those that `pivots` [n] has not 0 for come first. `pivots` becomes, counted
/// from 1, the column of A that each is.
void factorPivotedQr(double *a, int64_t m, int64_t n, int32_t *pivots,
                     double *tau);
/// The first `columns` columns of Q, as [m, columns], of `count` Householder
/// vectors in a [m, n].
void productOfHouseholders(const double *a, int64_t m, int64_t n,
                           const double *tau, int64_t count, double *q,
                           int64_t columns);
/// e^A by scaling and squaring; y [n, n].
void exponential(const double *a, int64_t n, double *y);

//===----------------------------------------------------------------------===//
// Spectrum.cpp
//===----------------------------------------------------------------------===//
/// Singular values of a [m, n], falling, and with k = min(m, n) the singular
/// vectors u [m, k] and vh [k, n], by Jacobi's one-sided rotations. NaN or
/// infinity in `a` gives NaN everywhere.
void singular(const double *a, int64_t m, int64_t n, double *u, double *s,
              double *vh);
/// Eigenvalues, rising, of a symmetric matrix [n, n], whose lower triangle is
/// read, and unless `v` is null the eigenvectors as its columns [n, n]; by
/// Jacobi's rotations. NaN or infinity in `a` gives NaN everywhere, but for one
/// number, which is its own eigenvalue.
void eigenvalues(const double *a, int64_t n, double *w, double *v = nullptr);

//===----------------------------------------------------------------------===//
// Schur.cpp
//===----------------------------------------------------------------------===//
/// a [n, n] becomes H and, below the diagonal's neighbour, the Householder
/// vectors of A = Q H Q^T; tau [n - 1] their factors.
void reduceHessenberg(double *a, int64_t n, double *tau);
/// a [n, n] becomes the T of A = Z T Z^T, with blocks of two on the diagonal
/// for pairs of complex eigenvalues; w [n] are the eigenvalues. False where the
/// iteration does not end, or `a` is not finite: all is NaN.
bool schurForm(double *a, int64_t n, double *z, std::complex<double> *w);
/// Eigenvectors of length 1 as columns of v [n, n], or those of `left`, v^H A =
/// w v^H, from what schurForm gave.
void schurVectors(const double *t, const double *z,
                  const std::complex<double> *w, int64_t n, bool left,
                  std::complex<double> *v);

} // namespace knapper::numeric
