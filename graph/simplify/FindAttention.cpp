// dot(softmax(scale * dot(q, k) + mask), v) to ts.attention.
#include "graph/simplify/AttentionMask.h"
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// A number that q, k or their product is multiplied with.
struct Factor {
  double number;
  Type type; ///< of the elements
  bool divides;
};

/// What stands between the product of q and k and the softmax.
struct Scores {
  DotOp dot;
  SmallVector<Factor> factors;
  double softcap = 0;
  SmallVector<Value> added;
  struct Choice {
    Value condition;
    bool negated;
    double fill;
  };
  SmallVector<Choice> choices;

  bool masked() const { return !added.empty() || !choices.empty(); }
};

/// Batch dims, one free dim and one contracted dim a side.
bool isHeadDot(DotOp dot) {
  return dot.getLhsBatch().size() == 2 && dot.getLhsContract().size() == 1 &&
         rankOf(dot.getLhs()) == 4 && rankOf(dot.getRhs()) == 4;
}

bool isWidening(ConvertOp convert) {
  auto from = dyn_cast<FloatType>(elementTypeOf(convert.getInput())),
       to = dyn_cast<FloatType>(elementTypeOf(convert));
  return from && to && to.isF32() && from.getWidth() < to.getWidth();
}

bool parseScores(Value value, Scores &scores, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return false;
  if (auto dot = dyn_cast<DotOp>(op)) {
    scores.dot = dot;
    return isHeadDot(dot);
  }
  // Scores of narrow floats under a softmax of wide ones.
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    auto dot = convert.getInput().getDefiningOp<DotOp>();
    if (!dot || !isWidening(convert))
      return false;
    scores.dot = dot;
    return isHeadDot(dot);
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
        attempt.added.push_back(op->getOperand(1 - i));
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
      scores.choices.push_back({select.getCondition(), negated, *fill});
      return true;
    }
  }
  return false;
}

/// Takes products with numbers out of a value, through movement.
Value withoutScale(PatternRewriter &rewriter, Value value,
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

/// Exporters round 1 / sqrt(depth) or its root to the type of q and k, models
/// do not mean that rounding: 1 / sqrt(96) of bf16, as two roots, is off by
/// half a percent. Such a number becomes what it was before, any other stays.
double unrounded(double number, Type type, int64_t depth) {
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

/// Whether a broadcast repeats along `repeated` alone.
bool repeatsOnly(BroadcastOp broadcast, int64_t repeated) {
  SmallVector<Dim> to = dimsOf(broadcast.getResult());
  Value source = broadcast.getInput();
  SmallVector<bool> present(to.size(), false);
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims())) {
    if (dim == repeated ? !dimOf(source, i).isConstant(1)
                        : !(dimOf(source, i) == to[dim]))
      return false;
    present[dim] = true;
  }
  for (int64_t dim = 0, rank = to.size(); dim < rank; ++dim)
    if (dim != repeated && !present[dim] && !to[dim].isConstant(1))
      return false;
  return true;
}

/// [B, G, T, D] behind [B, G, 1, T, D] repeated and merged to [B, H, T, D], or
/// [B, 1, T, D] repeated to that.
Value beforeRepeat(PatternRewriter &rewriter, Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    SmallVector<Dim> dims = dimsOf(value);
    if (!repeatsOnly(broadcast, 1))
      return value;
    return makeReshape(rewriter, value.getLoc(), broadcast.getInput(),
                       {dims[0], dims[1].like(1), dims[2], dims[3]});
  }
  auto reshape = value.getDefiningOp<ReshapeOp>();
  auto broadcast =
      reshape ? reshape.getInput().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!broadcast || rankOf(broadcast.getResult()) != 5)
    return value;
  SmallVector<Dim> in = dimsOf(broadcast.getResult()), out = dimsOf(value);
  if (!(out[0] == in[0]) || !(out[1] == in[1] * in[2]) || !(out[2] == in[3]) ||
      !(out[3] == in[4]))
    return value;
  if (!repeatsOnly(broadcast, 2))
    return value;
  return makeReshape(rewriter, value.getLoc(), broadcast.getInput(),
                     {in[0], in[1], in[3], in[4]});
}

} // namespace

static LogicalResult findAttention(DotOp op, PatternRewriter &rewriter) {
  if (!isHeadDot(op))
    return failure();
  // Probabilities [B, H, S, T] on the left, T contracted.
  auto isPlain = [](ArrayRef<int64_t> batch) {
    return batch == ArrayRef<int64_t>{0, 1};
  };
  if (!isPlain(op.getLhsBatch()) || op.getLhsContract()[0] != 3)
    return failure();
  Value probabilities = op.getLhs();
  bool guarded = false; // rows without a key become 0
  Value guard;
  if (auto select = probabilities.getDefiningOp<SelectOp>()) {
    auto isNan = select.getCondition().getDefiningOp<IsNanOp>();
    if (!isSplat(select.getOnTrue(), 0))
      return failure();
    guarded = isNan && isNan.getInput() == select.getOnFalse();
    if (!guarded)
      guard = select.getCondition();
    probabilities = select.getOnFalse();
  }
  auto softmax = probabilities.getDefiningOp<SoftmaxOp>();
  Scores scores;
  if (!softmax || softmax.getLog() || softmax.getDim() != 3 ||
      !parseScores(softmax.getInput(), scores))
    return failure();
  DotOp dot = scores.dot;
  Type element = elementTypeOf(op);
  Type narrow = elementTypeOf(dot.getLhs());
  bool widened = narrow != element && element.isF32() &&
                 isa<FloatType>(narrow) && elementTypeOf(dot) == narrow;
  if ((narrow != element && !widened) || elementTypeOf(op.getRhs()) != element)
    return failure();

  if (guard && findsExcludedRows(guard, softmax.getInput())) {
    guarded = true;
  } else if (guard) {
    if (!scores.choices.empty() || scores.added.size() != 1 ||
        !findsEmptyRows(guard, scores.added[0]))
      return failure();
    guarded = true;
  }

  MaskParts mask;
  mask.empty = guarded ? EmptyRow::zero : EmptyRow::nan;
  bool alone = scores.choices.size() + scores.added.size() == 1;
  for (const Scores::Choice &choice : scores.choices) {
    if (alone || std::isinf(choice.fill)) {
      mask.takeCondition(choice.condition, {0, 1, 2, 3}, choice.negated);
      if (!std::isinf(choice.fill))
        mask.empty = EmptyRow::mean;
      continue;
    }
    // Put in its place or added: a large negative number swallows the score.
    auto type = withElement(choice.condition.getType(), element);
    Value zero = makeSplat(rewriter, op.getLoc(), type, 0),
          fill = makeSplat(rewriter, op.getLoc(), type, choice.fill);
    mask.takeAdded(SelectOp::create(rewriter, op.getLoc(), choice.condition,
                                    choice.negated ? fill : zero,
                                    choice.negated ? zero : fill),
                   alone);
  }
  for (Value added : scores.added)
    mask.takeAdded(added, alone);

  auto freeDim = [](ArrayRef<int64_t> batch, int64_t contract) {
    return 6 - batch[0] - batch[1] - contract;
  };
  int64_t qk = dot.getLhsContract()[0], kk = dot.getRhsContract()[0],
          vk = op.getRhsContract()[0];
  ArrayRef<int64_t> qb = dot.getLhsBatch(), kb = dot.getRhsBatch(),
                    vb = op.getRhsBatch();
  Location location = op.getLoc();
  Value query = makeTranspose(rewriter, location, dot.getLhs(),
                              {qb[0], qb[1], freeDim(qb, qk), qk});
  Value key = makeTranspose(rewriter, location, dot.getRhs(),
                            {kb[0], kb[1], freeDim(kb, kk), kk});
  Value value = makeTranspose(rewriter, location, op.getRhs(),
                              {vb[0], vb[1], vk, freeDim(vb, vk)});
  query = withoutScale(rewriter, query, scores.factors);
  key = withoutScale(rewriter, key, scores.factors);
  int64_t depth = dimOf(query, 3).asConstant().value_or(0);
  double scale = 1;
  for (auto [number, type, divides] : scores.factors) {
    double factor = unrounded(number, type, depth);
    scale = divides ? scale / factor : scale * factor;
  }
  if (widened)
    for (Value *operand : {&query, &key})
      *operand =
          ConvertOp::create(rewriter, location,
                            withElement(operand->getType(), element), *operand);
  Value fewKeys = beforeRepeat(rewriter, key),
        fewValues = beforeRepeat(rewriter, value);
  if (dimOf(fewKeys, 1) == dimOf(fewValues, 1)) {
    key = fewKeys;
    value = fewValues;
  }
  if (!mask.mayEmptyRows(dimOf(query, 2), dimOf(key, 2)))
    mask.empty = EmptyRow::zero;
  auto attention = AttentionOp::create(
      rewriter, location, query, key, value, mask.build(rewriter, location),
      rewriter.getF64FloatAttr(scale),
      rewriter.getBoolAttr(mask.causality != Causality::none),
      rewriter.getBoolAttr(mask.causality == Causality::topLeft),
      rewriter.getF64FloatAttr(scores.softcap));
  setEmptyRow(attention, mask.empty);
  rewriter.replaceOp(op, attention);
  return success();
}

/// Heads whose repetition shows when the reshapes around them are gone.
static LogicalResult shareHeads(AttentionOp op, PatternRewriter &rewriter) {
  Value key = beforeRepeat(rewriter, op.getKey()),
        value = beforeRepeat(rewriter, op.getValue());
  if (dimOf(key, 1) == dimOf(op.getKey(), 1) ||
      !(dimOf(key, 1) == dimOf(value, 1)))
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.getKeyMutable().assign(key);
    op.getValueMutable().assign(value);
  });
  return success();
}

void knapper::populateAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add(findAttention);
}

void knapper::populateSharedHeadPatterns(RewritePatternSet &patterns) {
  patterns.add(shareHeads);
}
