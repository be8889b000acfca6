// Operators of the runtime's domain that lie in libknapper_numeric.so.
#pragma once

#include "knapper/knapper.h"

#include <vector>

namespace knapper::numeric {

/// One element after the other, of tensors of one shape. "Special" operators
/// take f32 or f64 and give the same: AiryAi, BesselJ0... of one tensor; Zeta,
/// LowerGamma, UpperGamma and polynomials (x, degree) of two. IntegerGcd takes
/// two tensors of i64.
std::vector<knapper_operator> elementOperators();

/// Of matrices of f64 in the last two dims, one for each index of the others:
///   MatrixLu          a [m, n] -> LU, pivots i32 [k], info i32 []; swaps
///   MatrixCholesky    a [n, n] -> L, info i32 []; strict: the call fails
///                     where a is not positive definite
///   MatrixSolve       a [n, n], b [n, c] -> X of T X = B; upper, unit
///   MatrixSolveLu     LU [n, n], pivots i32 [n], b [n, c] -> X of A X = B
///   MatrixQr          a [m, n] -> R and vectors [m, n], factors [k]
///   MatrixPivotedQr   a [m, n], i32 [n] -> the same, pivots i32 [n] between
///   MatrixHouseholder vectors [m, n], factors [k] -> Q [m, n], or [m, m]
///                     where `square` is set
///   MatrixExp         a [n, n] -> e^A
///   MatrixSvd         a [m, n] -> U [m, k], S [k], Vh [k, n]
///   MatrixEigenvalues a [n, n] -> [n], of a symmetric a
///   MatrixEigenvectors a [n, n] -> [n], V [n, n], of a symmetric a
///   MatrixHessenberg  a [n, n] -> H and vectors [n, n], factors [n - 1]
///   MatrixSchur       a [n, n] -> T, Z [n, n], eigenvalues' parts [n], [n]
///   MatrixEig         a [n, n] -> eigenvalues' parts [n], [n], parts of the
///                     vectors on the left and on the right [n, n] each, 0
///                     where `left` or `right` is off
/// with k = min(m, n).
std::vector<knapper_operator> matrixOperators();

/// Reports through the call; returns 1.
int failCall(const knapper_call *call, const char *message);
/// An integer among the node's attributes.
int64_t integerOf(const knapper_call *call, const char *name,
                  int64_t otherwise);

} // namespace knapper::numeric
