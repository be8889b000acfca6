#include "graph/simplify/MatrixDots.h"

#include "graph/simplify/Match.h"
#include "graph/simplify/SimplifyPasses.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_MATRIXDOTS
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

namespace {

bool followEachOther(ArrayRef<int64_t> dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] != dims[i - 1] + 1)
      return false;
  return true;
}

/// An operand with its dims by their part in the matmul.
struct Operand {
  Value value;
  SmallVector<int64_t> batch, contract, free;

  Operand(Value value, ArrayRef<int64_t> batch, ArrayRef<int64_t> contract)
      : value(value), batch(batch), contract(contract) {
    for (int64_t d = 0, rank = rankOf(value); d < rank; ++d)
      if (!llvm::is_contained(batch, d) && !llvm::is_contained(contract, d))
        free.push_back(d);
  }

  /// Batch, free and contracted dims in this order.
  void order(OpBuilder &b, Location loc) {
    SmallVector<int64_t> permutation(batch);
    llvm::append_range(permutation, free);
    llvm::append_range(permutation, contract);
    value = makeTranspose(b, loc, value, permutation);
    int64_t next = 0;
    for (SmallVector<int64_t> *dims : {&batch, &free, &contract})
      for (int64_t &d : *dims)
        d = next++;
  }
  /// Merges dims that follow each other into the first of them.
  void merge(OpBuilder &b, Location loc, SmallVector<int64_t> &dims) {
    if (dims.size() < 2)
      return;
    int64_t first = dims.front(), more = dims.size() - 1;
    SmallVector<Dim> sizes = dimsOf(value);
    for (int64_t i = 1; i <= more; ++i)
      sizes[first] = sizes[first] * sizes[first + i];
    sizes.erase(sizes.begin() + first + 1, sizes.begin() + first + 1 + more);
    value = makeReshape(b, loc, value, sizes);
    dims.truncate(1);
    for (SmallVector<int64_t> *others : {&batch, &free, &contract})
      for (int64_t &d : *others)
        d -= d > first ? more : 0;
  }
};

void makeMatrixDot(DotOp op) {
  Operand lhs(op.getLhs(), op.getLhsBatch(), op.getLhsContract()),
      rhs(op.getRhs(), op.getRhsBatch(), op.getRhsContract());
  // Depths in the order in which one side has them in memory.
  SmallVector<size_t> places =
      llvm::to_vector(llvm::seq<size_t>(0, lhs.contract.size()));
  auto sortBy = [&](ArrayRef<int64_t> dims) {
    llvm::sort(places, [&](size_t i, size_t j) { return dims[i] < dims[j]; });
  };
  auto inOrder = [&](ArrayRef<int64_t> dims) {
    SmallVector<int64_t> result;
    for (size_t place : places)
      result.push_back(dims[place]);
    return result;
  };
  sortBy(lhs.contract);
  if (!followEachOther(inOrder(lhs.contract)))
    sortBy(rhs.contract);
  lhs.contract = inOrder(lhs.contract);
  rhs.contract = inOrder(rhs.contract);
  bool depths = lhs.contract.size() > 1 && (!followEachOther(lhs.contract) ||
                                            !followEachOther(rhs.contract));
  if (!depths && rhs.free.size() < 2)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  SmallVector<Dim> columns;
  for (int64_t d : rhs.free)
    columns.push_back(dimOf(rhs.value, d));
  for (Operand *operand : {&lhs, &rhs})
    if (!followEachOther(operand->contract) ||
        (operand == &rhs && !followEachOther(operand->free)))
      operand->order(b, loc);
  for (Operand *operand : {&lhs, &rhs})
    operand->merge(b, loc, operand->contract);
  rhs.merge(b, loc, rhs.free);
  Value dot = DotOp::create(b, loc, lhs.value, rhs.value, lhs.batch, rhs.batch,
                            lhs.contract, rhs.contract, op.getResultTypeAttr());
  op.replaceAllUsesWith(makeReshape(b, loc, dot, dimsOf(op.getResult())));
  op.erase();
}

} // namespace

void knapper::makeMatrixDots(func::FuncOp function) {
  SmallVector<DotOp> found;
  function.walk([&](DotOp op) { found.push_back(op); });
  llvm::for_each(found, makeMatrixDot);
}

namespace {
struct MatrixDotsPass : knapper::impl::MatrixDotsBase<MatrixDotsPass> {
  void runOnOperation() override { makeMatrixDots(getOperation()); }
};
} // namespace
