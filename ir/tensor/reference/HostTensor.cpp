#include "ir/tensor/reference/HostTensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/base/Checked.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace knapper::ts {

std::optional<DType> dtypeOf(Type type) {
  if (type.isF32())
    return DType::f32;
  if (type.isF16())
    return DType::f16;
  if (type.isBF16())
    return DType::bf16;
  if (type.isF64())
    return DType::f64;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return std::nullopt;
  if (integer.isUnsigned())
    return integer.getWidth() == 8 ? std::optional(DType::u8) : std::nullopt;
  switch (integer.getWidth()) {
  case 1:
    return DType::i1;
  case 8:
    return DType::i8;
  case 16:
    return DType::i16;
  case 32:
    return DType::i32;
  case 64:
    return DType::i64;
  }
  return std::nullopt;
}

Type elementTypeOf(MLIRContext *context, DType dtype) {
  switch (dtype) {
  case DType::f32:
    return Float32Type::get(context);
  case DType::f16:
    return Float16Type::get(context);
  case DType::bf16:
    return BFloat16Type::get(context);
  case DType::f64:
    return Float64Type::get(context);
  case DType::i1:
    return IntegerType::get(context, 1);
  case DType::i8:
    return IntegerType::get(context, 8);
  case DType::u8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case DType::i16:
    return IntegerType::get(context, 16);
  case DType::i32:
    return IntegerType::get(context, 32);
  case DType::i64:
    return IntegerType::get(context, 64);
  }
  return {};
}

std::optional<int64_t> elementCountOf(ArrayRef<int64_t> dims) {
  // An empty dim makes the product 0 whatever the others are, but the others
  // must still be addressable: strides are products of a suffix.
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      return std::nullopt;
    empty |= dim == 0;
    std::optional<int64_t> next = checkedMul(count, std::max<int64_t>(dim, 1));
    if (!next)
      return std::nullopt;
    count = *next;
  }
  return empty ? 0 : count;
}

HostTensor HostTensor::allocate(DType dtype, ArrayRef<int64_t> dims) {
  HostTensor tensor = borrow(dtype, dims, nullptr);
  // At least one byte, so that the data of an empty tensor is a valid pointer.
  size_t bytes = std::max<size_t>(tensor.bytes(), 1);
  std::shared_ptr<uint8_t> memory(static_cast<uint8_t *>(calloc(bytes, 1)),
                                  free);
  tensor.memory = memory.get();
  tensor.owner = std::move(memory);
  return tensor;
}

HostTensor HostTensor::borrow(DType dtype, ArrayRef<int64_t> dims,
                              const void *data,
                              std::shared_ptr<const void> owner) {
  HostTensor tensor;
  tensor.type = dtype;
  tensor.sizes.assign(dims.begin(), dims.end());
  std::optional<int64_t> count = elementCountOf(dims);
  assert(count && "sizes are checked before a tensor is made");
  tensor.count = *count;
  tensor.memory = static_cast<const uint8_t *>(data);
  tensor.owner = std::move(owner);
  return tensor;
}

HostTensor HostTensor::withDims(ArrayRef<int64_t> dims) const {
  return borrow(type, dims, memory, owner);
}

Expected<HostTensor> HostTensor::fromAttribute(ElementsAttr attribute) {
  ShapedType shaped = attribute.getShapedType();
  std::optional<DType> dtype = dtypeOf(shaped.getElementType());
  auto dense = dyn_cast<DenseElementsAttr>(attribute);
  std::string text;
  if (!dtype || !dense) {
    llvm::raw_string_ostream(text) << shaped;
    return internalError("a constant of type " + text +
                         " has no dense elements");
  }
  HostTensor tensor = allocate(*dtype, shaped.getShape());
  uint8_t *out = tensor.mutableData();
  size_t size = byteSize(*dtype);
  if (*dtype == DType::i1) {
    for (bool value : dense.getValues<bool>())
      *out++ = value;
    return tensor;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat()) {
    std::memcpy(out, raw.data(), tensor.bytes());
    return tensor;
  }
  for (int64_t i = 0; i < tensor.count; ++i)
    std::memcpy(out + i * size, raw.data(), size);
  return tensor;
}

DenseElementsAttr HostTensor::toAttribute(MLIRContext *context) const {
  auto tensorType = RankedTensorType::get(sizes, elementTypeOf(context, type));
  if (type == DType::i1) {
    SmallVector<bool> values(memory, memory + count);
    return DenseElementsAttr::get(tensorType, values);
  }
  return DenseElementsAttr::getFromRawBuffer(
      tensorType,
      ArrayRef<char>(reinterpret_cast<const char *>(memory), bytes()));
}

std::string HostTensor::typeText() const {
  std::string text(name(type));
  text += "[";
  for (auto [i, size] : llvm::enumerate(sizes))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

namespace {

template <typename S, typename T>
void widen(const uint8_t *data, std::vector<T> &out) {
  for (size_t i = 0; i < out.size(); ++i) {
    S value;
    std::memcpy(&value, data + i * sizeof(S), sizeof(S));
    out[i] = static_cast<T>(value);
  }
}

template <typename S, typename T>
void narrow(const std::vector<T> &values, uint8_t *out) {
  for (size_t i = 0; i < values.size(); ++i) {
    // Through int64 for integers: wraps, as the conversion is modular.
    S value = static_cast<S>(values[i]);
    std::memcpy(out + i * sizeof(S), &value, sizeof(S));
  }
}

template <double (*decode)(uint16_t), typename T>
void widen16(const uint8_t *data, std::vector<T> &out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, data + 2 * i, 2);
    out[i] = static_cast<T>(decode(bits));
  }
}

template <uint16_t (*encode)(double), typename T>
void narrow16(const std::vector<T> &values, uint8_t *out) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = encode(static_cast<double>(values[i]));
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

/// A 16-bit float with `mantissa` stored bits, exponent bias `bias`.
double decode16(uint16_t bits, int mantissa, int bias) {
  int exponent = (bits & 0x7fff) >> mantissa;
  int fraction = bits & ((1 << mantissa) - 1);
  double value;
  if (exponent == 2 * bias + 1)
    value = fraction ? std::nan("") : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(fraction, 1 - bias - mantissa);
  else
    value = std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  return bits & 0x8000 ? -value : value;
}

uint16_t encode16(double value, int mantissa, int bias) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  uint16_t infinity = (2 * bias + 1) << mantissa;
  if (std::isnan(value))
    return sign | infinity | (1 << (mantissa - 1));
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude))
    return sign | infinity;
  if (magnitude == 0)
    return sign;
  // Count in units of the last place: nearbyint then rounds to nearest even.
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  auto units = static_cast<int64_t>(
      std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  // A carry out of the mantissa moves into the exponent field by itself.
  int64_t bits =
      units + (static_cast<int64_t>(exponent + bias - 1) << mantissa);
  return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinity));
}

} // namespace

double f16ToDouble(uint16_t bits) { return decode16(bits, 10, 15); }
double bf16ToDouble(uint16_t bits) { return decode16(bits, 7, 127); }
uint16_t doubleToF16(double value) { return encode16(value, 10, 15); }
uint16_t doubleToBf16(double value) { return encode16(value, 7, 127); }

template <typename T> std::vector<T> HostTensor::load() const {
  std::vector<T> out(count);
  switch (type) {
  case DType::f32:
    widen<float>(memory, out);
    break;
  case DType::f64:
    widen<double>(memory, out);
    break;
  case DType::f16:
    widen16<f16ToDouble>(memory, out);
    break;
  case DType::bf16:
    widen16<bf16ToDouble>(memory, out);
    break;
  case DType::i1:
  case DType::u8:
    widen<uint8_t>(memory, out);
    break;
  case DType::i8:
    widen<int8_t>(memory, out);
    break;
  case DType::i16:
    widen<int16_t>(memory, out);
    break;
  case DType::i32:
    widen<int32_t>(memory, out);
    break;
  case DType::i64:
    widen<int64_t>(memory, out);
    break;
  }
  return out;
}

template <typename T>
HostTensor HostTensor::store(DType dtype, ArrayRef<int64_t> dims,
                             const std::vector<T> &values) {
  HostTensor tensor = allocate(dtype, dims);
  assert(static_cast<size_t>(tensor.count) == values.size());
  uint8_t *out = tensor.mutableData();
  switch (dtype) {
  case DType::f32:
    narrow<float>(values, out);
    break;
  case DType::f64:
    narrow<double>(values, out);
    break;
  case DType::f16:
    narrow16<doubleToF16>(values, out);
    break;
  case DType::bf16:
    narrow16<doubleToBf16>(values, out);
    break;
  case DType::i1:
    for (size_t i = 0; i < values.size(); ++i)
      out[i] = values[i] != 0;
    break;
  case DType::u8:
    narrow<uint8_t>(values, out);
    break;
  case DType::i8:
    narrow<int8_t>(values, out);
    break;
  case DType::i16:
    narrow<int16_t>(values, out);
    break;
  case DType::i32:
    narrow<int32_t>(values, out);
    break;
  case DType::i64:
    narrow<int64_t>(values, out);
    break;
  }
  return tensor;
}

template std::vector<double> HostTensor::load<double>() const;
template std::vector<int64_t> HostTensor::load<int64_t>() const;
template HostTensor HostTensor::store<double>(DType, ArrayRef<int64_t>,
                                              const std::vector<double> &);
template HostTensor HostTensor::store<int64_t>(DType, ArrayRef<int64_t>,
                                               const std::vector<int64_t> &);

} // namespace knapper::ts
