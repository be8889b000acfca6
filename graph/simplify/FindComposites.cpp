#include "graph/simplify/FindComposites.h"

#include "graph/simplify/Simplify.h"
#include "graph/simplify/SimplifyPasses.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;
using namespace knapper;

namespace knapper {
#define GEN_PASS_DEF_FINDCOMPOSITES
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

LogicalResult knapper::findComposites(func::FuncOp function) {
  if (failed(simplify(function)))
    return failure();
  RewritePatternSet patterns(function.getContext());
  populateActivationPatterns(patterns);
  populateNormalisationPatterns(patterns);
  populateRopePatterns(patterns);
  populateAttentionPatterns(patterns);
  populateAttentionMaskPatterns(patterns);
  rewrite(function,
          std::move(patterns)); // softmax before the attention around it
  if (failed(simplify(function)))
    return failure();
  RewritePatternSet shared(function.getContext());
  populateSharedHeadPatterns(shared);
  rewrite(function, std::move(shared));
  return mlir::success();
}

namespace {
struct FindCompositesPass
    : knapper::impl::FindCompositesBase<FindCompositesPass> {
  void runOnOperation() override {
    if (failed(findComposites(getOperation())))
      signalPassFailure();
  }
};
} // namespace
