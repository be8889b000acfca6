#include "ir/tensor/Update.h"

using namespace mlir;

namespace knapper {

Operation *ts::scatterOf(KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isa<ScatterElementsOp, ScatterNdOp>(op))
      return &op;
  return nullptr;
}

std::optional<unsigned> ts::updatedInput(KernelOp kernel) {
  Operation *scatter = scatterOf(kernel);
  if (!scatter || kernel.getNumResults() != 1 ||
      kernel.yield().getValues().front() != scatter->getResult(0))
    return std::nullopt;
  auto input = dyn_cast<BlockArgument>(scatter->getOperand(0));
  if (!input || !input.hasOneUse())
    return std::nullopt;
  return input.getArgNumber();
}

} // namespace knapper
