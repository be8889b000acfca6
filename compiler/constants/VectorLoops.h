//===- VectorLoops.h - Arithmetic on long arrays --------------------------===//
//
// Loops that the C++ compiler vectorises. Results are those of the reference
// evaluator bit for bit: each op rounds once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace knapper {

enum class FloatOp : uint8_t {
  add,
  sub,
  mul,
  div,
  max,
  min,
  neg,
  abs,
  sqrt,
  rsqrt,
};

/// out[i] = x[i * xStep] op y[i * yStep] for i < count; a step is 0 or 1. Unary
/// ops ignore y.
void applyFloatOp(FloatOp op, float *out, const float *x, int64_t xStep,
                  const float *y, int64_t yStep, int64_t count);

/// Rounds to nearest even; NaN stays NaN.
void convertF32ToBf16(uint16_t *out, const float *in, int64_t count);
void convertF32ToF16(uint16_t *out, const float *in, int64_t count);
void convertBf16ToF32(float *out, const uint16_t *in, int64_t count);
void convertF16ToF32(float *out, const uint16_t *in, int64_t count);

} // namespace knapper
