#include "graph/simplify/Magnitude.h"

#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

struct MagnitudeSearch {
  std::optional<double> ofDots;
  /// That remain to be looked at: patterns ask of every mask.
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

std::optional<double> magnitude(Value value, MagnitudeSearch &search) {
  Type element = elementTypeOf(value);
  if (auto integer = dyn_cast<IntegerType>(element))
    return std::ldexp(1.0, static_cast<int>(integer.getWidth()));
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<FloatType>(element);
  if (!op || !type || search.ops == 0)
    return std::nullopt;
  --search.ops;
  auto of = [&](unsigned operand) {
    return magnitude(op->getOperand(operand), search);
  };
  std::optional<double> result;
  if (isa<DotOp>(op))
    return search.ofDots;
  if (isa<TanhOp, SigmoidOp>(op))
    return of(0) ? std::optional(1.0) : std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    result = ofConstant(constant);
  } else if (isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, DimCastOp, ConvertOp,
          GatherOp, GatherElementsOp, NegOp, AbsOp>(op)) {
    result = of(0);
  } else if (isa<AddOp, SubOp, MulOp, SelectOp>(op)) {
    bool select = isa<SelectOp>(op);
    std::optional<double> a = of(select ? 1 : 0), b = of(select ? 2 : 1);
    if (!a || !b)
      return std::nullopt;
    result = select ? std::max(*a, *b) : isa<MulOp>(op) ? *a * *b : *a + *b;
  } else if (isa<DivOp>(op)) {
    std::optional<double> divisor = splatOf(op->getOperand(1));
    std::optional<double> a = of(0);
    if (a && divisor && *divisor != 0)
      result = *a / std::abs(*divisor);
  }
  // Half of what the type holds: no rounding makes it infinite.
  double most =
      llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return result && *result <= most / 2 ? result : std::nullopt;
}

} // namespace

std::optional<double> knapper::largestMagnitude(Value value,
                                                std::optional<double> ofDots) {
  MagnitudeSearch search{ofDots};
  return magnitude(value, search);
}
