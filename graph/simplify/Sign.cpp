#include "graph/simplify/Sign.h"

#include "graph/simplify/Match.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

static bool isNeverNegative(Value value, unsigned depth) {
  if (std::optional<double> number = splatOf(value))
    return !std::signbit(*number);
  if (!value.getDefiningOp() || depth == 0)
    return false;
  auto all = [&](Operation *op) {
    return llvm::all_of(op->getOperands(),
                        [&](Value v) { return isNeverNegative(v, depth - 1); });
  };
  return TypeSwitch<Operation *, bool>(value.getDefiningOp())
      .Case<AbsOp, ExpOp, SigmoidOp>([](Operation *) { return true; })
      .Case([&](MulOp op) { return op.getLhs() == op.getRhs() || all(op); })
      .Case([&](MaxOp op) {
        return isNeverNegative(op.getLhs(), depth - 1) ||
               isNeverNegative(op.getRhs(), depth - 1);
      })
      .Case<AddOp, DivOp, MinOp, SqrtOp, BroadcastOp, ReshapeOp, TransposeOp,
            SliceOp, ConvertOp>(all)
      .Case([&](ReduceOp op) { // (The maximum of nothing is -infinity.)
        return llvm::is_contained(
                   {ReduceKind::add, ReduceKind::mul, ReduceKind::min},
                   op.getKind()) &&
               all(op);
      })
      .Default(false);
}

bool knapper::isNeverNegative(Value value) {
  constexpr unsigned mostOps = 12; // of a chain
  return ::isNeverNegative(value, mostOps);
}
