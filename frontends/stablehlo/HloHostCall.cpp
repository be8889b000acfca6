#include "frontends/stablehlo/HloHostCall.h"
#include "frontends/stablehlo/HloComplex.h"

using namespace mlir;

namespace knapper {

bool isHloHostCall(HloNode &n) {
  auto target = n.op->getAttrOfType<StringAttr>("call_target_name");
  return n.kind == "custom_call" && target &&
         target.getValue() == "knapper.call";
}

LogicalResult importHloHostCall(HloNode &n) {
  StringRef function = n.text("backend_config");
  SmallVector<Value> inputs;
  for (auto [value, type] : llvm::zip(n.operands, n.op->getOperandTypes()))
    inputs.push_back(isHloComplex(type) ? hloToBorder(n, value) : value);
  SmallVector<Type> types;
  std::string problem;
  for (Type type : n.op->getResultTypes()) {
    types.push_back(hloBorderType(type, problem));
    if (!types.back())
      return n.unsupported(problem);
  }
  if (n.failed() || llvm::is_contained(inputs, Value()))
    return failure();
  NamedAttribute name =
      n.b.getNamedAttr("function", n.b.getStringAttr(function));
  Operation *op =
      n.external("knapper.jax", "Call", 1, n.b.getDictionaryAttr(name),
                 SmallVector<bool>(inputs.size(), true), inputs, {}, types);
  if (!op)
    return failure();
  for (auto [i, type] : llvm::enumerate(n.op->getResultTypes())) {
    Value result = op->getResult(i);
    if (failed(
            n.out(isHloComplex(type) ? hloFromBorder(n, result) : result, i)))
      return failure();
  }
  return mlir::success();
}

} // namespace knapper
