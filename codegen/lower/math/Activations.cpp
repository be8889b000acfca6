// Activations that deserve a form of their own.

#include "codegen/lower/math/Coefficients.h"
#include "codegen/lower/math/Functions.h"

namespace knapper::vecmath {

V geluErf(V x, bool exp2Instruction) {
  if (x.isF64()) {
    V half = x * 0.5;
    return fma(half, erf(x * 0x1.6a09e667f3bcdp-1), half);
  }
  // max(x, 0) - |x| q, where q = erfc(|x| / sqrt(2)) / 2 = 2^g and g is a
  // polynomial: no cancellation for negative x. From 6 on, |x| q is held at
  // 6e-9.
  V a = atMost(6, abs(x));
  V g = horner(kGeluF32, a);
  if (exp2Instruction) {
    // Its error, 2 ulp of q, is a fraction of an ulp of the result.
    V q = g.make<mlir::math::Exp2Op>(g.value, mlir::arith::FastMathFlags::afn);
    return fma(-a, q, select(x > 0.0, x, 0.0));
  }
  V t = g + exponentMagic(x);
  V r = g - (t - exponentMagic(x));
  V q = horner(kExp2F32, r) * powerOfTwo(t);
  return fma(-a, q, select(x > 0.0, x, 0.0));
}

V geluTanh(V x) {
  // (1 + tanh(u)) / 2 = sigmoid(2 u).
  V u = x * fma(x * x, 2 * 0x1.9884533d43651p-1 * 0.044715,
                2 * 0x1.9884533d43651p-1);
  return x * sigmoid(u);
}

} // namespace knapper::vecmath
