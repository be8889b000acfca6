#include "codegen/schedule/irregular/Butterfly.h"
#include <cmath>

using namespace mlir;

namespace knapper {

Value Butterfly::add(Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}
Value Butterfly::sub(Value x, Value y) {
  return arith::SubFOp::create(b, loc, x, y);
}
Value Butterfly::neg(Value x) { return arith::NegFOp::create(b, loc, x); }
Value Butterfly::splat(double number) {
  return e.splat(type.getElementType(), type.getNumElements(), number);
}
Value Butterfly::fma(Value x, double factor, Value y) {
  return vector::FMAOp::create(b, loc, x, splat(factor), y);
}

ComplexTile Butterfly::multiply(ComplexTile x, ComplexTile y) {
  Value re = arith::MulFOp::create(b, loc, x.im, y.im);
  Value im = arith::MulFOp::create(b, loc, x.im, y.re);
  return {vector::FMAOp::create(b, loc, x.re, y.re, neg(re)),
          vector::FMAOp::create(b, loc, x.re, y.im, im)};
}

ComplexTile Butterfly::scaled(ComplexTile x, double factor) {
  Value f = splat(factor);
  return {arith::MulFOp::create(b, loc, x.re, f),
          arith::MulFOp::create(b, loc, x.im, f)};
}

SmallVector<ComplexTile> Butterfly::transform(ArrayRef<ComplexTile> x) {
  return x.size() % 2 ? odd(x) : binary(x);
}

SmallVector<ComplexTile> Butterfly::binary(ArrayRef<ComplexTile> x) {
  size_t n = x.size(), half = n / 2;
  if (n == 1)
    return {x[0]};
  SmallVector<ComplexTile> even, odd, y(n);
  for (size_t i = 0; i < n; i += 2) {
    even.push_back(x[i]);
    odd.push_back(x[i + 1]);
  }
  even = binary(even);
  odd = binary(odd);
  for (size_t p = 0; p < half; ++p) {
    // Times exp(sign 2 pi i p / n): an eighth of the circle a step at most.
    ComplexTile o = odd[p];
    size_t eighth = p * 8 / n;
    if (eighth >= 2)
      o = rotated(o, sign);
    if (eighth % 2) {
      ComplexTile byQuarter = rotated(o, sign);
      o = scaled(add(o, byQuarter), std::sqrt(0.5));
    }
    y[p] = add(even[p], o);
    y[p + half] = sub(even[p], o);
  }
  return y;
}

// Pairs x[q], x[r - q] have the same cosines and opposite sines.
SmallVector<ComplexTile> Butterfly::odd(ArrayRef<ComplexTile> x) {
  size_t r = x.size(), half = r / 2;
  SmallVector<ComplexTile> sums, differences, y(r);
  y[0] = x[0];
  for (size_t q = 1; q <= half; ++q) {
    sums.push_back(add(x[q], x[r - q]));
    differences.push_back(sub(x[q], x[r - q]));
    y[0] = add(y[0], sums.back());
  }
  for (size_t p = 1; p <= half; ++p) {
    ComplexTile u = x[0], v;
    for (size_t q = 1; q <= half; ++q) {
      double angle =
          2 * M_PI * static_cast<double>(p * q % r) / static_cast<double>(r);
      double cosine = std::cos(angle), sine = sign * std::sin(angle);
      const ComplexTile &s = sums[q - 1], &d = differences[q - 1];
      u = {fma(s.re, cosine, u.re), fma(s.im, cosine, u.im)};
      v = q == 1 ? scaled(d, sine)
                 : ComplexTile{fma(d.re, sine, v.re), fma(d.im, sine, v.im)};
    }
    ComplexTile byQuarter = rotated(v, 1);
    y[p] = add(u, byQuarter);
    y[r - p] = sub(u, byQuarter);
  }
  return y;
}

SmallVector<Value> interleaved(ElementEmitter &e, ArrayRef<Value> tiles,
                               int64_t run) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  auto n = static_cast<int64_t>(tiles.size());
  int64_t lanes = cast<VectorType>(tiles[0].getType()).getNumElements();
  if (n == 1 || run == lanes)
    return SmallVector<Value>(tiles);
  if (n % 2 == 0) {
    // Those of even and those of odd number, then both together.
    SmallVector<Value> even, odd, result;
    for (int64_t i = 0; i < n; i += 2) {
      even.push_back(tiles[i]);
      odd.push_back(tiles[i + 1]);
    }
    even = interleaved(e, even, run);
    odd = interleaved(e, odd, run);
    for (int64_t i = 0; i < n / 2; ++i)
      for (int64_t start : {int64_t(0), lanes / 2}) {
        SmallVector<int64_t> mask;
        for (int64_t at = start; at < start + lanes / 2; at += run)
          for (int64_t from : {at, lanes + at})
            for (int64_t k = 0; k < run; ++k)
              mask.push_back(from + k);
        result.push_back(
            vector::ShuffleOp::create(b, loc, even[i], odd[i], mask));
      }
    return result;
  }
  SmallVector<Value> result;
  for (int64_t i = 0; i < n; ++i) {
    Value tile = tiles[0];
    SmallVector<int64_t> lane(lanes), from(lanes);
    for (int64_t k = 0; k < lanes; ++k) {
      int64_t at = i * lanes + k;
      from[k] = at / run % n;
      lane[k] = at / (run * n) * run + at % run;
    }
    for (int64_t source = 0; source < n; ++source) {
      SmallVector<int64_t> mask(lanes);
      for (int64_t k = 0; k < lanes; ++k)
        mask[k] = from[k] == source ? (source ? lanes : 0) + lane[k] : k;
      tile = source == 0
                 ? vector::ShuffleOp::create(b, loc, tile, tile, mask)
                 : vector::ShuffleOp::create(b, loc, tile, tiles[source], mask);
    }
    result.push_back(tile);
  }
  return result;
}

} // namespace knapper
