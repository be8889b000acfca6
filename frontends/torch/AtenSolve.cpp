// Systems of linear equations and inverses.
#include "frontends/torch/AtenMatrices.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

LogicalResult importInverse(AtenNode &n) {
  Value a = fine(n, "A");
  LuFactors f = factorLu(n, a);
  if (!f.lu || failed(outAs(n, solveLu(n, f.lu, f.pivots,
                                       identity(n, batchOf(a), rowsOf(a))))))
    return failure();
  return outAs(n, f.info, 1);
}

/// X of A X = B, or of X A = B where `left` is off.
LogicalResult importSolve(AtenNode &n) {
  for (size_t i : {1, 2}) // of A or its transpose, as its memory lies
    if (n.wants(i))
      return n.unsupported("the factors behind it");
  Value a = fine(n, "A"), b = fine(n, "B");
  if (!a || !b)
    return failure();
  // Vectors: one, or one for each matrix.
  SmallVector<Dim> dims = ts::dimsOf(a), right = ts::dimsOf(b);
  dims.pop_back();
  bool vector = right.size() == 1 || right == dims, left = n.flag("left");
  if (vector) {
    if (!left)
      return n.unsupported("vectors from the right");
    b = n.reshape(b, withTail(right, {n.dim(1)}));
  }
  if (!left) {
    a = transposed(n, a);
    b = transposed(n, b);
  }
  LuFactors f = factorLu(n, a);
  if (!f.lu || (n.wants(3) && failed(outAs(n, f.info, 3))))
    return failure();
  Value lu = f.lu, pivots = f.pivots;
  broadcastBatch(n, lu, b);
  if (!lu || !b)
    return failure();
  pivots = n.broadcastTo(pivots, withTail(batchOf(lu), {rowsOf(lu)}));
  Value x = solveLu(n, lu, pivots, b);
  return outAs(n, left ? x : transposed(n, x));
}

LogicalResult importLuSolve(AtenNode &n) {
  Value lu = fine(n, "LU"), pivots = n.tensor("pivots"), b = fine(n, "B");
  bool left = n.flag("left"), adjoint = n.flag("adjoint");
  if (!lu || !pivots || !b)
    return failure();
  if (!left) // X A = B is A^T X^T = B^T
    b = transposed(n, b);
  broadcastBatch(n, lu, b);
  if (!lu || !b)
    return failure();
  pivots = n.broadcastTo(pivots, withTail(batchOf(lu), {rowsOf(lu)}));
  Value x = solveLu(n, lu, pivots, b, left ? adjoint : !adjoint);
  return outAs(n, left ? x : transposed(n, x));
}

/// X of T X = B; of T^T X = B where `transpose`.
Value solved(AtenNode &n, Value a, Value b, bool upper, bool transpose,
             bool unit) {
  broadcastBatch(n, a, b);
  return transpose ? solveTriangular(n, transposed(n, a), b, !upper, unit)
                   : solveTriangular(n, a, b, upper, unit);
}

LogicalResult importTriangularSolve(AtenNode &n) {
  Value a = fine(n, "A"), b = fine(n, "self");
  if (failed(outAs(n, solved(n, a, b, n.flag("upper"), n.flag("transpose"),
                             n.flag("unitriangular")))))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  return n.out(n.broadcastTo(n.operand("A", n.element(1)), n.dims(1)), 1);
}

LogicalResult importSolveTriangular(AtenNode &n) {
  Value a = fine(n, "self"), b = fine(n, "B");
  bool upper = n.flag("upper"), unit = n.flag("unitriangular");
  if (n.flag("left"))
    return outAs(n, solved(n, a, b, upper, false, unit));
  Value x = solved(n, a, transposed(n, b), upper, true, unit);
  return outAs(n, transposed(n, x));
}

/// X of L L^T X = B.
Value solvedByCholesky(AtenNode &n, Value l, Value b, bool upper) {
  if (upper)
    l = transposed(n, l);
  Value y = solved(n, l, b, false, false, false);
  return solved(n, l, y, false, true, false);
}

LogicalResult importCholeskySolve(AtenNode &n) {
  return outAs(n, solvedByCholesky(n, fine(n, "input2"), fine(n, "self"),
                                   n.flag("upper")));
}

LogicalResult importCholeskyInverse(AtenNode &n) {
  Value l = fine(n, "self");
  if (!l)
    return failure();
  return outAs(n, solvedByCholesky(n, l, identity(n, batchOf(l), rowsOf(l)),
                                   n.flag("upper")));
}

constexpr AtenRow rows[] = {
    {"aten._linalg_solve_ex.default", importSolve},
    {"aten.cholesky_inverse.default", importCholeskyInverse},
    {"aten.cholesky_solve.default", importCholeskySolve},
    {"aten.linalg_inv_ex.default", importInverse},
    {"aten.linalg_lu_solve.default", importLuSolve},
    {"aten.linalg_solve_triangular.default", importSolveTriangular},
    {"aten.triangular_solve.default", importTriangularSolve},
};

} // namespace

ArrayRef<AtenRow> atenSolveRows() { return rows; }

} // namespace knapper
