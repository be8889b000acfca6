#include "graph/layout/ChannelsLast.h"
#include "graph/layout/PlaneLayout.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/layout/NormChannelsLast.h"
#include "graph/simplify/Match.h"
#include "graph/simplify/ReshapeFirst.h"
#include "graph/simplify/Simplify.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_LAYOUT
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// [N, C, spatial..] to [N, spatial.., C]
static SmallVector<int64_t> toLast(int64_t rank) {
  SmallVector<int64_t> permutation{0};
  for (int64_t i = 2; i < rank; ++i)
    permutation.push_back(i);
  permutation.push_back(1);
  return permutation;
}
static SmallVector<int64_t> toFirst(int64_t rank) {
  return inversePermutation(toLast(rank));
}

static bool allEqual(ArrayRef<int64_t> values, int64_t number) {
  return llvm::all_of(values, [&](int64_t v) { return v == number; });
}
static bool isUnpadded(ConvOp op) {
  auto isZero = [](Dim dim) { return dim.isConstant(0); };
  return llvm::all_of(dimsOf(op.getLow()), isZero) &&
         llvm::all_of(dimsOf(op.getHigh()), isZero);
}

/// What a dot has to say to give the convolution's element type.
static TypeAttr resultType(ConvOp op) {
  Type element = elementTypeOf(op.getResult());
  return element == elementTypeOf(op.getInput()) ? TypeAttr()
                                                 : TypeAttr::get(element);
}

/// dot(x, filter as [F, K]) with x [N, spatial.., K], back to channels first.
static void replaceByDot(ConvOp op, Value x, PatternRewriter &rewriter) {
  Location location = op.getLoc();
  SmallVector<Dim> window = dimsOf(op.getFilter());
  Dim features = window[0];
  Value filter = makeReshape(
      rewriter, location, op.getFilter(),
      {features, product(op.getContext(), ArrayRef<Dim>(window).drop_front())});
  int64_t rank = rankOf(op);
  Value dot = DotOp::create(rewriter, location, x, filter, ArrayRef<int64_t>{},
                            ArrayRef<int64_t>{}, ArrayRef<int64_t>{rank - 1},
                            ArrayRef<int64_t>{1}, resultType(op));
  rewriter.replaceOp(op, makeTranspose(rewriter, location, dot, toFirst(rank)));
}

/// Window 1, stride 1, no padding.
static LogicalResult pointConv(ConvOp op, PatternRewriter &rewriter) {
  if (op.getChannelsLast() || op.getGroups() != 1 || !isUnpadded(op) ||
      !allEqual(op.getStrides(), 1) || !allEqual(op.getInputDilations(), 1))
    return failure();
  SmallVector<Dim> filter = dimsOf(op.getFilter());
  for (Dim dim : ArrayRef<Dim>(filter).drop_front(2))
    if (!dim.isConstant(1))
      return failure();
  replaceByDot(
      op,
      makeTranspose(rewriter, op.getLoc(), op.getInput(), toLast(rankOf(op))),
      rewriter);
  return success();
}

static LogicalResult pointUnlessPlanes(ConvOp op, PatternRewriter &rewriter) {
  return pointPrefersPlanes(op) ? failure() : pointConv(op, rewriter);
}

/// Patches that do not overlap.
static LogicalResult patchConv(ConvOp op, PatternRewriter &rewriter) {
  SmallVector<Dim> in = dimsOf(op.getInput()), window = dimsOf(op.getFilter());
  std::optional<int64_t> channels = in[1].asConstant();
  if (op.getChannelsLast() || op.getGroups() != 1 || !isUnpadded(op) ||
      !allEqual(op.getDilations(), 1) || !allEqual(op.getInputDilations(), 1) ||
      !channels || *channels > 4)
    return failure();
  int64_t spatial = op.getStrides().size();
  // [N, C, H/p, p, W/p, p]
  SmallVector<Dim> split{in[0], in[1]}, rows{in[0]};
  SmallVector<int64_t> permutation{0};
  Dim patch = in[1];
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t stride = op.getStrides()[i];
    std::optional<Dim> count = in[i + 2].exactDiv(in[1].like(stride));
    if (stride < 2 || !window[i + 2].isConstant(stride) || !count)
      return failure();
    split.append({*count, window[i + 2]});
    rows.push_back(*count);
    patch = patch * window[i + 2];
    permutation.push_back(2 + 2 * i);
  }
  permutation.push_back(1);
  for (int64_t i = 0; i < spatial; ++i)
    permutation.push_back(3 + 2 * i);
  rows.push_back(patch);
  Value x = makeReshape(rewriter, op.getLoc(), op.getInput(), split);
  x = makeTranspose(rewriter, op.getLoc(), x, permutation);
  replaceByDot(op, makeReshape(rewriter, op.getLoc(), x, rows), rewriter);
  return success();
}

/// Transposed, windows that do not overlap: one input pixel becomes a patch.
/// `takesGaps`: also of windows that leave gaps, or whose border is cut.
static LogicalResult spreadConv(ConvOp op, PatternRewriter &rewriter,
                                bool takesGaps) {
  SmallVector<Dim> in = dimsOf(op.getInput()), filter = dimsOf(op.getFilter()),
                   low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  if (op.getChannelsLast() || op.getGroups() != 1 ||
      !allEqual(op.getStrides(), 1) || !allEqual(op.getDilations(), 1) ||
      allEqual(op.getInputDilations(), 1))
    return failure();
  int64_t spatial = op.getStrides().size();
  // Zeros behind each window, and outputs cut off in front of the first.
  SmallVector<Dim> gaps, cut;
  for (auto [i, spread] : llvm::enumerate(op.getInputDilations())) {
    int64_t window = filter[i + 2].asConstant().value_or(0),
            before = low[i].asConstant().value_or(-1),
            behind = high[i].asConstant().value_or(-1);
    bool isWhole =
        window == spread && before == spread - 1 && behind == spread - 1;
    bool isGap = takesGaps && window > 0 && window <= spread && before >= 0 &&
                 before < window && behind >= 0 && behind < spread;
    if (!isWhole && !isGap)
      return failure();
    gaps.push_back(in[0].like(spread - window));
    cut.push_back(in[0].like(window - 1 - before));
  }
  Location location = op.getLoc();
  // The window's taps meet the pixel from the last to the first. As columns of
  // a matrix: [window.., F], so that a run of the result stays a run.
  SmallVector<Dim> starts{in[0].like(0), in[0].like(0)};
  SmallVector<int64_t> steps{1, 1}, order;
  for (int64_t i = 0; i < spatial; ++i) {
    starts.push_back(filter[i + 2] - 1);
    steps.push_back(-1);
    order.push_back(i + 2);
  }
  order.append({0, 1});
  Value taps =
      SliceOp::create(rewriter, location, op.getFilter().getType(),
                      op.getFilter(), dimArray(op.getContext(), starts), steps);
  taps = makeTranspose(rewriter, location, taps, order);
  SmallVector<Dim> columns(llvm::drop_begin(filter, 2));
  columns.push_back(filter[0]);
  taps = makeReshape(rewriter, location, taps,
                     {product(op.getContext(), columns), filter[1]});
  Value x =
      makeTranspose(rewriter, location, op.getInput(), toLast(rankOf(op)));
  Value dot = DotOp::create(rewriter, location, x, taps, ArrayRef<int64_t>{},
                            ArrayRef<int64_t>{}, ArrayRef<int64_t>{spatial + 1},
                            ArrayRef<int64_t>{1}, resultType(op));
  // [N, H, W, kh, kw, F] to [N, H, kh, W, kw, F]
  SmallVector<Dim> apart{in[0]}, whole{in[0]};
  SmallVector<Dim> none(spatial + 1, in[0].like(0)), behind = none;
  SmallVector<int64_t> between{0};
  for (int64_t i = 0; i < spatial; ++i) {
    apart.push_back(in[i + 2]);
    whole.push_back(in[i + 2] * op.getInputDilations()[i]);
    between.append({i + 1, i + 1 + spatial});
    behind.push_back(gaps[i]);
  }
  llvm::append_range(apart, columns);
  whole.push_back(filter[0]);
  between.push_back(2 * spatial + 1);
  Value patches = makeReshape(rewriter, location, dot, apart);
  auto isZero = [](Dim dim) { return dim.isConstant(0); };
  if (!llvm::all_of(gaps, isZero)) {
    behind.push_back(in[0].like(0));
    none.resize(behind.size(), in[0].like(0));
    auto scalar = tensorType(op.getContext(), {}, elementTypeOf(dot));
    Value zero = makeSplat(rewriter, location, scalar, 0);
    patches = PadOp::create(
        rewriter, location, patches, zero, dimArray(op.getContext(), none),
        dimArray(op.getContext(), behind), PadMode::constant);
  }
  patches = makeTranspose(rewriter, location, patches, between);
  Value image = makeReshape(rewriter, location, patches, whole);
  for (int64_t i = 0; i < spatial; ++i)
    if (Dim size = dimOf(op.getResult(), i + 2); !(whole[i + 1] == size))
      image = makeSlice(rewriter, location, image, i + 1, cut[i], size);
  image = makeTranspose(rewriter, location, image, toFirst(rankOf(op)));
  rewriter.replaceOp(op, image);
  return success();
}

/// On a convolution that keeps its channels first.
static constexpr StringLiteral keptName = "ts.channels_first";

static LogicalResult convChannelsLast(ConvOp op, PatternRewriter &rewriter) {
  if (op.getChannelsLast() || op->hasAttr(keptName))
    return failure();
  int64_t rank = rankOf(op);
  SmallVector<int64_t> filterOrder;
  for (int64_t i = 2; i < rank; ++i)
    filterOrder.push_back(i);
  filterOrder.append({1, 0});
  Value input =
      makeTranspose(rewriter, op.getLoc(), op.getInput(), toLast(rank));
  Value filter =
      makeTranspose(rewriter, op.getLoc(), op.getFilter(), filterOrder);
  Value conv = ConvOp::create(
      rewriter, op.getLoc(), input, filter, op.getStrides(), op.getDilations(),
      op.getInputDilations(), op.getLow(), op.getHigh(), op.getGroups(),
      /*channels_last=*/true);
  rewriter.replaceOp(op,
                     makeTranspose(rewriter, op.getLoc(), conv, toFirst(rank)));
  return success();
}

static LogicalResult poolChannelsLast(PoolOp op, PatternRewriter &rewriter) {
  if (op.getChannelsLast())
    return failure();
  int64_t rank = rankOf(op);
  Value input =
      makeTranspose(rewriter, op.getLoc(), op.getInput(), toLast(rank));
  Value pool = PoolOp::create(rewriter, op.getLoc(), op.getKind(), input,
                              op.getWindow(), op.getStrides(),
                              op.getDilations(), op.getLow(), op.getHigh(),
                              op.getCountPadding(), /*channels_last=*/true);
  rewriter.replaceOp(op,
                     makeTranspose(rewriter, op.getLoc(), pool, toFirst(rank)));
  return success();
}

/// reduce(transpose(x))
static LogicalResult reduceOfTranspose(ReduceOp op, PatternRewriter &rewriter) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose)
    return failure();
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  SmallVector<int64_t> reduced, kept;
  for (auto [i, dim] : llvm::enumerate(permutation))
    (llvm::is_contained(op.getDims(), static_cast<int64_t>(i)) ? reduced : kept)
        .push_back(dim);
  llvm::sort(reduced);
  Value result =
      ReduceOp::create(rewriter, op.getLoc(), op.getKind(),
                       transpose.getInput(), reduced, op.getIgnoresNan());
  // Ranks of the kept dims: where each stands in the new result.
  SmallVector<int64_t> sorted(kept), order;
  llvm::sort(sorted);
  for (int64_t dim : kept)
    order.push_back(llvm::find(sorted, dim) - sorted.begin());
  rewriter.replaceOp(op, makeTranspose(rewriter, op.getLoc(), result, order));
  return success();
}

/// reduce(reshape(transpose(x))) where the reshape only adds or removes dims of
/// size 1: the reshape comes last, and the reduction meets the transpose.
static LogicalResult reduceOfUnits(ReduceOp op, PatternRewriter &rewriter) {
  auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
  if (!reshape || !reshape.getInput().getDefiningOp<TransposeOp>())
    return failure();
  auto units =
      unitReshapeMap(dimsOf(reshape.getInput()), dimsOf(reshape.getResult()));
  if (!units)
    return failure();
  SmallVector<int64_t> reduced;
  for (auto [dim, target] : llvm::enumerate(*units))
    if (target >= 0 && llvm::is_contained(op.getDims(), target))
      reduced.push_back(dim);
  if (reduced.empty())
    return failure();
  Value result =
      ReduceOp::create(rewriter, op.getLoc(), op.getKind(), reshape.getInput(),
                       reduced, op.getIgnoresNan());
  rewriter.replaceOp(
      op, makeReshape(rewriter, op.getLoc(), result, dimsOf(op.getResult())));
  return success();
}

/// concat(transpose(a), transpose(b), ..) with one permutation.
static LogicalResult concatOfTransposes(ConcatOp op,
                                        PatternRewriter &rewriter) {
  TransposeOp first;
  for (Value input : op.getInputs()) {
    auto transpose = input.getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    if (first && first.getPermutation() != transpose.getPermutation())
      return failure();
    first = transpose;
  }
  SmallVector<Value> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(input.getDefiningOp<TransposeOp>().getInput());
  Value result = ConcatOp::create(rewriter, op.getLoc(), inputs,
                                  first.getPermutation()[op.getDim()]);
  rewriter.replaceOp(
      op, makeTranspose(rewriter, op.getLoc(), result, first.getPermutation()));
  return success();
}

/// Sizes of the result's dims, given in the order of the operand's.
static ArrayAttr before(ArrayAttr sizes, ArrayRef<int64_t> permutation) {
  SmallVector<Dim> dims = dimsOf(sizes);
  return dimArray(sizes.getContext(),
                  permuted(dims, inversePermutation(permutation)));
}

static LogicalResult padOfTranspose(PadOp op, PatternRewriter &rewriter) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose)
    return failure();
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  Value result = PadOp::create(rewriter, op.getLoc(), transpose.getInput(),
                               op.getValue(), before(op.getLow(), permutation),
                               before(op.getHigh(), permutation), op.getMode());
  rewriter.replaceOp(op,
                     makeTranspose(rewriter, op.getLoc(), result, permutation));
  return success();
}

static LogicalResult sliceOfTranspose(SliceOp op, PatternRewriter &rewriter) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose)
    return failure();
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  SmallVector<int64_t> inverse = inversePermutation(permutation), steps;
  for (int64_t dim : inverse)
    steps.push_back(op.getSteps()[dim]);
  SmallVector<Dim> dims = dimsOf(op.getResult());
  Value result = SliceOp::create(
      rewriter, op.getLoc(),
      tensorType(op.getContext(), permuted(dims, inverse), elementTypeOf(op)),
      transpose.getInput(), before(op.getStarts(), permutation), steps);
  rewriter.replaceOp(op,
                     makeTranspose(rewriter, op.getLoc(), result, permutation));
  return success();
}

/// gather(transpose(x)) of some positions along a dim.
static LogicalResult gatherOfTranspose(GatherOp op, PatternRewriter &rewriter) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose || rankOf(op.getIndices()) != 1)
    return failure();
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  Value result = GatherOp::create(rewriter, op.getLoc(), transpose.getInput(),
                                  op.getIndices(), permutation[op.getDim()]);
  rewriter.replaceOp(op,
                     makeTranspose(rewriter, op.getLoc(), result, permutation));
  return success();
}

/// reshape(broadcast(transpose(x))) that repeats the elements along some dims:
/// nearest-neighbour resizing by whole factors.
static LogicalResult repeatOfTranspose(ReshapeOp op,
                                       PatternRewriter &rewriter) {
  auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
  auto transpose = broadcast ? broadcast.getInput().getDefiningOp<TransposeOp>()
                             : TransposeOp();
  if (!transpose)
    return failure();
  SmallVector<Dim> middle = dimsOf(transpose.getResult()),
                   wide = dimsOf(broadcast.getResult()), out = dimsOf(op);
  ArrayRef<int64_t> map = broadcast.getDims(),
                    permutation = transpose.getPermutation();
  auto rank = static_cast<int64_t>(middle.size());
  if (static_cast<int64_t>(out.size()) != rank || map[0] != 0)
    return failure();
  // Each result dim is one of x and what is new after it.
  SmallVector<SmallVector<Dim>> repeats(rank);
  for (int64_t i = 0; i < rank; ++i) {
    int64_t end = i + 1 < rank ? map[i + 1] : rankOf(broadcast);
    if (!(wide[map[i]] == middle[i]))
      return failure();
    Dim size = middle[i];
    for (int64_t d = map[i] + 1; d < end; ++d) {
      repeats[i].push_back(wide[d]);
      size = size * wide[d];
    }
    if (!(size == out[i]))
      return failure();
  }
  SmallVector<int64_t> inverse = inversePermutation(permutation), places;
  SmallVector<Dim> dims;
  for (int64_t i : inverse) {
    places.push_back(dims.size());
    dims.push_back(middle[i]);
    llvm::append_range(dims, repeats[i]);
  }
  Value x =
      makeBroadcast(rewriter, op.getLoc(), transpose.getInput(), dims, places);
  x = makeReshape(rewriter, op.getLoc(), x, permuted(out, inverse));
  rewriter.replaceOp(op, makeTranspose(rewriter, op.getLoc(), x, permutation));
  return success();
}

/// reshape(transpose(x)) beside another transpose in elementwise ops alone, as
/// where tokens [N, H*W, C] are added to an image [N, C, H, W]: as
/// transpose(reshape(x)), both move on together if they permute alike.
static LogicalResult reshapeBesideTranspose(ReshapeOp op,
                                            PatternRewriter &rewriter) {
  std::optional<ReshapeFirst> first = asReshapeFirst(op);
  bool beside = first && !op->use_empty() &&
                llvm::all_of(op->getUsers(), [&](Operation *user) {
                  return isElementwise(user) &&
                         llvm::any_of(user->getOperands(), [&](Value operand) {
                           auto other = operand.getDefiningOp<TransposeOp>();
                           return other && other.getPermutation() ==
                                               ArrayRef(first->permutation);
                         });
                });
  return beside ? reshapeFirst(op, rewriter) : failure();
}

static LogicalResult unlessPlanes(ConvOp op, PatternRewriter &rewriter) {
  return prefersPlanes(op) || depthwisePrefersPlanes(op)
             ? failure()
             : convChannelsLast(op, rewriter);
}

/// A window of one pixel and several groups: for each image and group a matmul
/// whose columns are the pixels, where they lie.
static LogicalResult groupedPointConv(ConvOp op, PatternRewriter &rewriter) {
  if (!groupsPreferPlanes(op))
    return failure();
  Location location = op.getLoc();
  SmallVector<Dim> in = dimsOf(op.getInput()), out = dimsOf(op);
  Dim groups = in[0].like(op.getGroups()), images = in[0];
  Dim channels = *in[1].exactDiv(groups), features = *out[1].exactDiv(groups);
  Dim pixels = product(op.getContext(), ArrayRef<Dim>(in).drop_front(2));
  Value x = makeReshape(rewriter, location, op.getInput(),
                        {images, groups, channels, pixels});
  Value filter = makeReshape(rewriter, location, op.getFilter(),
                             {groups, features, channels});
  filter = makeBroadcast(rewriter, location, filter,
                         {images, groups, features, channels}, {1, 2, 3});
  Value dot =
      DotOp::create(rewriter, location, filter, x, ArrayRef<int64_t>{0, 1},
                    ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{3},
                    ArrayRef<int64_t>{2}, resultType(op));
  rewriter.replaceOp(op, makeReshape(rewriter, location, dot, out));
  return success();
}

static LogicalResult poolUnlessPlanes(PoolOp op, PatternRewriter &rewriter) {
  return prefersPlanes(op) ? failure() : poolChannelsLast(op, rewriter);
}

void knapper::populateChannelsLastPatterns(RewritePatternSet &patterns,
                                           bool keepPlanes) {
  patterns.add(keepPlanes ? pointUnlessPlanes : pointConv, /*benefit=*/3);
  patterns.add(patchConv, /*benefit=*/3);
  patterns.add(
      +[](ConvOp op, PatternRewriter &rewriter) {
        return spreadConv(op, rewriter, /*takesGaps=*/false);
      },
      /*benefit=*/3);
  if (keepPlanes) {
    patterns.add(
        +[](ConvOp op, PatternRewriter &rewriter) {
          return spreadConv(op, rewriter, /*takesGaps=*/true);
        },
        /*benefit=*/2);
    patterns.add(groupedPointConv, /*benefit=*/3);
  }
  patterns.add(keepPlanes ? unlessPlanes : convChannelsLast);
  patterns.add(keepPlanes ? poolUnlessPlanes : poolChannelsLast);
  patterns.add(reduceOfTranspose);
  patterns.add(reduceOfUnits);
  patterns.add(concatOfTransposes);
  patterns.add(padOfTranspose);
  patterns.add(sliceOfTranspose);
  patterns.add(gatherOfTranspose);
  patterns.add(repeatOfTranspose);
  patterns.add(reshapeBesideTranspose);
  populateNormChannelsLastPatterns(patterns);
}

/// Whether each channel has its own filters, and there are several.
static bool isDepthwise(ConvOp op) {
  SmallVector<Dim> filter = dimsOf(op.getFilter());
  unsigned channels = op.getChannelsLast() ? filter.size() - 2 : 1;
  return op.getGroups() > 1 && filter[channels].isConstant(1);
}

LogicalResult
knapper::useChannelsLast(func::FuncOp function, bool onlyMixing,
                         bool keepPlanes,
                         llvm::function_ref<bool(ConvOp)> keeps) {
  bool found = false;
  SmallVector<ConvOp> kept;
  function.walk([&](Operation *op) {
    auto conv = dyn_cast<ConvOp>(op);
    if (keeps && conv && keeps(conv))
      kept.push_back(conv);
    else
      found |=
          onlyMixing ? conv && !isDepthwise(conv) : isa<ConvOp, PoolOp>(op);
  });
  if (!found)
    return success();
  for (ConvOp conv : kept)
    conv->setAttr(keptName, UnitAttr::get(function.getContext()));
  RewritePatternSet patterns(function.getContext());
  populateAlgebraPatterns(patterns);
  populateMovementPatterns(patterns, /*sinkTransposes=*/true);
  populateDotPatterns(patterns);
  populateChannelsLastPatterns(patterns, keepPlanes);
  rewrite(function, std::move(patterns));
  function.walk([](ConvOp conv) { conv->removeAttr(keptName); });
  IRRewriter rewriter(function.getContext());
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function);
  return success();
}

namespace {
struct LayoutPass : knapper::impl::LayoutBase<LayoutPass> {
  void runOnOperation() override {
    if (failed(useChannelsLast(getOperation())))
      signalPassFailure();
  }
};
} // namespace
