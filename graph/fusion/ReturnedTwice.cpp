#include "graph/fusion/ReturnedTwice.h"

#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// The kernel with another result, equal to result `index`; the kernel is gone.
static KernelOp withCopyOf(KernelOp kernel, unsigned index) {
  OpBuilder b(kernel);
  SmallVector<Type> types(kernel.getResultTypes());
  types.push_back(types[index]);
  auto grown = KernelOp::create(b, kernel.getLoc(), types, kernel.getInputs(),
                                kernel.getHero(), kernel.getSchedulesAttr(),
                                kernel.getSignatureAttr());
  grown.getBody().takeBody(kernel.getBody());
  YieldOp yield = grown.yield();
  SmallVector<Value> values(yield.getValues());
  values.push_back(values[index]);
  yield.getValuesMutable().assign(values);
  kernel.replaceAllUsesWith(grown.getResults().drop_back());
  kernel.erase();
  return grown;
}

void fusion::writeReturnedTwice(func::FuncOp function) {
  auto ret = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  llvm::SmallDenseSet<Value> seen;
  for (OpOperand &operand : ret->getOpOperands()) {
    Value value = operand.get();
    auto kernel = value.getDefiningOp<KernelOp>();
    if (seen.insert(value).second || !kernel ||
        !llvm::is_contained({Hero::pointwise, Hero::reduce}, kernel.getHero()))
      continue;
    unsigned index = cast<OpResult>(value).getResultNumber();
    KernelOp grown = withCopyOf(kernel, index);
    for (OpResult result : grown.getResults())
      if (llvm::is_contained(ret.getOperands(), result))
        seen.insert(result);
    operand.set(grown.getResults().back());
  }
}
