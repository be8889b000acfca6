#include "graph/simplify/NarrowDots.h"

#include "graph/simplify/SimplifyPasses.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_NARROWDOTS
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

/// What a conversion to f32 widens; null for other values.
static Value widened(Value value) {
  auto convert = value.getDefiningOp<ConvertOp>();
  if (!convert)
    return {};
  Type from = elementTypeOf(convert.getInput());
  return from.isBF16() || from.isF16() ? convert.getInput() : Value();
}

void knapper::narrowDots(func::FuncOp function) {
  function.walk([](DotOp op) {
    Value x = widened(op.getLhs()), y = widened(op.getRhs());
    if (!x || !y || elementTypeOf(x) != elementTypeOf(y) ||
        !elementTypeOf(op.getLhs()).isF32() ||
        !elementTypeOf(op.getResult()).isF32())
      return;
    op.getLhsMutable().set(x);
    op.getRhsMutable().set(y);
    op.setResultType(elementTypeOf(op.getResult()));
  });
}

namespace {
struct NarrowDotsPass : knapper::impl::NarrowDotsBase<NarrowDotsPass> {
  void runOnOperation() override { narrowDots(getOperation()); }
};
} // namespace
