#include "graph/quantize/WidenScatter.h"

#include "graph/quantize/QuantizePasses.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_WIDENSCATTER
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

/// Whether two updates may meet in one element.
static bool mayMeet(ScatterElementsOp op) {
  return !dimOf(op.getUpdates(), op.getDim()).isConstant(1);
}
static bool mayMeet(ScatterNdOp op) {
  return llvm::any_of(ArrayRef<Dim>(dimsOf(op.getIndices())).drop_back(),
                      [](Dim dim) { return !dim.isConstant(1); });
}

template <typename Scatter> static void widen(Scatter op) {
  Type element = elementTypeOf(op.getResult());
  std::optional<ReduceKind> kind = op.getReduction();
  if (!(element.isF16() || element.isBF16()) || !kind || !mayMeet(op) ||
      *kind == ReduceKind::max || *kind == ReduceKind::min)
    return;
  OpBuilder b(op);
  auto convert = [&](Value x, Type to) -> Value {
    return ConvertOp::create(b, op.getLoc(),
                             tensorType(op.getContext(), dimsOf(x), to), x);
  };
  for (OpOperand *operand : {&op.getInputMutable(), &op.getUpdatesMutable()})
    operand->set(convert(operand->get(), b.getF32Type()));
  Value narrow = op.getResult();
  Type wide = tensorType(op.getContext(), dimsOf(narrow), b.getF32Type());
  narrow.setType(cast<RankedTensorType>(wide));
  b.setInsertionPointAfter(op);
  Value rounded = convert(narrow, element);
  narrow.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
}

void knapper::widenScatter(func::FuncOp function) {
  function.walk([](ScatterElementsOp op) { widen(op); });
  function.walk([](ScatterNdOp op) { widen(op); });
}

namespace {
struct WidenScatterPass : knapper::impl::WidenScatterBase<WidenScatterPass> {
  void runOnOperation() override { widenScatter(getOperation()); }
};
} // namespace
