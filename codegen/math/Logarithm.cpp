// log and what is made of it. x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m
// - 1.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

using namespace mlir;

namespace knapper::vecmath {

namespace {
struct FloatLayout {
  unsigned mantissa;
  uint64_t sqrtHalf, one; // as bits
  double smallestNormal, up, upBits;
};
} // namespace

static FloatLayout layout(V x) {
  if (x.isF64())
    return {52, 0x3fe6a09e667f3bcdull, 0x3ff0000000000000ull, 0x1p-1022, 0x1p52,
            52};
  return {23, 0x3f3504f3, 0x3f800000, 0x1p-126, 0x1p23, 23};
}

/// log(1 + f) - f.
static V logTail(V f) {
  if (!f.isF64())
    return f * f * fma(f, horner(kLogF32, f), -0.5);
  V s = f / (f + 2.0);
  V u = s * s;
  V half = f * f * 0.5;
  return s * fma(u, horner(kLogF64, u), half) - half;
}

/// The exponent e of the split of x, as an integer.
static V exponent(V x, const FloatLayout &l) {
  return sar(bits(x) - x.integer(l.sqrtHalf), l.mantissa);
}

static V mantissa(V x, V e, const FloatLayout &l) {
  return asFloat(bits(x) - shl(e, l.mantissa));
}

LogParts logParts(V x) {
  FloatLayout l = layout(x);
  V denormal = x < l.smallestNormal;
  x = select(denormal, x * l.up, x);
  V e = exponent(x, l);
  V f = mantissa(x, e, l) - 1.0;
  V ef = toFloat(e, x) - select(denormal, l.upBits, 0.0, x);
  return {ef, f, logTail(f)};
}

/// What a logarithm is of 0, infinity, negative numbers and NaN.
static V special(V x, V result) {
  V ordinary = (x > 0.0) & (x < kInf);
  V other = select(x == 0.0, -kInf, select(x > 0.0, x, kNaN));
  return select(ordinary, result, other);
}

static V natural(const LogParts &p) {
  V f = p.f;
  if (f.isF64()) {
    V low = fma(p.e, 0x1.abc9e3b39803fp-56, p.lo);
    return fma(p.e, 0x1.62e42fefa39efp-1, f + low);
  }
  V low = fma(p.e, -0x1.05c61p-29, p.lo);
  return fma(p.e, 0x1.62e43p-1, f + low);
}

V log(V x) { return special(x, natural(logParts(x))); }

V log2(V x) {
  LogParts p = logParts(x);
  double hi = x.isF64() ? 0x1.71547652b82fep+0 : 0x1.715476p+0;
  double lo = x.isF64() ? 0x1.777d0ffda0d24p-56 : 0x1.4ae0cp-26;
  V low = fma(p.lo, hi, p.f * lo);
  return special(x, fma(p.f, hi, p.e + low));
}

V log10(V x) {
  LogParts p = logParts(x);
  bool d = x.isF64();
  double hi = d ? 0x1.bcb7b1526e50ep-2 : 0x1.bcb7b2p-2;
  double lo = d ? 0x1.95355baaafad3p-57 : -0x1.5b235ep-27;
  double twoHi = d ? 0x1.34413509f79ffp-2 : 0x1.344136p-2;
  double twoLo = d ? -0x1.9dc1da994fd21p-59 : -0x1.ec10cp-27;
  V low = fma(p.e, twoLo, fma(p.lo, hi, p.f * lo));
  return special(x, fma(p.e, twoHi, fma(p.f, hi, low)));
}

V log1p(V x) {
  FloatLayout l = layout(x);
  V u = x + 1.0;
  V e = exponent(u, l);
  // f = (1 + x) / 2^e - 1 rounded once. Where x is so large that 2^-e would be
  // denormal, 1 + x is x.
  V s = asFloat(x.integer(l.one) - shl(e, l.mantissa));
  V f = select(x > l.up * 4, mantissa(u, e, l) - 1.0, fma(x, s, s - 1.0));
  V r = natural({toFloat(e, x), f, logTail(f)});
  V ordinary = (x > -1.0) & (x < kInf);
  V other = select(x == -1.0, -kInf, select(x > 0.0, x, kNaN));
  r = select(ordinary, r, other);
  return select(abs(x) < (x.isF64() ? 0x1p-54 : 0x1p-25), x, r);
}

V asinh(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) { return asinh(y); });
  V a = abs(x);
  V large = a > 0x1p500; // Where the square overflows.
  V z = a + a * a / (sqrt(fma(a, a, 1.0)) + 1.0);
  V r = log1p(select(large, a, z)) + select(large, kLn2, 0.0, x);
  return copysign(r, x);
}

V acosh(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) { return acosh(y); });
  V t = x - 1.0;
  V large = x > 0x1p500;
  V z = t + sqrt(t * (t + 2.0));
  V r = log1p(select(large, x, z)) + select(large, kLn2, 0.0, x);
  return select(x < 1.0, kNaN, r);
}

V atanh(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) { return atanh(y); });
  V a = abs(x);
  return copysign(log1p((a * 2.0) / (1.0 - a)) * 0.5, x);
}

} // namespace knapper::vecmath
