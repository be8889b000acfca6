// Masks that a front end gives to ts.attention: causality is found in them, and
// numbers that exclude a key become conditions. Integers become floats.
#include "graph/simplify/AttentionMask.h"
#include "graph/simplify/FindComposites.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// Kernels add floats.
static LogicalResult convertIntegerMask(AttentionOp op,
                                        PatternRewriter &rewriter) {
  Value mask = op.getMask();
  if (!mask || isa<FloatType>(elementTypeOf(mask)) ||
      elementTypeOf(mask).isInteger(1))
    return failure();
  Value converted = ConvertOp::create(
      rewriter, op.getLoc(),
      tensorType(op.getContext(), dimsOf(mask), rewriter.getF32Type()), mask);
  rewriter.modifyOpInPlace(
      op, [&] { op.getMaskMutable().assign(converted); });
  return success();
}

static LogicalResult refineAttentionMask(AttentionOp op,
                                         PatternRewriter &rewriter) {
  Value given = op.getMask();
  if (!given || op.getCausal())
    return failure();
  MaskParts mask;
  mask.empty = emptyRowOf(op);
  bool wasCondition = elementTypeOf(given).isInteger(1);
  if (wasCondition)
    mask.takeCondition(given, {0, 1, 2, 3}, /*negated=*/false);
  else
    mask.takeSteps(MaskStep{given, std::nullopt}, {0, 1, 2, 3});
  bool gone = mask.allowed.empty() && mask.added.empty();
  if (mask.causality == Causality::none && !gone &&
      (wasCondition || mask.allowed.empty()))
    return failure();
  if (!mask.mayEmptyRows(dimOf(op.getQuery(), 2), dimOf(op.getKey(), 2)))
    mask.empty = EmptyRow::zero;
  Location location = op.getLoc();
  auto attention = AttentionOp::create(
      rewriter, location, op.getQuery(), op.getKey(), op.getValue(),
      mask.build(rewriter, location), op.getScaleAttr(),
      rewriter.getBoolAttr(mask.causality != Causality::none),
      rewriter.getBoolAttr(mask.causality == Causality::topLeft),
      op.getSoftcapAttr());
  setEmptyRow(attention, mask.empty);
  rewriter.replaceOp(op, attention);
  return success();
}

void knapper::populateAttentionMaskPatterns(RewritePatternSet &patterns) {
  patterns.add(convertIntegerMask);
  patterns.add(refineAttentionMask);
}
