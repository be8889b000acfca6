// pow with IEEE 754's special cases, which are ONNX's; powers by an integer;
// roots. f32 computes exp(y log x) in f64; f64 needs the logarithm to about
// 70 bits, so it is carried as an unevaluated sum of two.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace knapper::vecmath {

namespace {
/// hi + lo, |lo| at most half an ulp of hi.
struct Sum {
  V hi, lo;
};
} // namespace

/// a + b exactly; |a| >= |b| or a = 0.
static Sum fastSum(V a, V b) {
  V s = a + b;
  return {s, b - (s - a)};
}

static Sum twoSum(V a, V b) {
  V s = a + b;
  V bb = s - a;
  return {s, (a - (s - bb)) + (b - bb)};
}

static Sum product(V a, V b) {
  V p = a * b;
  return {p, fma(a, b, -p)};
}

static Sum product(Sum a, Sum b) {
  Sum p = product(a.hi, b.hi);
  return fastSum(p.hi, p.lo + fma(a.hi, b.lo, a.lo * b.hi));
}

/// log(x) for positive finite x in f64.
static Sum logSum(V x) {
  LogParts p = logParts(x);
  // s = f / (2 + f) in two parts.
  V f = p.f;
  Sum d = fastSum(f.constant(2), f);
  V s0 = f / d.hi;
  V rest = fma(-s0, d.hi, f) - s0 * d.lo;
  Sum s = fastSum(s0, rest / d.hi);
  // log(m) = 2 s + s^3 (2/3 + ...): the 2/3 apart, since its product with s^3
  // is still a hundredth of the result.
  Sum u = product(s, s);
  V higher = fma(u.hi, horner(kLogSumF64, u.hi), 0x1.5555555555555p-55);
  Sum c = fastSum(f.constant(0x1.5555555555555p-1), higher);
  Sum cube = product(product(u, s), c);
  Sum two{s.hi * 2.0, s.lo * 2.0};
  Sum m = fastSum(two.hi, cube.hi);
  m = fastSum(m.hi, m.lo + (two.lo + cube.lo));
  // e ln2: its upper part has few bits, so that the product is exact.
  V eHi = p.e * 0x1.62e42fefap-1;
  V eLo = p.e * 0x1.cf79abc9e3b3ap-40;
  Sum sum = twoSum(eHi, m.hi);
  return fastSum(sum.hi, sum.lo + (m.lo + eLo));
}

/// |x|^y for |x| neither 0, infinite nor NaN.
static V powMagnitude(V a, V y, bool for16Bits) {
  if (for16Bits) // y log x is at most 89: 89 x 2^-23 is far below 2^-9.
    return exp(y * log(a));
  if (!a.isF64()) {
    Type own = a.element(), f64 = a.builder->getF64Type();
    return convert(exp(convert(y, f64) * log(convert(a, f64))), own);
  }
  Sum l = logSum(a);
  V hi = y * l.hi;
  V lo = fma(y, l.hi, -hi) + y * l.lo;
  return expSum(hi, lo);
}

/// x^n for small n by products, where that is as exact.
static std::optional<V> constantPower(V x, double n) {
  if (n == 1)
    return x;
  if (n == -1)
    return 1.0 / x;
  if (n == 2)
    return x * x;
  if (n == 3)
    return x * x * x;
  if (n == 0.5) // +0 also for -0, and infinity for -infinity.
    return select(x == -kInf, kInf, sqrt(x) + 0.0);
  return std::nullopt;
}

V pow(V x, V y, bool for16Bits) {
  Attribute attr;
  if (auto constant = y.value.getDefiningOp<arith::ConstantOp>())
    attr = constant.getValue();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(attr))
    attr = splat.getSplatValue<Attribute>();
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    if (auto r = constantPower(x, number.getValueAsDouble()))
      return *r;

  V a = abs(x), ay = abs(y);
  V zero = a == 0.0, infinite = a == kInf, unit = a == 1.0;
  V r = powMagnitude(select(zero | infinite, 1.0, a), select(unit, 0.0, y),
                     for16Bits);
  // 0^y and inf^y: 0 or infinity, by the sign of y.
  V up = (infinite & (y > 0.0)) | (zero & (y < 0.0));
  r = select(zero | infinite, select(up, kInf, 0.0, x), r);
  V whole = trunc(y) == y;
  V half = y * 0.5;
  V odd = whole & (trunc(half) != half);
  r = select(odd, copysign(r, x), r);
  V undefined = (x < 0.0) & !whole & (x > -kInf);
  r = select(undefined | isNaN(x) | isNaN(y), kNaN, r);
  return select((ay == 0.0) | (x == 1.0), 1.0, r);
}

V powi(V x, V n) {
  if (x.isFloat()) {
    // Exactly the power by a float where the integer is exact in f64.
    Type f64 = x.builder->getF64Type(), own = x.element();
    V wide = convert(x, f64);
    return convert(pow(wide, toFloat(n, wide)), own);
  }
  // Square and multiply. A negative power of an integer is 0 but for 1 and -1.
  V one = x.integer(1), zero = x.integer(0);
  auto equal = arith::CmpIPredicate::eq;
  V negative = compare(arith::CmpIPredicate::slt, n, zero);
  V odd = compare(equal, n & 1, one);
  OpBuilder &b = *x.builder;
  V result = one, power = x, rest = n;
  auto from = arith::ConstantIndexOp::create(b, x.loc, 0);
  auto to = arith::ConstantIndexOp::create(b, x.loc, x.width());
  auto step = arith::ConstantIndexOp::create(b, x.loc, 1);
  auto loop = scf::ForOp::create(
      b, x.loc, from, to, step,
      ValueRange{result.value, power.value, rest.value},
      [&](OpBuilder &inner, Location loc, Value, ValueRange args) {
        V r{&inner, loc, args[0]}, p = r.with(args[1]), k = r.with(args[2]);
        V set = compare(equal, k & 1, k.integer(1));
        r = select(set, r * p, r);
        scf::YieldOp::create(
            inner, loc, ValueRange{r.value, (p * p).value, shr(k, 1).value});
      });
  V positive = x.with(loop.getResult(0));
  V minusOne = x.integer(~0ull);
  V reciprocal = select(
      compare(equal, x, one), one,
      select(compare(equal, x, minusOne), select(odd, minusOne, one), zero));
  return select(negative, reciprocal, positive);
}

V cbrt(V x) {
  constexpr double kThird = 0x1.5555555555555p-2;
  // The logarithm is -inf and inf at 0 and infinity, which is right.
  if (!x.isF64())
    return inF64(x, [](V y) { return copysign(exp(log(abs(y)) * kThird), y); });
  // Cubes of the smallest roots would be denormal.
  V small = abs(x) < 0x1p-900;
  V a = abs(x) * select(small, 0x1p300, 1.0, x);
  V y = exp(log(a) * kThird);
  // One step of Newton takes out the error that the size of log(a) made.
  V square = y * y;
  V residual = fma(square, y, -a);
  V r = y - residual / (square * 3.0);
  V plain = (a == 0.0) | (a == kInf);
  r = select(plain, a, r) * select(small, 0x1p-100, 1.0, x);
  return copysign(r, x);
}

V rsqrt(V x) { return 1.0 / sqrt(x); }

} // namespace knapper::vecmath
