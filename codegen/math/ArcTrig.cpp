// atan by a polynomial on [0, 1] and pi/2 - atan(1/x) beyond; asin and acos by
// atan2.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

namespace knapper::vecmath {

namespace {
/// A constant in two parts.
struct Pair {
  double hi, lo;
};
} // namespace

static Pair halfPi(V like) {
  return like.isF64() ? Pair{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}
                      : Pair{0x1.921fb6p+0, -0x1.777a5cp-25};
}

/// atan(t), 0 <= t <= 1.
static V atanReduced(V t) {
  V u = t * t;
  V tail = t.isF64() ? horner(kAtanF64, u) : horner(kAtanF32, u);
  return fma(t * u, tail, t);
}

V atan(V x) {
  V a = abs(x);
  V inverted = a > 1.0;
  V p = atanReduced(select(inverted, 1.0 / a, a));
  Pair c = halfPi(x);
  V r = select(inverted, (c.hi - p) + c.lo, p);
  return copysign(r, x);
}

V atan2(V y, V x) {
  V ay = abs(y), ax = abs(x);
  V steep = ay > ax;
  V t = select(steep, ax, ay) / select(steep, ay, ax);
  t = select(ax == ay, 1.0, t); // Infinities.
  t = select(ay == 0.0, 0.0, t);
  V p = atanReduced(t);
  Pair c = halfPi(x);
  p = select(steep, (c.hi - p) + c.lo, p);
  // The sign bit, which also tells -0 from 0.
  V left = compare(mlir::arith::CmpIPredicate::slt, bits(x), x.integer(0));
  p = select(left, (2 * c.hi - p) + 2 * c.lo, p);
  // p's sign bit is clear. Not a copysign: LLVM moves that across conversions,
  // and one of f64 to f16 needs a library.
  V r = asFloat(bits(p) ^ (bits(y) & (1ull << (y.width() - 1))));
  return select(isNaN(x) | isNaN(y), kNaN, r);
}

V asin(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) { return asin(y); });
  return atan2(x, sqrt((1.0 - x) * (x + 1.0)));
}

V acos(V x) {
  if (!x.isF64())
    return inF64(x, [](V y) { return acos(y); });
  return atan2(sqrt((1.0 - x) * (x + 1.0)), x);
}

} // namespace knapper::vecmath
