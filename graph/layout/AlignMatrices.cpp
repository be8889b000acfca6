#include "graph/layout/AlignMatrices.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/ConstantExpression.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_ALIGNMATRICES
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

static bool isAligned(Dim size, Type element) {
  constexpr int64_t access = 16;
  std::optional<int64_t> known = size.asConstant();
  return known && *known * element.getIntOrFloatBitWidth() / 8 % access == 0;
}

/// Whether the right side is a constant [B.., K, N] whose rows are not aligned,
/// and would be along K.
static bool hasUnalignedRows(DotOp op) {
  Value matrix = op.getRhs();
  Type element = elementTypeOf(matrix);
  int64_t rank = rankOf(matrix), batch = op.getRhsBatch().size();
  if (!isa<FloatType>(element) || rank != batch + 2 ||
      op.getRhsContract() != ArrayRef<int64_t>{rank - 2} ||
      op.getRhsBatch() != ArrayRef(llvm::to_vector(llvm::seq(batch))))
    return false;
  Dim columns = dimOf(matrix, rank - 1);
  return columns.asConstant() && !isAligned(columns, element) &&
         isAligned(dimOf(matrix, rank - 2), element) &&
         ts::isConstantExpression(matrix);
}

void knapper::alignMatrices(func::FuncOp function) {
  function.walk([](DotOp op) {
    if (!hasUnalignedRows(op))
      return;
    OpBuilder b(op);
    int64_t rank = rankOf(op.getRhs());
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq(rank));
    std::swap(order[rank - 2], order[rank - 1]);
    op.getRhsMutable().assign(
        makeTranspose(b, op.getLoc(), op.getRhs(), order));
    op.setRhsContract({rank - 1});
  });
}

namespace {
struct AlignMatricesPass : knapper::impl::AlignMatricesBase<AlignMatricesPass> {
  void runOnOperation() override { alignMatrices(getOperation()); }
};
} // namespace
