// softmax and normalisations out of reductions.
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// The operand of a broadcast that restores the dims which `dims` reduced.
static Value restored(Value value, ArrayRef<int64_t> reduced) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  SmallVector<int64_t> kept;
  for (int64_t i = 0; i < rankOf(value); ++i)
    if (!llvm::is_contained(reduced, i))
      kept.push_back(i);
  return ArrayRef<int64_t>(kept) == broadcast.getDims() ? broadcast.getInput()
                                                        : Value();
}

static ReduceOp reduceOf(Value value, ReduceKind kind) {
  auto reduce = value ? value.getDefiningOp<ReduceOp>() : ReduceOp();
  return reduce && reduce.getKind() == kind ? reduce : ReduceOp();
}

/// Whether every element of `value` is the size.
static bool isSize(Value value, Dim size) {
  if (std::optional<int64_t> number = size.asConstant())
    return isSplat(value, *number);
  while (Operation *op = value.getDefiningOp()) {
    if (auto known = dyn_cast<SizeOp>(op))
      return Dim(known.getSize()) == size;
    if (!isa<ConvertOp, BroadcastOp, ReshapeOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

/// The sum behind a mean: sum / n, sum * (1 / n).
static ReduceOp meanOf(Value value) {
  auto div = value ? value.getDefiningOp<DivOp>() : DivOp();
  auto mul = value ? value.getDefiningOp<MulOp>() : MulOp();
  auto sum = reduceOf(div   ? div.getLhs()
                      : mul ? mul.getLhs()
                            : Value(),
                      ReduceKind::add);
  if (!sum)
    return {};
  Dim count = dimOf(sum.getInput(), 0).like(1);
  for (int64_t dim : sum.getDims())
    count = count * dimOf(sum.getInput(), dim);
  if (div)
    return isSize(div.getRhs(), count) ? sum : ReduceOp();
  std::optional<int64_t> number = count.asConstant();
  return number && isAbout(splatOf(mul.getRhs()), 1.0 / *number) ? sum
                                                                 : ReduceOp();
}

/// Whether `value` is a reduction of `x` over one of its dims, repeated along
/// it: that dim.
static std::optional<int64_t> reducedDim(Value value, Value x,
                                         ReduceKind kind) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return std::nullopt;
  Moved small = behindMovement(broadcast.getInput());
  auto reduce = reduceOf(small.value, kind);
  if (!reduce || reduce.getDims().size() != 1)
    return std::nullopt;
  Moved input = behindMovement(reduce.getInput()), given = behindMovement(x);
  if (input.value != given.value)
    return std::nullopt;
  std::optional<int64_t> found;
  int64_t reduced = reduce.getDims()[0];
  for (auto [i, size] : llvm::enumerate(dimsOf(given.value))) {
    if (size.isConstant(1))
      continue;
    int64_t from = input.dims[i], to = given.dims[i];
    if (from == reduced) {
      found = to;
      continue;
    }
    // Where the broadcast puts the dim that the reduction kept.
    int64_t kept = small.dims[from - (from > reduced)];
    if (kept < 0 || broadcast.getDims()[kept] != to)
      return std::nullopt;
  }
  return found;
}

/// `value`, of the dims of `moved.value`, moved in the same way.
static Value movedLike(PatternRewriter &rewriter, const Moved &moved,
                       Value value, ArrayRef<Dim> dims) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq(rankOf(value)));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) {
    return moved.dims[a] < moved.dims[b]; // what is gone is of size 1
  });
  return makeReshape(rewriter, value.getLoc(),
                     makeTranspose(rewriter, value.getLoc(), value, order),
                     dims);
}

/// e / sum(e) with e = exp(x - max(x)), perhaps moved in between
static LogicalResult findSoftmax(DivOp op, PatternRewriter &rewriter) {
  Moved moved = behindMovement(op.getLhs());
  auto exp = moved.value.getDefiningOp<ExpOp>();
  auto difference = exp ? exp.getInput().getDefiningOp<SubOp>() : SubOp();
  std::optional<int64_t> summed =
      difference ? reducedDim(op.getRhs(), op.getLhs(), ReduceKind::add)
                 : std::nullopt;
  if (!summed)
    return failure();
  Value input = difference.getLhs();
  std::optional<int64_t> dim =
      reducedDim(difference.getRhs(), input, ReduceKind::max);
  if (!dim || moved.dims[*dim] != *summed)
    return failure();
  Value softmax = SoftmaxOp::create(rewriter, op.getLoc(), input, *dim);
  rewriter.replaceOp(
      op, movedLike(rewriter, moved, softmax, dimsOf(op.getResult())));
  return success();
}

/// x of sqrt(x)
static Value rooted(Value value) {
  auto sqrt = value ? value.getDefiningOp<SqrtOp>() : SqrtOp();
  return sqrt ? sqrt.getInput() : Value();
}

/// x of 1 / sqrt(x)
static Value reciprocalRooted(Value value) {
  if (auto rsqrt = value ? value.getDefiningOp<RsqrtOp>() : RsqrtOp())
    return rsqrt.getInput();
  auto div = value ? value.getDefiningOp<DivOp>() : DivOp();
  return div && isSplat(div.getLhs(), 1) ? rooted(div.getRhs()) : Value();
}

/// `spread` restores `stat`, 1 / sqrt(mean(d * d) + epsilon) over trailing
/// dims of d: replaces op by the normalisation.
static LogicalResult normalise(Operation *op, Value d, Value spread,
                               bool isReciprocal, PatternRewriter &rewriter) {
  auto broadcast = spread.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return failure();
  Value stat = isReciprocal ? reciprocalRooted(broadcast.getInput())
                            : rooted(broadcast.getInput());
  auto add = stat ? stat.getDefiningOp<AddOp>() : AddOp();
  if (!add)
    return failure();
  unsigned side = splatOf(add.getLhs()) ? 0 : 1;
  std::optional<double> epsilon = splatOf(add->getOperand(side));
  ReduceOp sum = meanOf(add->getOperand(1 - side));
  if (!epsilon || !sum || !restored(spread, sum.getDims()))
    return failure();
  auto square = sum.getInput().getDefiningOp<MulOp>();
  if (!square || square.getLhs() != d || square.getRhs() != d)
    return failure();
  ArrayRef<int64_t> dims = sum.getDims();
  int64_t rank = rankOf(d);
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim != rank - static_cast<int64_t>(dims.size() - i))
      return failure();

  // d = x - mean(x): a layer normalisation, else the rms form of d itself.
  Value input = d;
  bool rms = true;
  if (auto centred = d.getDefiningOp<SubOp>()) {
    ReduceOp mean = meanOf(restored(centred.getRhs(), dims));
    if (mean && mean.getInput() == centred.getLhs() && mean.getDims() == dims) {
      input = centred.getLhs();
      rms = false;
    }
  }
  rewriter.replaceOpWithNewOp<LayerNormOp>(
      op, input, Value(), Value(), rewriter.getI64IntegerAttr(dims.front()),
      rewriter.getF64FloatAttr(*epsilon), rewriter.getBoolAttr(rms));
  return success();
}

static LogicalResult findNormInMul(MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1})
    if (succeeded(normalise(op, op->getOperand(1 - i), op->getOperand(i),
                            /*isReciprocal=*/true, rewriter)))
      return success();
  return failure();
}

static LogicalResult findNormInDiv(DivOp op, PatternRewriter &rewriter) {
  return normalise(op, op.getLhs(), op.getRhs(), /*isReciprocal=*/false,
                   rewriter);
}

/// The operand of a broadcast from the normalised dims, with exactly them.
static Value alongNormalised(Value value, LayerNormOp norm) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  int64_t rank = rankOf(norm.getInput());
  if (!broadcast || rankOf(broadcast.getInput()) !=
                        rank - static_cast<int64_t>(norm.getDim()))
    return {};
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    if (dim != static_cast<int64_t>(norm.getDim() + i) ||
        !(dimOf(broadcast.getInput(), i) == dimOf(norm.getInput(), dim)))
      return {};
  return broadcast.getInput();
}

/// A product with a vector of the normalised dims is the scale.
static LogicalResult takeScale(MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1}) {
    auto norm = op->getOperand(i).getDefiningOp<LayerNormOp>();
    if (!norm || !norm->hasOneUse() || norm.getScale() || norm.getBias())
      continue;
    Value scale = alongNormalised(op->getOperand(1 - i), norm);
    if (!scale)
      continue;
    rewriter.replaceOpWithNewOp<LayerNormOp>(
        op, norm.getInput(), scale, Value(), norm.getDimAttr(),
        norm.getEpsilonAttr(), norm.getRmsAttr());
    return success();
  }
  return failure();
}

static LogicalResult takeBias(AddOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1}) {
    auto norm = op->getOperand(i).getDefiningOp<LayerNormOp>();
    if (!norm || !norm->hasOneUse() || norm.getBias())
      continue;
    Value bias = alongNormalised(op->getOperand(1 - i), norm);
    if (!bias)
      continue;
    rewriter.replaceOpWithNewOp<LayerNormOp>(
        op, norm.getInput(), norm.getScale(), bias, norm.getDimAttr(),
        norm.getEpsilonAttr(), norm.getRmsAttr());
    return success();
  }
  return failure();
}

void knapper::populateNormalisationPatterns(RewritePatternSet &patterns) {
  patterns.add(findSoftmax);
  patterns.add(findNormInMul);
  patterns.add(findNormInDiv);
  patterns.add(takeScale);
  patterns.add(takeBias);
}
