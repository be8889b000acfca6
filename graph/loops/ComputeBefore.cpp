// What a loop's steps need not wait for each other with, before it.
#include "graph/loops/BatchedSteps.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// Whether reading the result costs a step less than computing it.
static bool isWorthKeeping(Operation *op) {
  if (isa<DotOp, TransposeOp, ReduceOp>(op))
    return true;
  // Broadcasts are computed where they are read.
  return isElementwise(op) && llvm::any_of(op->getOperands(), [](Value value) {
           Operation *from = value.getDefiningOp();
           return !isa_and_present<ConstantOp, BroadcastOp, SizeOp, IotaOp>(
               from);
         });
}

bool knapper::computeBefore(LoopParts &parts, LoopBudget &budget) {
  BatchedSteps steps(parts, budget);
  llvm::DenseMap<Value, Value> instead;
  for (Operation &op :
       llvm::make_early_inc_range(parts.body->without_terminator())) {
    if (op.getNumResults() != 1)
      continue;
    Value value = op.getResult(0);
    if (steps.isInvariant(value)) {
      if (isWorthKeeping(&op))
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
  for (auto [value, inside] : instead)
    value.replaceAllUsesWith(inside);
  auto renew = [&](Value &value) {
    if (Value inside = instead.lookup(value))
      value = inside;
  };
  for (LoopParts::Carried &each : parts.carried)
    renew(each.next);
  for (LoopParts::Scan &each : parts.scans)
    renew(each.value);
  return !instead.empty();
}
