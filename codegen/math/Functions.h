// The expansions, on values. Internal to the folder: `Math.h` is the interface.
// All take f32 or f64 and return their argument's type, unless said otherwise.
#pragma once

#include "codegen/math/Lanes.h"

#include <limits>
#include <utility>

namespace knapper::vecmath {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;

/// `f` computed in f64 for an f32 argument: for functions that are rare enough
/// not to deserve an expansion in f32.
template <typename Function> V inF64(V x, Function f) {
  mlir::Type own = x.element();
  return convert(f(convert(x, x.builder->getF64Type())), own);
}

// Exp.cpp
V exp(V x);
V exp2(V x);
V expNonPositive(V x);
/// Of an f32, with a table of 32 words; infinity or NaN where it overflows.
V expBelowOverflow(
    V x, llvm::function_ref<V(V index, llvm::ArrayRef<int32_t>)> lookup,
    llvm::function_ref<V(V x, V power)> scaleByPower);
V expm1(V x);
V tanh(V x);
V sigmoid(V x);
V sinh(V x);
V cosh(V x);
/// 2^n, n the integer that `t` = n + `exponentMagic` holds in its low bits.
V powerOfTwo(V t);
/// What, added to a float, leaves the biased exponent of its nearest integer in
/// the low bits.
double exponentMagic(V like);
/// exp(hi + lo) for |lo| below an ulp of hi.
V expSum(V hi, V lo);

// Logarithm.cpp
/// log(m 2^e) = e ln2 + f + lo, where f = m - 1 exactly.
struct LogParts {
  V e, f, lo;
};
/// Of positive finite `x`, denormal ones included.
LogParts logParts(V x);
V log(V x);
V log2(V x);
V log10(V x);
V log1p(V x);
V asinh(V x);
V acosh(V x);
V atanh(V x);

// Erf.cpp
V erf(V x);
V erfc(V x);

// Trig.cpp
V sin(V x);
V cos(V x);
V tan(V x);
std::pair<V, V> sincos(V x);
/// Of an f32, for a result that is rounded to 16 bits: within 2e-6 of it.
/// `ofF16`: x stands for an f16.
V sinFor16Bits(V x, bool ofF16);
V cosFor16Bits(V x, bool ofF16);
/// For |x| below 2^18 only.
std::pair<V, V> sincosModerate(V x);

/// x = n pi/2 + r, |r| <= pi/4; the low two bits of `quadrant` are n's.
struct Quadrant {
  V r, quadrant;
};
// PayneHanek.cpp: for |x| >= 2^15; a NaN for infinities.
Quadrant reduceHuge(V x);

// ArcTrig.cpp
V atan(V x);
V atan2(V y, V x);
V asin(V x);
V acos(V x);

// Pow.cpp
/// `for16Bits`: of f32, for a result that is rounded to 16 bits: within 2e-5.
V pow(V x, V y, bool for16Bits = false);
/// x^n for n a signed integer as wide as x's elements.
V powi(V x, V n);
V cbrt(V x);
V rsqrt(V x);

// ActivationMath.cpp
/// `exp2Instruction`: f32 takes 2^g by `math.exp2 fastmath<afn>`, which the
/// target has as an instruction. `half`: the result is rounded to 16 bits.
V geluErf(V x, bool exp2Instruction = false, bool half = false);
V geluTanh(V x);
/// Of f32 by instructions of the target, where a few ulp do not matter.
V geluTanhByExp2(V x);
V sigmoidByExp2(V x);
V tanhByExp2(V x);
V expm1ByExp2(V x);
V softplusByExp2(V x);
V tanhOfSoftplusByExp2(V x);
/// log(1 + e^x), and the hyperbolic tangent of it, of any float.
V softplus(V x);
V tanhOfSoftplus(V x);

// Remainder.cpp
V fmod(V x, V y);
V round(V x);

} // namespace knapper::vecmath
