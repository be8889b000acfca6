#include "graph/simplify/Simplify.h"

#include "graph/simplify/SimplifyPasses.h"
#include "ir/tensor/Dialect.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace knapper;

namespace knapper {
#define GEN_PASS_DEF_SIMPLIFY
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

void knapper::rewrite(func::FuncOp function,
                      const FrozenRewritePatternSet &patterns) {
  int64_t ops = 0;
  function.walk([&](Operation *) { ++ops; });
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  config.setUseTopDownTraversal(true);
  config.setMaxNumRewrites(1000 + 200 * ops);
  if (failed(applyPatternsGreedily(function, patterns, config)))
    function.emitRemark("rewriting stopped before a fixed point");
}

LogicalResult knapper::simplify(func::FuncOp function) {
  RewritePatternSet patterns(function.getContext());
  populateAlgebraPatterns(patterns);
  populateMovementPatterns(patterns);
  populateDotPatterns(patterns);
  populateIndexPatterns(patterns);
  FrozenRewritePatternSet frozen(std::move(patterns));
  // Equal values made equal let more patterns match (x * x, shared masks).
  for (int round = 0; round < 2; ++round) {
    rewrite(function, frozen);
    IRRewriter rewriter(function.getContext());
    DominanceInfo dominance(function);
    bool changed = false;
    eliminateCommonSubExpressions(rewriter, dominance, function, &changed);
    if (!changed)
      break;
  }
  return success();
}

namespace {
struct SimplifyPass : knapper::impl::SimplifyBase<SimplifyPass> {
  void runOnOperation() override {
    if (failed(knapper::simplify(getOperation())))
      signalPassFailure();
  }
};
} // namespace
