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
  auto widening = kernel.yield().getValues()[index].getDefiningOp<ConvertOp>();
  if (!widening || !elementTypeOf(widening).isF32())
    return {};
  Type stored = elementTypeOf(widening.getInput());
  bool narrow = isa<FloatType>(stored) && stored.getIntOrFloatBitWidth() == 16;
  return narrow && widening.getInput().getDefiningOp() ? widening.getInput()
                                                       : Value();
}

/// Whether a value is what one matmul of 16-bit operands gives, as the op or
/// elementwise work behind it computes it.
bool isOfNarrowMatmul(Value value, unsigned depth = 0) {
  constexpr unsigned most = 32;
  Operation *op = value.getDefiningOp();
  if (!op || depth > most || isa<ConstantOp>(op))
    return false;
  if (isa<DotOp, ConvOp>(op))
    return elementTypeOf(op->getOperand(0)).getIntOrFloatBitWidth() == 16 &&
           elementTypeOf(op->getOperand(1)).getIntOrFloatBitWidth() == 16;
  return (isElementwise(op) ||
          isa<ReshapeOp, TransposeOp, SliceOp, DimCastOp>(op)) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isOfNarrowMatmul(operand, depth + 1);
         });
}

/// Rounds result `index` in the kernel, its sums in f32: the 16 bits.
Value roundBehind(KernelOp kernel, unsigned index, Type storage) {
  YieldOp yield = kernel.yield();
  Value sums = yield.getValues()[index];
  if (!storage || !elementTypeOf(sums).isF32() || !isOfNarrowMatmul(sums))
    return {};
  OpBuilder b(yield);
  // It may be a result as well.
  Value rounded;
  for (Operation *user : sums.getUsers())
    if (isa<ConvertOp>(user) && elementTypeOf(user->getResult(0)) == storage)
      rounded = user->getResult(0);
  if (!rounded)
    rounded = ConvertOp::create(b, sums.getLoc(),
                                withElement(sums.getType(), storage), sums);
  Value widened = ConvertOp::create(b, sums.getLoc(), sums.getType(), rounded);
  yield.getValuesMutable().slice(index, 1).assign(widened);
  return rounded;
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

/// Adds what kernels read of a value, views between kernels included; false
/// where another op reads it, or a kernel as it lies.
bool addReads(Value value, SmallVectorImpl<OpOperand *> &reads,
              SmallVectorImpl<Value> &views) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto reader = dyn_cast<KernelOp>(user)) {
      reads.push_back(&use);
      return mayWiden(reader.getBody().getArgument(use.getOperandNumber()));
    }
    if (!isa<ReshapeOp, SliceOp, DimCastOp>(user))
      return false;
    views.push_back(user->getResult(0));
    return addReads(user->getResult(0), reads, views);
  });
}

/// Each reader takes the narrow value and widens it.
void widenInReaders(ArrayRef<OpOperand *> reads) {
  for (OpOperand *use : reads) {
    auto reader = cast<KernelOp>(use->getOwner());
    BlockArgument argument =
        reader.getBody().getArgument(use->getOperandNumber());
    Type wide = argument.getType();
    argument.setType(withElement(wide, elementTypeOf(use->get())));
    OpBuilder b = OpBuilder::atBlockBegin(&reader.getBody().front());
    auto widened = ConvertOp::create(b, argument.getLoc(), wide, argument);
    argument.replaceAllUsesExcept(widened, widened);
  }
}

} // namespace

void fusion::storeNarrow(func::FuncOp function, bool roundsMatmuls) {
  auto stored = function->getAttrOfType<TypeAttr>(kStorageAttr);
  Type storage = roundsMatmuls && stored ? stored.getValue() : Type();
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    auto kernel = dyn_cast<KernelOp>(op);
    for (unsigned i = 0; kernel && i < kernel.getNumResults(); ++i) {
      OpResult result = kernel->getResult(i);
      SmallVector<OpOperand *> reads;
      SmallVector<Value> views;
      if (!addReads(result, reads, views) || reads.empty())
        continue;
      Value narrow = narrowBehind(kernel, i);
      if (!narrow)
        narrow = roundBehind(kernel, i, storage);
      if (!narrow)
        continue;
      YieldOp yield = kernel.yield();
      Operation *widening = yield.getValues()[i].getDefiningOp();
      // The narrow value may be a result already.
      auto same = llvm::find(yield.getValues(), narrow);
      unsigned other = std::distance(yield.getValues().begin(), same);
      result.setType(narrow.getType());
      for (Value view : views)
        view.setType(withElement(view.getType(), elementTypeOf(narrow)));
      widenInReaders(reads);
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
