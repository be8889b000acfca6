#include "graph/memory/InPlace.h"

#include "ir/tensor/Update.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::memory;
using namespace knapper::ts;

/// Whether every way from the argument to the result keeps the row-major
/// position.
static bool readsInPlace(KernelOp kernel, unsigned index) {
  SmallVector<Value> work{kernel.getBody().getArgument(index)};
  llvm::SmallDenseSet<Operation *> seen;
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<YieldOp>(user) || !seen.insert(user).second)
        continue;
      if (!isa<ElementwiseOpInterface, ReshapeOp, DimCastOp>(user))
        return false;
      llvm::append_range(work, user->getResults());
    }
  return true;
}

static constexpr const char *kApartAttr = "ts.results_apart";

void memory::setInPlace(KernelOp kernel, bool isAllowed) {
  kernel->removeAttr(kApartAttr);
  if (!isAllowed)
    kernel->setAttr(kApartAttr, UnitAttr::get(kernel.getContext()));
}

SmallVector<unsigned> memory::inPlaceInputs(KernelOp kernel) {
  SmallVector<unsigned> found;
  if (kernel->hasAttr(kApartAttr))
    return found;
  Hero hero = kernel.getHero();
  if (std::optional<unsigned> updated = updatedInput(kernel))
    found.push_back(*updated);
  if ((hero != Hero::pointwise && hero != Hero::gather) ||
      kernel.getNumResults() != 1)
    return found;
  Type result = kernel.getResult(0).getType();
  for (auto [i, input] : llvm::enumerate(kernel.getInputs()))
    if (byteCount(input.getType()) == byteCount(result) &&
        elementBytes(elementTypeOf(input)) ==
            elementBytes(elementTypeOf(kernel.getResult(0))) &&
        readsInPlace(kernel, i))
      found.push_back(i);
  return found;
}

llvm::DenseMap<Value, Value> memory::inPlace(func::FuncOp function,
                                             const Liveness &liveness) {
  llvm::DenseMap<Value, Value> taken;
  // The kernel's result whose memory a root lies in, after take-overs.
  auto memoryOf = [&](Value root) {
    for (auto it = taken.find(root); it != taken.end(); it = taken.find(root))
      root = it->second;
    return root;
  };
  for (auto kernel : function.getBody().front().getOps<KernelOp>()) {
    SmallVector<unsigned> inputs = inPlaceInputs(kernel);
    if (inputs.empty() ||
        liveness.ranges.find(kernel.getResult(0))->second.returned)
      continue;
    Value result = kernel.getResult(0);
    unsigned now = liveness.position.lookup(kernel);
    for (unsigned i : inputs) {
      Value root = rootOf(kernel.getInputs()[i]);
      const auto *range = liveness.ranges.find(root);
      if (range == liveness.ranges.end() || range->second.returned ||
          range->second.last != now ||
          !(byteCount(root.getType()) == byteCount(result.getType())))
        continue;
      bool shared = false;
      for (auto [j, other] : llvm::enumerate(kernel.getInputs()))
        shared |= j != i && memoryOf(rootOf(other)) == memoryOf(root);
      if (shared)
        continue;
      taken[result] = root;
      break;
    }
  }
  return taken;
}
