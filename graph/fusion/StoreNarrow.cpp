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

/// Which values of a kernel are what its matmul gives, and that after work that
/// a framework would round as well: moved, by functions of one operand, scaled
/// and offset by numbers, vectors and what is stored in 16 bits. Positions,
/// masks and what a comparison decides are none.
class OfMatmul {
public:
  explicit OfMatmul(Type storage) : storage(storage) {}

  bool operator()(Value value) {
    auto [known, isNew] = answers.insert({value, false});
    if (!isNew)
      return known->second;
    bool answer = isOfMatmul(value);
    return answers[value] = answer;
  }

private:
  bool isOfMatmul(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !elementTypeOf(value).isF32())
      return false;
    // A convolution gives 16 bits, which its epilogue widens.
    if (auto widening = dyn_cast<ConvertOp>(op))
      op = widening.getInput().getDefiningOp();
    if (isa_and_present<DotOp, ConvOp>(op))
      return elementTypeOf(op->getOperand(0)) == storage &&
             elementTypeOf(op->getOperand(1)) == storage;
    if (op != value.getDefiningOp())
      return false;
    if (isa<ReshapeOp, TransposeOp, SliceOp, DimCastOp>(op))
      return (*this)(op->getOperand(0));
    if (!isElementwise(op))
      return false;
    if (op->getNumOperands() == 1)
      return (*this)(op->getOperand(0));
    if (!isa<AddOp, SubOp, MulOp, DivOp>(op))
      return false;
    bool left = (*this)(op->getOperand(0)), right = (*this)(op->getOperand(1));
    bool offsets = isa<AddOp, SubOp>(op);
    return (left && (right || isBeside(op->getOperand(1), offsets))) ||
           (right && isBeside(op->getOperand(0), offsets));
  }

  /// A number, a vector, or a tensor that is stored in 16 bits.
  bool isBeside(Value value, bool isOffset) const {
    // Larger ones exclude elements: the storage type may have no such number.
    constexpr double largestOffset = 1024;
    if (std::optional<double> number = splatOf(value))
      return !isOffset || std::abs(*number) <= largestOffset;
    if (auto widening = value.getDefiningOp<ConvertOp>())
      return elementTypeOf(widening.getInput()) == storage;
    if (auto broadcast = value.getDefiningOp<BroadcastOp>())
      value = broadcast.getInput();
    if (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getInput();
    return rankOf(value) <= 1 &&
           (isa<BlockArgument>(value) || value.getDefiningOp<ConstantOp>());
  }

  Type storage;
  llvm::DenseMap<Value, bool> answers;
};

/// Rounds result `index` in the kernel, its sums in f32: the 16 bits.
Value roundBehind(KernelOp kernel, unsigned index, Type storage) {
  YieldOp yield = kernel.yield();
  Value sums = yield.getValues()[index];
  if (!storage || !OfMatmul(storage)(sums))
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
