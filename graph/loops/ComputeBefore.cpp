// What a loop's steps need not wait for each other with, before it.
#include "graph/loops/BatchedSteps.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// Whether what no step changes is stored in each step, were it not stored
/// before the loop. Elementwise ops are mostly computed where they are read.
static bool isStored(Operation *op) {
  if (isa<DotOp, TransposeOp, ReduceOp>(op))
    return true;
  return isElementwise(op) &&
         llvm::any_of(op->getUsers(), llvm::IsaPred<DotOp>);
}

bool knapper::computeBefore(LoopParts &parts, LoopBudget &budget) {
  BatchedSteps steps(parts, budget);
  llvm::DenseMap<Value, Value> instead;
  for (Operation &op : parts.body->without_terminator()) {
    if (op.getNumResults() != 1)
      continue;
    Value value = op.getResult(0);
    if (steps.isInvariant(value)) {
      if (isStored(&op) && steps.charge(byteCount(value.getType())))
        instead[value] = parts.capture(steps.before(value));
    } else if (auto dot = dyn_cast<DotOp>(op)) {
      std::optional<StepOrder> order = steps.orderOf(value);
      if (!order)
        continue;
      OpBuilder b(&op);
      instead[value] = parts.readRow(
          b, op.getLoc(), parts.capture(steps.before(value)), *order);
    }
  }
  parts.replace(instead);
  return !instead.empty();
}
