#include "ir/tensor/ConstantExpression.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

bool hasSymbolicSize(Attribute attribute) {
  bool found = false;
  attribute.walk([&](DimAttr dim) {
    found |= Dim(dim).isSymbolic();
    return WalkResult::advance();
  });
  return found;
}

} // namespace

bool knapper::ts::keepsConstant(Operation *op) {
  if (!op || !isa_and_present<TsDialect>(op->getDialect()) || !isPure(op) ||
      op->getNumResults() == 0 || op->getNumRegions() != 0 ||
      isa<IfOp, LoopOp, ExternalOp>(op))
    return false;
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return false;
  }
  // Inherent attributes one by one: asking for all of them would unique a
  // dictionary, which threads that pack constants must not do.
  return llvm::none_of(op->getName().getAttributeNames(), [&](StringAttr name) {
    std::optional<Attribute> attribute = op->getInherentAttr(name);
    return attribute && *attribute && hasSymbolicSize(*attribute);
  });
}

bool ConstantExpressions::contains(Value value) {
  Operation *root = value.getDefiningOp();
  if (!root)
    return false;
  // Depth first without recursion: a model may be deep.
  SmallVector<Operation *> stack{root};
  while (!stack.empty()) {
    Operation *op = stack.back();
    if (known.count(op)) {
      stack.pop_back();
      continue;
    }
    bool constant = keepsConstant(op), complete = true;
    for (Value operand : op->getOperands()) {
      if (!constant)
        break;
      Operation *source = operand.getDefiningOp();
      auto it = source ? known.find(source) : known.end();
      if (!source) {
        constant = false;
      } else if (it == known.end()) {
        stack.push_back(source);
        complete = false;
      } else {
        constant = it->second;
      }
    }
    if (!constant)
      complete = true;
    if (complete) {
      known[op] = constant;
      // What was pushed for operands is only asked for when needed.
      while (stack.back() != op)
        stack.pop_back();
      stack.pop_back();
    }
  }
  return known.lookup(root);
}

bool knapper::ts::isConstantExpression(Value value) {
  return ConstantExpressions().contains(value);
}
