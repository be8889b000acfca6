#include "graph/fusion/Constants.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

/// Given constant operands, is the result one too?
bool keepsConstant(Operation *op) {
  return isa_and_present<TsDialect>(op->getDialect()) && isPure(op) &&
         !isa<KernelOp, YieldOp>(op) && op->getNumResults() > 0 &&
         llvm::all_of(op->getResultTypes(), [](Type type) {
           auto tensor = dyn_cast<RankedTensorType>(type);
           return tensor && tensor.hasStaticShape();
         });
}

/// Operand-free ops that are data (not sizes, which a run decides).
bool isLeaf(Operation *op) { return isa<ConstantOp, WeightOp, IotaOp>(op); }

} // namespace

bool fusion::isConstantExpression(Value value) {
  llvm::SmallDenseSet<Operation *> seen;
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !keepsConstant(op) || (op->getNumOperands() == 0 && !isLeaf(op)))
      return false;
    if (seen.insert(op).second)
      llvm::append_range(work, op->getOperands());
  }
  return true;
}

llvm::DenseSet<Operation *> fusion::constantExpressions(Block &block) {
  llvm::DenseSet<Operation *> found;
  for (Operation &op : block)
    if (keepsConstant(&op) && (op.getNumOperands() > 0 || isLeaf(&op)) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          return found.contains(operand.getDefiningOp());
        }))
      found.insert(&op);
  return found;
}

bool fusion::isSplatConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && isa<SplatElementsAttr>(constant.getValue());
}
