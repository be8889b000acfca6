// dot(softmax(scale * dot(q, k) + mask), v) to ts.attention.
#include "graph/simplify/AttentionScores.h"
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

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

/// The softmax behind a side of a matmul.
struct Probabilities {
  SoftmaxOp softmax;
  /// For each dim of the side, the softmax's; -1 for one of size 1 that it does
  /// not have.
  SmallVector<int64_t> dims;
  bool isMoved; ///< by more than a narrowing
};

std::optional<Probabilities> probabilitiesOf(Value value) {
  // From the softmax's dims to the side's.
  SmallVector<int64_t> places = llvm::to_vector(llvm::seq(rankOf(value)));
  int64_t rank = rankOf(value);
  bool isMoved = false;
  for (;;) {
    Moved moved = behindMovement(value);
    isMoved |= moved.value != value;
    for (int64_t &dim : moved.dims)
      dim = dim < 0 ? -1 : places[dim];
    places = moved.dims;
    value = moved.value;
    auto convert = value.getDefiningOp<ConvertOp>();
    if (!convert)
      break;
    auto from = dyn_cast<FloatType>(elementTypeOf(convert.getInput())),
         to = dyn_cast<FloatType>(elementTypeOf(convert));
    if (!from || !to || !from.isF32() || to.getWidth() > from.getWidth())
      return std::nullopt;
    value = convert.getInput();
  }
  auto softmax = value.getDefiningOp<SoftmaxOp>();
  if (!softmax || softmax.getLog() ||
      static_cast<int64_t>(softmax.getDim()) != rankOf(value) - 1)
    return std::nullopt;
  Probabilities result = {softmax, SmallVector<int64_t>(rank, -1), isMoved};
  for (auto [dim, place] : llvm::enumerate(places))
    if (place >= 0)
      result.dims[place] = dim;
  return result;
}

/// Which dims of the scores are what. Rank 4: the heads are one dim.
struct ScoreDims {
  int64_t rank, queries, headsOfGroup = -1;

  /// As MaskPart has them.
  SmallVector<int64_t> labels() const {
    SmallVector<int64_t> result(rank);
    result[0] = 0;
    result[1] = rank == 4 ? 1 : kKeyHeads;
    result[queries] = 2;
    if (rank == 5)
      result[headsOfGroup] = kHeadsOfGroup;
    result[rank - 1] = 3;
    return result;
  }
};

/// Queries are what a mask tells apart, unless the other dim is much longer,
/// and without one the longer dim.
ScoreDims scoreDims(Scores &scores) {
  int64_t rank = rankOf(scores.dot);
  if (rank == 4)
    return {rank, 2};
  auto isMasked = [&](int64_t dim) {
    return llvm::any_of(scores.steps, [&](const MaskStep &step) {
      return runsAlong(step.value, dim);
    });
  };
  Dim second = dimOf(scores.dot, 2), third = dimOf(scores.dot, 3);
  if (second.isConstant(1) || third.isConstant(1))
    return second.isConstant(1) ? ScoreDims{rank, 3, 2} : ScoreDims{rank, 2, 3};
  // A size that only a run knows is long.
  constexpr int64_t most = INT64_MAX / 8;
  int64_t longSecond = std::min(second.asConstant().value_or(most), most),
          longThird = std::min(third.asConstant().value_or(most), most);
  bool maskedSecond = isMasked(2), maskedThird = isMasked(3);
  if (maskedSecond && !maskedThird)
    longSecond *= 4;
  if (maskedThird && !maskedSecond)
    longThird *= 4;
  return longThird > longSecond ? ScoreDims{rank, 3, 2} : ScoreDims{rank, 2, 3};
}

/// [B, H, S, D] of the left side.
Value headsOfQueries(PatternRewriter &rewriter, DotOp dot,
                     const ScoreDims &dims) {
  ArrayRef<int64_t> batch = dot.getLhsBatch();
  int64_t depth = dot.getLhsContract()[0];
  SmallVector<int64_t> free;
  for (int64_t i = 0; i < rankOf(dot.getLhs()); ++i)
    if (i != depth && !llvm::is_contained(batch, i))
      free.push_back(i);
  SmallVector<int64_t> order = {batch[0], batch[1]};
  if (dims.rank == 5)
    order.push_back(free[dims.headsOfGroup - 2]);
  order.append({free[dims.queries - 2], depth});
  Value query = makeTranspose(rewriter, dot.getLoc(), dot.getLhs(), order);
  if (dims.rank == 4)
    return query;
  SmallVector<Dim> sizes = dimsOf(query);
  return makeReshape(rewriter, dot.getLoc(), query,
                     {sizes[0], sizes[1] * sizes[2], sizes[3], sizes[4]});
}

/// A matmul that is an attention's last: its probabilities are on one side.
struct ValueDot {
  ValueDot(DotOp op, bool isRight, const Probabilities &probabilities)
      : op(op), isRight(isRight), probabilities(probabilities),
        values(isRight ? op.getLhs() : op.getRhs()),
        sideBatch(isRight ? op.getRhsBatch() : op.getLhsBatch()),
        valuesBatch(isRight ? op.getLhsBatch() : op.getRhsBatch()),
        sideContract((isRight ? op.getRhsContract() : op.getLhsContract())[0]),
        valuesContract(
            (isRight ? op.getLhsContract() : op.getRhsContract())[0]) {}

  DotOp op;
  bool isRight; ///< the probabilities
  Probabilities probabilities;
  Value values;
  ArrayRef<int64_t> sideBatch, valuesBatch;
  int64_t sideContract, valuesContract;
  /// Of the scores, as the matmul has them; filled by isOverKeys.
  SmallVector<int64_t> freeDims = {};
};

/// [B, H, S, D] of the attention as the matmul has it: heads of a group apart,
/// where the probabilities were on the right its dims behind the values'.
Value asMatmul(PatternRewriter &rewriter, Value attention, ValueDot &matmul,
               const ScoreDims &dims, Dim keyHeads, Dim headsOfGroup) {
  Location location = matmul.op.getLoc();
  SmallVector<Dim> sizes = dimsOf(attention);
  SmallVector<int64_t> order = {0, 1};
  if (dims.rank == 5)
    attention =
        makeReshape(rewriter, location, attention,
                    {sizes[0], keyHeads, headsOfGroup, sizes[2], sizes[3]});
  for (int64_t dim : matmul.freeDims)
    order.push_back(dim == dims.headsOfGroup || dims.rank == 4 ? 2 : 3);
  int64_t last = dims.rank - 1;
  order.insert(matmul.isRight ? order.begin() + 2 : order.end(), last);
  return makeReshape(rewriter, location,
                     makeTranspose(rewriter, location, attention, order),
                     dimsOf(matmul.op.getResult()));
}

/// Whether the matmul sums over the keys, head by head.
bool isOverKeys(ValueDot &matmul, DotOp scores) {
  ArrayRef<int64_t> dims = matmul.probabilities.dims;
  ArrayRef<int64_t> batch = matmul.sideBatch;
  int64_t rank = rankOf(scores);
  if (dims[batch[0]] != 0 || dims[batch[1]] != 1 ||
      dims[matmul.sideContract] != rank - 1)
    return false;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim >= 0 && !llvm::is_contained(batch, static_cast<int64_t>(i)) &&
        static_cast<int64_t>(i) != matmul.sideContract)
      matmul.freeDims.push_back(dim);
  // Dims of size 1 may be gone.
  for (int64_t dim = 2; dim < rank - 1; ++dim)
    if (!llvm::is_contained(matmul.freeDims, dim)) {
      if (!dimOf(scores, dim).isConstant(1))
        return false;
      matmul.freeDims.push_back(dim);
    }
  return true;
}

} // namespace

static LogicalResult findAttention(DotOp op, PatternRewriter &rewriter) {
  if (op.getLhsBatch().size() != 2 || op.getLhsContract().size() != 1)
    return failure();
  bool guarded = false; // rows without a key become 0
  Value guard;
  Value left = op.getLhs();
  if (auto select = left.getDefiningOp<SelectOp>()) {
    auto isNan = select.getCondition().getDefiningOp<IsNanOp>();
    if (!isSplat(select.getOnTrue(), 0))
      return failure();
    guarded = isNan && isNan.getInput() == select.getOnFalse();
    if (!guarded)
      guard = select.getCondition();
    left = select.getOnFalse();
  }
  std::optional<Probabilities> probabilities = probabilitiesOf(left);
  bool isRight = !probabilities;
  if (isRight)
    probabilities = probabilitiesOf(op.getRhs());
  bool isGuarded = guarded || guard;
  if (!probabilities || (isGuarded && (isRight || probabilities->isMoved)))
    return failure();
  ValueDot matmul(op, isRight, *probabilities);
  SoftmaxOp softmax = probabilities->softmax;
  Scores scores;
  if (rankOf(matmul.values) != 4 || !parseScores(softmax.getInput(), scores))
    return failure();
  DotOp dot = scores.dot;
  if (rankOf(dot) != rankOf(softmax) || !isOverKeys(matmul, dot) ||
      (isGuarded && rankOf(dot) != 4))
    return failure();
  Type element = elementTypeOf(op);
  Type narrow = elementTypeOf(dot.getLhs());
  bool widened = narrow != element && element.isF32() &&
                 isa<FloatType>(narrow) && elementTypeOf(dot) == narrow;
  if ((narrow != element && !widened) ||
      elementTypeOf(matmul.values) != element)
    return failure();

  if (guard && findsExcludedRows(guard, softmax.getInput())) {
    guarded = true;
  } else if (guard) {
    if (scores.steps.size() != 1 || scores.steps[0].fill ||
        !findsEmptyRows(guard, scores.steps[0].value))
      return failure();
    guarded = true;
  }

  ScoreDims dims = scoreDims(scores);
  SmallVector<int64_t> labels = dims.labels();
  MaskParts mask;
  if (dims.rank == 5) {
    mask.keyHeads = dimOf(dot, 1);
    mask.headsOfGroup = dimOf(dot, dims.headsOfGroup);
  }
  mask.empty = guarded ? EmptyRow::zero : EmptyRow::nan;
  mask.takeSteps(scores.steps, labels);

  auto freeDim = [](ArrayRef<int64_t> batch, int64_t contract) {
    return 6 - batch[0] - batch[1] - contract;
  };
  int64_t kk = dot.getRhsContract()[0], vk = matmul.valuesContract;
  ArrayRef<int64_t> kb = dot.getRhsBatch(), vb = matmul.valuesBatch;
  // No heads are shared by none; the result is as empty without attention.
  if (dimOf(dot.getRhs(), kb[1]).isConstant(0))
    return failure();
  Location location = op.getLoc();
  Value query = headsOfQueries(rewriter, dot, dims);
  Value key = makeTranspose(rewriter, location, dot.getRhs(),
                            {kb[0], kb[1], freeDim(kb, kk), kk});
  Value value = makeTranspose(rewriter, location, matmul.values,
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
  rewriter.replaceOp(op, asMatmul(rewriter, attention, matmul, dims,
                                  mask.keyHeads, mask.headsOfGroup));
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

/// softmax(transpose(x)) along a dim that is the last one before and after: so
/// the scores stand right before it.
static LogicalResult softmaxOfTranspose(SoftmaxOp op,
                                        PatternRewriter &rewriter) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  int64_t last = rankOf(op.getInput()) - 1;
  if (!transpose || static_cast<int64_t>(op.getDim()) != last ||
      transpose.getPermutation()[last] != last)
    return failure();
  Value softmax = SoftmaxOp::create(rewriter, op.getLoc(), transpose.getInput(),
                                    last, op.getLog());
  rewriter.replaceOp(op, makeTranspose(rewriter, op.getLoc(), softmax,
                                       transpose.getPermutation()));
  return success();
}

void knapper::populateAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add(softmaxOfTranspose);
  patterns.add(findAttention);
}

void knapper::populateSharedHeadPatterns(RewritePatternSet &patterns) {
  patterns.add(shareHeads);
}
