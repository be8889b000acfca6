#include "graph/memory/OrderKernels.h"

#include "graph/fusion/Cost.h"
#include "graph/memory/Liveness.h"
#include "graph/memory/MemoryPasses.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::memory;
using namespace knapper::ts;

namespace knapper::memory {
#define GEN_PASS_DEF_ORDERKERNELS
#include "graph/memory/MemoryPasses.h.inc"
} // namespace knapper::memory

namespace {

/// Greedy order of the block's ops (terminator excluded).
SmallVector<Operation *> greedyOrder(Block &block,
                                     llvm::function_ref<double(Type)> bytes) {
  llvm::DenseMap<Operation *, unsigned> missing; // operands not yet made
  llvm::DenseMap<Value, unsigned> uses;          // kernels yet to read a root
  SmallVector<Operation *> ready, order;
  for (Operation &op : block.without_terminator()) {
    unsigned count = 0;
    for (Value operand : op.getOperands())
      count += operand.getDefiningOp() != nullptr;
    missing[&op] = count;
    if (!count)
      ready.push_back(&op);
  }
  auto rootsOf = [](Operation *op) {
    llvm::SmallSetVector<Value, 4> roots;
    for (Value operand : op->getOperands())
      roots.insert(rootOf(operand));
    return roots;
  };
  for (Operation &op : block)
    if (isa<KernelOp, func::ReturnOp>(op))
      for (Value root : rootsOf(&op))
        ++uses[root];

  auto growth = [&](Operation *op) -> double {
    if (!isa<KernelOp>(op))
      return -1e300; // views and constants: at once
    double delta = 0;
    for (Type type : op->getResultTypes())
      delta += bytes(type);
    for (Value root : rootsOf(op))
      if (root.getDefiningOp<KernelOp>() && uses[root] == 1)
        delta -= bytes(root.getType());
    return delta;
  };
  while (!ready.empty()) {
    // `ready` is sorted by position: the first of the best.
    size_t best = 0;
    double bestGrowth = growth(ready[0]);
    for (size_t i = 1; i < ready.size(); ++i)
      if (double candidate = growth(ready[i]); candidate < bestGrowth) {
        best = i;
        bestGrowth = candidate;
      }
    Operation *op = ready[best];
    ready.erase(ready.begin() + best);
    order.push_back(op);
    if (isa<KernelOp>(op))
      for (Value root : rootsOf(op))
        --uses[root];
    for (OpOperand &use : op->getUses()) {
      Operation *user = use.getOwner();
      if (!missing.contains(user) || --missing[user])
        continue;
      auto *at = llvm::find_if(ready, [&](Operation *other) {
        return user->isBeforeInBlock(other);
      });
      ready.insert(at, user);
    }
  }
  return order;
}

void arrange(Block &block, ArrayRef<Operation *> order) {
  for (Operation *op : order)
    op->moveBefore(block.getTerminator());
}

class OrderKernelsPass
    : public memory::impl::OrderKernelsBase<OrderKernelsPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    if (getOperation().isDeclaration() ||
        !getOperation().getBody().hasOneBlock())
      return;
    PeakChange peak = orderKernels(getOperation());
    if (report)
      getOperation().emitRemark()
          << "peak " << static_cast<int64_t>(peak.before) << " bytes, then "
          << static_cast<int64_t>(peak.after);
  }

private:
  using Base = memory::impl::OrderKernelsBase<OrderKernelsPass>;
};

} // namespace

PeakChange memory::orderKernels(func::FuncOp function) {
  fusion::CostModel model({}, fusion::representativeSizes(function));
  auto bytes = [&](Type type) { return model.bytes(type); };
  Block &block = function.getBody().front();
  double before = peakBytes(Liveness(function), bytes);
  if (!block.getOps<BindSizeOp>().empty() || !block.getOps<IfOp>().empty() ||
      !block.getOps<LoopOp>().empty() || !block.getOps<ExternalOp>().empty())
    return {before, before};
  SmallVector<Operation *> original;
  for (Operation &op : block.without_terminator())
    original.push_back(&op);
  arrange(block, greedyOrder(block, bytes));
  double after = peakBytes(Liveness(function), bytes);
  if (after <= before * 0.99)
    return {before, after};
  arrange(block, original);
  return {before, before};
}
