// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
// as 1, 2, 3") and what is made of its bits.

#include "codegen/math/Functions.h"
#include "codegen/math/Math.h"

using namespace mlir;

namespace knapper {

using vecmath::V;

std::array<Value, 4> buildPhilox(OpBuilder &b, Location loc,
                                 std::array<Value, 4> counter,
                                 std::array<Value, 2> key) {
  auto word = [&](Value v) { return V{&b, loc, v}; };
  V c0 = word(counter[0]), c1 = word(counter[1]), c2 = word(counter[2]),
    c3 = word(counter[3]), k0 = word(key[0]), k1 = word(key[1]);
  auto multiply = [&](V x, uint32_t by) {
    auto op =
        arith::MulUIExtendedOp::create(b, loc, x.value, x.integer(by).value);
    return std::pair(word(op.getHigh()), word(op.getLow()));
  };
  for (int round = 0; round < 10; ++round) {
    auto [hi0, lo0] = multiply(c0, 0xd2511f53u);
    auto [hi1, lo1] = multiply(c2, 0xcd9e8d57u);
    c0 = hi1 ^ c1 ^ k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ k1;
    c3 = lo0;
    k0 = k0 + k0.integer(0x9e3779b9u);
    k1 = k1 + k1.integer(0xbb67ae85u);
  }
  return {c0.value, c1.value, c2.value, c3.value};
}

/// The upper 24 bits as an integer-valued f32.
static V upper(V bits) {
  Type f32 = bits.builder->getF32Type();
  return bits.make<arith::SIToFPOp>(vecmath::withElement(bits.type(), f32),
                                    vecmath::shr(bits, 8).value);
}

Value buildUniform(OpBuilder &b, Location loc, Value bits) {
  return (upper({&b, loc, bits}) * 0x1p-24).value;
}

std::pair<Value, Value> buildNormal(OpBuilder &b, Location loc, Value bits0,
                                    Value bits1) {
  // In (0, 1], so that the logarithm is finite.
  V u = fma(upper({&b, loc, bits0}), 0x1p-24, 0x1p-24);
  V radius = sqrt(vecmath::log(u) * -2.0);
  V angle = upper({&b, loc, bits1}) * (0x1.921fb54442d18p+2 * 0x1p-24);
  auto [sine, cosine] = vecmath::sincosModerate(angle);
  return {(radius * cosine).value, (radius * sine).value};
}

} // namespace knapper
