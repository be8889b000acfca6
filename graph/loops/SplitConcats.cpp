// dot(concat(x, h), w), of which only h needs the step before.
#include "graph/loops/BatchedSteps.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// One matmul, whose left operand is a concat along the contracted dim and
/// whose right one no step changes, or the other way round.
struct ConcatDot {
  /// Whether `dot` is of this form and some of the parts are rows.
  bool match(DotOp dot, const BatchedSteps &steps, const LoopParts &parts,
             const LoopBudget &budget);
  Value sum(BatchedSteps &steps, LoopParts &parts);

  DotOp dot;
  ConcatOp concat;
  bool left = true; ///< the side of the concat
  int64_t weightDim = 0;
};

} // namespace

bool ConcatDot::match(DotOp op, const BatchedSteps &steps,
                      const LoopParts &parts, const LoopBudget &budget) {
  dot = op;
  Type element = elementTypeOf(op.getLhs());
  // Of 16 bits each sum of a part would be rounded.
  if (!isa<FloatType>(element) || element.getIntOrFloatBitWidth() < 32 ||
      elementTypeOf(op.getResult()) != element || !op.getLhsBatch().empty() ||
      op.getLhsContract().size() != 1)
    return false;
  concat = op.getLhs().getDefiningOp<ConcatOp>();
  left = concat && steps.isInvariant(op.getRhs());
  if (!left) {
    concat = op.getRhs().getDefiningOp<ConcatOp>();
    if (!concat || !steps.isInvariant(op.getLhs()))
      return false;
  }
  int64_t along = left ? op.getLhsContract()[0] : op.getRhsContract()[0];
  weightDim = left ? op.getRhsContract()[0] : op.getLhsContract()[0];
  if (concat.getDim() != along)
    return false;
  if (rankOf(concat.getResult()) != 2 || parts.namesOwnSymbol(concat) ||
      dimOf(concat.getResult(), 1 - along).asConstant().value_or(1) >
          budget.rows)
    return false;
  // Rows that are much narrower than the result are not batched.
  auto isBatched = [&](Value part) {
    Dim most = byteCount(part.getType()) * budget.growth;
    return steps.orderOf(part) &&
           !isLess(most, byteCount(op.getType())).value_or(true);
  };
  return llvm::any_of(concat.getInputs(), isBatched) &&
         llvm::all_of(concat.getInputs(),
                      [&](Value part) {
                        return !steps.orderOf(part) || isBatched(part);
                      }) &&
         !llvm::all_of(concat.getInputs(), isBatched);
}

Value ConcatDot::sum(BatchedSteps &steps, LoopParts &parts) {
  OpBuilder b(dot), outer(parts.loop);
  Location loc = dot.getLoc();
  Value weights = steps.before(left ? dot.getRhs() : dot.getLhs()), total;
  Dim start = parts.trips.like(0);
  for (Value part : concat.getInputs()) {
    Dim size = dimOf(part, concat.getDim());
    Value rows =
        parts.capture(makeSlice(outer, loc, weights, weightDim, start, size));
    Value product = DotOp::create(
        b, loc, left ? part : rows, left ? rows : part, dot.getLhsBatch(),
        dot.getRhsBatch(), dot.getLhsContract(), dot.getRhsContract(),
        dot.getResultTypeAttr());
    total = total ? AddOp::create(b, loc, total, product).getResult() : product;
    start = start + size;
  }
  return total;
}

bool knapper::splitConcats(LoopParts &parts, const LoopBudget &budget) {
  LoopBudget own = budget; // found here, charged where they are batched
  BatchedSteps steps(parts, own);
  llvm::DenseMap<Value, Value> instead;
  for (auto dot : llvm::make_early_inc_range(parts.body->getOps<DotOp>()))
    if (ConcatDot found; found.match(dot, steps, parts, budget))
      instead[dot.getResult()] = found.sum(steps, parts);
  parts.replace(instead);
  return !instead.empty();
}
