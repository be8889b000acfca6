#include "graph/layout/SplitScatters.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_SPLITSCATTERS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// Indices of the one dim of what is updated, one an update.
static bool addsToVector(ScatterNdOp op) {
  return rankOf(op.getInput()) == 1 && op.getReduction() == ReduceKind::add &&
         dimsOf(op.getIndices()).back().isConstant(1);
}
static bool addsToVector(ScatterElementsOp op) {
  return rankOf(op.getInput()) == 1 && op.getReduction() == ReduceKind::add;
}

/// The largest divisor of `updates` up to what is wanted.
static int64_t partsOf(int64_t updates, int64_t elements,
                       const ScatterModel &model) {
  if (updates < model.updates || elements < 1)
    return 1;
  int64_t parts = std::min(model.parts, updates / (model.each * elements));
  while (parts > 1 && updates % parts)
    --parts;
  return parts;
}

template <typename Scatter>
static void split(Scatter op, const ScatterModel &model) {
  Type element = elementTypeOf(op.getResult());
  std::optional<int64_t> elements = dimOf(op.getInput(), 0).asConstant(),
                         updates = elementCount(op.getUpdates().getType())
                                       .asConstant();
  if (!addsToVector(op) || !elements || !updates || element.isInteger(1))
    return;
  int64_t parts = partsOf(*updates, *elements, model);
  if (parts <= 1)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto number = [&](int64_t n) { return Dim::constant(b.getContext(), n); };
  SmallVector<Dim> lines{number(parts), number(*updates / parts)},
      sums{number(parts), number(*elements)};
  // -0: what nothing is added to keeps its sign.
  Value zeros = splatConstant(b, loc, tensorType(b.getContext(), sums, element),
                              isa<FloatType>(element) ? -0.0 : 0);
  Value scattered = ScatterElementsOp::create(
      b, loc, zeros, makeReshape(b, loc, op.getIndices(), lines),
      makeReshape(b, loc, op.getUpdates(), lines), uint64_t(1),
      op.getReductionAttr());
  Value sum = ReduceOp::create(b, loc, ReduceKind::add, scattered,
                               ArrayRef<int64_t>{0}, false);
  op.getResult().replaceAllUsesWith(
      AddOp::create(b, loc, op.getInput(), sum).getResult());
  op.erase();
}

void knapper::splitScatters(func::FuncOp function, const ScatterModel &model) {
  function.walk([&](ScatterNdOp op) { split(op, model); });
  SmallVector<ScatterElementsOp> found;
  function.walk([&](ScatterElementsOp op) { found.push_back(op); });
  for (ScatterElementsOp op : found)
    split(op, model);
}

namespace {
struct SplitScattersPass : knapper::impl::SplitScattersBase<SplitScattersPass> {
  void runOnOperation() override { splitScatters(getOperation()); }
};
} // namespace
