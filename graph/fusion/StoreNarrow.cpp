#include "graph/fusion/StoreNarrow.h"

#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// The 16 bits that a kernel's result is the widening of, made inside.
Value narrowBehind(KernelOp kernel, unsigned index) {
  auto widening =
      kernel.yield().getValues()[index].getDefiningOp<ConvertOp>();
  if (!widening || !elementTypeOf(widening).isF32())
    return {};
  Type stored = elementTypeOf(widening.getInput());
  bool narrow = isa<FloatType>(stored) && stored.getIntOrFloatBitWidth() == 16;
  return narrow && widening.getInput().getDefiningOp() ? widening.getInput()
                                                       : Value();
}

/// Whether elementwise work and reductions alone read a kernel's argument,
/// views between: the others take their operands as they lie.
bool mayWiden(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, DimCastOp>(user))
      return mayWiden(user->getResult(0));
    return isElementwise(user) || isa<ReduceOp>(user);
  });
}

/// The kernel without result `index`, which nothing reads.
KernelOp without(KernelOp kernel, unsigned index) {
  OpBuilder b(kernel);
  SmallVector<Type> types(kernel.getResultTypes());
  types.erase(types.begin() + index);
  auto smaller = KernelOp::create(b, kernel.getLoc(), types, kernel.getInputs(),
                                  kernel.getHero(), kernel.getSchedulesAttr(),
                                  kernel.getSignatureAttr());
  smaller.getBody().takeBody(kernel.getBody());
  smaller.yield().getValuesMutable().erase(index);
  unsigned next = 0;
  for (OpResult result : kernel.getResults())
    if (result.getResultNumber() != index)
      result.replaceAllUsesWith(smaller.getResult(next++));
  kernel.erase();
  return smaller;
}

/// Each reader takes the narrow value and widens it.
void widenInReaders(OpResult result, Type wide) {
  for (OpOperand &use : result.getUses()) {
    auto reader = cast<KernelOp>(use.getOwner());
    BlockArgument argument =
        reader.getBody().getArgument(use.getOperandNumber());
    argument.setType(result.getType());
    OpBuilder b = OpBuilder::atBlockBegin(&reader.getBody().front());
    auto widened = ConvertOp::create(b, argument.getLoc(), wide, argument);
    argument.replaceAllUsesExcept(widened, widened);
  }
}

} // namespace

void fusion::storeNarrow(func::FuncOp function) {
  for (Operation &op :
       llvm::make_early_inc_range(function.getBody().front())) {
    auto kernel = dyn_cast<KernelOp>(op);
    for (unsigned i = 0; kernel && i < kernel.getNumResults(); ++i) {
      OpResult result = kernel->getResult(i);
      Value narrow = narrowBehind(kernel, i);
      bool fits = narrow && llvm::all_of(result.getUses(), [](OpOperand &use) {
        auto reader = dyn_cast<KernelOp>(use.getOwner());
        return reader && mayWiden(reader.getBody().getArgument(
                             use.getOperandNumber()));
      });
      if (!fits)
        continue;
      Type wide = result.getType();
      YieldOp yield = kernel.yield();
      Operation *widening = yield.getValues()[i].getDefiningOp();
      // The narrow value may be a result already.
      auto same = llvm::find(yield.getValues(), narrow);
      unsigned other = std::distance(yield.getValues().begin(), same);
      result.setType(narrow.getType());
      widenInReaders(result, wide);
      yield.getValuesMutable().slice(i, 1).assign(narrow);
      if (widening->use_empty())
        widening->erase();
      if (other < kernel.getNumResults() && other != i) {
        result.replaceAllUsesWith(kernel->getResult(other));
        kernel = without(kernel, i);
        --i;
      }
    }
  }
}
