// Factorisations of matrices, and what is read from them.
#include "frontends/torch/AtenMatrices.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

//===----------------------------------------------------------------------===//
// LU
//===----------------------------------------------------------------------===//

LogicalResult importLuFactor(AtenNode &n) {
  LuFactors f = factorLu(n, fine(n, "A"), n.flag("pivot"));
  if (failed(outAs(n, f.lu)) || failed(outAs(n, f.pivots, 1)))
    return failure();
  return outAs(n, f.info, 2);
}

/// L [m, k] and U [k, n] of the two in one, as results 1 and 2.
LogicalResult unpack(AtenNode &n, Value lu) {
  if (!lu)
    return failure();
  int64_t rank = ts::rankOf(lu);
  Dim least = leastOf(lu);
  Value left = n.sliceDim(lu, rank - 1, n.dim(0), least),
        right = n.sliceDim(lu, rank - 2, n.dim(0), least);
  Value below = triangleOf(n, left, /*lower=*/true, /*diagonal=*/false);
  if (!below)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(below);
  Type i64 = n.b.getI64Type();
  Value same = n.compare(
      P::eq, n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(rank - 2)),
      n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(rank - 1)));
  if (failed(outAs(n, n.select(same, n.scalarFor(below, 1), below), 1)))
    return failure();
  return outAs(n, triangleOf(n, right, /*lower=*/false, /*diagonal=*/true), 2);
}

Value none(AtenNode &n, size_t index) {
  return n.broadcastTo(n.scalar(0, n.b.getF64Type()), n.dims(index));
}

LogicalResult importLu(AtenNode &n) {
  Value a = fine(n, "A");
  LuFactors f = factorLu(n, a, n.flag("pivot"));
  if (!f.lu || failed(unpack(n, f.lu)))
    return failure();
  return outAs(n, n.flag("pivot") ? permutationOf(n, f.pivots, rowsOf(a))
                                  : none(n, 0));
}

LogicalResult importLuUnpack(AtenNode &n) {
  Value lu = fine(n, "LU_data"), pivots = n.tensor("LU_pivots");
  if (!lu || !pivots)
    return failure();
  if (failed(outAs(n, n.flag("unpack_pivots")
                          ? permutationOf(n, pivots, rowsOf(lu))
                          : none(n, 0))))
    return failure();
  if (n.flag("unpack_data"))
    return unpack(n, lu);
  if (failed(outAs(n, none(n, 1), 1)))
    return failure();
  return outAs(n, none(n, 2), 2);
}

/// 1, or -1 where an odd number of rows were swapped.
Value signOf(AtenNode &n, Value pivots) {
  if (!pivots)
    return {};
  Type i32 = n.b.getI32Type();
  int64_t last = ts::rankOf(pivots) - 1;
  Value own = n.add(
      n.makeAs<ts::IotaOp>(n.type(ts::dimsOf(pivots), i32), uint64_t(last)),
      1.0);
  Value swapped = n.convert(n.compare(P::ne, pivots, own), i32);
  Value count = n.reduce(K::add, swapped, {last}, false);
  Value odd = n.binary<ts::AndOp>(count, n.integerScalar(1, i32));
  return n.add(n.mul(n.convert(odd, n.b.getF64Type()), -2.0), 1.0);
}

/// Torch factors A or its transpose, as its memory lies; what the factors are
/// then is not known here.
LogicalResult wantsNoFactors(AtenNode &n, size_t first) {
  for (size_t i = first; i < n.resultCount(); ++i)
    if (n.wants(i))
      return n.unsupported("the factors behind it");
  return mlir::success();
}

LogicalResult importDet(AtenNode &n) {
  if (failed(wantsNoFactors(n, 1)))
    return failure();
  LuFactors f = factorLu(n, fine(n, "A"));
  Value pivots = diagonalOf(n, f.lu);
  if (!pivots)
    return failure();
  Value product = n.reduce(K::mul, pivots, {ts::rankOf(pivots) - 1}, false);
  return outAs(n, n.mul(product, signOf(n, f.pivots)));
}

LogicalResult importSlogdet(AtenNode &n) {
  if (failed(wantsNoFactors(n, 2)))
    return failure();
  LuFactors f = factorLu(n, fine(n, "A"));
  Value pivots = diagonalOf(n, f.lu);
  if (!pivots)
    return failure();
  int64_t last = ts::rankOf(pivots) - 1;
  Value sign = n.reduce(K::mul, n.make<ts::SignOp>(pivots), {last}, false);
  if (failed(outAs(n, n.mul(sign, signOf(n, f.pivots)))))
    return failure();
  Value logs = n.make<ts::LogOp>(n.make<ts::AbsOp>(pivots));
  return outAs(n, n.reduce(K::add, logs, {last}, false), 1);
}

//===----------------------------------------------------------------------===//
// Cholesky and QR
//===----------------------------------------------------------------------===//

/// L and whether it is one; `strict`: the run fails where it is none.
std::pair<Value, Value> factorCholesky(AtenNode &n, Value a, bool strict) {
  if (!a)
    return {};
  Operation *op = n.host(
      "MatrixCholesky", a, {a.getType(), n.type(batchOf(a), n.b.getI32Type())},
      n.b.getNamedAttr("strict", n.b.getI64IntegerAttr(strict)));
  if (!op)
    return {};
  return {op->getResult(0), op->getResult(1)};
}

LogicalResult importCholesky(AtenNode &n) {
  bool upper = n.flag("upper"), strict = n.resultCount() == 1;
  Value a = fine(n, "self");
  auto [l, info] = factorCholesky(n, upper ? transposed(n, a) : a, strict);
  if (failed(outAs(n, upper ? transposed(n, l) : l)))
    return failure();
  return strict ? mlir::success() : outAs(n, info, 1);
}

std::pair<Value, Value> factorQr(AtenNode &n, Value a) {
  if (!a)
    return {};
  Operation *op =
      n.host("MatrixQr", a,
             {a.getType(),
              n.type(withTail(batchOf(a), {leastOf(a)}), n.b.getF64Type())});
  if (!op)
    return {};
  return {op->getResult(0), op->getResult(1)};
}

/// Q of Householder vectors [m, n]; `square`: all its m columns.
Value householder(AtenNode &n, Value vectors, Value factors, bool square) {
  if (!vectors || !factors)
    return {};
  Dim m = rowsOf(vectors);
  SmallVector<Dim> dims =
      withTail(batchOf(vectors), {m, square ? m : columnsOf(vectors)});
  Operation *op = n.host(
      "MatrixHouseholder", {vectors, factors}, {n.type(dims, n.b.getF64Type())},
      n.b.getNamedAttr("square", n.b.getI64IntegerAttr(square)));
  return op ? op->getResult(0) : Value();
}

LogicalResult importQr(AtenNode &n) {
  StringRef mode = n.text("mode");
  Value a = fine(n, "A");
  auto [packed, factors] = factorQr(n, a);
  if (!packed)
    return failure();
  int64_t rank = ts::rankOf(a);
  bool complete = mode == "complete";
  if (mode == "r") {
    if (failed(outAs(n, none(n, 0))))
      return failure();
  } else {
    Value vectors = n.sliceDim(packed, rank - 1, n.dim(0), leastOf(a));
    if (failed(outAs(n, householder(n, vectors, factors, complete))))
      return failure();
  }
  Value r = triangleOf(n, packed, /*lower=*/false, /*diagonal=*/true);
  return outAs(n, complete ? r : n.sliceDim(r, rank - 2, n.dim(0), leastOf(a)),
               1);
}

LogicalResult importGeqrf(AtenNode &n) {
  auto [packed, factors] = factorQr(n, fine(n, "self"));
  return failed(outAs(n, packed)) ? failure() : outAs(n, factors, 1);
}

LogicalResult importHouseholder(AtenNode &n) {
  return outAs(n, householder(n, fine(n, "input"), fine(n, "tau"), false));
}

/// Q or Q^T times a matrix, from the left or the right.
LogicalResult importOrmqr(AtenNode &n) {
  Value q = householder(n, fine(n, "self"), fine(n, "input2"), true),
        c = fine(n, "input3");
  if (n.flag("transpose"))
    q = transposed(n, q);
  return outAs(n, n.flag("left") ? multiplyMatrices(n, q, c)
                                 : multiplyMatrices(n, c, q));
}

//===----------------------------------------------------------------------===//
// Spectra
//===----------------------------------------------------------------------===//

struct Svd {
  Value u, s, vh;
};
Svd factorSvd(AtenNode &n, Value a) {
  if (!a)
    return {};
  Type f64 = n.b.getF64Type();
  SmallVector<Dim> batch = batchOf(a);
  Dim k = leastOf(a);
  Operation *op = n.host("MatrixSvd", a,
                         {n.type(withTail(batch, {rowsOf(a), k}), f64),
                          n.type(withTail(batch, {k}), f64),
                          n.type(withTail(batch, {k, columnsOf(a)}), f64)});
  if (!op)
    return {};
  return {op->getResult(0), op->getResult(1), op->getResult(2)};
}

/// Orthonormal columns [L, L] that begin with those of [L, k], of which the
/// last may be 0; `all`: all L, else k of them.
Value basisOf(AtenNode &n, Value columns, bool all) {
  auto [packed, factors] = factorQr(n, columns);
  Value q = householder(n, packed, factors, /*square=*/true);
  Value diagonal = diagonalOf(n, packed);
  if (!q || !diagonal)
    return {};
  int64_t rank = ts::rankOf(q);
  Dim length = rowsOf(columns), count = columnsOf(columns);
  Value sign = n.select(n.compare(P::lt, diagonal, n.scalarFor(diagonal, 0)),
                        n.scalarFor(diagonal, -1), n.scalarFor(diagonal, 1));
  Value first =
      n.mul(n.sliceDim(q, rank - 1, n.dim(0), count),
            n.reshape(sign, withTail(batchOf(columns), {n.dim(1), count})));
  if (!all || length == count || !first)
    return first;
  return n.make<ts::ConcatOp>(
      ValueRange{first, n.sliceDim(q, rank - 1, count, length - count)},
      uint64_t(rank - 1));
}

/// The vectors' signs, and their choice among equal values, are ours.
LogicalResult importSvd(AtenNode &n) {
  Value a = fine(n, "A");
  Svd f = factorSvd(n, a);
  if (!f.s || failed(outAs(n, f.s, 1)))
    return failure();
  bool all = n.flag("full_matrices"), vectors = n.flag("compute_uv");
  std::optional<int64_t> rows = rowsOf(a).asConstant(),
                         columns = columnsOf(a).asConstant();
  bool empty = rows == 0 || columns == 0;
  bool wanted = n.wants(0) || n.wants(2);
  if (wanted && !empty && vectors && !(rows && columns) &&
      !(rowsOf(a) == columnsOf(a)))
    return n.unsupported("singular vectors of a matrix of symbolic sizes");
  auto side = [&](Value given, bool isLong, Dim size) {
    if (!vectors || empty)
      return vectors && all ? identity(n, batchOf(a), size) : Value();
    return isLong ? basisOf(n, given, all) : given;
  };
  bool tall = rows && columns && *rows > *columns;
  for (size_t i : {0, 2}) {
    if (!n.wants(i))
      continue;
    Value value =
        i == 0 ? side(f.u, tall, rowsOf(a))
               : side(tall ? f.vh : transposed(n, f.vh), !tall, columnsOf(a));
    if (value && i == 2 && (empty || !tall))
      value = transposed(n, value);
    if (!value && !n.failed())
      value = none(n, i);
    if (failed(outAs(n, value, i)))
      return failure();
  }
  return mlir::success();
}

LogicalResult importEigh(AtenNode &n) {
  Value a = fine(n, "A");
  if (!a)
    return failure();
  if (n.text("UPLO") == "U")
    a = transposed(n, a);
  Type values = n.type(withTail(batchOf(a), {rowsOf(a)}), n.b.getF64Type());
  bool vectors = n.wants(1);
  Operation *op = vectors
                      ? n.host("MatrixEigenvectors", a, {values, a.getType()})
                      : n.host("MatrixEigenvalues", a, {values});
  if (!op || failed(outAs(n, op->getResult(0))))
    return failure();
  return vectors ? outAs(n, op->getResult(1), 1) : mlir::success();
}

/// V / S U^T, without the singular values that count as 0.
LogicalResult importPinv(AtenNode &n) {
  auto element = dyn_cast_or_null<FloatType>(n.element());
  Value a = fine(n, "self");
  if (!a || !element)
    return failure();
  if (n.flag("hermitian")) // of which the lower triangle counts
    a = n.add(triangleOf(n, a, /*lower=*/true, /*diagonal=*/true),
              transposed(n, triangleOf(n, a, /*lower=*/true,
                                       /*diagonal=*/false)));
  Svd f = factorSvd(n, a);
  if (!f.s)
    return failure();
  Type f64 = n.b.getF64Type();
  SmallVector<Dim> batch = batchOf(a), column = withTail(batch, {n.dim(1)});
  auto given = [&](StringRef name) {
    Value x = n.operand(name, f64);
    return x ? n.reshape(n.broadcastTo(x, batch), column) : x;
  };
  double epsilon =
      std::ldexp(1.0, 1 - static_cast<int>(element.getFPMantissaWidth()));
  Dim longest =
      rowsOf(a) == columnsOf(a) ? rowsOf(a) : rowsOf(a).max(columnsOf(a));
  Value absolute = n.has("atol") ? given("atol") : n.scalar(0, f64);
  Value relative;
  if (n.has("rtol")) {
    relative = given("rtol");
  } else {
    relative = n.mul(n.sizeScalar(longest, f64), epsilon);
    if (n.has("atol"))
      relative = n.select(n.compare(P::gt, absolute, n.scalar(0, f64)),
                          n.scalar(0, f64), relative);
  }
  int64_t last = ts::rankOf(f.s) - 1;
  Value most = n.reduce(K::max, f.s, {last}, true);
  Value least = n.binary<ts::MaxOp>(absolute, n.mul(relative, most));
  Value inverse = n.select(n.compare(P::gt, f.s, least),
                           n.div(n.scalar(1, f64), f.s), n.scalar(0, f64));
  if (!inverse)
    return failure();
  Value scaled =
      n.mul(transposed(n, f.vh),
            n.reshape(inverse, withTail(batch, {n.dim(1), leastOf(a)})));
  return outAs(n, multiplyMatrices(n, scaled, transposed(n, f.u)));
}

LogicalResult importMatrixExp(AtenNode &n) {
  Value a = fine(n, "self");
  if (!a)
    return failure();
  Operation *op = n.host("MatrixExp", a, {a.getType()});
  return outAs(n, op ? op->getResult(0) : Value());
}

constexpr AtenRow rows[] = {
    {"aten._linalg_det.default", importDet},
    {"aten._linalg_eigh.default", importEigh},
    {"aten._linalg_slogdet.default", importSlogdet},
    {"aten._linalg_svd.default", importSvd},
    {"aten.cholesky.default", importCholesky},
    {"aten.geqrf.default", importGeqrf},
    {"aten.linalg_cholesky_ex.default", importCholesky},
    {"aten.linalg_householder_product.default", importHouseholder},
    {"aten.linalg_lu.default", importLu},
    {"aten.linalg_lu_factor_ex.default", importLuFactor},
    {"aten.linalg_matrix_exp.default", importMatrixExp},
    {"aten.linalg_pinv.atol_rtol_tensor", importPinv},
    {"aten.linalg_qr.default", importQr},
    {"aten.lu_unpack.default", importLuUnpack},
    {"aten.ormqr.default", importOrmqr},
};

} // namespace

ArrayRef<AtenRow> atenFactorRows() { return rows; }

} // namespace knapper
