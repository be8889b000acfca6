// sin, cos, tan: reduction by pi/2, then a polynomial each for sin and cos.

#include "codegen/math/Coefficients.h"
#include "codegen/math/Functions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper::vecmath {

static constexpr double kModerate = 0x1p18;

/// Cody and Waite. The product of n with the first term of pi/2 is taken off
/// exactly; the other two make up for its error however much then cancels.
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

/// `common` with the lanes replaced whose argument is huge.
static Quadrant patchHuge(V x, const Quadrant &common) {
  Quadrant q = reduceHuge(x);
  V huge = abs(x) > kModerate;
  return {select(huge, q.r, common.r),
          select(huge, q.quadrant, common.quadrant)};
}

/// The same, lane by lane: this is rare, and long when emitted for vectors.
static Quadrant patchEveryLane(V x, const Quadrant &common, int64_t lanes) {
  OpBuilder &b = *x.builder;
  auto index = [&](int64_t i) -> Value {
    return arith::ConstantIndexOp::create(b, x.loc, i);
  };
  auto loop = scf::ForOp::create(
      b, x.loc, index(0), index(lanes), index(1),
      ValueRange{common.r.value, common.quadrant.value},
      [&](OpBuilder &inner, Location loc, Value i, ValueRange args) {
        auto lane = [&](Value vector) {
          return V{&inner, loc,
                   vector::ExtractOp::create(inner, loc, vector, i)};
        };
        Quadrant q = patchHuge(lane(x.value), {lane(args[0]), lane(args[1])});
        auto set = [&](V scalar, Value vector) -> Value {
          return vector::InsertOp::create(inner, loc, scalar.value, vector, i);
        };
        scf::YieldOp::create(
            inner, loc,
            ValueRange{set(q.r, args[0]), set(q.quadrant, args[1])});
      });
  return {x.with(loop.getResult(0)), x.with(loop.getResult(1))};
}

/// Whether no value of `x` is huge: it was an f16, which ends at 65504.
static bool isModerate(V x) {
  auto widened = x.value.getDefiningOp<arith::ExtFOp>();
  return widened && getElementTypeOrSelf(widened.getIn()).isF16();
}

static Quadrant reduce(V x) {
  Quadrant common = reduceModerate(x);
  if (isModerate(x))
    return common;
  auto vector = dyn_cast<VectorType>(x.type());
  bool many = vector && vector.getRank() == 1 && vector.getNumElements() > 4 &&
              !x.spread;
  OpBuilder &b = *x.builder;
  auto yield = [](OpBuilder &inner, Location loc, const Quadrant &q) {
    scf::YieldOp::create(inner, loc, ValueRange{q.r.value, q.quadrant.value});
  };
  auto branch = scf::IfOp::create(
      b, x.loc, anyLane(abs(x) > kModerate).value,
      [&](OpBuilder &inner, Location loc) {
        V y{&inner, loc, x.value, x.spread};
        Quadrant q{y.with(common.r.value), y.with(common.quadrant.value)};
        yield(inner, loc,
              many ? patchEveryLane(y, q, vector.getNumElements())
                   : patchHuge(y, q));
      },
      [&](OpBuilder &inner, Location loc) { yield(inner, loc, common); });
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

/// sin(x + shift pi/2), shift 0 or 1, |x| below kModerate: reduction by pi, one
/// polynomial.
static V sineOfModerate(V x, int shift) {
  constexpr double perPi = 0x1.45f306dc9c883p-2, magic = 0x1.8p23;
  V t = shift ? fma(x, perPi, 0.5) + magic : fma(x, perPi, magic);
  V n = t - magic;
  if (shift)
    n = n - 0.5;
  V r = fma(n, -0x1.921fb6p+1, x);
  r = fma(n, 0x1.777a5cp-24, r);
  r = fma(n, 0x1.ee59dap-49, r);
  V u = r * r;
  V sine = fma(r * u, horner(kSin16, u), r);
  return asFloat(bits(sine) ^ shl(bits(t), 31));
}

static V sineFor16Bits(V x, int shift, bool ofF16) {
  if (isModerate(x))
    return sineOfModerate(x, shift);
  if (ofF16) // What rounds to an infinity has no sine.
    return select(abs(x) >= x.constant(65520), kNaN, sineOfModerate(x, shift));
  auto branch = scf::IfOp::create(
      *x.builder, x.loc, anyLane(abs(x) > kModerate).value,
      [&](OpBuilder &inner, Location loc) {
        V y{&inner, loc, x.value, x.spread};
        scf::YieldOp::create(inner, loc, (shift ? cos(y) : sin(y)).value);
      },
      [&](OpBuilder &inner, Location loc) {
        V y{&inner, loc, x.value, x.spread};
        scf::YieldOp::create(inner, loc, sineOfModerate(y, shift).value);
      });
  return x.with(branch.getResult(0));
}

V sinFor16Bits(V x, bool ofF16) {
  return select(x == 0.0, x, sineFor16Bits(x, 0, ofF16));
}

V cosFor16Bits(V x, bool ofF16) { return sineFor16Bits(x, 1, ofF16); }

V tan(V x) {
  Quadrant q = reduce(x);
  SinCos p = polynomials(q.r);
  V odd =
      compare(arith::CmpIPredicate::ne, q.quadrant & 1, q.quadrant.integer(0));
  V r = select(odd, -p.cos, p.sin) / select(odd, p.sin, p.cos);
  return select(x == 0.0, x, r);
}

} // namespace knapper::vecmath
