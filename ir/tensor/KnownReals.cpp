#include "ir/tensor/KnownReals.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;

namespace knapper::ts {

namespace {

constexpr int64_t kMaxElements = 64;

/// An op on one element.
std::optional<APFloat> unary(Operation *op, APFloat x) {
  if (isa<NegOp>(op))
    return -x;
  if (isa<AbsOp>(op))
    return abs(x);
  auto rounded = [&](llvm::RoundingMode mode) {
    x.roundToIntegral(mode);
    return x;
  };
  if (isa<FloorOp>(op))
    return rounded(APFloat::rmTowardNegative);
  if (isa<CeilOp>(op))
    return rounded(APFloat::rmTowardPositive);
  if (isa<TruncOp>(op))
    return rounded(APFloat::rmTowardZero);
  if (isa<RoundEvenOp>(op))
    return rounded(APFloat::rmNearestTiesToEven);
  return std::nullopt;
}

std::optional<APFloat> binary(Operation *op, APFloat x, const APFloat &y) {
  constexpr auto nearest = APFloat::rmNearestTiesToEven;
  if (isa<AddOp>(op))
    x.add(y, nearest);
  else if (isa<SubOp>(op))
    x.subtract(y, nearest);
  else if (isa<MulOp>(op))
    x.multiply(y, nearest);
  else if (isa<DivOp>(op))
    x.divide(y, nearest);
  else if (isa<MinOp>(op))
    return minimum(x, y);
  else if (isa<MaxOp>(op))
    return maximum(x, y);
  else
    return std::nullopt;
  return x;
}

} // namespace

bool isRealArithmetic(Operation *op) {
  return isa<ConvertOp, NegOp, AbsOp, FloorOp, CeilOp, TruncOp, RoundEvenOp,
             AddOp, SubOp, MulOp, DivOp, MinOp, MaxOp>(op);
}

KnownReals::Numbers KnownReals::of(Value value, Integers integers) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  // Ops of several results (loops, top-k) are none of those below.
  if (op && op->getNumResults() != 1)
    return std::nullopt;
  // Narrower types are computed in float32 and rounded at the end of a kernel.
  if (!op || !type || !type.hasStaticShape() ||
      !(type.getElementType().isF32() || type.getElementType().isF64()) ||
      type.getNumElements() > kMaxElements)
    return std::nullopt;
  if (auto it = known.find(value); it != known.end())
    return it->second;
  // A cycle would need a loop's body, whose values are arguments.
  Numbers result = ofOp(op, integers);
  known[value] = result;
  return result;
}

KnownReals::Numbers KnownReals::ofOp(Operation *op, Integers integers) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type.getElementType()).getFloatSemantics();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto data = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!data)
      return std::nullopt;
    return llvm::to_vector(data.getValues<APFloat>());
  }
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    if (auto whole = integers(convert.getInput())) {
      SmallVector<APFloat> result;
      for (int64_t number : *whole) {
        result.emplace_back(semantics);
        result.back().convertFromAPInt(
            APInt(64, static_cast<uint64_t>(number), /*isSigned=*/true),
            /*IsSigned=*/true, APFloat::rmNearestTiesToEven);
      }
      return result;
    }
    Numbers input = of(convert.getInput(), integers);
    bool lost = false;
    if (input)
      for (APFloat &number : *input)
        number.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
    return input;
  }
  if (isa<ReshapeOp, DimCastOp>(op))
    return of(op->getOperand(0), integers);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Numbers input = of(broadcast.getInput(), integers);
    if (!input || input->size() != 1)
      return std::nullopt;
    return SmallVector<APFloat>(type.getNumElements(), input->front());
  }
  if (!isRealArithmetic(op))
    return std::nullopt;
  Numbers x = of(op->getOperand(0), integers),
          y = op->getNumOperands() == 2 ? of(op->getOperand(1), integers) : x;
  if (!x || !y || x->size() != y->size())
    return std::nullopt;
  for (auto [l, r] : llvm::zip(*x, *y)) {
    std::optional<APFloat> element =
        op->getNumOperands() == 2 ? binary(op, l, r) : unary(op, l);
    if (!element)
      return std::nullopt;
    l = *element;
  }
  return x;
}

} // namespace knapper::ts
