#include "graph/loops/SimplifyLoops.h"

#include "graph/loops/LoopParts.h"
#include "graph/loops/LoopPasses.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_SIMPLIFYLOOPS
#include "graph/loops/LoopPasses.h.inc"
} // namespace knapper

static void simplifyLoop(LoopParts &parts, LoopBudget budget) {
  bool changed = captureUnchanged(parts);
  changed |= sliceInOrder(parts);
  changed |= stackRows(parts);
  changed |= dropUnused(parts);
  if (changed)
    parts.rebuild();
  bool split = splitConcats(parts, budget);
  if (computeBefore(parts, budget) || split) {
    dropUnused(parts);
    parts.rebuild();
  }
  sumBehind(parts, budget);
  if (dropUnused(parts))
    parts.rebuild();
}

void knapper::simplifyLoops(func::FuncOp function, const LoopBudget &budget) {
  for (LoopOp loop : SmallVector<LoopOp>(function.getBody().getOps<LoopOp>()))
    if (std::optional<LoopParts> parts = LoopParts::of(loop))
      simplifyLoop(*parts, budget);
}

namespace {
struct SimplifyLoopsPass : knapper::impl::SimplifyLoopsBase<SimplifyLoopsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      simplifyLoops(function);
  }
};
} // namespace
