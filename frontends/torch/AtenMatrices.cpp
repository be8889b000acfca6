#include "frontends/torch/AtenMatrices.h"

using namespace mlir;

namespace knapper {

using ts::Dim;
using P = ts::ComparePredicate;

SmallVector<Dim> batchOf(Value a) {
  SmallVector<Dim> dims = ts::dimsOf(a);
  dims.pop_back_n(2);
  return dims;
}
Dim rowsOf(Value a) { return ts::dimOf(a, ts::rankOf(a) - 2); }
Dim columnsOf(Value a) { return ts::dimOf(a, ts::rankOf(a) - 1); }

SmallVector<Dim> withTail(ArrayRef<Dim> batch, ArrayRef<Dim> tail) {
  SmallVector<Dim> dims(batch);
  llvm::append_range(dims, tail);
  return dims;
}

Dim leastOf(Value a) {
  Dim m = rowsOf(a), n = columnsOf(a);
  return m == n ? m : m.min(n);
}

Value fine(AtenNode &n, StringRef name) {
  return n.operand(name, n.b.getF64Type());
}

LogicalResult outAs(AtenNode &n, Value value, size_t index) {
  if (!value || !n.element(index))
    return n.out(value, index);
  return n.out(n.reshape(n.convert(value, n.element(index)), n.dims(index)),
               index);
}

Value transposed(AtenNode &n, Value a) {
  if (!a)
    return {};
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(a)));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return n.transpose(a, order);
}

Value multiplyMatrices(AtenNode &n, Value a, Value b) {
  if (!a || !b)
    return {};
  int64_t batch = ts::rankOf(a) - 2;
  SmallVector<int64_t> common = llvm::to_vector(llvm::seq<int64_t>(0, batch));
  SmallVector<Dim> dims = withTail(batchOf(a), {columnsOf(a), columnsOf(b)});
  return n.make<ts::DotOp>(a, n.castDims(b, dims), ArrayRef<int64_t>(common),
                           ArrayRef<int64_t>(common),
                           ArrayRef<int64_t>{batch + 1},
                           ArrayRef<int64_t>{batch}, TypeAttr());
}

/// Row and column of each element.
static std::pair<Value, Value> places(AtenNode &n, ArrayRef<Dim> dims) {
  Type i64 = n.b.getI64Type();
  auto rank = static_cast<int64_t>(dims.size());
  return {n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(rank - 2)),
          n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(rank - 1))};
}

Value identity(AtenNode &n, ArrayRef<Dim> batch, Dim size) {
  auto [row, column] = places(n, withTail(batch, {size, size}));
  Value same = n.compare(P::eq, row, column);
  return same ? n.convert(same, n.b.getF64Type()) : same;
}

Value triangleOf(AtenNode &n, Value a, bool lower, bool diagonal) {
  if (!a)
    return {};
  auto [row, column] = places(n, ts::dimsOf(a));
  P keeps = lower ? (diagonal ? P::ge : P::gt) : (diagonal ? P::le : P::lt);
  return n.select(n.compare(keeps, row, column), a, n.scalarFor(a, 0));
}

Value diagonalOf(AtenNode &n, Value a) {
  if (!a)
    return {};
  Dim least = leastOf(a);
  int64_t rank = ts::rankOf(a);
  a = n.sliceDim(n.sliceDim(a, rank - 2, n.dim(0), least), rank - 1, n.dim(0),
                 least);
  auto [row, column] = places(n, ts::dimsOf(a));
  Value kept = n.select(n.compare(P::eq, row, column), a, n.scalarFor(a, 0));
  return n.reduce(ts::ReduceKind::add, kept, {rank - 1}, false);
}

static NamedAttribute flag(AtenNode &n, StringRef name, bool value) {
  return n.b.getNamedAttr(name, n.b.getI64IntegerAttr(value));
}

LuFactors factorLu(AtenNode &n, Value a, bool swaps) {
  if (!a)
    return {};
  Type i32 = n.b.getI32Type();
  SmallVector<Dim> batch = batchOf(a);
  Operation *op =
      n.host("MatrixLu", a,
             {a.getType(), n.type(withTail(batch, {leastOf(a)}), i32),
              n.type(batch, i32)},
             flag(n, "swaps", swaps));
  if (!op)
    return {};
  return {op->getResult(0), op->getResult(1), op->getResult(2)};
}

Value solveTriangular(AtenNode &n, Value a, Value b, bool upper, bool unit) {
  if (!a || !b)
    return {};
  Operation *op = n.host("MatrixSolve", {a, b}, {b.getType()},
                         {flag(n, "unit", unit), flag(n, "upper", upper)});
  return op ? op->getResult(0) : Value();
}

Value solveLu(AtenNode &n, Value lu, Value pivots, Value b, bool adjoint) {
  if (!lu || !pivots || !b)
    return {};
  if (!adjoint) {
    Operation *op = n.host("MatrixSolveLu", {lu, pivots, b}, {b.getType()});
    return op ? op->getResult(0) : Value();
  }
  // A^T = U^T L^T P^T.
  Value transpose = transposed(n, lu);
  Value y = solveTriangular(n, transpose, b, /*upper=*/false, /*unit=*/false);
  y = solveTriangular(n, transpose, y, /*upper=*/true, /*unit=*/true);
  return multiplyMatrices(n, permutationOf(n, pivots, rowsOf(lu)), y);
}

Value permutationOf(AtenNode &n, Value pivots, Dim m) {
  if (!pivots)
    return {};
  SmallVector<Dim> batch = ts::dimsOf(pivots);
  Dim count = batch.pop_back_val();
  auto last = static_cast<int64_t>(batch.size());
  Type i32 = n.b.getI32Type();
  if (!(count == m)) { // rows beyond the pivots stay where they are
    Value rest = n.makeAs<ts::IotaOp>(n.type(withTail(batch, {m - count}), i32),
                                      uint64_t(last));
    rest = n.add(n.add(rest, n.sizeScalar(count, i32)), 1.0);
    pivots = n.make<ts::ConcatOp>(ValueRange{pivots, rest}, last);
    pivots = pivots ? n.castDims(pivots, withTail(batch, {m})) : pivots;
  }
  // The swaps of the identity's rows are P^T.
  Value one = identity(n, batch, m);
  return transposed(n, solveLu(n, one, pivots, one));
}

void broadcastBatch(AtenNode &n, Value &a, Value &b) {
  if (!a || !b)
    return;
  SmallVector<Dim> batch = n.broadcastDims({batchOf(a), batchOf(b)});
  if (n.failed())
    return;
  a = n.broadcastTo(a, withTail(batch, {rowsOf(a), columnsOf(a)}));
  b = n.broadcastTo(b, withTail(batch, {rowsOf(b), columnsOf(b)}));
}

} // namespace knapper
