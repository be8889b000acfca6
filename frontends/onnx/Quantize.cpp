// Quantisation: 8-bit integers with scale and zero point.
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// A scale or zero point a tensor, an axis entry or a block, in the shape of x.
Value spread(Node &n, Value parameter, Value x) {
  if (!parameter || !x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  int64_t rank = ts::rankOf(parameter);
  if (ts::elementCount(parameter.getType()).isConstant(1))
    return n.broadcastTo(n.reshape(parameter, {}), dims);
  int64_t axis = n.axis("axis", 1, static_cast<int64_t>(dims.size()));
  int64_t block = n.integer("block_size", 0);
  if (n.failed())
    return {};
  if (block == 0 && rank == 1)
    return n.broadcastAt(parameter, {axis}, dims);
  if (block < 1 || rank != static_cast<int64_t>(dims.size())) {
    (void)n.fail("a scale " + ts::shapeText(parameter.getType()) +
                     " does not fit " + ts::shapeText(x.getType()),
                 "give one scale, one an axis entry, or blocks");
    return {};
  }
  SmallVector<Dim> own = ts::dimsOf(parameter), wide = own, merged = own;
  SmallVector<int64_t> at;
  for (int64_t i = 0; i < rank; ++i)
    at.push_back(i <= axis ? i : i + 1);
  wide.insert(wide.begin() + axis + 1, n.dim(block));
  merged[axis] = own[axis] * block;
  Value repeated = n.reshape(n.broadcastAt(parameter, at, wide), merged);
  return n.castDims(n.sliceDim(repeated, axis, n.dim(0), dims[axis]), dims);
}

/// The smallest and largest value of an 8- or 16-bit integer type.
std::optional<std::pair<double, double>> rangeOf(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() < 8 || integer.getWidth() > 16)
    return std::nullopt;
  double steps = static_cast<double>(int64_t(1) << integer.getWidth());
  if (integer.isUnsigned())
    return std::pair(0.0, steps - 1);
  return std::pair(-steps / 2, steps / 2 - 1);
}

/// saturate(round(x / scale) + zero)
Value quantize(Node &n, Value x, Value scale, Value zero, Type to) {
  std::optional<std::pair<double, double>> range = rangeOf(to);
  if (!range) {
    (void)n.unsupported("quantisation to this element type");
    return {};
  }
  if (!x || !scale)
    return {};
  Value steps = n.make<ts::RoundEvenOp>(
      n.div(x, n.convert(scale, ts::elementTypeOf(x))));
  // Adding in f32 keeps what f16 would round.
  steps = n.convert(steps, n.b.getF32Type());
  if (zero)
    steps = n.add(steps, n.convert(zero, n.b.getF32Type()));
  steps = n.binary<ts::MaxOp>(steps, n.scalarFor(steps, range->first));
  steps = n.binary<ts::MinOp>(steps, n.scalarFor(steps, range->second));
  return n.convert(steps, to);
}

Value dequantize(Node &n, Value x, Value scale, Value zero) {
  if (!x || !scale)
    return {};
  Type element = ts::elementTypeOf(scale);
  Type i32 = n.b.getI32Type();
  Value steps = n.convert(x, i32);
  if (zero)
    steps = n.sub(steps, n.convert(zero, i32));
  return n.mul(n.convert(steps, element), scale);
}

LogicalResult importQuantizeLinear(Node &n) {
  Type to = n.b.getIntegerType(8, /*isSigned=*/false);
  if (n.has(2)) {
    to = ts::elementTypeOf(n[2]);
  } else if (int64_t given = n.integer("output_dtype", 0)) {
    to = onnxElementType(n.importer.context, static_cast<int32_t>(given));
    if (!to)
      return n.unsupported("quantisation to " +
                           onnxTypeName(static_cast<int32_t>(given)));
  }
  Value x = n[0];
  if (isa<IntegerType>(ts::elementTypeOf(x)))
    x = n.convert(x, n.b.getF32Type());
  if (int64_t precision = n.integer("precision", 0);
      precision && precision != onnx::TensorProto::FLOAT)
    return n.unsupported("precision " +
                         onnxTypeName(static_cast<int32_t>(precision)));
  Value zero = n.has(2) ? spread(n, n[2], x) : Value();
  return n.out(quantize(n, x, spread(n, n[1], x), zero, to));
}

LogicalResult importDequantizeLinear(Node &n) {
  Value zero = n.has(2) ? spread(n, n[2], n[0]) : Value();
  Value y = dequantize(n, n[0], spread(n, n[1], n[0]), zero);
  if (int64_t given = n.integer("output_dtype", 0); given && y) {
    Type to = onnxElementType(n.importer.context, static_cast<int32_t>(given));
    if (!to)
      return n.unsupported("conversion to " +
                           onnxTypeName(static_cast<int32_t>(given)));
    y = n.convert(y, to);
  }
  return n.out(y);
}

/// u8 with a range that holds 0 and all of x.
LogicalResult importDynamicQuantizeLinear(Node &n) {
  Type f32 = n.b.getF32Type(), u8 = n.b.getIntegerType(8, false);
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(n[0])));
  Value zero = n.scalar(0, f32);
  Value high = n.binary<ts::MaxOp>(
      n.reduce(ts::ReduceKind::max, n[0], all, false), zero);
  Value low = n.binary<ts::MinOp>(
      n.reduce(ts::ReduceKind::min, n[0], all, false), zero);
  Value scale = n.div(n.sub(high, low), n.scalar(255, f32));
  Value point = n.make<ts::RoundEvenOp>(n.div(n.sub(zero, low), scale));
  point = n.binary<ts::MinOp>(n.binary<ts::MaxOp>(point, zero),
                              n.scalar(255, f32));
  point = n.convert(point, u8);
  Value y = quantize(n, n[0], scale, point, u8);
  return mlir::success(succeeded(n.out(y, 0)) && succeeded(n.out(scale, 1)) &&
                       succeeded(n.out(point, 2)));
}

constexpr OpRow rows[] = {
    {"", "DequantizeLinear", 10, 2, 3, importDequantizeLinear},
    {"", "DynamicQuantizeLinear", 11, 1, 1, importDynamicQuantizeLinear},
    {"", "QuantizeLinear", 10, 2, 3, importQuantizeLinear},
};

} // namespace

ArrayRef<OpRow> quantizeRows() { return rows; }

} // namespace knapper
