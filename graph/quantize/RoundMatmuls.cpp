#include "graph/quantize/RoundMatmuls.h"

#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/Match.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_ROUNDMATMULS
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

/// Moves the depth of a constant right side to its end.
static void transposeConstant(DotOp op) {
  Value w = op.getRhs();
  if (op.getRhsContract().size() != 1 || !isPackedConstant(w))
    return;
  int64_t last = rankOf(w) - 1, depth = op.getRhsContract()[0];
  if (depth == last)
    return;
  // Free dims keep their order: the result's.
  SmallVector<int64_t> permutation, batch(op.getRhsBatch());
  for (int64_t dim = 0; dim <= last; ++dim)
    if (dim != depth)
      permutation.push_back(dim);
  permutation.push_back(depth);
  for (int64_t &dim : batch)
    dim -= dim > depth;
  OpBuilder b(op);
  op.getRhsMutable().set(makeTranspose(b, op.getLoc(), w, permutation));
  op.setRhsBatch(batch);
  op.setRhsContract({last});
}

void knapper::roundMatmuls(func::FuncOp function) {
  function.walk([](DotOp op) {
    if (!elementTypeOf(op.getLhs()).isF32() ||
        !elementTypeOf(op.getResult()).isF32())
      return;
    op->setAttr("ts.tf32", UnitAttr::get(op.getContext()));
    transposeConstant(op);
  });
}

namespace {
struct RoundMatmulsPass : knapper::impl::RoundMatmulsBase<RoundMatmulsPass> {
  void runOnOperation() override { roundMatmuls(getOperation()); }
};
} // namespace
