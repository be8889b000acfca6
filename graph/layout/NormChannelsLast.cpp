#include "graph/layout/NormChannelsLast.h"

#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// An image with channels last, [N, lines.., width, C], whose channels are
/// normalised in groups together with all pixels.
struct GroupedImage {
  Value x;
  int64_t groups;
};

/// [N, spatial.., C] to [N, C, spatial..]
bool bringsChannelsFirst(TransposeOp op) {
  ArrayRef<int64_t> permutation = op.getPermutation();
  int64_t rank = permutation.size();
  if (rank < 3 || permutation[0] != 0 || permutation[1] != rank - 1)
    return false;
  for (int64_t i = 2; i < rank; ++i)
    if (permutation[i] != i - 1)
      return false;
  return true;
}

std::optional<GroupedImage> groupedImage(LayerNormOp op) {
  Value rowsOf = op.getInput();
  if (auto reshape = rowsOf.getDefiningOp<ReshapeOp>())
    rowsOf = reshape.getInput();
  auto transpose = rowsOf.getDefiningOp<TransposeOp>();
  if (!transpose || !bringsChannelsFirst(transpose) || op.getRms() ||
      op.getScale() || op.getBias())
    return std::nullopt;
  SmallVector<Dim> image = dimsOf(transpose.getResult()), all = dimsOf(op);
  Dim rows =
      product(op.getContext(), ArrayRef<Dim>(all).take_front(op.getDim()));
  std::optional<Dim> groups = rows.exactDiv(image[0]);
  std::optional<int64_t> count = groups ? groups->asConstant() : std::nullopt;
  std::optional<int64_t> channels = image[1].asConstant();
  if (!count || !channels || *count < 1 || *channels % *count != 0)
    return std::nullopt;
  return GroupedImage{transpose.getInput(), *count};
}

/// A line cut in runs of equal length: none if it cannot be.
std::optional<int64_t> lengthOfRuns(Dim line) {
  constexpr int64_t least = 8, most = 256;
  std::optional<int64_t> length = line.asConstant();
  for (int64_t run = most; length && run >= least; --run)
    if (*length % run == 0)
      return run;
  return std::nullopt;
}

class Statistics {
public:
  Statistics(OpBuilder &builder, Location location, Type element)
      : b(builder), loc(location), element(element) {}

  Value sum(Value x, ArrayRef<int64_t> dims) {
    return ReduceOp::create(b, loc, ReduceKind::add, x, dims);
  }
  /// All elements divided by `count`.
  Value over(Value x, Dim count) {
    return DivOp::create(b, loc, x, filled(x, count));
  }
  Value times(Value x, Dim count) {
    return MulOp::create(b, loc, x, filled(x, count));
  }
  Value square(Value x) { return MulOp::create(b, loc, x, x); }
  /// x - mean, whose dims stand for `map` of those of x.
  Value around(Value x, Value mean, ArrayRef<int64_t> map) {
    Value spread = makeBroadcast(b, loc, mean, dimsOf(x), map);
    return SubOp::create(b, loc, x, spread);
  }
  /// A mean, and the mean of what was left when it was subtracted.
  Value refined(Value mean, Value left) {
    return AddOp::create(b, loc, mean, left);
  }
  Value deviationInverse(Value variance, double epsilon) {
    auto type = cast<RankedTensorType>(variance.getType());
    Value sum =
        AddOp::create(b, loc, variance, makeSplat(b, loc, type, epsilon));
    Value root = SqrtOp::create(b, loc, sum);
    return DivOp::create(b, loc, makeSplat(b, loc, type, 1), root);
  }

private:
  Value filled(Value like, Dim number) {
    auto type = cast<RankedTensorType>(like.getType());
    if (std::optional<int64_t> known = number.asConstant())
      return makeSplat(b, loc, type, static_cast<double>(*known));
    Value size = SizeOp::create(
        b, loc, RankedTensorType::get({}, b.getI64Type()), number.attr());
    Value scalar =
        ConvertOp::create(b, loc, RankedTensorType::get({}, element), size);
    return makeBroadcast(b, loc, scalar, dimsOf(like), {});
  }

  OpBuilder &b;
  Location loc;
  Type element;
};

} // namespace

static LogicalResult normOfTranspose(LayerNormOp op,
                                     PatternRewriter &rewriter) {
  std::optional<GroupedImage> image = groupedImage(op);
  if (!image)
    return failure();
  MLIRContext *context = op.getContext();
  Location loc = op.getLoc();
  Value x = image->x;
  SmallVector<Dim> given = dimsOf(x), dims = given;
  if (dims.size() == 3) {
    std::optional<int64_t> run = lengthOfRuns(dims[1]);
    if (!run)
      return failure();
    Dim width = dims[1].like(*run);
    dims = {dims[0], *dims[1].exactDiv(width), width, dims[2]};
    x = makeReshape(rewriter, loc, x, dims);
  }
  Type stored = elementTypeOf(x);
  Type wide = stored.isF64() ? Type(rewriter.getF64Type())
                             : Type(rewriter.getF32Type());
  auto convert = [&](Value value, Type type) -> Value {
    if (elementTypeOf(value) == type)
      return value;
    return ConvertOp::create(rewriter, loc,
                             tensorType(context, dimsOf(value), type), value);
  };
  x = convert(x, wide);
  Statistics s(rewriter, loc, wide);
  int64_t rank = dims.size();
  Dim width = dims[rank - 2], channels = dims[rank - 1];

  // [N, lines.., C]
  SmallVector<int64_t> lineMap;
  for (int64_t i = 0; i < rank; ++i)
    if (i != rank - 2)
      lineMap.push_back(i);
  Value means = s.over(s.sum(x, {rank - 2}), width);
  Value fromMeans = s.around(x, means, lineMap);
  Value squares = s.sum(s.square(fromMeans), {rank - 2});
  means = s.refined(means, s.over(s.sum(fromMeans, {rank - 2}), width));

  // [N, lines, groups, channels of one], reduced to [N, groups]
  Dim groups = channels.like(image->groups), each = *channels.exactDiv(groups);
  Dim lines = product(context, ArrayRef<Dim>(dims).drop_front().drop_back(2));
  SmallVector<Dim> grouped{dims[0], lines, groups, each};
  means = makeReshape(rewriter, loc, means, grouped);
  squares = makeReshape(rewriter, loc, squares, grouped);
  Value mean = s.over(s.sum(means, {1, 3}), lines * each);
  Value left =
      s.over(s.sum(s.around(means, mean, {0, 2}), {1, 3}), lines * each);
  mean = s.refined(mean, left);
  Value apart = s.sum(s.square(s.around(means, mean, {0, 2})), {1, 3});
  Value all = AddOp::create(rewriter, loc, s.sum(squares, {1, 3}),
                            s.times(apart, width));
  Value inverse = s.deviationInverse(s.over(all, lines * each * width),
                                     op.getEpsilon().convertToDouble());

  // A group's value for each of its channels, then for all pixels.
  auto spread = [&](Value value) {
    value =
        makeBroadcast(rewriter, loc, value, {dims[0], groups, each}, {0, 1});
    value = makeReshape(rewriter, loc, value, {dims[0], channels});
    return makeBroadcast(rewriter, loc, value, dims, {0, rank - 1});
  };
  Value centred = SubOp::create(rewriter, loc, x, spread(mean));
  Value factors = spread(inverse);
  Value result =
      convert(MulOp::create(rewriter, loc, centred, factors), stored);
  result = makeReshape(rewriter, loc, result, given);
  SmallVector<int64_t> toFirst{0, static_cast<int64_t>(given.size()) - 1};
  for (int64_t i = 1; i + 1 < static_cast<int64_t>(given.size()); ++i)
    toFirst.push_back(i);
  result = makeTranspose(rewriter, loc, result, toFirst);
  rewriter.replaceOp(op, makeReshape(rewriter, loc, result, dimsOf(op)));
  return success();
}

void knapper::populateNormChannelsLastPatterns(RewritePatternSet &patterns) {
  patterns.add(normOfTranspose);
}
