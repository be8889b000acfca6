// Activations that deserve a form of their own.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace knapper::vecmath {

static constexpr double kSqrt2OverPi = 0x1.9884533d43651p-1, kCubic = 0.044715,
                        kLog2E = 0x1.71547652b82fep+0;
/// Where kGeluF32 is -127.001.
static constexpr double kGeluF32Gone = 9.954;

/// 2^x of an f32 by the target's instruction.
static V fastExp2(V x) {
  return x.make<mlir::math::Exp2Op>(x.value, mlir::arith::FastMathFlags::afn);
}

V geluErf(V x, bool exp2Instruction, bool half) {
  if (x.isF64()) // erfc: 1 + erf would cancel far below zero.
    return x * 0.5 * erfc(x * -0x1.6a09e667f3bcdp-1);
  // max(x, 0) - |x| q, where q = erfc(|x| / sqrt(2)) / 2 = 2^g and g is a
  // polynomial: no cancellation for negative x.
  if (exp2Instruction) {
    // From 6 on, |x| q is held at 6e-9. The instruction's error, 2 ulp of q, is
    // a fraction of an ulp of the result.
    V a = atMost(6, abs(x));
    V q = fastExp2(half ? horner(kGelu16, a) : horner(kGeluF32, a));
    return fma(-a, q, select(x > 0.0, x, 0.0));
  }
  // Past 6, where |x| q is below 6e-9, g falls faster than it should, to -127
  // at the bound, whose power is a zero.
  V a = atMost(kGeluF32Gone, abs(x));
  V g = horner(kGeluF32, a);
  V t = g + exponentMagic(x);
  V r = g - (t - exponentMagic(x));
  V q = horner(kExp2F32, r) * powerOfTwo(t);
  // Of -infinity 0 x is a NaN, as in the formula.
  return fma(-a, q, select(x > 0.0, x, x * 0.0));
}

V geluTanh(V x) {
  // (1 + tanh(u)) / 2 = sigmoid(2 u).
  V u = x * fma(x * x, 2 * kSqrt2OverPi * kCubic, 2 * kSqrt2OverPi);
  return x * sigmoid(u);
}

/// 1 / (1 + 2^t)
static V sigmoidOfPower(V t) {
  V one = t.constant(1), power = fastExp2(t) + one;
  return one.make<mlir::arith::DivFOp>(one.value, power.value,
                                       mlir::arith::FastMathFlags::afn);
}

V sigmoidByExp2(V x) { return sigmoidOfPower(x * -kLog2E); }

V tanhByExp2(V x) {
  // 1 - 2 / (1 + e^2x) cancels near 0; there five terms of the series.
  constexpr double bound = 0.25;
  constexpr double series[] = {62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3};
  V square = x * x, tail = x.constant(series[0]);
  for (double term : llvm::ArrayRef(series).drop_front())
    tail = fma(tail, square, term);
  V large = fma(sigmoidOfPower(x * (-2 * kLog2E)), 2, -1);
  return select(abs(x) < bound, fma(x * square, tail, x), large);
}

V expm1ByExp2(V x) {
  // e^x - 1 cancels near 0; there a polynomial.
  V near = fma(x * x, horner(kExpm1_16, x), x);
  return select(abs(x) < 0.25, near, fastExp2(x * kLog2E) - 1.0);
}

V softplus(V x) { return atLeast(0, x) + log1p(exp(-abs(x))); }

V softplusByExp2(V x) {
  V u = fastExp2(abs(x) * -kLog2E);
  return fma(u, horner(kLog1p16, u), atLeast(0, x));
}

/// With n = e^x: ((1 + n)^2 - 1) / ((1 + n)^2 + 1), nothing of which cancels.
template <typename Exp, typename Divide>
static V tanhOfLog1p(V x, Exp exp, Divide divide) {
  // Where the quotient is 1, long before the square overflows.
  V n = exp(atMost(x.isF64() ? 40 : 20, x));
  V w = n * (n + 2.0);
  return divide(w, w + 2.0);
}

V tanhOfSoftplus(V x) {
  return tanhOfLog1p(x, exp, [](V a, V b) { return a / b; });
}

V tanhOfSoftplusByExp2(V x) {
  return tanhOfLog1p(
      x, [](V y) { return fastExp2(y * kLog2E); },
      [](V a, V b) {
        return a.make<mlir::arith::DivFOp>(a.value, b.value,
                                           mlir::arith::FastMathFlags::afn);
      });
}

V geluTanhByExp2(V x) {
  constexpr double scale = -2 * kSqrt2OverPi * kLog2E;
  return x * sigmoidOfPower(x * fma(x * x, scale * kCubic, scale));
}

} // namespace knapper::vecmath
