// Quantisation: small integers and floats with scale and zero point.
#include "frontends/onnx/Integers.h"
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

/// The smallest and largest value of an integer type of 2 to 16 bits.
std::optional<std::pair<double, double>> rangeOf(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() < 2 || integer.getWidth() > 16)
    return std::nullopt;
  double steps = static_cast<double>(int64_t(1) << integer.getWidth());
  if (integer.isUnsigned())
    return std::pair(0.0, steps - 1);
  return std::pair(-steps / 2, steps / 2 - 1);
}

bool isSmallFloat(Type element) {
  return isa<FloatType>(element) && ts::isStorage(element) &&
         !isa<Float8E8M0FNUType>(element);
}

/// `steps` (f32), rounded, plus the zero point, as an integer that saturates.
Value toInteger(Node &n, Value steps, Value zero, Type to) {
  std::optional<std::pair<double, double>> range = rangeOf(to);
  if (!range || !steps) {
    if (steps)
      (void)n.unsupported("quantisation to this element type");
    return {};
  }
  if (zero)
    steps = n.add(steps, n.convert(zero, n.b.getF32Type()));
  // The conversion saturates; types that are bytes here have ends of their own.
  if (!ts::isStorage(to))
    return n.convert(steps, to);
  steps = n.binary<ts::MaxOp>(steps, n.scalarFor(steps, range->first));
  steps = n.binary<ts::MinOp>(steps, n.scalarFor(steps, range->second));
  return n.convert(steps, to);
}

/// saturate(round(x / scale) + zero), the division in the type of the scale.
Value quantize(Node &n, Value x, Value scale, Value zero, Type to) {
  if (!x || !scale)
    return {};
  Type f32 = n.b.getF32Type();
  if (ts::isStorage(ts::elementTypeOf(scale)) ||
      isa<IntegerType>(ts::elementTypeOf(scale)))
    scale = n.convert(scale, f32);
  Type precision = ts::elementTypeOf(scale);
  // A chain of 16 bits is computed in f32; this quotient is rounded.
  Type wide = precision.getIntOrFloatBitWidth() < 32 ? f32 : precision;
  Value quotient =
      n.div(n.convert(n.convert(x, precision), wide), n.convert(scale, wide));
  quotient = n.convert(quotient, precision);
  if (!isSmallFloat(to)) {
    // Adding in f32 keeps what f16 would round.
    Value steps = n.convert(n.make<ts::RoundEvenOp>(quotient), f32);
    return toInteger(n, steps, zero, to);
  }
  if (zero)
    quotient = n.add(n.convert(quotient, f32), n.convert(zero, f32));
  if (!quotient)
    return {};
  return n.makeAs<ts::ConvertOp>(ts::withElement(quotient.getType(), to),
                                 quotient, n.flag("saturate", true),
                                 ts::Rounding::nearest);
}

/// (x - zero) * scale in f32 (f64 for a scale of f64), as `to`.
Value dequantize(Node &n, Value x, Value scale, Value zero, Type to) {
  if (!x || !scale)
    return {};
  Type wide = ts::elementTypeOf(scale).isF64() ? ts::elementTypeOf(scale)
                                               : Type(n.b.getF32Type());
  Type counted = isSmallFloat(ts::elementTypeOf(x)) ? wide : n.b.getI32Type();
  Value steps = n.convert(x, counted);
  if (zero)
    steps = n.sub(steps, n.convert(zero, counted));
  return n.convert(n.mul(n.convert(steps, wide), n.convert(scale, wide)), to);
}

/// The type that an attribute names; null, and an error, where we lack it.
Type namedType(Node &n, StringRef attribute, const Twine &what) {
  auto given = static_cast<int32_t>(n.integer(attribute, 0));
  Type type = onnxElementType(n.importer.context, given);
  if (!type)
    (void)n.unsupported(what + " " + onnxTypeName(given));
  return type;
}

LogicalResult importQuantizeLinear(Node &n) {
  Type to = n.b.getIntegerType(8, /*isSigned=*/false);
  if (n.has(2)) {
    to = ts::elementTypeOf(n[2]);
  } else if (n.integer("output_dtype", 0)) {
    to = namedType(n, "output_dtype", "quantisation to");
    if (!to)
      return failure();
  }
  Value x = n[0], scale = n[1];
  if (n.integer("precision", 0)) {
    Type precision = namedType(n, "precision", "precision");
    if (!precision)
      return failure();
    if (!isa<FloatType>(precision) || ts::isStorage(precision))
      return n.fail("precision is no type to divide in",
                    "give FLOAT, FLOAT16, BFLOAT16 or DOUBLE");
    scale = n.convert(scale, precision);
  }
  Value zero = n.has(2) ? spread(n, n[2], x) : Value();
  return n.out(quantize(n, x, spread(n, scale, x), zero, to));
}

LogicalResult importDequantizeLinear(Node &n) {
  Type to = ts::elementTypeOf(n[1]);
  if (n.integer("output_dtype", 0)) {
    to = namedType(n, "output_dtype", "conversion to");
    if (!to)
      return failure();
  }
  Value zero = n.has(2) ? spread(n, n[2], n[0]) : Value();
  Value scale = spread(n, n[1], n[0]);
  return n.out(dequantize(n, n[0], scale, zero, to));
}

/// An i32 matmul in steps of `scale` (f32): rounded, shifted, saturated.
Value requantize(Node &n, Value matmul, Value scale, Value zero, Type to) {
  if (!matmul || !scale)
    return {};
  Value steps = n.mul(n.convert(matmul, n.b.getF32Type()), scale);
  return toInteger(n, n.make<ts::RoundEvenOp>(steps), zero, to);
}

bool areBytes(Node &n, Value a, Value b) {
  auto isByte = [](Value x) {
    Type element = ts::elementTypeOf(x);
    return isa<IntegerType>(element) && element.getIntOrFloatBitWidth() == 8;
  };
  if (isByte(a) && isByte(b))
    return true;
  (void)n.unsupported("factors that are no 8-bit integers");
  return false;
}

/// A scale or zero point of one number as such, of a number a row as a column.
Value aRow(Node &n, Value parameter) {
  if (!parameter || ts::rankOf(parameter) != 1)
    return parameter;
  if (ts::dimOf(parameter, 0).isConstant(1))
    return n.reshape(parameter, {});
  return n.reshape(parameter, {ts::dimOf(parameter, 0), n.dim(1)});
}

/// a, its scale and zero point; b, its; y's. Zero points are there, the scales
/// of a one a row, of b one a column.
LogicalResult importQLinearMatMul(Node &n) {
  if (!areBytes(n, n[0], n[3]))
    return failure();
  Type f32 = n.b.getF32Type();
  Value matmul = integerMatMul(n, n[0], n[2], n[3], n[5]);
  Value scale =
      n.div(n.mul(aRow(n, n.convert(n[1], f32)), n.convert(n[4], f32)),
            aRow(n, n.convert(n[6], f32)));
  return n.out(
      requantize(n, matmul, scale, aRow(n, n[7]), ts::elementTypeOf(n[7])));
}

/// x, its scale and zero point; the filter, its; y's; a bias in steps of the
/// matmul. The filter has a scale and zero point, or one a channel of y.
LogicalResult importQLinearConv(Node &n) {
  if (!areBytes(n, n[0], n[3]))
    return failure();
  Type f32 = n.b.getF32Type();
  Value matmul = integerConv(n, n[0], n[2], n[3], n[5]);
  if (!matmul)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(matmul);
  auto aChannel = [&](Value parameter) -> Value {
    if (!parameter)
      return {};
    if (ts::elementCount(parameter.getType()).isConstant(1))
      return n.broadcastTo(n.reshape(parameter, {}), dims);
    return n.broadcastAt(parameter, {1}, dims);
  };
  if (n.has(8))
    matmul = n.add(matmul, aChannel(n[8]));
  auto one = [&](size_t i) { return n.convert(n.reshape(n[i], {}), f32); };
  Value filterScale = n.convert(n[4], f32);
  Value scale = n.div(n.mul(one(1), filterScale), one(6));
  return n.out(requantize(n, matmul, aChannel(scale), aChannel(n[7]),
                          ts::elementTypeOf(n[7])));
}

LogicalResult importDynamicQuantizeLinear(Node &n) {
  DynamicSteps made = quantizeDynamically(n, n[0]);
  return mlir::success(succeeded(n.out(made.steps, 0)) &&
                       succeeded(n.out(made.scale, 1)) &&
                       succeeded(n.out(made.zero, 2)));
}

constexpr OpRow rows[] = {
    {"", "DequantizeLinear", 10, 2, 3, importDequantizeLinear},
    {"", "DynamicQuantizeLinear", 11, 1, 1, importDynamicQuantizeLinear},
    {"", "QLinearConv", 10, 8, 9, importQLinearConv},
    {"", "QLinearMatMul", 10, 8, 8, importQLinearMatMul},
    {"", "QuantizeLinear", 10, 2, 3, importQuantizeLinear},
    {"com.microsoft", "DequantizeLinear", 1, 2, 3, importDequantizeLinear},
    {"com.microsoft", "QuantizeLinear", 1, 2, 3, importQuantizeLinear},
};

} // namespace

ArrayRef<OpRow> quantizeRows() { return rows; }

DynamicSteps quantizeDynamically(Node &n, Value x) {
  if (!x)
    return {};
  Type f32 = n.b.getF32Type(), u8 = n.b.getIntegerType(8, false);
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(x)));
  Value zero = n.scalar(0, f32);
  Value high =
      n.binary<ts::MaxOp>(n.reduce(ts::ReduceKind::max, x, all, false), zero);
  Value low =
      n.binary<ts::MinOp>(n.reduce(ts::ReduceKind::min, x, all, false), zero);
  Value scale = n.div(n.sub(high, low), n.scalar(255, f32));
  Value point = n.make<ts::RoundEvenOp>(n.div(n.sub(zero, low), scale));
  point =
      n.binary<ts::MinOp>(n.binary<ts::MaxOp>(point, zero), n.scalar(255, f32));
  point = n.convert(point, u8);
  return {quantize(n, x, scale, point, u8), scale, point};
}

} // namespace knapper
