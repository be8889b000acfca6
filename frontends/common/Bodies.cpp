// Functions that subgraphs become, and what they see of the graph around them.
#include "frontends/common/Bodies.h"
#include "ir/tensor/ConstantExpression.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

void BodyGraphBuilder::beginBody(GraphBody &body, StringRef name,
                                 Location location, GraphBody *parent,
                                 ArrayRef<Type> arguments) {
  body.parent = parent;
  OpBuilder end = OpBuilder::atBlockEnd(module.getBody());
  body.function =
      func::FuncOp::create(end, location, (name + "_" + Twine(bodies++)).str(),
                           b.getFunctionType(arguments, {}));
  body.function.setPrivate();
  b.setInsertionPointToEnd(body.function.addEntryBlock());
  current = &body;
}

void BodyGraphBuilder::endBody(GraphBody &body, ArrayRef<Value> results,
                               OpBuilder::InsertPoint at) {
  Block &block = body.function.getBody().front();
  b.setInsertionPointToEnd(&block);
  func::ReturnOp::create(b, body.function.getLoc(), results);
  body.function.setType(
      b.getFunctionType(block.getArgumentTypes(),
                        ValueRange(ArrayRef<Value>(results)).getTypes()));
  b.restoreInsertionPoint(at);
  current = body.parent;
}

/// A tensor with these elements.
static Value materialise(OpBuilder &b, Location location,
                         ArrayRef<Dim> elements, RankedTensorType type) {
  Type i64 = b.getI64Type();
  SmallVector<Value> parts;
  for (Dim element : elements) {
    Value size = ts::SizeOp::create(b, location, RankedTensorType::get({}, i64),
                                    element.attr());
    parts.push_back(ts::ReshapeOp::create(
        b, location, RankedTensorType::get({1}, i64), size));
  }
  Value all = parts.size() == 1
                  ? parts[0]
                  : Value(ts::ConcatOp::create(b, location, ValueRange(parts),
                                               uint64_t(0)));
  all = ts::ReshapeOp::create(
      b, location, cast<RankedTensorType>(ts::withElement(type, i64)), all);
  return type.getElementType() == i64
             ? all
             : Value(ts::ConvertOp::create(b, location, type, all));
}

Value BodyGraphBuilder::capture(GraphBody &body, Value value) {
  if (!value)
    return {};
  if (Value known = body.inside.lookup(value))
    return known;
  // Bodies are built from front to back, so their ends are where they stand.
  OpBuilder::InsertionGuard guard(b);
  Block &block = body.function.getBody().front();
  b.setInsertionPointToEnd(&block);
  Value result;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  std::optional<SmallVector<Dim>> elements = type ? sizes(value) : std::nullopt;
  if (!type) { // a sequence: as many captures as it has elements
    Operation *op = value.getDefiningOp();
    SmallVector<Value> parts;
    for (Value part : op->getOperands())
      parts.push_back(capture(body, part));
    b.setInsertionPointToEnd(&block);
    result = UnrealizedConversionCastOp::create(b, value.getLoc(),
                                                value.getType(), parts)
                 .getResult(0);
  } else if (ts::isConstantExpression(value)) {
    IRMapping mapping;
    SmallVector<Operation *> order, stack{value.getDefiningOp()};
    llvm::DenseMap<Operation *, bool> done; // false: entered
    while (!stack.empty()) {
      Operation *op = stack.back();
      auto [it, isNew] = done.try_emplace(op, false);
      if (isNew) {
        for (Value operand : op->getOperands())
          if (!done.count(operand.getDefiningOp()))
            stack.push_back(operand.getDefiningOp());
        continue;
      }
      stack.pop_back();
      if (!it->second) {
        it->second = true;
        order.push_back(op);
      }
    }
    for (Operation *op : order)
      for (Value copy : b.clone(*op, mapping)->getResults())
        (void)sizes(copy);
    result = mapping.lookup(value);
  } else if (elements && !elements->empty()) {
    result = materialise(b, value.getLoc(), *elements, type);
    valueCache[result] = elements;
  } else {
    result = block.addArgument(type, value.getLoc());
    body.captures.push_back(value);
  }
  body.inside[value] = result;
  return result;
}

} // namespace knapper
