// com.microsoft: operators of bytes, and matmuls with packed weights.
#include "frontends/onnx/Integers.h"
#include "frontends/onnx/Standard.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

//===----------------------------------------------------------------------===//
// Bytes to floats and back
//===----------------------------------------------------------------------===//

/// The floats of a tensor with one scale; its zero point may be null.
Value floats(Node &n, Value x, Value scale, Value zero) {
  return Standard(n, "DequantizeLinear")({x, scale, zero});
}

/// Bytes of the type of the zero point, or of `like` where it is null.
Value bytes(Node &n, Value x, Value scale, Value zero, Value like) {
  if (!zero)
    zero = n.integerScalar(0, ts::elementTypeOf(like));
  return x ? Standard(n, "QuantizeLinear")({x, scale, zero}) : x;
}

template <typename Op> LogicalResult importQLinearBinary(Node &n) {
  if (failed(require(n, {0, 1, 3, 4, 6})))
    return failure();
  Value y =
      n.binary<Op>(floats(n, n[0], n[1], n[2]), floats(n, n[3], n[4], n[5]));
  return n.out(bytes(n, y, n[6], n[7], n[0]));
}

/// x, its scale and zero point, y's; `made` is of floats.
LogicalResult importQLinearUnary(Node &n,
                                 llvm::function_ref<Value(Value)> made) {
  if (failed(require(n, {0, 1, 3})))
    return failure();
  Value x = floats(n, n[0], n[1], n[2]);
  return n.out(bytes(n, x ? made(x) : x, n[3], n[4], n[0]));
}

LogicalResult importQLinearSigmoid(Node &n) {
  return importQLinearUnary(n,
                            [&](Value x) { return n.make<ts::SigmoidOp>(x); });
}

LogicalResult importQLinearLeakyRelu(Node &n) {
  return importQLinearUnary(n, [&](Value x) {
    return Standard(n, "LeakyRelu").keep({"alpha"})({x});
  });
}

LogicalResult importQLinearSoftmax(Node &n) {
  return importQLinearUnary(n, [&](Value x) {
    // Older ones take all dims from the axis on together.
    return Standard(n, "Softmax", n.integer("opset", 13) < 13 ? 12 : 13)
        .keep({"axis"})({x});
  });
}

LogicalResult importQLinearReduceMean(Node &n) {
  return importQLinearUnary(n, [&](Value x) {
    return Standard(n, "ReduceMean", 13).keep({"axes", "keepdims"})({x});
  });
}

/// [N, spatial.., C] to [N, C, spatial..], or back.
Value channels(Node &n, Value x, bool last) {
  if (!x)
    return {};
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(x)));
  if (order.size() < 3) {
    (void)n.fail("needs spatial dims, has " + ts::shapeText(x.getType()),
                 "give an input of rank 3 or more");
    return {};
  }
  std::rotate(order.begin() + 1, last ? order.begin() + 2 : order.end() - 1,
              order.end());
  return n.transpose(x, order);
}

LogicalResult pool(Node &n, Standard pool) {
  bool last = n.flag("channels_last", false);
  return importQLinearUnary(n, [&](Value x) {
    Value y = pool({last ? channels(n, x, false) : x});
    return last ? channels(n, y, true) : y;
  });
}

LogicalResult importQLinearAveragePool(Node &n) {
  return pool(n, Standard(n, "AveragePool")
                     .keep({"auto_pad", "ceil_mode", "count_include_pad",
                            "kernel_shape", "pads", "strides"}));
}

LogicalResult importQLinearGlobalAveragePool(Node &n) {
  return pool(n, Standard(n, "GlobalAveragePool"));
}

/// y's scale and zero point, then each input, its scale and zero point.
LogicalResult importQLinearConcat(Node &n) {
  if (n.size() % 3 != 2)
    return n.fail("has " + Twine(n.size()) + " inputs",
                  "give a scale and a zero point an input");
  SmallVector<Value> parts;
  for (size_t i = 2; i < n.size(); i += 3)
    parts.push_back(floats(n, n[i], n[i + 1], n[i + 2]));
  return n.out(
      bytes(n, Standard(n, "Concat").keep({"axis"})(parts), n[0], n[1], n[2]));
}

/// condition; x, y, each with its scale and zero point; z's.
LogicalResult importQLinearWhere(Node &n) {
  Value z =
      n.select(n[0], floats(n, n[1], n[2], n[3]), floats(n, n[4], n[5], n[6]));
  return n.out(bytes(n, z, n[7], n[8], n[1]));
}

/// The standard's, with the channels last where an attribute says so.
LogicalResult importQLinearConv(Node &n) {
  bool last = n.flag("channels_last", false);
  Value x = last ? channels(n, n[0], false) : n[0];
  Value y = Standard(n, "QLinearConv")
                .keep({"auto_pad", "dilations", "group", "kernel_shape", "pads",
                       "strides"})(
                    {x, n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]});
  return n.out(last ? channels(n, y, true) : y);
}

//===----------------------------------------------------------------------===//
// Matmuls of bytes
//===----------------------------------------------------------------------===//

/// The matmul in floats; a scale is one number, or of b one a column.
Value scaledMatmul(Node &n, Value a, Value aScale, Value aZero, Value b,
                   Value bScale, Value bZero, Value bias) {
  Type f32 = n.b.getF32Type();
  Value matmul = n.convert(integerMatMul(n, a, aZero, b, bZero), f32);
  auto one = [&](Value x) {
    return x && ts::elementCount(x.getType()).isConstant(1) ? n.reshape(x, {})
                                                            : x;
  };
  Value y = n.mul(matmul, n.mul(one(aScale), one(bScale)));
  return bias && y ? n.add(y, bias) : y;
}

/// a's bytes and b's, their scales, their zero points, a bias.
LogicalResult importMatMulIntegerToFloat(Node &n) {
  return n.out(scaledMatmul(n, n[0], n[2], n[4], n[1], n[3], n[5], n[6]));
}

/// a's floats, b's bytes, its scale and zero point, a bias.
LogicalResult importDynamicQuantizeMatMul(Node &n) {
  DynamicSteps left = quantizeDynamically(n, n[0]);
  return n.out(scaledMatmul(n, left.steps, left.scale, left.zero, n[1], n[2],
                            n[3], n[4]));
}

LogicalResult importMatMulInteger16(Node &n) {
  Type i32 = n.b.getI32Type();
  return n.out(
      Standard(n, "MatMul")({n.convert(n[0], i32), n.convert(n[1], i32)}));
}

/// a, its scale and zero point, b, its, c in steps of the matmul, y's. Without
/// y's the result is floats.
LogicalResult importQGemm(Node &n) {
  Type f32 = n.b.getF32Type();
  if (ts::rankOf(n[0]) != 2 || ts::rankOf(n[3]) != 2)
    return n.fail("A and B must be matrices", "use QLinearMatMul");
  Value a = n.flag("transA", false) ? n.transpose(n[0], {1, 0}) : n[0];
  Value b = n.flag("transB", false) ? n.transpose(n[3], {1, 0}) : n[3];
  Value matmul = integerMatMul(n, a, n[2], b, n[5]);
  if (n.has(6))
    matmul = n.add(matmul, n[6]);
  auto one = [&](Value x) {
    return x && ts::elementCount(x.getType()).isConstant(1) ? n.reshape(x, {})
                                                            : x;
  };
  Value y = n.mul(n.convert(matmul, f32),
                  n.mul(n.mul(one(n[1]), one(n[4])), n.real("alpha", 1)));
  return n.out(n.has(7) ? bytes(n, y, n[7], n[8], n[0]) : y);
}

//===----------------------------------------------------------------------===//
// Packed weights
//===----------------------------------------------------------------------===//

/// Elements of `bits` bits, the first in the low bits of a byte, along the last
/// dim; the constant of the file is read as what it holds, so that it stays
/// packed. `input` is the node's.
Value unpacked(Node &n, Value packed, std::optional<size_t> input,
               int64_t bits) {
  if (!packed || bits == 8)
    return packed;
  Type u8 = n.b.getIntegerType(8, false), i32 = n.b.getI32Type();
  SmallVector<Dim> dims = ts::dimsOf(packed);
  int64_t perByte = 8 / bits;
  if (ts::elementTypeOf(packed) != u8 || dims.empty()) {
    (void)n.fail("packed weights are " + ts::shapeText(packed.getType()),
                 "give bytes (uint8)");
    return {};
  }
  const onnx::TensorProto *tensor =
      input ? n.scope.initializers.lookup(n.proto.input(*input)) : nullptr;
  if (tensor && bits == 4 && tensor->data_type() == onnx::TensorProto::UINT8 &&
      tensor->dims_size() == static_cast<int>(dims.size())) {
    onnx::TensorProto wide = *tensor;
    wide.set_data_type(onnx::TensorProto::UINT4);
    wide.set_dims(wide.dims_size() - 1,
                  tensor->dims(tensor->dims_size() - 1) * perByte);
    Expected<OnnxTensor> data =
        readTensor(n.importer.context, n.importer.file, wide);
    if (!data) {
      n.error = data.takeError();
      return {};
    }
    if (data->constant)
      return n.constant(data->constant);
    return n.makeAs<ts::WeightOp>(data->type, data->weight);
  }
  SmallVector<Value> parts;
  SmallVector<Dim> column = dims;
  column.push_back(n.dim(1));
  Value wide = n.convert(packed, i32);
  for (int64_t i = 0; i < perByte; ++i) {
    Value divided =
        i ? n.div(wide, n.integerScalar(int64_t(1) << (i * bits), i32)) : wide;
    Value part = n.binary<ts::AndOp>(
        divided, n.integerScalar((int64_t(1) << bits) - 1, i32));
    parts.push_back(n.reshape(part, column));
  }
  for (Value each : parts)
    if (!each)
      return {};
  Value all = n.make<ts::ConcatOp>(ValueRange(parts),
                                   static_cast<int64_t>(dims.size()));
  dims.back() = dims.back() * perByte;
  return n.convert(n.reshape(all, dims), u8);
}

/// a times the transpose of [N, K] in blocks of K: b is [N, blocks, bytes], its
/// scales [N, blocks]; zero points are packed as b is, or of the scales' type.
LogicalResult importMatMulNBits(Node &n) {
  int64_t bits = n.integer("bits", 4), block = n.integer("block_size", 0),
          rows = n.integer("N", 0), depth = n.integer("K", 0);
  if (n.has(4))
    return n.unsupported("g_idx (an order of the columns of its own)");
  if (n.flag("weight_prepacked", false))
    return n.unsupported("weights in the order of one kernel "
                         "(weight_prepacked)");
  if (bits != 2 && bits != 4 && bits != 8)
    return n.unsupported(Twine(bits) + " bits");
  if (rows < 1 || depth < 1 || block < 8 || block > 1 << 20 ||
      rows > INT32_MAX || depth > INT32_MAX)
    return n.fail("N, K or block_size are out of range", "correct them");
  int64_t blocks = (depth + block - 1) / block, perByte = 8 / bits;
  Value weights = unpacked(n, n[1], 1, bits);
  weights = n.reshape(weights, {n.dim(rows), n.dim(blocks * block)});
  weights = n.sliceDim(weights, 1, n.dim(0), n.dim(depth));
  SmallVector<Dim> grid{n.dim(rows), n.dim(blocks)};
  Value scale = n.reshape(n[2], grid), zero;
  if (n.has(3) && isa<FloatType>(ts::elementTypeOf(n[3]))) {
    zero = n.reshape(n[3], grid);
  } else if (n.has(3)) {
    int64_t stored = (blocks + perByte - 1) / perByte;
    zero = unpacked(n, n.reshape(n[3], {n.dim(rows), n.dim(stored)}),
                    std::nullopt, bits);
    zero = n.sliceDim(zero, 1, n.dim(0), n.dim(blocks));
    zero = weights && zero ? n.convert(zero, ts::elementTypeOf(weights)) : zero;
  }
  if (!weights || !scale)
    return failure();
  Type f32 = n.b.getF32Type(), element = ts::elementTypeOf(n[0]);
  scale = n.convert(scale, f32);
  auto blockwise = [&](StringRef op, ArrayRef<Value> operands) {
    return Standard(n, op)
        .set("axis", int64_t(1))
        .set("block_size", block)(operands);
  };
  Value matrix;
  if (zero && isa<FloatType>(ts::elementTypeOf(zero))) {
    // q * s - z * s
    Value spread =
        n.reshape(n.broadcastAt(n.mul(n.convert(zero, f32), scale), {0, 1},
                                {n.dim(rows), n.dim(blocks), n.dim(block)}),
                  {n.dim(rows), n.dim(blocks * block)});
    matrix = n.sub(blockwise("DequantizeLinear", {weights, scale}),
                   n.sliceDim(spread, 1, n.dim(0), n.dim(depth)));
  } else {
    if (!zero)
      zero = n.broadcastTo(
          n.integerScalar(int64_t(1) << (bits - 1), ts::elementTypeOf(weights)),
          grid);
    matrix = blockwise("DequantizeLinear", {weights, scale, zero});
  }
  Value x = n.convert(n[0], f32);
  if (!matrix || !x || !ts::rankOf(x))
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(x);
  dims.back() = n.dim(depth);
  x = n.castDims(x, dims);
  Value y = n.make<ts::DotOp>(
      x, matrix, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
      ArrayRef<int64_t>{static_cast<int64_t>(dims.size()) - 1},
      ArrayRef<int64_t>{1}, TypeAttr());
  if (n.has(5))
    y = n.add(y, n.convert(n[5], f32));
  return n.out(n.convert(y, element));
}

/// Rows of a packed table: they are read first, then scaled in blocks of the
/// last dim.
LogicalResult importGatherBlockQuantized(Node &n) {
  int64_t rank = ts::rankOf(n[0]), bits = n.integer("bits", 4),
          block = n.integer("block_size", 128),
          gathered = n.axis("gather_axis", 0, rank),
          axis = n.axis("quantize_axis", 1, rank);
  if (n.failed())
    return failure();
  if (gathered == axis || axis != rank - 1)
    return n.unsupported("blocks along another dim than the last");
  if (block < 1 || block > 1 << 20 || (bits != 2 && bits != 4 && bits != 8))
    return n.unsupported("blocks of " + Twine(block) + " elements of " +
                         Twine(bits) + " bits");
  bool packed = ts::elementTypeOf(n[0]) == n.b.getIntegerType(8, false);
  auto read = [&](Value x) {
    return n.make<ts::GatherOp>(x, n[1], uint64_t(gathered));
  };
  Value data = read(n[0]), scale = read(n[2]), zero;
  if (packed)
    data = unpacked(n, data, std::nullopt, bits);
  if (!data || !scale)
    return failure();
  int64_t last = ts::rankOf(data) - 1;
  Dim blocks = ts::dimOf(scale, last);
  if (n.has(3)) {
    zero = read(n[3]);
    if (packed && zero)
      zero = unpacked(n, zero, std::nullopt, bits);
    zero = n.sliceDim(zero, last, n.dim(0), blocks);
  } else if (packed) {
    zero = n.broadcastTo(
        n.integerScalar(int64_t(1) << (bits - 1), ts::elementTypeOf(data)),
        ts::dimsOf(scale));
  }
  return n.out(Standard(n, "DequantizeLinear")
                   .set("axis", last)
                   .set("block_size", block)({data, scale, zero}));
}

constexpr OpRow rows[] = {
    {"com.microsoft", "DynamicQuantizeMatMul", 1, 3, 5,
     importDynamicQuantizeMatMul},
    {"com.microsoft", "GatherBlockQuantized", 1, 3, 4,
     importGatherBlockQuantized},
    {"com.microsoft", "MatMulInteger16", 1, 2, 2, importMatMulInteger16},
    {"com.microsoft", "MatMulIntegerToFloat", 1, 4, 7,
     importMatMulIntegerToFloat},
    {"com.microsoft", "MatMulNBits", 1, 3, 6, importMatMulNBits},
    {"com.microsoft", "QGemm", 1, 6, 9, importQGemm},
    {"com.microsoft", "QLinearAdd", 1, 1, 8, importQLinearBinary<ts::AddOp>},
    {"com.microsoft", "QLinearAveragePool", 1, 1, 5, importQLinearAveragePool},
    {"com.microsoft", "QLinearConcat", 1, 5, anyNumber, importQLinearConcat},
    {"com.microsoft", "QLinearConv", 1, 8, 9, importQLinearConv},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, 1, 5,
     importQLinearGlobalAveragePool},
    {"com.microsoft", "QLinearLeakyRelu", 1, 1, 5, importQLinearLeakyRelu},
    {"com.microsoft", "QLinearMul", 1, 1, 8, importQLinearBinary<ts::MulOp>},
    {"com.microsoft", "QLinearReduceMean", 1, 1, 5, importQLinearReduceMean},
    {"com.microsoft", "QLinearSigmoid", 1, 1, 5, importQLinearSigmoid},
    {"com.microsoft", "QLinearSoftmax", 1, 1, 5, importQLinearSoftmax},
    {"com.microsoft", "QLinearWhere", 1, 9, 9, importQLinearWhere},
};

} // namespace

ArrayRef<OpRow> contribQuantizedRows() { return rows; }

} // namespace knapper
