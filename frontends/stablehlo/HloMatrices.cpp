// Factorisations and triangular systems: operators of the host's, in double
// precision.
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloNode.h"
#include "runtime/operators/HostDomain.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

Operation *host(HloNode &n, StringRef op, ValueRange inputs,
                ArrayRef<Type> types, ArrayRef<NamedAttribute> flags = {}) {
  if (n.failed() || llvm::any_of(inputs, [](Value each) { return !each; }) ||
      llvm::any_of(types, [](Type each) { return !each; }))
    return nullptr;
  return n.external(kHostDomain, op, 1, n.b.getDictionaryAttr(flags),
                    SmallVector<bool>(inputs.size(), true), inputs, {}, types);
}

NamedAttribute flag(HloNode &n, StringRef name, bool value) {
  return n.b.getNamedAttr(name, n.b.getI64IntegerAttr(value));
}

/// An operand in f64, one or more matrices; null after an error.
Value matrices(HloNode &n, size_t index) {
  Value x = n[index];
  if (!x || ts::rankOf(x) < 2 || !isa<FloatType>(ts::elementTypeOf(x))) {
    (void)n.damaged("operand " + Twine(index) + " is no matrix of floats");
    return {};
  }
  return n.convert(x, n.b.getF64Type());
}

/// The result in the type that the program gives it.
LogicalResult outAs(HloNode &n, Value value, size_t index = 0) {
  if (!value || !n.element(index))
    return failure();
  return n.out(n.convert(value, n.element(index)), index);
}

Value transposed(HloNode &n, Value a) {
  if (!a)
    return {};
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(a)));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return n.transpose(a, order);
}

/// f64 with the dims of a result.
Type fineResult(HloNode &n, size_t index) {
  return n.type(n.resultDims(index), n.b.getF64Type());
}

/// L where the matrix is positive definite, else NaN.
LogicalResult importCholesky(HloNode &n) {
  bool lower = n.flag("lower");
  Value a = matrices(n, 0);
  if (a && !lower)
    a = transposed(n, a);
  if (!a)
    return failure();
  SmallVector<ts::Dim> batch = ts::dimsOf(a);
  batch.pop_back_n(2);
  Operation *op = host(n, "MatrixCholesky", a,
                       {a.getType(), n.type(batch, n.b.getI32Type())},
                       flag(n, "strict", false));
  if (!op)
    return failure();
  Value l = lower ? op->getResult(0) : transposed(n, op->getResult(0));
  Value good =
      n.compare(P::eq, op->getResult(1), n.integerScalar(0, n.b.getI32Type()));
  SmallVector<int64_t> at =
      llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(good)));
  return outAs(n, n.select(n.broadcastAt(good, at, ts::dimsOf(a)), l,
                           n.scalarFor(l, std::nan(""))));
}

/// The X of op(A) X = B, or of X op(A) = B.
LogicalResult solveTriangular(HloNode &n, bool left, bool lower, bool unit,
                              bool transpose) {
  Value a = matrices(n, 0), b = matrices(n, 1);
  if (!a || !b)
    return failure();
  if (!left) { // op(A)^T X^T = B^T
    b = transposed(n, b);
    transpose = !transpose;
  }
  if (transpose) {
    a = transposed(n, a);
    lower = !lower;
  }
  if (!a || !b)
    return failure();
  Operation *op = host(n, "MatrixSolve", {a, b}, {b.getType()},
                       {flag(n, "unit", unit), flag(n, "upper", !lower)});
  if (!op)
    return failure();
  return outAs(n, left ? op->getResult(0) : transposed(n, op->getResult(0)));
}

LogicalResult importTriangularSolve(HloNode &n) {
  bool left = n.flag("left_side"), lower = n.flag("lower"),
       unit = n.flag("unit_diagonal");
  return solveTriangular(n, left, lower, unit,
                         n.text("transpose_a") != "NO_TRANSPOSE");
}

//===----------------------------------------------------------------------===//
// Known targets of custom_call
//===----------------------------------------------------------------------===//

/// R and the Householder vectors in one, and the vectors' factors.
LogicalResult importQr(HloNode &n) {
  Value a = matrices(n, 0);
  Operation *op = host(n, "MatrixQr", a, {fineResult(n, 0), fineResult(n, 1)});
  if (!op || mlir::failed(outAs(n, op->getResult(0))))
    return failure();
  return outAs(n, op->getResult(1), 1);
}

LogicalResult importHouseholder(HloNode &n) {
  Value vectors = matrices(n, 0);
  if (!vectors || !n[1])
    return failure();
  Operation *op =
      host(n, "MatrixHouseholder", {vectors, n.convert(n[1], n.b.getF64Type())},
           {fineResult(n, 0)}, flag(n, "square", false));
  return outAs(n, op ? op->getResult(0) : Value());
}

/// Eigenvectors and values of a symmetric matrix, of which the lower triangle
/// is read.
LogicalResult importEigh(HloNode &n) {
  Value a = matrices(n, 0);
  Operation *op =
      host(n, "MatrixEigenvectors", a, {fineResult(n, 1), fineResult(n, 0)});
  if (!op || mlir::failed(outAs(n, op->getResult(1))))
    return failure();
  return outAs(n, op->getResult(0), 1);
}

/// Singular values, and the vectors of the shorter side's count.
LogicalResult importSvd(HloNode &n) {
  Value a = matrices(n, 0);
  Operation *op = host(n, "MatrixSvd", a,
                       {fineResult(n, 1), fineResult(n, 0), fineResult(n, 2)});
  if (!op || mlir::failed(outAs(n, op->getResult(1))) ||
      mlir::failed(outAs(n, op->getResult(0), 1)))
    return failure();
  return outAs(n, op->getResult(2), 2);
}

//===----------------------------------------------------------------------===//
// LAPACK by name, as JAX calls it on CPUs
//===----------------------------------------------------------------------===//

/// A letter of a call's settings.
char letter(HloNode &n, StringRef name) {
  for (StringRef list : {"mhlo.backend_config", "backend_config"})
    if (auto settings = n.op->getAttrOfType<DictionaryAttr>(list))
      if (auto value = settings.getAs<IntegerAttr>(name))
        return static_cast<char>(value.getValue().getLimitedValue(127));
  (void)n.damaged("has no setting '" + name + "'");
  return 0;
}

/// 0 where the numbers are finite, which callers look at; else 1.
LogicalResult outInfo(HloNode &n, Value numbers, int64_t last, size_t index) {
  Value bad = n.make<ts::IsNanOp>(numbers);
  SmallVector<int64_t> dims;
  for (int64_t i = ts::rankOf(numbers) - last; bad && i < ts::rankOf(bad); ++i)
    dims.push_back(i);
  bad = n.reduce(ts::ReduceKind::max, n.convert(bad, n.b.getI32Type()), dims,
                 /*keep=*/false);
  return outAs(n, bad, index);
}

/// The factor, and the first minor that is not positive.
LogicalResult importPotrf(HloNode &n) {
  bool lower = letter(n, "uplo") == 'L';
  Value a = matrices(n, 0);
  if (a && !lower)
    a = transposed(n, a);
  if (!a || n.failed())
    return failure();
  Operation *op = host(n, "MatrixCholesky", a,
                       {a.getType(), n.type(n.resultDims(1), n.b.getI32Type())},
                       flag(n, "strict", false));
  if (!op || mlir::failed(outAs(n, lower ? op->getResult(0)
                                         : transposed(n, op->getResult(0)))))
    return failure();
  return outAs(n, op->getResult(1), 1);
}

LogicalResult importTrsm(HloNode &n) {
  bool left = letter(n, "side") == 'L', lower = letter(n, "uplo") == 'L',
       unit = letter(n, "diag") == 'U', transpose = letter(n, "trans_x") != 'N';
  return n.failed() ? failure()
                    : solveTriangular(n, left, lower, unit, transpose);
}

/// L and U in one, the rows swapped (from 1) and the first pivot that is 0.
LogicalResult importGetrf(HloNode &n) {
  Value a = matrices(n, 0);
  Type i32 = n.b.getI32Type();
  Operation *op = host(n, "MatrixLu", a,
                       {fineResult(n, 0), n.type(n.resultDims(1), i32),
                        n.type(n.resultDims(2), i32)},
                       flag(n, "swaps", true));
  for (size_t i = 0; i < 3; ++i)
    if (!op || mlir::failed(outAs(n, op->getResult(i), i)))
      return failure();
  return mlir::success();
}

LogicalResult importSyevd(HloNode &n) {
  Value a = matrices(n, 0);
  if (a && letter(n, "uplo") != 'L')
    a = transposed(n, a);
  if (!a || n.failed())
    return failure();
  Operation *op =
      host(n, "MatrixEigenvectors", a, {fineResult(n, 1), fineResult(n, 0)});
  if (!op || mlir::failed(outAs(n, op->getResult(1))) ||
      mlir::failed(outAs(n, op->getResult(0), 1)))
    return failure();
  return outInfo(n, op->getResult(0), 1, 2);
}

/// What is left of the matrix, singular values, U, V^H and whether it went
/// well. Without vectors (N) nobody reads those results: they are 0.
LogicalResult importGesdd(HloNode &n) {
  char mode = letter(n, "mode");
  Value a = matrices(n, 0);
  if (!a || n.failed())
    return failure();
  SmallVector<ts::Dim> u = ts::dimsOf(a), values(u), v(u);
  size_t rank = u.size();
  ts::Dim least = u[rank - 2].min(u[rank - 1]);
  if (mode == 'A' && u[rank - 2] != u[rank - 1])
    return n.unsupported("all singular vectors of matrices that are not square "
                         "(full_matrices=False gives those that count)");
  u[rank - 1] = v[rank - 2] = least;
  values.pop_back();
  values.back() = least;
  Type f64 = n.b.getF64Type();
  Operation *op = host(n, "MatrixSvd", a,
                       {n.type(u, f64), n.type(values, f64), n.type(v, f64)});
  if (!op || mlir::failed(outAs(n, a)) ||
      mlir::failed(outAs(n, op->getResult(1), 1)))
    return failure();
  for (auto [i, from] : {std::pair(2, 0), std::pair(3, 2)}) {
    Value vectors = op->getResult(from);
    if (mode == 'N')
      vectors = n.broadcastTo(n.scalar(0.0, f64), n.resultDims(i));
    if (mlir::failed(outAs(n, vectors, i)))
      return failure();
  }
  return outInfo(n, op->getResult(1), 1, 4);
}

/// Eigenvalues' parts, complex vectors on the left and on the right, and
/// whether it went well.
LogicalResult importGeev(HloNode &n) {
  bool left = letter(n, "compute_left") == 'V',
       right = letter(n, "compute_right") == 'V';
  if (isHloComplex(n.op->getOperand(0).getType()) ||
      !isHloComplex(n.op->getResult(2).getType()) ||
      !isHloComplex(n.op->getResult(3).getType()))
    return n.damaged("is not of a real matrix with complex vectors");
  Value a = matrices(n, 0);
  if (!a || n.failed())
    return failure();
  Type square = a.getType(), list = fineResult(n, 0);
  Operation *op =
      host(n, "MatrixEig", a, {list, list, square, square, square, square},
           {flag(n, "left", left), flag(n, "right", right)});
  if (!op)
    return failure();
  for (size_t i : {0, 1})
    if (mlir::failed(outAs(n, op->getResult(i), i)))
      return failure();
  for (size_t i : {2, 3}) {
    Type element = n.element(i);
    if (!element ||
        mlir::failed(
            n.out(hloJoin(n, {n.convert(op->getResult(2 * i - 2), element),
                              n.convert(op->getResult(2 * i - 1), element)}),
                  i)))
      return failure();
  }
  return outInfo(n, op->getResult(0), 1, 4);
}

/// T, Z, eigenvalues' parts, how many were chosen (none) and whether it went
/// well.
LogicalResult importGees(HloNode &n) {
  if (letter(n, "sort") != 'N')
    return n.unsupported("with sorted eigenvalues");
  Value a = matrices(n, 0);
  if (!a || n.failed())
    return failure();
  Type list = fineResult(n, 2);
  Operation *op =
      host(n, "MatrixSchur", a, {a.getType(), a.getType(), list, list});
  for (size_t i = 0; i < 4; ++i)
    if (!op || mlir::failed(outAs(n, op->getResult(i), i)))
      return failure();
  if (mlir::failed(outAs(
          n,
          n.broadcastTo(n.integerScalar(0, n.b.getI32Type()), n.resultDims(4)),
          4)))
    return failure();
  return outInfo(n, op->getResult(2), 1, 5);
}

/// H with the Householder vectors, their factors and no error.
LogicalResult importGehrd(HloNode &n) {
  auto bound = [&](StringRef name) -> int64_t {
    auto settings = n.op->getAttrOfType<DictionaryAttr>("mhlo.backend_config");
    auto value = settings ? settings.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? value.getInt() : -1;
  };
  Value a = matrices(n, 0);
  if (!a || n.failed())
    return failure();
  if (bound("low") != 1 || bound("high") != n.shape(a).back())
    return n.unsupported("of a part of the matrix");
  Operation *op =
      host(n, "MatrixHessenberg", a, {a.getType(), fineResult(n, 1)});
  for (size_t i = 0; i < 2; ++i)
    if (!op || mlir::failed(outAs(n, op->getResult(i), i)))
      return failure();
  return outInfo(n, op->getResult(0), 2, 2);
}

/// R with the Householder vectors, the columns' order and the factors.
LogicalResult importGeqp3(HloNode &n) {
  Value a = matrices(n, 0), pivots = n[1];
  if (!a || !pivots || !ts::elementTypeOf(pivots).isSignlessInteger(32))
    return n.damaged("has no i32 for each column");
  Operation *op = host(n, "MatrixPivotedQr", {a, pivots},
                       {a.getType(), pivots.getType(), fineResult(n, 2)});
  for (size_t i = 0; i < 3; ++i)
    if (!op || mlir::failed(outAs(n, op->getResult(i), i)))
      return failure();
  return mlir::success();
}

constexpr HloTarget targets[] = {
    {"ProductOfElementaryHouseholderReflectors", 2, 1, importHouseholder},
    {"Qr", 1, 2, importQr},
    {"knapper.eigh", 1, 2, importEigh},
    {"knapper.svd", 1, 3, importSvd},
    {"lapack_dgees_ffi", 1, 6, importGees},
    {"lapack_dgeev_ffi", 1, 5, importGeev, /*givesComplex=*/true},
    {"lapack_dgehrd_ffi", 1, 3, importGehrd},
    {"lapack_dgeqp3_ffi", 2, 3, importGeqp3},
    {"lapack_dgeqrf_ffi", 1, 2, importQr},
    {"lapack_dgesdd_ffi", 1, 5, importGesdd},
    {"lapack_dgetrf_ffi", 1, 3, importGetrf},
    {"lapack_dorgqr_ffi", 2, 1, importHouseholder},
    {"lapack_dpotrf_ffi", 1, 2, importPotrf},
    {"lapack_dsyevd_ffi", 1, 3, importSyevd},
    {"lapack_dtrsm_ffi", 2, 1, importTrsm},
    {"lapack_sgees_ffi", 1, 6, importGees},
    {"lapack_sgeev_ffi", 1, 5, importGeev, /*givesComplex=*/true},
    {"lapack_sgehrd_ffi", 1, 3, importGehrd},
    {"lapack_sgeqp3_ffi", 2, 3, importGeqp3},
    {"lapack_sgeqrf_ffi", 1, 2, importQr},
    {"lapack_sgesdd_ffi", 1, 5, importGesdd},
    {"lapack_sgetrf_ffi", 1, 3, importGetrf},
    {"lapack_sorgqr_ffi", 2, 1, importHouseholder},
    {"lapack_spotrf_ffi", 1, 2, importPotrf},
    {"lapack_ssyevd_ffi", 1, 3, importSyevd},
    {"lapack_strsm_ffi", 2, 1, importTrsm},
};

constexpr HloRow rows[] = {
    {"cholesky", 1, importCholesky},
    {"triangular_solve", 2, importTriangularSolve},
};

} // namespace

llvm::ArrayRef<HloRow> hloMatrixRows() { return rows; }
llvm::ArrayRef<HloTarget> hloMatrixTargets() { return targets; }

} // namespace knapper
