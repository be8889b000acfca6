#include "frontends/stablehlo/HloQuantised.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"

using namespace mlir;

namespace knapper {

using quant::QuantizedType;
using quant::UniformQuantizedPerAxisType;
using quant::UniformQuantizedType;

bool isHloQuantised(Type type) {
  return isa<QuantizedType>(getElementTypeOrSelf(type));
}

bool isHloQuantised(Operation *op) {
  auto quantised = [](Type type) { return isHloQuantised(type); };
  return llvm::any_of(op->getOperandTypes(), quantised) ||
         llvm::any_of(op->getResultTypes(), quantised);
}

Type hloStorage(Type quantised) {
  auto type = cast<QuantizedType>(quantised);
  auto storage = dyn_cast<IntegerType>(type.getStorageType());
  if (!storage || !isa<FloatType>(type.getExpressedType()) ||
      !isa<UniformQuantizedType, UniformQuantizedPerAxisType>(type) ||
      !llvm::is_contained({2, 4, 8, 16, 32}, storage.getWidth()))
    return {};
  return IntegerType::get(type.getContext(), storage.getWidth(),
                          type.isSigned() ? IntegerType::Signless
                                          : IntegerType::Unsigned);
}

namespace {

QuantizedType quantisedOf(Type type) {
  return dyn_cast<QuantizedType>(getElementTypeOrSelf(type));
}

/// How numbers of a type are stored: an entry for each slice of `axis`, or one
/// for all.
struct Scheme {
  SmallVector<double> scales;
  SmallVector<int64_t> zeros;
  std::optional<int64_t> axis;

  bool isCentred() const {
    return llvm::all_of(zeros, [](int64_t zero) { return zero == 0; });
  }
};

Scheme schemeOf(QuantizedType type) {
  Scheme scheme;
  if (auto whole = dyn_cast<UniformQuantizedType>(type)) {
    scheme.scales.push_back(whole.getScale());
    scheme.zeros.push_back(whole.getZeroPoint());
    return scheme;
  }
  auto slices = cast<UniformQuantizedPerAxisType>(type);
  llvm::append_range(scheme.scales, slices.getScales());
  llvm::append_range(scheme.zeros, slices.getZeroPoints());
  scheme.axis = slices.getQuantizedDimension();
  return scheme;
}

/// One value for all of `like`, or one for each slice of its dim `axis`.
Value spread(HloNode &n, ArrayRef<double> values, std::optional<int64_t> axis,
             Value like) {
  if (!like)
    return {};
  Type element = ts::elementTypeOf(like);
  if (!axis)
    return n.scalar(values[0], element);
  if (*axis < 0 || *axis >= ts::rankOf(like) ||
      n.shape(like)[*axis] != static_cast<int64_t>(values.size())) {
    (void)n.damaged("has " + Twine(values.size()) +
                    " scales for a dim of another size");
    return {};
  }
  SmallVector<Attribute> each;
  for (double value : values)
    each.push_back(
        isa<FloatType>(element)
            ? Attribute(FloatAttr::get(element, value))
            : IntegerAttr::get(element, static_cast<int64_t>(value)));
  auto type =
      RankedTensorType::get({static_cast<int64_t>(each.size())}, element);
  return n.broadcastAt(n.constant(DenseElementsAttr::get(type, each)), {*axis},
                       ts::dimsOf(like));
}

SmallVector<double> asReal(ArrayRef<int64_t> values) {
  return SmallVector<double>(values.begin(), values.end());
}

/// What is stored less the zero point, as integers that hold it.
Value centred(HloNode &n, Value stored, const Scheme &scheme) {
  if (!stored)
    return {};
  bool wide = ts::elementTypeOf(stored).getIntOrFloatBitWidth() == 32;
  Value x = n.convert(stored, wide ? n.b.getI64Type() : n.b.getI32Type());
  return scheme.isCentred()
             ? x
             : n.sub(x, spread(n, asReal(scheme.zeros), scheme.axis, x));
}

Value dequantised(HloNode &n, Value stored, QuantizedType type) {
  Scheme scheme = schemeOf(type);
  Value x = n.convert(centred(n, stored, scheme), type.getExpressedType());
  return n.mul(x, spread(n, scheme.scales, scheme.axis, x));
}

/// `x` is in units of the scale: the zero point is added, then it is clamped
/// and rounded to the even one of two.
Value stored(HloNode &n, Value x, QuantizedType type) {
  Scheme scheme = schemeOf(type);
  if (!scheme.isCentred())
    x = n.add(x, spread(n, asReal(scheme.zeros), scheme.axis, x));
  if (!x)
    return {};
  auto bound = [&](int64_t value) {
    return n.scalarFor(x, static_cast<double>(value));
  };
  x = n.binary<ts::MinOp>(
      n.binary<ts::MaxOp>(x, bound(type.getStorageTypeMin())),
      bound(type.getStorageTypeMax()));
  return n.convert(n.make<ts::RoundEvenOp>(x), hloStorage(type));
}

Value quantised(HloNode &n, Value x, QuantizedType type) {
  Scheme scheme = schemeOf(type);
  return stored(n, n.div(x, spread(n, scheme.scales, scheme.axis, x)), type);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// The dim of the result that the right operand's dim `axis` becomes.
std::optional<int64_t> dimOfResult(HloNode &n, int64_t axis) {
  if (n.kind == "convolution")
    return n.integer("kernel_output_feature_dimension") == axis
               ? std::optional(n.integer("output_feature_dimension"))
               : std::nullopt;
  SmallVector<int64_t> batch = n.integers("rhs_batching_dimensions"),
                       contract = n.integers("rhs_contracting_dimensions");
  if (llvm::is_contained(batch, axis) || llvm::is_contained(contract, axis))
    return std::nullopt;
  int64_t own = ts::rankOf(n[1]),
          at = ts::rankOf(n[0]) - static_cast<int64_t>(contract.size());
  for (int64_t dim = 0; dim < own && dim < axis; ++dim)
    at += !llvm::is_contained(batch, dim) && !llvm::is_contained(contract, dim);
  return at;
}

/// Integers are multiplied and summed exactly; their unit is the product of
/// both scales.
LogicalResult importMatmul(HloNode &n, const HloRow &row, QuantizedType left,
                           QuantizedType right, QuantizedType result) {
  Scheme x = schemeOf(left), y = schemeOf(right), z = schemeOf(result);
  std::optional<int64_t> axis;
  if (y.axis && !(axis = dimOfResult(n, *y.axis)))
    return n.unsupported("with scales along a dim that is summed");
  if (n.failed())
    return failure();
  if (x.axis || (z.axis && z.axis != (axis ? axis : z.axis)))
    return n.unsupported("with scales along a dim of the left operand");
  HloNode inner(n.importer, n.frame, n.op, n.kind, n.loc);
  inner.computed = n.b.getI32Type();
  // Bytes around zero are multiplied as they are.
  bool bytes = x.isCentred() && y.isCentred() && n.kind == "dot_general" &&
               ts::elementTypeOf(n[0]) == ts::elementTypeOf(n[1]);
  inner.operands = {bytes ? n[0] : centred(n, n[0], x),
                    bytes ? n[1] : centred(n, n[1], y)};
  if (n.failed())
    return failure();
  if (failed(n.importAs(row, inner)))
    return failure();
  Value sum = inner.results[0];
  axis = axis ? axis : z.axis;
  SmallVector<double> ratios;
  bool same = z.isCentred();
  for (size_t i = 0; i < std::max(y.scales.size(), z.scales.size()); ++i) {
    ratios.push_back(x.scales[0] * y.scales[y.axis ? i : 0] /
                     z.scales[z.axis ? i : 0]);
    same &= ratios.back() == 1;
  }
  if (y.axis && z.axis && y.scales.size() != z.scales.size())
    return n.damaged("its scales differ in number");
  if (same && ts::elementTypeOf(sum) == hloStorage(result))
    return n.out(sum);
  Value units = n.convert(sum, result.getExpressedType());
  return n.out(stored(n, n.mul(units, spread(n, ratios, axis, units)), result));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// Ops whose results are elements of their operands, of one scheme.
bool movesElements(StringRef kind) {
  constexpr StringRef moves[] = {"bitcast_convert",
                                 "broadcast",
                                 "broadcast_in_dim",
                                 "call",
                                 "case",
                                 "composite",
                                 "concatenate",
                                 "constant",
                                 "dynamic_slice",
                                 "dynamic_update_slice",
                                 "gather",
                                 "if",
                                 "optimization_barrier",
                                 "pad",
                                 "reshape",
                                 "reverse",
                                 "select",
                                 "slice",
                                 "sort",
                                 "torch_index_select",
                                 "transpose",
                                 "while"};
  return llvm::is_contained(moves, kind);
}

LogicalResult importQuantize(HloNode &n) {
  QuantizedType to = quantisedOf(n.op->getResult(0).getType()),
                from = quantisedOf(n.op->getOperand(0).getType());
  if (!to || (!from && !isa<FloatType>(ts::elementTypeOf(n[0]))))
    return n.damaged("makes no quantised numbers of numbers");
  Value x = from ? dequantised(n, n[0], from) : n[0];
  return n.out(quantised(n, n.convert(x, to.getExpressedType()), to));
}

LogicalResult importDequantize(HloNode &n) {
  QuantizedType from = quantisedOf(n.op->getOperand(0).getType());
  if (!from)
    return n.damaged("is of no quantised numbers");
  return n.out(n.convert(dequantised(n, n[0], from), n.element()));
}

constexpr HloRow rows[] = {
    {"uniform_dequantize", 1, importDequantize},
    {"uniform_quantize", 1, importQuantize},
};

/// Bits that a file has without a sign, of a type that says it has none.
LogicalResult importConstant(HloNode &n, const HloRow &row) {
  auto data = n.op->getAttrOfType<DenseElementsAttr>("value");
  RankedTensorType type = n.resultType();
  if (!data || !type || data.getType() == type)
    return row.import(n);
  if (data.getType().getShape() != type.getShape() ||
      data.getElementType().getIntOrFloatBitWidth() !=
          type.getElementType().getIntOrFloatBitWidth())
    return n.damaged("has data of another type");
  return n.out(
      n.constant(DenseElementsAttr::getFromRawBuffer(type, data.getRawData())));
}

} // namespace

llvm::ArrayRef<HloRow> hloQuantisedRows() { return rows; }

LogicalResult importHloQuantised(HloNode &n, const HloRow &row) {
  if (n.frame.lift)
    return n.unsupported("quantised numbers in a function of elements");
  if (n.kind == "constant")
    return importConstant(n, row);
  if (movesElements(n.kind) ||
      llvm::any_of(rows, [&](const HloRow &own) { return n.kind == own.name; }))
    return row.import(n);
  QuantizedType result = quantisedOf(n.op->getResult(0).getType());
  if (n.kind == "dot_general" || n.kind == "convolution") {
    QuantizedType left = quantisedOf(n.op->getOperand(0).getType()),
                  right = quantisedOf(n.op->getOperand(1).getType());
    if (left && right && result &&
        ts::elementTypeOf(n[0]).getIntOrFloatBitWidth() <= 8 &&
        ts::elementTypeOf(n[1]).getIntOrFloatBitWidth() <= 8)
      return importMatmul(n, row, left, right, result);
  }
  if (n.op->getNumRegions() > 0 && !hloCombiner(n.op, 0))
    return n.unsupported("quantised numbers, of a function that is not one "
                         "add, multiply, maximum or minimum");
  HloNode inner(n.importer, n.frame, n.op, n.kind, n.loc);
  inner.computed = result ? result.getExpressedType() : Type();
  for (auto [value, type] : llvm::zip(n.operands, n.op->getOperandTypes())) {
    QuantizedType of = quantisedOf(type);
    inner.operands.push_back(of ? dequantised(n, value, of) : value);
  }
  if (n.failed())
    return failure();
  if (failed(n.importAs(row, inner)))
    return failure();
  for (auto [i, value] : llvm::enumerate(inner.results)) {
    QuantizedType of = quantisedOf(n.op->getResult(i).getType());
    if (mlir::failed(n.out(of ? quantised(n, value, of) : value, i)))
      return failure();
  }
  return mlir::success();
}

} // namespace knapper
