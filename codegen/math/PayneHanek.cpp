// Reduction by pi/2 of huge arguments, in integers (Payne and Hanek 1983).
//
// The mantissa M of the argument is multiplied by 2/pi. Of the product only the
// bits from weight 2 down to some 2^-62 (f64: 2^-126) matter, and they come
// from a window of the bits of 2/pi. The argument's exponent says where the
// window begins; each lane has a window of its own.

#include "codegen/math/Functions.h"

using namespace mlir;

namespace knapper::vecmath {

// 2/pi = 0.(these bits), most significant first.
static constexpr uint32_t kTwoOverPi[] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
    0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u,
    0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u,
    0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u,
    0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu,
    0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du,
    0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
    0x1f8d5d08u, 0x56033046u, 0xfc7b6babu};

/// `count` 32-bit words from bit `shift` (i32) of (64 zero bits followed by)
/// 2/pi, in 64-bit lanes; `limit` is an upper bound of the shift.
static SmallVector<V> window(V shift, unsigned count, unsigned limit) {
  unsigned top = llvm::bit_ceil(limit / 32 + 1) / 2;
  unsigned held = count + 2 * top;
  SmallVector<V> words;
  for (unsigned i = 0; i < held; ++i) {
    bool zero = i < 2 || i - 2 >= std::size(kTwoOverPi);
    words.push_back(shift.integer(zero ? 0 : kTwoOverPi[i - 2]));
  }
  // By whole words, halving what is still to be chosen from ...
  for (unsigned step = top; step; step /= 2) {
    held = count + step;
    V moved = compare(arith::CmpIPredicate::ne, shift & (step * 32ull),
                      shift.integer(0));
    SmallVector<V> next;
    for (unsigned i = 0; i < held; ++i)
      next.push_back(select(moved, words[i + step], words[i]));
    words = std::move(next);
  }
  // ... then by bits.
  V bit = shift & 31;
  V back = bit ^ 31;
  SmallVector<V> result;
  for (unsigned i = 0; i < count; ++i) {
    V both = shl(words[i], bit) | shr(shr(words[i + 1], 1), back);
    result.push_back(zext(both, shift.builder->getI64Type()));
  }
  return result;
}

static Quadrant reduceHugeF32(V x) {
  Type i64 = x.builder->getI64Type(), i32 = x.builder->getI32Type();
  V b = bits(x);
  V exponent = shr(b, 23) & 0xff; // x = m 2^(exponent - 150)
  V m = zext((b & 0x7fffff) | b.integer(0x800000), i64);
  // The bits of 2/pi that weigh more than 2^(152 - exponent) only add whole
  // turns: the window times m times 4 is x / (pi/2), modulo 4.
  V shift = exponent - b.integer(150 + 2 - 64);
  SmallVector<V> w = window(shift, 3, 255 - (150 + 2 - 64));
  V product = shl(m * w[0], 32) + m * w[1] + shr(m * w[2], 32);
  V upper = truncInt(shr(product, 32), i32), lower = truncInt(product, i32);
  V n = shr(upper + b.integer(1u << 29), 30);
  V rest = upper - shl(n, 30); // Signed; followed by the unsigned lower.
  V like = convert(x, x.builder->getF64Type());
  V r =
      fma(toFloat(rest, like), 0x1p-30, toFloat(shr(lower, 1), like) * 0x1p-61);
  r = convert(r * 0x1.921fb54442d18p+0, x.element());
  V negative = x < 0.0;
  r = select(negative, -r, r);
  r = select(abs(x) == kInf, kNaN, r);
  return {r, select(negative, n.integer(0) - n, n)};
}

static Quadrant reduceHugeF64(V x) {
  V b = bits(x);
  V exponent = shr(b, 52) & 0x7ff; // x = m 2^(exponent - 1075)
  V m = (b & 0xfffffffffffffull) | b.integer(1ull << 52);
  V m0 = m & 0xffffffffu, m1 = shr(m, 32);
  V shift = truncInt(exponent, x.builder->getI32Type());
  shift = shift - shift.integer(1075 + 2 - 64);
  SmallVector<V> w = window(shift, 6, 2047 - (1075 + 2 - 64));
  // The product modulo 2^192, its columns of 32 bits from the lowest that
  // reaches the upper 128 bits. w[5] has weight 2^0, w[0] 2^160.
  auto low = [](V v) { return v & 0xffffffffu; };
  auto high = [](V v) { return shr(v, 32); };
  V carry = b.integer(0);
  SmallVector<V> column; // 32-bit results, weights 0, 32, ... 160.
  for (int k = 0; k < 6; ++k) {
    V sum = carry, next = b.integer(0);
    auto add = [&](V product) {
      sum = sum + low(product);
      next = next + high(product);
    };
    add(m0 * w[5 - k]);
    if (k)
      add(m1 * w[6 - k]);
    column.push_back(low(sum));
    carry = next + high(sum);
  }
  V hi = shl(column[5], 32) | column[4];
  V lo = shl(column[3], 32) | column[2];
  V n = shr(hi + b.integer(1ull << 61), 62);
  V rest = hi - shl(n, 62); // Signed; followed by the unsigned lo.
  V r = toFloat(rest, x) * 0x1p-62 + toFloat(shr(lo, 1), x) * 0x1p-125;
  r = r * 0x1.921fb54442d18p+0;
  V negative = x < 0.0;
  r = select(negative, -r, r);
  r = select(abs(x) == kInf, kNaN, r);
  return {r, select(negative, n.integer(0) - n, n)};
}

Quadrant reduceHuge(V x) {
  return x.isF64() ? reduceHugeF64(x) : reduceHugeF32(x);
}

} // namespace knapper::vecmath
