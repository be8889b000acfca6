// The error function. In f32, erf(a) = 1 - 2^g with g = log2(erfc(a)), of which
// g / a is smooth: one polynomial, then 2^g - 1 as in expm1, for all a.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

using llvm::ArrayRef;

namespace knapper::vecmath {

/// erfc(a) for 0 <= a, in f64.
static V erfcPositive(V a) {
  a = atMost(28, a);
  V t = (a - 4.0) / (a + 4.0);
  V square = a * a;
  V low = fma(a, a, -square);
  V gauss = expSum(-square, -low);
  return gauss * (horner(kErfcF64, t) / fma(a, 2.0, 1.0));
}

V erf(V x) {
  if (x.isF64()) {
    V a = abs(x);
    V small = x * horner(kErfF64, x * x);
    V large = copysign(1.0 - erfcPositive(a), x);
    return select(a < 1.0, small, large);
  }
  V a = atMost(4, abs(x));
  // The leading terms of both products apart, so that each rounds once.
  ArrayRef<double> exponent(kErfF32), power(kExp2m1F32);
  V g = fma(a, exponent[0], a * a * horner(exponent.drop_front(), a));
  V t = g + exponentMagic(x);
  V r = g - (t - exponentMagic(x));
  V q = fma(r, power[0], r * r * horner(power.drop_front(), r));
  V s = powerOfTwo(t);
  V e = fma(s, q, s - 1.0);
  return copysign(e, x);
}

V erfc(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) { return erfc(y); });
  V r = erfcPositive(abs(x));
  V large = select(x < 0.0, 2.0 - r, r);
  V small = 1.0 - x * horner(kErfF64, x * x);
  return select(abs(x) < 0.25, small, large);
}

} // namespace knapper::vecmath
