#include "compiler/constants/VectorLoops.h"
#include <bit>
#include <cmath>

namespace knapper {
namespace {

template <typename F>
void binary(float *__restrict out, const float *x, int64_t xStep,
            const float *y, int64_t yStep, int64_t count, F f) {
  if (xStep == 1 && yStep == 1)
    for (int64_t i = 0; i < count; ++i)
      out[i] = f(x[i], y[i]);
  else if (xStep == 1)
    for (int64_t i = 0; i < count; ++i)
      out[i] = f(x[i], y[0]);
  else if (yStep == 1)
    for (int64_t i = 0; i < count; ++i)
      out[i] = f(x[0], y[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      out[i] = f(x[0], y[0]);
}

template <typename F>
void unary(float *__restrict out, const float *x, int64_t xStep, int64_t count,
           F f) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = f(x[i * xStep]);
}

uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

} // namespace

void applyFloatOp(FloatOp op, float *out, const float *x, int64_t xStep,
                  const float *y, int64_t yStep, int64_t count) {
  auto with = [&](auto f) { binary(out, x, xStep, y, yStep, count, f); };
  auto each = [&](auto f) { unary(out, x, xStep, count, f); };
  switch (op) {
  case FloatOp::add:
    return with([](float a, float b) { return a + b; });
  case FloatOp::sub:
    return with([](float a, float b) { return a - b; });
  case FloatOp::mul:
    return with([](float a, float b) { return a * b; });
  case FloatOp::div:
    return with([](float a, float b) { return a / b; });
  case FloatOp::max:
    return with([](float a, float b) { return a != a || a > b ? a : b; });
  case FloatOp::min:
    return with([](float a, float b) { return a != a || a < b ? a : b; });
  case FloatOp::neg:
    return each([](float a) { return -a; });
  case FloatOp::abs:
    return each([](float a) { return std::fabs(a); });
  case FloatOp::sqrt:
    return each([](float a) { return std::sqrt(a); });
  case FloatOp::rsqrt:
    // In double: two float roundings would differ from one.
    return each([](float a) {
      return static_cast<float>(1 / std::sqrt(static_cast<double>(a)));
    });
  }
}

void convertF32ToBf16(uint16_t *out, const float *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = bitsOf(in[i]);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = ((bits >> 16) & 0x8000) | 0x7fc0;
    out[i] = (bits & 0x7fffffff) > 0x7f800000 ? nan : rounded;
  }
}

void convertF32ToF16(uint16_t *out, const float *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = bitsOf(in[i]);
    uint32_t sign = (bits >> 16) & 0x8000;
    bits &= 0x7fffffff;
    // Below the smallest normal: adding 0.5 lets the float unit round to the
    // 2^-24 units of a subnormal.
    constexpr uint32_t half = (127 - 15 + 23 - 10 + 1) << 23;
    uint32_t subnormal =
        bitsOf(std::bit_cast<float>(bits) + std::bit_cast<float>(half)) - half;
    uint32_t normal = (bits + 0xfff + ((bits >> 13) & 1) - (112u << 23)) >> 13;
    uint32_t result = bits < (113u << 23) ? subnormal : normal;
    result = bits >= (143u << 23) ? 0x7c00 : result;
    result = bits > 0x7f800000 ? 0x7e00 : result;
    out[i] = static_cast<uint16_t>(sign | result);
  }
}

void convertBf16ToF32(float *out, const uint16_t *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(in[i]) << 16);
}

void convertF16ToF32(float *out, const uint16_t *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t sign = (in[i] & 0x8000u) << 16;
    uint32_t magnitude = (in[i] & 0x7fffu) << 13;
    // Scaling by 2^112 moves the exponent and makes subnormals normal.
    uint32_t scaled = bitsOf(std::bit_cast<float>(magnitude) *
                             std::bit_cast<float>((127u + 112) << 23));
    uint32_t special = magnitude | 0x7f800000;
    out[i] = std::bit_cast<float>(sign |
                                  (magnitude >= 0x0f800000 ? special : scaled));
  }
}

} // namespace knapper
