#include "ir/tensor/reference/HostTensor.h"
#include "ir/tensor/Dialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/base/Checked.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>
#include <new>

using namespace mlir;

namespace knapper::ts {

std::optional<DType> dtypeOf(Type type) {
  if (!type)
    return std::nullopt;
  for (unsigned i = 0; i < kNumDTypes; ++i)
    if (auto dtype = static_cast<DType>(i);
        elementTypeOf(type.getContext(), dtype) == type)
      return dtype;
  return std::nullopt;
}

Type elementTypeOf(MLIRContext *context, DType dtype) {
  auto integer = [&](unsigned width) -> Type {
    if (isUnsigned(dtype))
      return IntegerType::get(context, width, IntegerType::Unsigned);
    return IntegerType::get(context, width);
  };
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
    return integer(1);
  case DType::i8:
  case DType::u8:
    return integer(8);
  case DType::i16:
  case DType::u16:
    return integer(16);
  case DType::i32:
  case DType::u32:
    return integer(32);
  case DType::i64:
  case DType::u64:
    return integer(64);
  case DType::f8e4m3fn:
    return Float8E4M3FNType::get(context);
  case DType::f8e4m3fnuz:
    return Float8E4M3FNUZType::get(context);
  case DType::f8e5m2:
    return Float8E5M2Type::get(context);
  case DType::f8e5m2fnuz:
    return Float8E5M2FNUZType::get(context);
  case DType::f8e8m0:
    return Float8E8M0FNUType::get(context);
  case DType::f4e2m1:
    return Float4E2M1FNType::get(context);
  case DType::f8e4m3:
    return Float8E4M3Type::get(context);
  case DType::f8e3m4:
    return Float8E3M4Type::get(context);
  case DType::f8e4m3b11fnuz:
    return Float8E4M3B11FNUZType::get(context);
  case DType::f6e2m3:
    return Float6E2M3FNType::get(context);
  case DType::f6e3m2:
    return Float6E3M2FNType::get(context);
  case DType::i4:
  case DType::u4:
    return integer(4);
  case DType::i2:
  case DType::u2:
    return integer(2);
  case DType::text:
    return StringType::get(context);
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
  if (!memory)
    throw std::bad_alloc();
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
  if (isStorage(*dtype) && !isFloat(*dtype)) {
    for (const APInt &value : dense.getValues<APInt>())
      *out++ = static_cast<uint8_t>(
          smallInteger(*dtype, static_cast<uint8_t>(value.getRawData()[0])));
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
  if (isStorage(type) && tensorType.getElementTypeBitWidth() < 8) {
    // The attribute's bytes hold nothing beside the value.
    unsigned width = tensorType.getElementTypeBitWidth();
    SmallVector<char> bits;
    for (int64_t i = 0; i < count; ++i)
      bits.push_back(static_cast<char>(memory[i] & ((1u << width) - 1)));
    return DenseElementsAttr::getFromRawBuffer(tensorType, bits);
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

namespace {

/// Sign, exponent, mantissa; the bits of the largest number, NaN and infinity
/// without sign. -1: there is none. `oneZero`: the bits of -0 are NaN.
struct SmallFormat {
  int mantissa, bias, sign, largest, nan, infinity;
  bool oneZero;
};
SmallFormat formatOf(DType type) {
  switch (type) {
  case DType::f8e4m3fn:
    return {3, 7, 0x80, 0x7e, 0x7f, -1, false};
  case DType::f8e4m3fnuz:
    return {3, 8, 0x80, 0x7f, -1, -1, true};
  case DType::f8e5m2:
    return {2, 15, 0x80, 0x7b, 0x7e, 0x7c, false};
  case DType::f8e5m2fnuz:
    return {2, 16, 0x80, 0x7f, -1, -1, true};
  case DType::f8e4m3:
    return {3, 7, 0x80, 0x77, 0x7c, 0x78, false};
  case DType::f8e3m4:
    return {4, 3, 0x80, 0x6f, 0x78, 0x70, false};
  case DType::f8e4m3b11fnuz:
    return {3, 11, 0x80, 0x7f, -1, -1, true};
  case DType::f6e2m3:
    return {3, 1, 0x20, 0x1f, -1, -1, false};
  case DType::f6e3m2:
    return {2, 3, 0x20, 0x1f, -1, -1, false};
  default:
    assert(type == DType::f4e2m1);
    return {1, 1, 0x8, 0x7, -1, -1, false};
  }
}

uint8_t powerOfTwo(double value, bool saturate, int rounding) {
  // By f32, as the definition says.
  value = std::fabs(static_cast<double>(static_cast<float>(value)));
  if (std::isnan(value))
    return 0xff;
  if (value < 0x1p-127)
    return saturate ? 0 : 0xff;
  if (std::isinf(value))
    return saturate ? 0xfe : 0xff;
  int exponent = std::ilogb(value);
  double fraction = std::ldexp(value, -exponent); // 1 to 2
  if ((rounding > 0 && fraction > 1) || (rounding == 0 && fraction >= 1.5))
    ++exponent;
  if (exponent > 127)
    return saturate ? 0xfe : 0xff;
  return static_cast<uint8_t>(exponent + 127);
}

} // namespace

double smallFloatToDouble(DType type, uint8_t bits) {
  if (type == DType::f8e8m0)
    return bits == 0xff ? std::nan("") : std::ldexp(1, bits - 127);
  SmallFormat format = formatOf(type);
  bits &= 2 * format.sign - 1;
  int magnitude = bits & (format.sign - 1);
  if (format.oneZero && bits == format.sign)
    return std::nan("");
  double sign = bits & format.sign ? -1 : 1;
  if (magnitude == format.infinity)
    return sign * INFINITY;
  if (magnitude > format.largest)
    return std::nan("");
  int exponent = magnitude >> format.mantissa;
  int fraction = magnitude & ((1 << format.mantissa) - 1);
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - format.bias - format.mantissa);
  return sign * std::ldexp(fraction + (1 << format.mantissa),
                           exponent - format.bias - format.mantissa);
}

uint8_t doubleToSmallFloat(DType type, double value, bool saturate,
                           int rounding) {
  if (type == DType::f8e8m0)
    return powerOfTwo(value, saturate, rounding);
  SmallFormat format = formatOf(type);
  int sign = std::signbit(value) ? format.sign : 0;
  if (std::isnan(value))
    return static_cast<uint8_t>(format.oneZero   ? format.sign
                                : format.nan < 0 ? 0
                                                 : format.nan | sign);
  double magnitude = std::fabs(value);
  // Rounded as if there were no largest number.
  int64_t bits = format.largest + 1;
  if (magnitude < std::ldexp(1, 40)) {
    int exponent = magnitude == 0
                       ? 1 - format.bias
                       : std::max(std::ilogb(magnitude), 1 - format.bias);
    auto units = static_cast<int64_t>(
        std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent)));
    bits = units + (static_cast<int64_t>(exponent + format.bias - 1)
                    << format.mantissa);
  }
  if (bits > format.largest) {
    bool hasNan = format.oneZero || format.nan >= 0;
    if (saturate || !hasNan)
      bits = format.largest;
    else if (format.infinity >= 0)
      bits = format.infinity;
    else if (format.oneZero)
      return static_cast<uint8_t>(format.sign);
    else
      bits = format.nan;
  }
  if (bits == 0 && format.oneZero)
    sign = 0;
  return static_cast<uint8_t>(bits | sign);
}

int64_t smallInteger(DType type, uint8_t bits) {
  unsigned width = type == DType::i4 || type == DType::u4 ? 4 : 2;
  int64_t value = bits & ((1 << width) - 1);
  bool negative = !isUnsigned(type) && value >> (width - 1);
  return negative ? value - (1 << width) : value;
}

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
  case DType::u16:
    widen<uint16_t>(memory, out);
    break;
  case DType::u32:
    widen<uint32_t>(memory, out);
    break;
  case DType::u64:
    widen<uint64_t>(memory, out);
    break;
  case DType::i4:
  case DType::u4:
  case DType::i2:
  case DType::u2:
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<T>(smallInteger(type, memory[i]));
    break;
  default:
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<T>(smallFloatToDouble(type, memory[i]));
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
  case DType::u16:
    narrow<uint16_t>(values, out);
    break;
  case DType::u32:
    narrow<uint32_t>(values, out);
    break;
  case DType::u64:
    narrow<uint64_t>(values, out);
    break;
  case DType::i4:
  case DType::u4:
  case DType::i2:
  case DType::u2:
    for (size_t i = 0; i < values.size(); ++i)
      out[i] = static_cast<uint8_t>(smallInteger(
          dtype, static_cast<uint8_t>(static_cast<int64_t>(values[i]))));
    break;
  default:
    for (size_t i = 0; i < values.size(); ++i)
      out[i] = doubleToSmallFloat(dtype, static_cast<double>(values[i]));
    break;
  }
  return tensor;
}

template std::vector<double> HostTensor::load<double>() const;
template std::vector<int64_t> HostTensor::load<int64_t>() const;
template std::vector<uint64_t> HostTensor::load<uint64_t>() const;
template HostTensor HostTensor::store<uint64_t>(DType, ArrayRef<int64_t>,
                                                const std::vector<uint64_t> &);
template HostTensor HostTensor::store<double>(DType, ArrayRef<int64_t>,
                                              const std::vector<double> &);
template HostTensor HostTensor::store<int64_t>(DType, ArrayRef<int64_t>,
                                               const std::vector<int64_t> &);

} // namespace knapper::ts
