#include "graph/simplify/AttentionScores.h"

#include "graph/simplify/AttentionMask.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// Batch dims, a contracted one, one free dim of the keys, one or two of the
/// queries.
static bool isScoresDot(DotOp dot) {
  return dot.getLhsBatch().size() == 2 && dot.getLhsContract().size() == 1 &&
         (rankOf(dot.getLhs()) == 4 || rankOf(dot.getLhs()) == 5) &&
         rankOf(dot.getRhs()) == 4;
}

static bool isWidening(ConvertOp convert) {
  auto from = dyn_cast<FloatType>(elementTypeOf(convert.getInput())),
       to = dyn_cast<FloatType>(elementTypeOf(convert));
  return from && to && to.isF32() && from.getWidth() < to.getWidth();
}

bool knapper::parseScores(Value value, Scores &scores, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return false;
  if (auto dot = dyn_cast<DotOp>(op)) {
    scores.dot = dot;
    return isScoresDot(dot);
  }
  // Scores of narrow floats under a softmax of wide ones.
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    auto dot = convert.getInput().getDefiningOp<DotOp>();
    if (!dot || !isWidening(convert))
      return false;
    scores.dot = dot;
    return isScoresDot(dot);
  }
  if (auto mul = dyn_cast<MulOp>(op)) {
    for (unsigned i : {0, 1})
      if (std::optional<double> number = splatOf(mul->getOperand(i))) {
        Value inner = mul->getOperand(1 - i);
        if (auto tanh = inner.getDefiningOp<TanhOp>()) {
          // c * tanh(s / c)
          if (!parseScores(tanh.getInput(), scores, depth + 1) ||
              scores.masked() || scores.softcap != 0 || *number <= 0)
            return false;
          scores.softcap = *number;
          scores.factors.push_back({*number, elementTypeOf(value), false});
          return true;
        }
        if (!parseScores(inner, scores, depth + 1) || scores.masked() ||
            scores.softcap != 0)
          return false;
        scores.factors.push_back({*number, elementTypeOf(value), false});
        return true;
      }
    return false;
  }
  if (auto div = dyn_cast<DivOp>(op)) {
    std::optional<double> number = splatOf(div.getRhs());
    if (!number || *number == 0 ||
        !parseScores(div.getLhs(), scores, depth + 1) || scores.masked() ||
        scores.softcap != 0)
      return false;
    scores.factors.push_back({*number, elementTypeOf(value), true});
    return true;
  }
  if (isa<AddOp>(op)) {
    for (unsigned i : {0, 1}) {
      Scores attempt = scores;
      if (parseScores(op->getOperand(i), attempt, depth + 1)) {
        attempt.steps.push_back({op->getOperand(1 - i), std::nullopt});
        scores = attempt;
        return true;
      }
    }
    return false;
  }
  if (auto select = dyn_cast<SelectOp>(op)) {
    for (bool negated : {false, true}) {
      std::optional<double> fill =
          splatOf(negated ? select.getOnTrue() : select.getOnFalse());
      if (!isExcluding(fill))
        continue;
      Value inner = negated ? select.getOnFalse() : select.getOnTrue();
      if (!parseScores(inner, scores, depth + 1))
        return false;
      scores.steps.push_back({select.getCondition(), *fill, negated});
      return true;
    }
  }
  return false;
}

Value knapper::withoutScale(PatternRewriter &rewriter, Value value,
                            SmallVectorImpl<Factor> &factors) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return value;
  if (auto mul = dyn_cast<MulOp>(op)) {
    for (unsigned i : {0, 1})
      if (std::optional<double> number = splatOf(mul->getOperand(i))) {
        factors.push_back({*number, elementTypeOf(value), false});
        return withoutScale(rewriter, mul->getOperand(1 - i), factors);
      }
    return value;
  }
  if (auto div = dyn_cast<DivOp>(op)) {
    std::optional<double> number = splatOf(div.getRhs());
    if (!number || *number == 0)
      return value;
    factors.push_back({*number, elementTypeOf(value), true});
    return withoutScale(rewriter, div.getLhs(), factors);
  }
  if (!isa<TransposeOp, ReshapeOp, BroadcastOp, SliceOp>(op) || splatOf(value))
    return value;
  Value inner = withoutScale(rewriter, op->getOperand(0), factors);
  if (inner == op->getOperand(0))
    return value;
  Operation *clone = rewriter.clone(*op);
  clone->setOperand(0, inner);
  return clone->getResult(0);
}

double knapper::unrounded(double number, Type type, int64_t depth) {
  auto narrow = dyn_cast<FloatType>(type);
  if (!narrow || narrow.getWidth() >= 32 || depth <= 0)
    return number;
  auto rounded = [&](double exact) {
    llvm::APFloat value(exact);
    bool lost;
    value.convert(narrow.getFloatSemantics(),
                  llvm::APFloat::rmNearestTiesToEven, &lost);
    return value.convertToDouble();
  };
  double root = std::sqrt(static_cast<double>(depth));
  for (double scale : {1 / root, root}) {
    if (number == rounded(scale))
      return scale;
    for (double inner : {scale, rounded(scale)})
      if (number == rounded(std::sqrt(inner)))
        return std::sqrt(scale);
  }
  return number;
}
