#include "graph/memory/Liveness.h"

#include "graph/fusion/Views.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::memory;
using namespace knapper::ts;

Value memory::rootOf(Value value, Dim *offset) {
  while (Operation *op = value.getDefiningOp()) {
    if (!fusion::isView(op))
      break;
    if (offset)
      *offset = *offset + fusion::viewByteOffset(op);
    value = op->getOperand(0);
  }
  return value;
}

Liveness::Liveness(func::FuncOp function) {
  unsigned next = 0;
  auto use = [&](Value value, unsigned now, bool returned) {
    auto *it = ranges.find(rootOf(value));
    if (it == ranges.end())
      return;
    it->second.last = now;
    it->second.returned |= returned;
  };
  for (Operation &op : function.getBody().front()) {
    if (isa<func::ReturnOp>(op)) {
      for (Value value : op.getOperands())
        use(value, next, true);
      continue;
    }
    if (!isa<KernelOp, ExternalOp, BindSizeOp, IfOp, LoopOp>(op))
      continue;
    for (Value value : op.getOperands())
      use(value, next, false);
    for (Value value : op.getResults())
      ranges[value] = {next, next, false};
    position[&op] = next++;
  }
}

double memory::peakBytes(const Liveness &liveness,
                         llvm::function_ref<double(Type)> bytes) {
  SmallVector<double> alive(liveness.position.size() + 1, 0.0);
  for (const auto &[value, range] : liveness.ranges)
    for (unsigned i = range.first; i <= range.last; ++i)
      alive[i] += bytes(value.getType());
  return *llvm::max_element(alive);
}
