#include "graph/memory/InPlace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::memory;
using namespace knapper::ts;

bool memory::readsInPlace(KernelOp kernel, unsigned index) {
  // Every way from the argument to the result keeps the row-major position.
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

llvm::DenseMap<Value, Value> memory::inPlace(func::FuncOp function) {
  Liveness liveness(function);
  llvm::DenseMap<Value, Value> taken;
  // The kernel's result whose memory a root lies in, after take-overs.
  auto memoryOf = [&](Value root) {
    for (auto it = taken.find(root); it != taken.end(); it = taken.find(root))
      root = it->second;
    return root;
  };
  for (auto kernel : function.getBody().front().getOps<KernelOp>()) {
    Hero hero = kernel.getHero();
    if ((hero != Hero::pointwise && hero != Hero::gather) ||
        kernel.getNumResults() != 1)
      continue;
    Value result = kernel.getResult(0);
    if (liveness.ranges.find(result)->second.returned)
      continue;
    unsigned now = liveness.position.lookup(kernel);
    for (auto [i, input] : llvm::enumerate(kernel.getInputs())) {
      Value root = rootOf(input);
      auto *range = liveness.ranges.find(root);
      if (range == liveness.ranges.end() || range->second.returned ||
          range->second.last != now)
        continue;
      Dim bytes = byteCount(result.getType());
      if (!(byteCount(root.getType()) == bytes) ||
          !(byteCount(input.getType()) == bytes) ||
          elementBytes(elementTypeOf(input)) !=
              elementBytes(elementTypeOf(result)))
        continue;
      bool shared = false;
      for (auto [j, other] : llvm::enumerate(kernel.getInputs()))
        shared |= j != i && memoryOf(rootOf(other)) == memoryOf(root);
      if (shared || !readsInPlace(kernel, i))
        continue;
      taken[result] = root;
      break;
    }
  }
  return taken;
}
