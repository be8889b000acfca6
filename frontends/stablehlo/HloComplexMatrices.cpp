// Factorisations of complex matrices by those of real ones of twice the size: a
// number a + bi is [[a, -b], [b, a]], so that products of numbers are matmuls
// of blocks.
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloComplexMath.h"
#include "runtime/operators/HostDomain.h"

using namespace mlir;

namespace knapper {
namespace {

using C = HloComplex;
using P = ts::ComparePredicate;

/// Complex matrices in f64; null planes after an error.
C matrices(HloNode &n, size_t index) {
  if (!isHloComplex(n.op->getOperand(index).getType())) {
    (void)n.damaged("operand " + Twine(index) + " is not complex");
    return {};
  }
  C x = hloPlanes(n, n[index]);
  if (x.re && ts::rankOf(x.re) < 2) {
    (void)n.damaged("operand " + Twine(index) + " is no matrix");
    return {};
  }
  Type f64 = n.b.getF64Type();
  return {n.convert(x.re, f64), n.convert(x.im, f64)};
}

LogicalResult outAs(HloNode &n, C x) {
  Type element = n.element();
  if (!element || !x.re || !x.im)
    return failure();
  return n.out(
      hloJoin(n, {n.convert(x.re, element), n.convert(x.im, element)}));
}

Value transposed(HloNode &n, Value x) {
  if (!x)
    return {};
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(x)));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return n.transpose(x, order);
}
C transposed(HloNode &n, C x) {
  return {transposed(n, x.re), transposed(n, x.im)};
}
C conjugate(HloNode &n, C x) { return {x.re, n.make<ts::NegOp>(x.im)}; }

/// Stacked along a new dim.
Value stacked(HloNode &n, Value x, Value y, int64_t dim) {
  if (!x || !y)
    return {};
  SmallVector<int64_t> shape = n.shape(x);
  shape.insert(shape.begin() + dim, 1);
  Value parts[2] = {n.reshapeTo(x, shape), n.reshapeTo(y, shape)};
  if (!parts[0] || !parts[1])
    return {};
  return n.make<ts::ConcatOp>(ValueRange(parts), uint64_t(dim));
}

/// [..., m, n] as [..., 2m, 2n], a block a number.
Value blocks(HloNode &n, C a) {
  if (!a.re || !a.im)
    return {};
  SmallVector<int64_t> shape = n.shape(a.re);
  auto rank = static_cast<int64_t>(shape.size());
  Value upper = stacked(n, a.re, n.make<ts::NegOp>(a.im), rank),
        lower = stacked(n, a.im, a.re, rank);
  shape[rank - 2] *= 2;
  shape[rank - 1] *= 2;
  return n.reshapeTo(stacked(n, upper, lower, rank - 1), shape);
}

/// [..., m, n] as [..., 2m, n]: the blocks' first columns.
Value columns(HloNode &n, C b) {
  if (!b.re || !b.im)
    return {};
  SmallVector<int64_t> shape = n.shape(b.re);
  auto rank = static_cast<int64_t>(shape.size());
  shape[rank - 2] *= 2;
  return n.reshapeTo(stacked(n, b.re, b.im, rank - 1), shape);
}
/// The other way.
C fromColumns(HloNode &n, Value x) {
  if (!x)
    return {};
  SmallVector<int64_t> shape = n.shape(x), split = shape;
  auto rank = static_cast<int64_t>(shape.size());
  shape[rank - 2] /= 2;
  split[rank - 2] /= 2;
  split.insert(split.begin() + rank - 1, 2);
  Value pairs = n.reshapeTo(x, split);
  auto plane = [&](int64_t i) {
    return n.reshapeTo(n.sliceDim(pairs, rank - 1, n.dim(i), n.dim(1)), shape);
  };
  return {plane(0), plane(1)};
}

/// Where the row is the column.
Value onDiagonal(HloNode &n, Value like) {
  SmallVector<int64_t> shape = n.shape(like);
  auto rank = static_cast<int64_t>(shape.size());
  Type i64 = n.b.getI64Type();
  return n.compare(P::eq, n.iota(shape, rank - 2, i64),
                   n.iota(shape, rank - 1, i64));
}

Operation *host(HloNode &n, StringRef op, ValueRange inputs,
                ArrayRef<Type> types, StringRef first, bool is,
                StringRef second = "", bool also = false) {
  if (n.failed() || llvm::is_contained(inputs, Value()))
    return nullptr;
  SmallVector<NamedAttribute> flags{
      n.b.getNamedAttr(first, n.b.getI64IntegerAttr(is))};
  if (!second.empty())
    flags.push_back(n.b.getNamedAttr(second, n.b.getI64IntegerAttr(also)));
  return n.external(kHostDomain, op, 1, n.b.getDictionaryAttr(flags),
                    SmallVector<bool>(inputs.size(), true), inputs, {}, types);
}

/// The L of A = L L^H: its blocks are the real factor's, since its diagonal is
/// real.
LogicalResult importCholesky(HloNode &n) {
  bool lower = n.flag("lower");
  C a = matrices(n, 0);
  if (!lower)
    a = conjugate(n, transposed(n, a));
  if (!a.re || !a.im || n.failed())
    return failure();
  SmallVector<int64_t> shape = n.shape(a.re);
  auto rank = static_cast<int64_t>(shape.size());
  if (shape[rank - 1] != shape[rank - 2])
    return n.damaged("is of a matrix that is not square");
  // A Hermitian matrix has a real diagonal, whatever is stored there.
  a.im = n.select(onDiagonal(n, a.im), n.scalarFor(a.im, 0), a.im);
  Value whole = blocks(n, a);
  if (!whole)
    return failure();
  SmallVector<ts::Dim> batch = ts::dimsOf(whole);
  batch.pop_back_n(2);
  Operation *op =
      host(n, "MatrixCholesky", whole,
           {whole.getType(), n.type(batch, n.b.getI32Type())}, "strict", false);
  if (!op)
    return failure();
  // Every second column holds the numbers.
  Value factor = op->getResult(0);
  SmallVector<int64_t> split = n.shape(factor), kept = split;
  split[rank - 1] /= 2;
  kept[rank - 1] /= 2;
  split.push_back(2);
  C l = fromColumns(n, n.reshapeTo(n.sliceDim(n.reshapeTo(factor, split), rank,
                                              n.dim(0), n.dim(1)),
                                   kept));
  Value good =
      n.compare(P::eq, op->getResult(1), n.integerScalar(0, n.b.getI32Type()));
  if (!l.re || !l.im || !good)
    return failure();
  SmallVector<int64_t> at =
      llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(good)));
  auto checked = [&](Value plane) {
    return n.select(n.broadcastAt(good, at, ts::dimsOf(plane)), plane,
                    n.scalarFor(plane, std::nan("")));
  };
  l = {checked(l.re), checked(l.im)};
  return outAs(n, lower ? l : conjugate(n, transposed(n, l)));
}

/// Rows divided by their numbers on the diagonal `d` [..., n, 1].
C divided(HloNode &n, C x, C d) {
  Value size = n.add(n.mul(d.re, d.re), n.mul(d.im, d.im));
  return {n.div(n.add(n.mul(x.re, d.re), n.mul(x.im, d.im)), size),
          n.div(n.sub(n.mul(x.im, d.re), n.mul(x.re, d.im)), size)};
}

/// The X of op(A) X = B, or of X op(A) = B. Rows are divided by the diagonal
/// first: blocks of a triangle with ones there are a triangle with ones.
LogicalResult importTriangularSolve(HloNode &n) {
  bool left = n.flag("left_side"), lower = n.flag("lower"),
       unit = n.flag("unit_diagonal");
  StringRef how = n.text("transpose_a");
  bool transposes = how == "TRANSPOSE" || how == "ADJOINT";
  C a = matrices(n, 0), b = matrices(n, 1);
  if (how == "ADJOINT")
    a = conjugate(n, a);
  if (!left) { // op(A)^T X^T = B^T
    b = transposed(n, b);
    transposes = !transposes;
  }
  if (transposes) {
    a = transposed(n, a);
    lower = !lower;
  }
  if (!a.re || !a.im || !b.re || !b.im || n.failed())
    return failure();
  auto last = static_cast<int64_t>(ts::rankOf(a.re)) - 1;
  if (!unit) {
    Value is = onDiagonal(n, a.re);
    auto diagonal = [&](Value plane) {
      return n.reduce(ts::ReduceKind::add,
                      n.select(is, plane, n.scalarFor(plane, 0)), {last},
                      /*keep=*/true);
    };
    C d{diagonal(a.re), diagonal(a.im)};
    a = divided(n, a, d);
    b = divided(n, b, d);
  }
  Value given = columns(n, b);
  if (!given)
    return failure();
  Operation *op = host(n, "MatrixSolve", {blocks(n, a), given},
                       {given.getType()}, "unit", true, "upper", !lower);
  if (!op)
    return failure();
  C x = fromColumns(n, op->getResult(0));
  return outAs(n, left ? x : transposed(n, x));
}

constexpr HloRow rows[] = {
    {"cholesky", 1, importCholesky},
    {"triangular_solve", 2, importTriangularSolve},
};

} // namespace

llvm::ArrayRef<HloRow> hloComplexMatrixRows() { return rows; }

} // namespace knapper
