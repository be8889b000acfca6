#include "frontends/stablehlo/HloNarrow.h"
#include "ir/tensor/SmallTypes.h"

using namespace mlir;

namespace knapper {

using P = ts::ComparePredicate;

static Type elementOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getElementType() : type;
}

static bool isNarrow(Type element) {
  if (isa<FloatType>(element))
    return element.getIntOrFloatBitWidth() <= 8;
  return isa<IntegerType>(element) && !element.isInteger(1) &&
         element.getIntOrFloatBitWidth() < 8;
}

Type hloWideType(Type element) {
  if (!isNarrow(element))
    return element;
  if (isa<FloatType>(element))
    return Float32Type::get(element.getContext());
  return IntegerType::get(element.getContext(), 8,
                          element.isUnsignedInteger() ? IntegerType::Unsigned
                                                      : IntegerType::Signless);
}

bool isHloNarrow(Operation *op) {
  auto narrow = [](Type type) { return isNarrow(elementOf(type)); };
  return llvm::any_of(op->getOperandTypes(), narrow) ||
         llvm::any_of(op->getResultTypes(), narrow);
}

bool computesHloWide(StringRef kind) {
  // What moves elements, chooses among them, or has bits of its own to see to.
  constexpr StringRef others[] = {"bitcast_convert",
                                  "broadcast",
                                  "broadcast_in_dim",
                                  "call",
                                  "case",
                                  "composite",
                                  "concatenate",
                                  "constant",
                                  "convert",
                                  "custom_call",
                                  "dynamic_slice",
                                  "dynamic_update_slice",
                                  "gather",
                                  "if",
                                  "optimization_barrier",
                                  "pad",
                                  "reduce_precision",
                                  "reshape",
                                  "reverse",
                                  "select",
                                  "slice",
                                  "torch_index_select",
                                  "transpose",
                                  "while"};
  return !llvm::is_contained(others, kind);
}

Value hloWidened(HloNode &n, Value value) {
  return value ? n.convert(value, hloWideType(ts::elementTypeOf(value)))
               : value;
}

Value hloNarrowed(HloNode &n, Value value, Type element) {
  if (!value || !element || ts::elementTypeOf(value) == element)
    return value;
  bool narrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8;
  if (!narrow)
    return n.convert(value, element);
  // f8E8M0FNU has no sign and no zero.
  if (isa<Float8E8M0FNUType>(element)) {
    value = n.convert(value, n.b.getF32Type());
    value = n.select(n.compare(P::gt, value, n.scalarFor(value, 0)), value,
                     n.scalarFor(value, std::nan("")));
  }
  if (!value)
    return {};
  return n.makeAs<ts::ConvertOp>(ts::withElement(value.getType(), element),
                                 value, /*saturate=*/false,
                                 ts::Rounding::nearest);
}

/// Shifts to the right and counts see the bits above an integer's own: zeros.
static bool countsBits(StringRef kind) {
  return kind == "shift_right_logical" || kind == "popcnt" ||
         kind == "count_leading_zeros";
}

LogicalResult importHloNarrow(HloNode &n, const HloRow &row) {
  HloNode wide(n.importer, n.frame, n.op, n.kind, n.loc);
  wide.onWide = true;
  unsigned width = 8;
  for (auto [i, value] : llvm::enumerate(n.operands)) {
    Type element = ts::elementTypeOf(value);
    Value widened = hloWidened(n, value);
    // Its highest bit is a sign there.
    if (i == 0 && n.kind == "shift_right_arithmetic" && isNarrow(element) &&
        element.isUnsignedInteger())
      widened = n.convert(
          n.convert(value, n.b.getIntegerType(element.getIntOrFloatBitWidth())),
          n.b.getI8Type());
    if (i == 0 && isNarrow(element) && isa<IntegerType>(element) &&
        countsBits(n.kind)) {
      width = element.getIntOrFloatBitWidth();
      widened = n.binary<ts::AndOp>(
          widened, n.integerScalar((1 << width) - 1, hloWideType(element)));
    }
    wide.operands.push_back(widened);
  }
  if (n.failed())
    return failure();
  if (failed(n.importAs(row, wide)))
    return failure();
  for (auto [i, result] : llvm::enumerate(wide.results)) {
    Value value = result;
    if (n.kind == "count_leading_zeros" && width < 8)
      value =
          n.sub(value, n.integerScalar(8 - width, ts::elementTypeOf(value)));
    if (failed(n.out(hloNarrowed(n, value, n.element(i)), i)))
      return failure();
  }
  return mlir::success();
}

} // namespace knapper
