// The exact remainder of a division of floats, and rounding half away from
// zero.

#include "codegen/math/Functions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace knapper::vecmath {

// r - q d with q the quotient, rounded to an integer of the format's precision,
// is exact: |q d - r| is at most d or r times half an ulp of 1, and a multiple
// of the last places of q and d together. So each round divides r / d by 2^24
// (f64: 2^53); one round is the rule. Where r / d would overflow, a multiple of
// d by a power of two is taken first.
V fmod(V x, V y) {
  V d = abs(y), a = abs(x);
  // A lane that has no remainder takes no part.
  V valid = (a < kInf) & (d > 0.0) & (d < kInf);
  d = select(valid, d, 1.0);
  bool wide = x.isF64();
  double step = wide ? 0x1p600 : 0x1p80;
  V larger = d * step, largest = larger * step;
  OpBuilder &b = *x.builder;
  V start = select(valid, a, 0.0);
  auto loop = scf::WhileOp::create(
      b, x.loc, TypeRange{x.type()}, ValueRange{start.value},
      [&](OpBuilder &inner, Location loc, ValueRange args) {
        V r{&inner, loc, args[0], x.spread};
        V go = anyLane(abs(r) >= r.with(d.value));
        scf::ConditionOp::create(inner, loc, go.value, args);
      },
      [&](OpBuilder &inner, Location loc, ValueRange args) {
        V r{&inner, loc, args[0], x.spread};
        V size = abs(r);
        V by = select(size >= r.with(larger.value), r.with(larger.value),
                      r.with(d.value));
        by = select(size >= r.with(largest.value), r.with(largest.value), by);
        V next = fma(-trunc(r / by), by, r);
        scf::YieldOp::create(inner, loc, next.value);
      });
  V r = x.with(loop.getResult(0));
  r = select(r < 0.0, r + d, r); // The quotient was rounded up.
  r = copysign(r, x);
  V whole = (a < kInf) & (abs(y) == kInf); // x is its own remainder.
  return select(valid, r, select(whole, x, kNaN));
}

V round(V x) {
  // The largest number below 1/2: with 1/2 itself, x + 1/2 may round up to the
  // next integer.
  V half = x.constant(x.isF64() ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2);
  return trunc(x + copysign(half, x));
}

} // namespace knapper::vecmath
