#include "graph/simplify/MergeNumbers.h"

#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"
#include "graph/simplify/SimplifyPasses.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_MERGENUMBERS
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

/// a * b, or a + b, for elements of `type`; nothing where the two must stay.
static std::optional<double> combine(Type type, double a, double b,
                                     bool isProduct) {
  if (auto floating = dyn_cast<FloatType>(type)) {
    APFloat product(a * b);
    bool inexact;
    product.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &inexact);
    bool grow = std::abs(a) >= 1 && std::abs(b) >= 1,
         shrink = std::abs(a) <= 1 && std::abs(b) <= 1;
    if (!isProduct || !product.isNormal() || !(grow || shrink))
      return std::nullopt;
    return a * b;
  }
  auto wrapped = [&](double number) {
    return APInt(type.getIntOrFloatBitWidth(),
                 static_cast<uint64_t>(static_cast<int64_t>(number)),
                 /*isSigned=*/false, /*implicitTrunc=*/true);
  };
  APInt result = isProduct ? wrapped(a) * wrapped(b) : wrapped(a) + wrapped(b);
  unsigned bits = type.isUnsignedInteger() ? result.getActiveBits()
                                           : result.getSignificantBits();
  if (bits > 53) // makeSplat takes a double
    return std::nullopt;
  return type.isUnsignedInteger() ? static_cast<double>(result.getZExtValue())
                                  : static_cast<double>(result.getSExtValue());
}

template <typename Op>
static LogicalResult mergeNumber(Op op, PatternRewriter &rewriter) {
  Type element = elementTypeOf(op);
  for (unsigned i : {0, 1}) {
    auto inner = op->getOperand(i).template getDefiningOp<Op>();
    std::optional<double> b = splatOf(op->getOperand(1 - i));
    if (!inner || !b || !inner->hasOneUse())
      continue;
    for (unsigned j : {0, 1}) {
      std::optional<double> a = splatOf(inner->getOperand(j));
      std::optional<double> number =
          a ? combine(element, *a, *b, std::is_same_v<Op, MulOp>)
            : std::nullopt;
      if (!number)
        continue;
      rewriter.replaceOpWithNewOp<Op>(
          op, inner->getOperand(1 - j),
          makeSplat(rewriter, op.getLoc(), cast<RankedTensorType>(op.getType()),
                    *number));
      return success();
    }
  }
  return failure();
}

void knapper::populateMergeNumbersPatterns(RewritePatternSet &patterns) {
  patterns.add(mergeNumber<AddOp>);
  patterns.add(mergeNumber<MulOp>);
}

void knapper::mergeNumbers(func::FuncOp function) {
  RewritePatternSet patterns(function.getContext());
  populateMergeNumbersPatterns(patterns);
  rewrite(function, std::move(patterns));
}

namespace {
struct MergeNumbersPass : knapper::impl::MergeNumbersBase<MergeNumbersPass> {
  void runOnOperation() override { mergeNumbers(getOperation()); }
};
} // namespace
