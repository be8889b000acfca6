// exp and what is made of it. With n the integer nearest to x / ln2 and
// r = x - n ln2, exp(x) = 2^n exp(r). n is found by adding a large constant, so
// that it lies in the low bits of a float and 2^n is a shift away.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

#include <array>
#include <bit>
#include <cmath>

using namespace mlir;

namespace knapper::vecmath {

static unsigned mantissaBits(V like) { return like.isF64() ? 52 : 23; }

static double shiftMagic(V like) { return like.isF64() ? 0x1.8p52 : 0x1.8p23; }

double exponentMagic(V like) {
  return shiftMagic(like) + (like.isF64() ? 1023 : 127);
}

V powerOfTwo(V t) { return asFloat(shl(bits(t), mantissaBits(t))); }

/// p 2^n for n over all exponents, denormal results and infinity included:
/// `t` holds n plus twice the bias of the exponent.
static V scale(V p, V t) {
  V b = bits(t);
  V half = shl(shr(b, 1), mantissaBits(t));
  V rest = shl(b, mantissaBits(t)) - half;
  return p * asFloat(half) * asFloat(rest);
}

namespace {
struct Reduced {
  V r, t;
};
} // namespace

static Reduced reduce(V x, double magic) {
  V t = fma(x, 0x1.71547652b82fep+0, magic);
  V n = t - magic;
  // x - n * hi is exact.
  if (x.isF64()) {
    V r = fma(n, -0x1.62e42fefa39efp-1, x);
    return {fma(n, -0x1.abc9e3b39803fp-56, r), t};
  }
  V r = fma(n, -0x1.62e43p-1, x);
  return {fma(n, 0x1.05c61p-29, r), t};
}

/// exp(r) - 1, relatively exact.
static V expm1Reduced(V r) {
  V tail = r.isF64() ? horner(kExpm1F64, r) : horner(kExpm1F32, r);
  return fma(r * r, tail, r);
}

static V expReduced(V r) {
  return r.isF64() ? expm1Reduced(r) + 1.0 : horner(kExpF32, r);
}

static double doubleBias(V like) {
  return shiftMagic(like) + (like.isF64() ? 2046 : 254);
}

static V expAtMostOne(V x) {
  x = atLeast(x.isF64() ? -746 : -104, x);
  Reduced p = reduce(x, doubleBias(x));
  return scale(expReduced(p.r), p.t);
}

V exp(V x) { return expAtMostOne(atMost(x.isF64() ? 710 : 89, x)); }

V expNonPositive(V x) {
  if (!x.isF32())
    return exp(x);
  V y = x * 0x1.71547652b82fep+0;
  double magic = exponentMagic(y);
  V t = y + magic;
  V p = horner(kExp2ShortF32, y - (t - magic)) * powerOfTwo(t);
  return select(y < -126.0, 0.0, p);
}

V expBelowOverflow(V x,
                   llvm::function_ref<V(V, llvm::ArrayRef<int32_t>)> lookup,
                   llvm::function_ref<V(V, V)> scaleByPower) {
  // x = (n + r) ln2, n a multiple of 1/32 and its fraction looked up: t holds n
  // in units of 1/32 in its low bits.
  constexpr unsigned kWords = 32;
  std::array<int32_t, kWords> powers;
  for (unsigned i = 0; i < kWords; ++i)
    powers[i] = std::bit_cast<int32_t>(float(std::exp2(double(i) / kWords)));
  constexpr double log2e = 0x1.71547652b82fep+0, magic = 0x1.8p23 / kWords;
  constexpr double leastNormal = -0x1.5d589ep+6; // log(2^-126)
  V t = fma(x, log2e, magic);
  V n = t - magic;
  V p = horner(kExp2NearF32, fma(x, log2e, -n));
  V scaled = scaleByPower(p * asFloat(lookup(bits(t), powers)), n);
  return select(x < leastNormal, 0.0, scaled);
}

V expSum(V hi, V lo) {
  V x = atLeast(-746, atMost(710, hi));
  Reduced p = reduce(x, doubleBias(x));
  // Where hi was clamped, lo matters no more but may be an infinity or a NaN.
  V r = p.r + select(x == hi, lo, 0.0);
  return scale(expReduced(r), p.t);
}

V exp2(V x) {
  x = x.isF64() ? atLeast(-1076, atMost(1025, x))
                : atLeast(-151, atMost(129, x));
  double magic = doubleBias(x);
  V t = x + magic;
  V r = x - (t - magic);
  V p = x.isF64() ? expReduced(r * kLn2) : horner(kExp2F32, r);
  return scale(p, t);
}

/// exp(x) - 1 for x between -40 (f32: -20) and where exp(x) is still below the
/// largest power of two; loses the sign of zero.
static V expm1Bounded(V x) {
  Reduced p = reduce(x, exponentMagic(x));
  V s = powerOfTwo(p.t);
  return fma(s, expm1Reduced(p.r), s - 1.0);
}

V expm1(V x) {
  V y = x.isF64() ? atLeast(-40, atMost(710, x)) : atLeast(-20, atMost(89, x));
  // Half of the scale, since exp(x) may be finite where 2^n is not.
  Reduced p = reduce(y, exponentMagic(x) - 1);
  V s = powerOfTwo(p.t);
  V e = fma(s, expm1Reduced(p.r), s - 0.5) * 2.0;
  return select(abs(x) < (x.isF64() ? 0x1p-54 : 0x1p-25), x, e);
}

V tanh(V x) {
  V e = expm1Bounded(atLeast(x.isF64() ? -40 : -20, abs(x) * -2.0));
  return copysign(e / (-2.0 - e), x);
}

V sigmoid(V x) {
  V e = expAtMostOne(-abs(x));
  V one = x.constant(1);
  return select(x < 0.0, e, one) / (e + one);
}

/// exp(a) / 2 for a beyond 40, where exp(a) alone may overflow.
static V halfExpLarge(V a) {
  V h = exp(a * 0.5);
  return h * 0.5 * h;
}

V sinh(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) {
      V e = expm1(atMost(700, abs(y)));
      return copysign((e + e / (e + 1.0)) * 0.5, y);
    });
  V a = abs(x);
  V e = expm1(a);
  V r = select(a > 40.0, halfExpLarge(a), (e + e / (e + 1.0)) * 0.5);
  return copysign(r, x);
}

V cosh(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) {
      V e = exp(abs(y));
      return (e + 1.0 / e) * 0.5;
    });
  V a = abs(x);
  V e = exp(a);
  return select(a > 40.0, halfExpLarge(a), (e + 1.0 / e) * 0.5);
}

} // namespace knapper::vecmath
