#include "graph/fusion/Constants.h"
#include "ir/tensor/ConstantExpression.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

bool fusion::isConstantExpression(Value value) {
  return ts::isConstantExpression(value);
}

llvm::DenseSet<Operation *> fusion::constantExpressions(Block &block) {
  llvm::DenseSet<Operation *> found;
  for (Operation &op : block)
    if (keepsConstant(&op) &&
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
