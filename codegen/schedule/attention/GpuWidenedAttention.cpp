#include "codegen/schedule/attention/GpuWidenedAttention.h"

#include "graph/fusion/Views.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;

namespace knapper {

namespace {

/// The conversion that widens an operand, views before and behind it; the ops
/// from the operand to what lies in memory are appended to `chain`.
ts::ConvertOp wideningOf(Value operand, SmallVectorImpl<Operation *> &chain) {
  ts::ConvertOp widening;
  if (isPackedConstant(operand)) // stored wide
    return {};
  while (Operation *op = operand.getDefiningOp()) {
    if (isa<ts::ConstantOp, ts::WeightOp>(op))
      return {};
    if (auto convert = dyn_cast<ts::ConvertOp>(op); convert && !widening)
      widening = convert;
    else if (!fusion::isReindex(op))
      break;
    chain.push_back(op);
    operand = op->getOperand(0);
  }
  if (!widening)
    return {};
  Type from = ts::elementTypeOf(widening.getInput());
  return from.isF16() || from.isBF16() ? widening : ts::ConvertOp();
}

void readWidened(ts::AttentionOp op) {
  if (!ts::elementTypeOf(op.getResult()).isF32())
    return;
  SmallVector<Operation *> chains[3];
  SmallVector<Type> from;
  for (unsigned i = 0; i < 3; ++i) {
    Value operand = op->getOperand(i);
    ts::ConvertOp widening = wideningOf(operand, chains[i]);
    // Fusion takes in what has strides (Rules.cpp).
    if (!widening || !fusion::isStrided(operand, [&](Operation *each) {
          return llvm::is_contained(chains[i], each);
        }))
      return;
    from.push_back(ts::elementTypeOf(widening.getInput()));
  }
  if (!llvm::all_equal(from))
    return;
  // Others that read the wide values keep theirs.
  OpBuilder builder(op);
  for (unsigned i = 0; i < 3; ++i) {
    IRMapping copies;
    for (Operation *each : llvm::reverse(chains[i]))
      builder.clone(*each, copies);
    op->setOperand(i, copies.lookup(op->getOperand(i)));
    for (Operation *each : chains[i])
      if (each->use_empty())
        each->erase();
  }
  op->setAttr("ts.reads_widened", builder.getUnitAttr());
}

} // namespace

void readWidenedOperands(func::FuncOp function) {
  function.walk([](ts::AttentionOp op) { readWidened(op); });
}

} // namespace knapper
