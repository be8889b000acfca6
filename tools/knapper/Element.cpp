#include "tools/knapper/Element.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace knapper::cli {
namespace {

double floatOfHalf(uint16_t bits) {
  int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                : std::ldexp(fraction, -24);
  return bits & 0x8000 ? -value : value;
}

template <typename T> T at(const knapper_tensor &tensor, int64_t i) {
  T value;
  memcpy(&value, static_cast<const char *>(tensor.data) + i * sizeof(T),
         sizeof(T));
  return value;
}

/// A float of sign, exponent and `mantissa` bits; `bits` without those above.
double smallFloat(int bits, int sign, int mantissa, int bias) {
  int magnitude = bits & (sign - 1), exponent = magnitude >> mantissa;
  int fraction = magnitude & ((1 << mantissa) - 1);
  double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - mantissa)
                               : std::ldexp(fraction + (1 << mantissa),
                                            exponent - bias - mantissa);
  return bits & sign ? -value : value;
}

double storageElement(knapper_dtype dtype, uint8_t byte) {
  int width = dtype == KNAPPER_I2 || dtype == KNAPPER_U2 ? 2 : 4;
  int low = byte & ((1 << width) - 1);
  switch (dtype) {
  case KNAPPER_F8E4M3FN:
    return (byte & 0x7f) == 0x7f ? NAN : smallFloat(byte, 0x80, 3, 7);
  case KNAPPER_F8E4M3FNUZ:
    return byte == 0x80 ? NAN : smallFloat(byte, 0x80, 3, 8);
  case KNAPPER_F8E5M2:
    if ((byte & 0x7f) >= 0x7c)
      return (byte & 0x7f) > 0x7c ? NAN : byte & 0x80 ? -INFINITY : INFINITY;
    return smallFloat(byte, 0x80, 2, 15);
  case KNAPPER_F8E5M2FNUZ:
    return byte == 0x80 ? NAN : smallFloat(byte, 0x80, 2, 16);
  case KNAPPER_F8E8M0:
    return byte == 0xff ? NAN : std::ldexp(1, byte - 127);
  case KNAPPER_F8E4M3:
    if ((byte & 0x7f) >= 0x78)
      return (byte & 0x7f) > 0x78 ? NAN : byte & 0x80 ? -INFINITY : INFINITY;
    return smallFloat(byte, 0x80, 3, 7);
  case KNAPPER_F8E3M4:
    if ((byte & 0x7f) >= 0x70)
      return (byte & 0x7f) > 0x70 ? NAN : byte & 0x80 ? -INFINITY : INFINITY;
    return smallFloat(byte, 0x80, 4, 3);
  case KNAPPER_F8E4M3B11FNUZ:
    return byte == 0x80 ? NAN : smallFloat(byte, 0x80, 3, 11);
  case KNAPPER_F6E2M3:
    return smallFloat(byte & 0x3f, 0x20, 3, 1);
  case KNAPPER_F6E3M2:
    return smallFloat(byte & 0x3f, 0x20, 2, 3);
  case KNAPPER_F4E2M1:
    return smallFloat(low, 0x8, 1, 1);
  case KNAPPER_I4:
  case KNAPPER_I2:
    return low >> (width - 1) ? low - (1 << width) : low;
  default:
    return low;
  }
}

} // namespace

double element(const knapper_tensor &t, int64_t i) {
  switch (t.dtype) {
  case KNAPPER_F32:
    return at<float>(t, i);
  case KNAPPER_F64:
    return at<double>(t, i);
  case KNAPPER_F16:
    return floatOfHalf(at<uint16_t>(t, i));
  case KNAPPER_BF16:
    return std::bit_cast<float>(uint32_t(at<uint16_t>(t, i)) << 16);
  case KNAPPER_I8:
    return at<int8_t>(t, i);
  case KNAPPER_I1:
  case KNAPPER_U8:
    return at<uint8_t>(t, i);
  case KNAPPER_I16:
    return at<int16_t>(t, i);
  case KNAPPER_I32:
    return at<int32_t>(t, i);
  case KNAPPER_I64:
    return double(at<int64_t>(t, i));
  case KNAPPER_U16:
    return at<uint16_t>(t, i);
  case KNAPPER_U32:
    return at<uint32_t>(t, i);
  case KNAPPER_U64:
    return double(at<uint64_t>(t, i));
  default:
    return storageElement(t.dtype, at<uint8_t>(t, i));
  }
}

} // namespace knapper::cli
