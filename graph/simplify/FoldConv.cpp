#include "graph/simplify/FoldConv.h"

#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"
#include "graph/simplify/SimplifyPasses.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_FOLDCONV
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

/// A constant that varies along the channels alone.
static bool isAlongChannels(Value value, int64_t channelDim) {
  if (splatOf(value))
    return true;
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || !isPackedConstant(broadcast.getInput()))
    return false;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    if (dim != channelDim && !dimOf(broadcast.getInput(), i).isConstant(1))
      return false;
  return elementCount(broadcast.getInput().getType()) ==
         dimOf(value, channelDim);
}

/// It as a vector.
static Value alongChannels(PatternRewriter &rewriter, Value value,
                           int64_t channelDim) {
  Type type = tensorType(rewriter.getContext(), {dimOf(value, channelDim)},
                         elementTypeOf(value));
  if (std::optional<double> number = splatOf(value))
    return makeSplat(rewriter, value.getLoc(), cast<RankedTensorType>(type),
                     *number);
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return makeReshape(rewriter, value.getLoc(), broadcast.getInput(),
                     {dimOf(value, channelDim)});
}

static LogicalResult foldScale(MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1}) {
    Value scaled = op->getOperand(i), factor = op->getOperand(1 - i);
    auto add = scaled.getDefiningOp<AddOp>();
    auto conv = scaled.getDefiningOp<ConvOp>();
    Value bias;
    if (add && add->hasOneUse())
      for (unsigned side : {0, 1})
        if (auto inner = add->getOperand(side).getDefiningOp<ConvOp>()) {
          conv = inner;
          bias = add->getOperand(1 - side);
        }
    if (!conv || !conv->hasOneUse() || !isPackedConstant(conv.getFilter()))
      continue;
    int64_t rank = rankOf(conv);
    int64_t channelDim = conv.getChannelsLast() ? rank - 1 : 1;
    int64_t filterDim = conv.getChannelsLast() ? rank - 1 : 0;
    if (!isAlongChannels(factor, channelDim) ||
        (bias && !isAlongChannels(bias, channelDim)))
      continue;
    Location location = op.getLoc();
    Value scale = alongChannels(rewriter, factor, channelDim);
    Value shift = bias ? alongChannels(rewriter, bias, channelDim) : Value();
    Value filterScale = makeBroadcast(rewriter, location, scale,
                                      dimsOf(conv.getFilter()), {filterDim});
    Value filter =
        MulOp::create(rewriter, location, conv.getFilter(), filterScale);
    Operation *clone = rewriter.clone(*conv);
    clone->setOperand(1, filter);
    Value result = clone->getResult(0);
    if (shift) {
      Value product = MulOp::create(rewriter, location, shift, scale);
      result = AddOp::create(rewriter, location, result,
                             makeBroadcast(rewriter, location, product,
                                           dimsOf(result), {channelDim}));
    }
    rewriter.replaceOp(op, result);
    return success();
  }
  return failure();
}

/// (conv + a) + b with both along channels: one addition.
static LogicalResult joinBiases(AddOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1}) {
    auto inner = op->getOperand(i).getDefiningOp<AddOp>();
    if (!inner || !inner->hasOneUse())
      continue;
    for (unsigned j : {0, 1}) {
      auto conv = inner->getOperand(j).getDefiningOp<ConvOp>();
      if (!conv)
        continue;
      auto a = inner->getOperand(1 - j).getDefiningOp<BroadcastOp>();
      auto b = op->getOperand(1 - i).getDefiningOp<BroadcastOp>();
      if (!a || !b || a.getDims() != b.getDims() ||
          a.getInput().getType() != b.getInput().getType() ||
          !isPackedConstant(a.getInput()) || !isPackedConstant(b.getInput()))
        continue;
      Value sum =
          AddOp::create(rewriter, op.getLoc(), a.getInput(), b.getInput());
      sum = BroadcastOp::create(rewriter, op.getLoc(), op.getType(), sum,
                                a.getDims());
      rewriter.replaceOpWithNewOp<AddOp>(op, conv, sum);
      return success();
    }
  }
  return failure();
}

/// Whether windows are one element, or lie side by side: such a convolution is
/// a matmul (graph/layout/ChannelsLast.cpp), which a border would hide.
static bool isMatmul(ConvOp op) {
  ArrayRef<int64_t> strides = op.getStrides();
  SmallVector<Dim> dims = dimsOf(op.getFilter());
  int64_t first = op.getChannelsLast() ? 0 : 2;
  return llvm::all_of(llvm::seq<size_t>(strides.size()), [&](size_t i) {
    return dims[first + i].isConstant(1) ||
           dims[first + i].isConstant(strides[i]);
  });
}

/// Zeros around the image are the convolution's own border. Amounts of run time
/// stay: schedules want borders that they know.
static LogicalResult takeBorder(ConvOp op, PatternRewriter &rewriter) {
  auto pad = op.getInput().getDefiningOp<PadOp>();
  if (!pad || pad.getMode() != PadMode::constant ||
      !isSplat(pad.getValue(), 0) || isMatmul(op) ||
      !llvm::all_of(pad->getUsers(), llvm::IsaPred<ConvOp>) ||
      !llvm::all_of(op.getInputDilations(), [](int64_t n) { return n == 1; }))
    return failure();
  SmallVector<Dim> before = dimsOf(pad.getLow()), after = dimsOf(pad.getHigh());
  SmallVector<Dim> low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  int64_t first = op.getChannelsLast() ? 1 : 2,
          spatial = static_cast<int64_t>(low.size());
  for (int64_t d = 0; d < rankOf(pad); ++d) {
    if (!before[d].asConstant() || !after[d].asConstant())
      return failure();
    if (d >= first && d < first + spatial) {
      low[d - first] = low[d - first] + before[d];
      high[d - first] = high[d - first] + after[d];
    } else if (!before[d].isConstant(0) || !after[d].isConstant(0)) {
      return failure();
    }
  }
  rewriter.modifyOpInPlace(op, [&] {
    op.getInputMutable().assign(pad.getInput());
    op.setLowAttr(dimArray(rewriter.getContext(), low));
    op.setHighAttr(dimArray(rewriter.getContext(), high));
  });
  return success();
}

void knapper::populateFoldConvPatterns(RewritePatternSet &patterns) {
  patterns.add(takeBorder);
  patterns.add(foldScale);
  patterns.add(joinBiases);
}

namespace {
struct FoldConvPass : knapper::impl::FoldConvBase<FoldConvPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFoldConvPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
