// sin, cos, tan: reduction by pi/2, then a polynomial each for sin and cos.

#include "codegen/lower/math/Coefficients.h"
#include "codegen/lower/math/Functions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace knapper::vecmath {

/// Cody and Waite, for |x| < 2^15. The terms of pi/2 after the first must add
/// what the magnitude of n allows to cancel.
static Quadrant reduceModerate(V x) {
  bool d = x.isF64();
  double magic = d ? 0x1.8p52 : 0x1.8p23;
  V t = fma(x, 0x1.45f306dc9c883p-1, magic);
  V n = t - magic;
  V r = x;
  if (d) {
    r = fma(n, -0x1.921fb54442d18p+0, r);
    r = fma(n, -0x1.1a62633145c07p-54, r);
    r = fma(n, 0x1.f1976b7ed8fbcp-110, r);
  } else {
    r = fma(n, -0x1.921fb6p+0, r);
    r = fma(n, 0x1.777a5cp-25, r);
    r = fma(n, 0x1.ee59dap-50, r);
  }
  return {r, bits(t)};
}

static Quadrant reduce(V x) {
  V huge = abs(x) > 0x1p15;
  Quadrant common = reduceModerate(x);
  OpBuilder &b = *x.builder;
  auto branch = scf::IfOp::create(
      b, x.loc, anyLane(huge).value,
      [&](OpBuilder &inner, Location loc) {
        V y = x;
        y.builder = &inner;
        auto here = [&](V v) {
          v.builder = &inner;
          return v;
        };
        Quadrant q = reduceHuge(y);
        V r = select(here(huge), q.r, here(common.r));
        V n = select(here(huge), q.quadrant, here(common.quadrant));
        scf::YieldOp::create(inner, loc, ValueRange{r.value, n.value});
      },
      [&](OpBuilder &inner, Location loc) {
        scf::YieldOp::create(inner, loc,
                             ValueRange{common.r.value, common.quadrant.value});
      });
  return {x.with(branch.getResult(0)), x.with(branch.getResult(1))};
}

namespace {
struct SinCos {
  V sin, cos;
};
} // namespace

static SinCos polynomials(V r) {
  V u = r * r;
  V s = r.isF64() ? horner(kSinF64, u) : horner(kSinF32, u);
  V c = r.isF64() ? horner(kCosF64, u) : horner(kCosF32, u);
  V sine = fma(r * u, s, r);
  if (!r.isF64())
    return {sine, fma(u, fma(u, c, -0.5), 1.0)};
  // 1 - u/2 with its rounding error.
  V half = u * 0.5;
  V w = 1.0 - half;
  V error = (1.0 - w) - half;
  return {sine, w + fma(u * u, c, error)};
}

/// `p` of quadrant 0 placed in `quadrant`: sine, or with `quarter` cosine.
static V place(const SinCos &p, V quadrant, unsigned quarter) {
  V n = quarter ? quadrant + quadrant.integer(quarter) : quadrant;
  V odd = compare(arith::CmpIPredicate::ne, n & 1, n.integer(0));
  V value = select(odd, p.cos, p.sin);
  return asFloat(bits(value) ^ shl(n & 2, n.width() - 2));
}

static std::pair<V, V> sincosOf(V x, const Quadrant &q) {
  SinCos p = polynomials(q.r);
  V sine = place(p, q.quadrant, 0);
  return {select(x == 0.0, x, sine), place(p, q.quadrant, 1)};
}

V sin(V x) {
  Quadrant q = reduce(x);
  return select(x == 0.0, x, place(polynomials(q.r), q.quadrant, 0));
}

V cos(V x) {
  Quadrant q = reduce(x);
  return place(polynomials(q.r), q.quadrant, 1);
}

std::pair<V, V> sincos(V x) { return sincosOf(x, reduce(x)); }

std::pair<V, V> sincosModerate(V x) { return sincosOf(x, reduceModerate(x)); }

V tan(V x) {
  Quadrant q = reduce(x);
  SinCos p = polynomials(q.r);
  V odd =
      compare(arith::CmpIPredicate::ne, q.quadrant & 1, q.quadrant.integer(0));
  V r = select(odd, -p.cos, p.sin) / select(odd, p.sin, p.cos);
  return select(x == 0.0, x, r);
}

} // namespace knapper::vecmath
