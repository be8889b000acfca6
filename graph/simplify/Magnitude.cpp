#include "graph/simplify/Magnitude.h"

#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// What remains to be looked at: patterns ask of every mask.
struct Budget {
  unsigned ops = 64;
};

std::optional<double> ofConstant(ConstantOp constant) {
  auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue());
  constexpr int64_t most = 1 << 16;
  if (!elements || (!elements.isSplat() && elements.getNumElements() > most))
    return std::nullopt;
  double largest = 0;
  for (const APFloat &element : elements.getValues<APFloat>()) {
    if (!element.isFinite())
      return std::nullopt;
    largest = std::max(largest, std::abs(element.convertToDouble()));
  }
  return largest;
}

std::optional<double> magnitude(Value value, Budget &budget) {
  Type element = elementTypeOf(value);
  if (auto integer = dyn_cast<IntegerType>(element))
    return std::ldexp(1.0, static_cast<int>(integer.getWidth()));
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<FloatType>(element);
  if (!op || !type || budget.ops == 0)
    return std::nullopt;
  --budget.ops;
  auto of = [&](unsigned operand) {
    return magnitude(op->getOperand(operand), budget);
  };
  std::optional<double> result;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return ofConstant(constant);
  if (isa<TanhOp, SigmoidOp>(op))
    return of(0) ? std::optional(1.0) : std::nullopt;
  if (isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, DimCastOp, ConvertOp,
          NegOp, AbsOp>(op)) {
    result = of(0);
  } else if (isa<AddOp, SubOp, MulOp, SelectOp>(op)) {
    bool select = isa<SelectOp>(op);
    std::optional<double> a = of(select ? 1 : 0), b = of(select ? 2 : 1);
    if (!a || !b)
      return std::nullopt;
    result = select ? std::max(*a, *b) : isa<MulOp>(op) ? *a * *b : *a + *b;
  }
  // Half of what the type holds: no rounding makes it infinite.
  double most =
      llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return result && *result <= most / 2 ? result : std::nullopt;
}

} // namespace

std::optional<double> knapper::largestMagnitude(Value value) {
  Budget budget;
  return magnitude(value, budget);
}
