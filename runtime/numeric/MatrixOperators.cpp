#include "runtime/numeric/Matrix.h"
#include "runtime/numeric/NumericOperators.h"
#include "runtime/operators/HostDomain.h"

#include <algorithm>

namespace knapper::numeric {
namespace {

/// The matrices of one tensor.
struct Matrices {
  explicit Matrices(const knapper_tensor &x)
      : data(static_cast<double *>(x.data)), rows(x.shape[x.rank - 2]),
        columns(x.shape[x.rank - 1]) {
    for (int32_t d = 0; d + 2 < x.rank; ++d)
      count *= x.shape[d];
  }
  double *at(int64_t i) const { return data + i * rows * columns; }
  int64_t least() const { return std::min(rows, columns); }

  double *data;
  int64_t count = 1, rows, columns;
};

template <typename T> T *result(const knapper_call *call, int i) {
  return static_cast<T *>(call->outputs[i].data);
}
void copyInto(const knapper_call *call, int input, int output) {
  const knapper_tensor &x = call->inputs[input];
  std::copy_n(static_cast<const double *>(x.data), x.bytes / sizeof(double),
              result<double>(call, output));
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// The dims of `x` less its last two, then `tail`.
knapper_result_shape shapeOf(const knapper_tensor &x, knapper_dtype dtype,
                             std::initializer_list<int64_t> tail) {
  knapper_result_shape made = {dtype, 0, {}};
  for (int32_t d = 0; d + 2 < x.rank; ++d)
    made.shape[made.rank++] = x.shape[d];
  for (int64_t size : tail)
    made.shape[made.rank++] = size;
  return made;
}
int64_t rowsOf(const knapper_tensor &x) { return x.shape[x.rank - 2]; }
int64_t columnsOf(const knapper_tensor &x) { return x.shape[x.rank - 1]; }
int64_t leastOf(const knapper_tensor &x) {
  return std::min(rowsOf(x), columnsOf(x));
}

int luShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), columnsOf(a)});
  results[1] = shapeOf(a, KNAPPER_I32, {leastOf(a)});
  results[2] = shapeOf(a, KNAPPER_I32, {});
  return 0;
}
int choleskyShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), columnsOf(a)});
  results[1] = shapeOf(a, KNAPPER_I32, {});
  return 0;
}
template <int input>
int sameShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[input];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), columnsOf(a)});
  return 0;
}
int qrShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), columnsOf(a)});
  results[1] = shapeOf(a, KNAPPER_F64, {leastOf(a)});
  return 0;
}
int householderShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(
      a, KNAPPER_F64,
      {rowsOf(a), integerOf(call, "square", 0) ? rowsOf(a) : columnsOf(a)});
  return 0;
}
int svdShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), leastOf(a)});
  results[1] = shapeOf(a, KNAPPER_F64, {leastOf(a)});
  results[2] = shapeOf(a, KNAPPER_F64, {leastOf(a), columnsOf(a)});
  return 0;
}
int eigenShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a)});
  return 0;
}

int pivotedQrShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), columnsOf(a)});
  results[1] = shapeOf(a, KNAPPER_I32, {columnsOf(a)});
  results[2] = shapeOf(a, KNAPPER_F64, {leastOf(a)});
  return 0;
}
int hessenbergShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  results[0] = shapeOf(a, KNAPPER_F64, {rowsOf(a), rowsOf(a)});
  results[1] = shapeOf(a, KNAPPER_F64, {std::max<int64_t>(rowsOf(a) - 1, 0)});
  return 0;
}
/// `squares` results [n, n], then or before those two of [n].
template <int squares, bool before>
int spectrumShape(const knapper_call *call, knapper_result_shape *results) {
  const knapper_tensor &a = call->inputs[0];
  int lists = before ? squares : 0;
  for (int i = 0; i < squares; ++i)
    results[before ? i : i + 2] =
        shapeOf(a, KNAPPER_F64, {rowsOf(a), rowsOf(a)});
  for (int i = lists; i < lists + 2; ++i)
    results[i] = shapeOf(a, KNAPPER_F64, {rowsOf(a)});
  return 0;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

int lu(void *, const knapper_call *call) {
  copyInto(call, 0, 0);
  Matrices a(call->outputs[0]);
  bool swaps = integerOf(call, "swaps", 1) != 0;
  for (int64_t i = 0; i < a.count; ++i)
    result<int32_t>(call, 2)[i] =
        factorLu(a.at(i), a.rows, a.columns,
                 result<int32_t>(call, 1) + i * a.least(), swaps);
  return 0;
}

int cholesky(void *, const knapper_call *call) {
  copyInto(call, 0, 0);
  Matrices a(call->outputs[0]);
  auto *info = result<int32_t>(call, 1);
  for (int64_t i = 0; i < a.count; ++i) {
    info[i] = factorCholesky(a.at(i), a.rows);
    if (info[i] && integerOf(call, "strict", 0))
      return failCall(call, "a matrix is not positive definite");
  }
  return 0;
}

int solve(void *, const knapper_call *call) {
  copyInto(call, 1, 0);
  Matrices a(call->inputs[0]), b(call->outputs[0]);
  bool upper = integerOf(call, "upper", 0) != 0,
       unit = integerOf(call, "unit", 0) != 0;
  for (int64_t i = 0; i < a.count; ++i)
    solveTriangular(a.at(i), b.at(i), a.rows, b.columns, upper, unit);
  return 0;
}

int solveByLu(void *, const knapper_call *call) {
  copyInto(call, 2, 0);
  Matrices a(call->inputs[0]), b(call->outputs[0]);
  auto *pivots = static_cast<const int32_t *>(call->inputs[1].data);
  for (int64_t i = 0; i < a.count; ++i)
    solveLu(a.at(i), pivots + i * a.rows, b.at(i), a.rows, b.columns);
  return 0;
}

int qr(void *, const knapper_call *call) {
  copyInto(call, 0, 0);
  Matrices a(call->outputs[0]);
  for (int64_t i = 0; i < a.count; ++i)
    factorQr(a.at(i), a.rows, a.columns,
             result<double>(call, 1) + i * a.least());
  return 0;
}

int householder(void *, const knapper_call *call) {
  Matrices a(call->inputs[0]), q(call->outputs[0]);
  const knapper_tensor &factors = call->inputs[1];
  int64_t count = factors.shape[factors.rank - 1];
  for (int64_t i = 0; i < a.count; ++i)
    productOfHouseholders(a.at(i), a.rows, a.columns,
                          static_cast<const double *>(factors.data) + i * count,
                          count, q.at(i), q.columns);
  return 0;
}

int exponentials(void *, const knapper_call *call) {
  Matrices a(call->inputs[0]), y(call->outputs[0]);
  for (int64_t i = 0; i < a.count; ++i)
    exponential(a.at(i), a.rows, y.at(i));
  return 0;
}

int svd(void *, const knapper_call *call) {
  Matrices a(call->inputs[0]), u(call->outputs[0]), vh(call->outputs[2]);
  for (int64_t i = 0; i < a.count; ++i)
    singular(a.at(i), a.rows, a.columns, u.at(i),
             result<double>(call, 1) + i * a.least(), vh.at(i));
  return 0;
}

int eigen(void *, const knapper_call *call) {
  Matrices a(call->inputs[0]);
  for (int64_t i = 0; i < a.count; ++i)
    eigenvalues(a.at(i), a.rows, result<double>(call, 0) + i * a.rows);
  return 0;
}

int eigenvectorShape(const knapper_call *call, knapper_result_shape *results) {
  results[1] = shapeOf(call->inputs[0], KNAPPER_F64,
                       {rowsOf(call->inputs[0]), columnsOf(call->inputs[0])});
  return eigenShape(call, results);
}

int eigenvectors(void *, const knapper_call *call) {
  Matrices a(call->inputs[0]), v(call->outputs[1]);
  for (int64_t i = 0; i < a.count; ++i)
    eigenvalues(a.at(i), a.rows, result<double>(call, 0) + i * a.rows, v.at(i));
  return 0;
}

int pivotedQr(void *, const knapper_call *call) {
  copyInto(call, 0, 0);
  Matrices a(call->outputs[0]);
  auto *pivots = result<int32_t>(call, 1);
  std::copy_n(static_cast<const int32_t *>(call->inputs[1].data),
              a.count * a.columns, pivots);
  for (int64_t i = 0; i < a.count; ++i)
    factorPivotedQr(a.at(i), a.rows, a.columns, pivots + i * a.columns,
                    result<double>(call, 2) + i * a.least());
  return 0;
}

int hessenberg(void *, const knapper_call *call) {
  copyInto(call, 0, 0);
  Matrices a(call->outputs[0]);
  for (int64_t i = 0; i < a.count; ++i)
    reduceHessenberg(a.at(i), a.rows,
                     result<double>(call, 1) +
                         i * std::max<int64_t>(a.rows - 1, 0));
  return 0;
}

/// Real and imaginary parts to two results, from element `at` on.
void outParts(const knapper_call *call, int first, int64_t at,
              const std::vector<std::complex<double>> &values) {
  for (size_t i = 0; i < values.size(); ++i) {
    result<double>(call, first)[at + static_cast<int64_t>(i)] =
        values[i].real();
    result<double>(call, first + 1)[at + static_cast<int64_t>(i)] =
        values[i].imag();
  }
}

int schur(void *, const knapper_call *call) {
  copyInto(call, 0, 0);
  Matrices a(call->outputs[0]), z(call->outputs[1]);
  std::vector<std::complex<double>> w(a.rows);
  for (int64_t i = 0; i < a.count; ++i) {
    schurForm(a.at(i), a.rows, z.at(i), w.data());
    outParts(call, 2, i * a.rows, w);
  }
  return 0;
}

int eig(void *, const knapper_call *call) {
  Matrices a(call->inputs[0]);
  int64_t n = a.rows;
  std::vector<std::complex<double>> w(n), v(n * n);
  std::vector<double> t(n * n), z(n * n);
  for (int64_t i = 0; i < a.count; ++i) {
    std::copy_n(a.at(i), n * n, t.data());
    bool good = schurForm(t.data(), n, z.data(), w.data());
    outParts(call, 0, i * n, w);
    for (bool left : {true, false}) {
      std::fill(v.begin(), v.end(), good ? 0 : t[0]);
      if (good && integerOf(call, left ? "left" : "right", 1))
        schurVectors(t.data(), z.data(), w.data(), n, left, v.data());
      outParts(call, left ? 2 : 4, i * n * n, v);
    }
  }
  return 0;
}

/// `takes` has a letter an input: m a matrix, s a square one, r a matrix with
/// as many rows as the first, p pivots, c an integer a column, t factors of
/// vectors.
struct MatrixRow {
  const char *name, *takes;
  int32_t gives;
  int (*shape)(const knapper_call *, knapper_result_shape *);
  decltype(knapper_operator::compute) compute;
};

constexpr MatrixRow rows[] = {
    {"MatrixCholesky", "s", 2, choleskyShape, cholesky},
    {"MatrixEig", "s", 6, spectrumShape<4, false>, eig},
    {"MatrixEigenvalues", "s", 1, eigenShape, eigen},
    {"MatrixEigenvectors", "s", 2, eigenvectorShape, eigenvectors},
    {"MatrixExp", "s", 1, sameShape<0>, exponentials},
    {"MatrixHessenberg", "s", 2, hessenbergShape, hessenberg},
    {"MatrixHouseholder", "mt", 1, householderShape, householder},
    {"MatrixLu", "m", 3, luShape, lu},
    {"MatrixPivotedQr", "mc", 3, pivotedQrShape, pivotedQr},
    {"MatrixQr", "m", 2, qrShape, qr},
    {"MatrixSchur", "s", 4, spectrumShape<2, true>, schur},
    {"MatrixSolve", "sr", 1, sameShape<1>, solve},
    {"MatrixSolveLu", "spr", 1, sameShape<2>, solveByLu},
    {"MatrixSvd", "m", 3, svdShape, svd},
};

bool isTaken(char letter, const knapper_tensor &first,
             const knapper_tensor &x) {
  bool integers = letter == 'p' || letter == 'c',
       list = integers || letter == 't';
  if (first.rank < 2 || x.rank != first.rank - (list ? 1 : 0) ||
      x.dtype != (integers ? KNAPPER_I32 : KNAPPER_F64) ||
      !std::equal(x.shape, x.shape + first.rank - 2, first.shape))
    return false;
  switch (letter) {
  case 's':
    return rowsOf(x) == columnsOf(x);
  case 'r':
    return rowsOf(x) == rowsOf(first);
  case 'p':
    return x.shape[x.rank - 1] == leastOf(first);
  case 'c':
    return x.shape[x.rank - 1] == columnsOf(first);
  case 't':
    return x.shape[x.rank - 1] <= leastOf(first);
  default:
    return true;
  }
}

/// The call may be of a damaged artefact.
int checkedShape(void *user, const knapper_call *call,
                 knapper_result_shape *results) {
  const MatrixRow &row = *static_cast<const MatrixRow *>(user);
  int32_t count = 0;
  bool good = call->num_outputs == row.gives;
  for (const char *letter = row.takes; *letter; ++letter, ++count)
    good = good && count < call->num_inputs &&
           isTaken(*letter, call->inputs[0], call->inputs[count]);
  if (!good || count != call->num_inputs)
    return failCall(call, "the operator is called with other tensors than it "
                          "takes: the file is damaged");
  return row.shape(call, results);
}

} // namespace

std::vector<knapper_operator> matrixOperators() {
  std::vector<knapper_operator> made;
  for (const MatrixRow &row : rows)
    made.push_back({sizeof(knapper_operator), kHostDomain, row.name,
                    checkedShape, row.compute, const_cast<MatrixRow *>(&row),
                    nullptr});
  return made;
}

} // namespace knapper::numeric
