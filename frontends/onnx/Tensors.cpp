#include "frontends/onnx/Tensors.h"
#include "runtime/base/Checked.h"

using namespace mlir;

namespace knapper {

Type onnxElementType(MLIRContext *context, int32_t type) {
  Builder b(context);
  switch (type) {
  case onnx::TensorProto::FLOAT:
    return b.getF32Type();
  case onnx::TensorProto::FLOAT16:
    return b.getF16Type();
  case onnx::TensorProto::BFLOAT16:
    return b.getBF16Type();
  case onnx::TensorProto::DOUBLE:
    return b.getF64Type();
  case onnx::TensorProto::BOOL:
    return b.getI1Type();
  case onnx::TensorProto::INT8:
    return b.getIntegerType(8);
  case onnx::TensorProto::UINT8:
    return b.getIntegerType(8, /*isSigned=*/false);
  case onnx::TensorProto::INT16:
    return b.getIntegerType(16);
  case onnx::TensorProto::INT32:
    return b.getI32Type();
  case onnx::TensorProto::INT64:
    return b.getI64Type();
  case onnx::TensorProto::UINT16:
    return b.getIntegerType(16, /*isSigned=*/false);
  case onnx::TensorProto::UINT32:
    return b.getIntegerType(32, /*isSigned=*/false);
  case onnx::TensorProto::UINT64:
    return b.getIntegerType(64, /*isSigned=*/false);
  case onnx::TensorProto::FLOAT8E4M3FN:
    return Float8E4M3FNType::get(context);
  case onnx::TensorProto::FLOAT8E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case onnx::TensorProto::FLOAT8E5M2:
    return Float8E5M2Type::get(context);
  case onnx::TensorProto::FLOAT8E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  case onnx::TensorProto::FLOAT8E8M0:
    return Float8E8M0FNUType::get(context);
  case onnx::TensorProto::FLOAT4E2M1:
    return Float4E2M1FNType::get(context);
  case onnx::TensorProto::INT4:
    return b.getIntegerType(4);
  case onnx::TensorProto::UINT4:
    return b.getIntegerType(4, /*isSigned=*/false);
  case onnx::TensorProto::INT2:
    return b.getIntegerType(2);
  case onnx::TensorProto::UINT2:
    return b.getIntegerType(2, /*isSigned=*/false);
  default:
    return {};
  }
}

Type onnxAnyElementType(MLIRContext *context, int32_t type) {
  return type == onnx::TensorProto::STRING ? Type(ts::StringType::get(context))
                                           : onnxElementType(context, type);
}

bool isString(Value value) {
  auto tensor =
      dyn_cast_if_present<RankedTensorType>(value ? value.getType() : Type());
  return tensor && isa<ts::StringType>(tensor.getElementType());
}

std::string onnxTypeName(int32_t type) {
  static constexpr const char *names[] = {
      "UNDEFINED",      "FLOAT",      "UINT8",
      "INT8",           "UINT16",     "INT16",
      "INT32",          "INT64",      "STRING",
      "BOOL",           "FLOAT16",    "DOUBLE",
      "UINT32",         "UINT64",     "COMPLEX64",
      "COMPLEX128",     "BFLOAT16",   "FLOAT8E4M3FN",
      "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
      "UINT4",          "INT4",       "FLOAT4E2M1",
      "FLOAT8E8M0",     "UINT2",      "INT2"};
  if (type >= 0 && type < static_cast<int32_t>(std::size(names)))
    return names[type];
  return "type " + std::to_string(type);
}

namespace {

/// Elements of the typed fields as the bytes that raw_data would hold.
template <typename To, typename Field> std::string pack(const Field &field) {
  std::string data;
  data.reserve(field.size() * sizeof(To));
  for (auto element : field) {
    To value = static_cast<To>(element);
    data.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  return data;
}

std::string packTyped(const onnx::TensorProto &tensor) {
  switch (tensor.data_type()) {
  case onnx::TensorProto::FLOAT:
    return pack<float>(tensor.float_data());
  case onnx::TensorProto::DOUBLE:
    return pack<double>(tensor.double_data());
  case onnx::TensorProto::INT64:
    return pack<int64_t>(tensor.int64_data());
  case onnx::TensorProto::INT32:
    return pack<int32_t>(tensor.int32_data());
  case onnx::TensorProto::UINT32:
    return pack<uint32_t>(tensor.uint64_data());
  case onnx::TensorProto::UINT64:
    return pack<uint64_t>(tensor.uint64_data());
  case onnx::TensorProto::INT16:
  case onnx::TensorProto::UINT16:
  case onnx::TensorProto::FLOAT16:
  case onnx::TensorProto::BFLOAT16:
    return pack<uint16_t>(tensor.int32_data());
  default:
    return pack<uint8_t>(tensor.int32_data());
  }
}

/// Elements of four or two bits, several a byte with the first in the low bits,
/// as a byte each. `data` has a byte for every started group.
std::string unpack(StringRef data, int64_t count, Type element) {
  unsigned width = element.getIntOrFloatBitWidth(), perByte = 8 / width;
  bool extendsSign = isa<IntegerType>(element) && !element.isUnsignedInteger();
  std::string result(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    int bits = static_cast<uint8_t>(data[i / perByte]) >> (i % perByte * width);
    bits &= (1 << width) - 1;
    if (extendsSign && bits >> (width - 1))
      bits -= 1 << width;
    result[i] = static_cast<char>(bits);
  }
  return result;
}

} // namespace

Expected<OnnxTensor> readTensor(MLIRContext *context, OnnxFile &file,
                                const onnx::TensorProto &tensor) {
  std::string where = "tensor '" + tensor.name() + "'";
  Type element = onnxElementType(context, tensor.data_type());
  if (!element)
    return userError("has element type " + onnxTypeName(tensor.data_type()) +
                         ", which is not supported",
                     where, "convert the tensor to a supported type");
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  if (shape.size() > 32)
    return userError("has rank " + std::to_string(shape.size()), where,
                     "reshape the tensor; at most 32 dims are supported");
  std::optional<int64_t> bytes = ts::elementBytes(element);
  for (int64_t dim : shape) {
    if (dim < 0)
      return userError("has the dim " + std::to_string(dim), where,
                       "export the model again");
    if (bytes)
      bytes = checkedMul(*bytes, dim);
  }
  if (!bytes || *bytes > (int64_t(1) << 50))
    return userError("is too large: its bytes do not fit into 64 bits", where,
                     "export the model again");
  OnnxTensor result;
  result.type = RankedTensorType::get(shape, element);
  // What the file holds; a tensor with elements below a byte is unpacked.
  int64_t count = *bytes / ts::elementBytes(element), stored = *bytes;
  bool packed = !element.isInteger(1) && element.getIntOrFloatBitWidth() < 8;
  if (packed)
    stored = llvm::divideCeil(count, 8 / element.getIntOrFloatBitWidth());

  auto asWeight = [&](const OnnxFile::Region &region) {
    result.weight =
        ts::WeightAttr::get(context, region.file, region.offset, region.bytes,
                            StringAttr::get(context, tensor.name()));
  };
  ASSIGN_OR_RETURN(std::optional<OnnxFile::Region> region,
                   file.regionOf(tensor, static_cast<uint64_t>(stored)));
  std::string typed;
  StringRef data;
  if (region) {
    if (!packed && static_cast<uint64_t>(*bytes) > maxInlineBytes) {
      asWeight(*region);
      return result;
    }
    data = (region)->data;
  } else if (tensor.has_raw_data()) {
    data = tensor.raw_data();
  } else {
    typed = packTyped(tensor);
    data = typed;
  }
  if (static_cast<int64_t>(data.size()) != stored)
    return userError("holds " + std::to_string(data.size()) +
                         " bytes where its dims need " + std::to_string(stored),
                     where, "export the model again");
  if (packed) {
    typed = unpack(data, count, element);
    data = typed;
  }
  if (static_cast<uint64_t>(*bytes) > maxInlineBytes) {
    asWeight(file.keep(data.str()));
    return result;
  }
  if (element.isInteger(1)) {
    SmallVector<bool> flags;
    for (char byte : data)
      flags.push_back(byte != 0);
    result.constant = DenseElementsAttr::get(result.type, flags);
    return result;
  }
  if (data.empty()) {
    result.constant =
        DenseElementsAttr::get(result.type, ArrayRef<Attribute>());
    return result;
  }
  // The attribute's storage wants its buffer aligned.
  SmallVector<uint64_t> aligned((data.size() + 7) / 8);
  std::memcpy(aligned.data(), data.data(), data.size());
  if (packed) // and nothing beside the value
    for (char *byte = reinterpret_cast<char *>(aligned.data()),
              *end = byte + data.size();
         byte != end; ++byte)
      *byte &= static_cast<char>((1 << element.getIntOrFloatBitWidth()) - 1);
  result.constant = DenseElementsAttr::getFromRawBuffer(
      result.type,
      ArrayRef<char>(reinterpret_cast<char *>(aligned.data()), data.size()));
  return result;
}

} // namespace knapper
