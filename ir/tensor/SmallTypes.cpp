#include "ir/tensor/SmallTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

namespace knapper::ts {

SmallFloat layoutOf(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return {3, 7, 0x7e, 0x7f, -1, false, 0x80};
  if (isa<Float8E4M3FNUZType>(element))
    return {3, 8, 0x7f, 0x80, -1, true, 0x80};
  if (isa<Float8E5M2Type>(element))
    return {2, 15, 0x7b, 0x7e, 0x7c, false, 0x80};
  if (isa<Float8E5M2FNUZType>(element))
    return {2, 16, 0x7f, 0x80, -1, true, 0x80};
  if (isa<Float8E4M3Type>(element))
    return {3, 7, 0x77, 0x7c, 0x78, false, 0x80};
  if (isa<Float8E3M4Type>(element))
    return {4, 3, 0x6f, 0x78, 0x70, false, 0x80};
  if (isa<Float8E4M3B11FNUZType>(element))
    return {3, 11, 0x7f, 0x80, -1, true, 0x80};
  if (isa<Float6E2M3FNType>(element))
    return {3, 1, 0x1f, -1, -1, false, 0x20};
  if (isa<Float6E3M2FNType>(element))
    return {2, 3, 0x1f, -1, -1, false, 0x20};
  assert(isa<Float4E2M1FNType>(element) && "not a small float with a sign");
  return {1, 1, 0x7, -1, -1, false, 0x8};
}

namespace {

using IntP = arith::CmpIPredicate;
using FloatP = arith::CmpFPredicate;

/// Arithmetic on values of the shape of `like`.
struct Bits {
  OpBuilder &b;
  Location loc;
  Value like;

  Type typed(Type element) {
    if (auto vector = dyn_cast<VectorType>(like.getType()))
      return vector.clone(element);
    return element;
  }
  Value constant(Type element, TypedAttr scalar) {
    if (auto vector = dyn_cast<VectorType>(typed(element)))
      scalar = DenseElementsAttr::get(vector, Attribute(scalar));
    return arith::ConstantOp::create(b, loc, scalar);
  }
  Value integer(Value of, int64_t value) {
    Type element = getElementTypeOrSelf(of.getType());
    return constant(element, b.getIntegerAttr(element, value));
  }
  Value real(Value of, double value) {
    Type element = getElementTypeOrSelf(of.getType());
    return constant(element, b.getFloatAttr(element, value));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value add(Value x, int64_t y) { return add(x, integer(x, y)); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value band(Value x, int64_t y) {
    Value mask = integer(x, y);
    return arith::AndIOp::create(b, loc, x, mask);
  }
  Value bor(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value shl(Value x, int64_t by) {
    Value amount = integer(x, by);
    return arith::ShLIOp::create(b, loc, x, amount);
  }
  Value shr(Value x, int64_t by) {
    Value amount = integer(x, by);
    return arith::ShRUIOp::create(b, loc, x, amount);
  }
  Value compare(IntP predicate, Value x, int64_t y) {
    Value bound = integer(x, y);
    return arith::CmpIOp::create(b, loc, predicate, x, bound);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value select(Value condition, int64_t x, Value y) {
    return select(condition, integer(y, x), y);
  }
  Value isNan(Value x) {
    return arith::CmpFOp::create(b, loc, FloatP::UNO, x, x);
  }
  Value bitcast(Value x, Type element) {
    return arith::BitcastOp::create(b, loc, typed(element), x);
  }
};

/// Powers of two, the exponent of f32 and nothing else.
Value fromPower(Bits &f, Value code) {
  Value bits = f.shl(code, 23);
  bits = f.select(f.compare(IntP::eq, code, 0), 0x00400000, bits);
  bits = f.select(f.compare(IntP::eq, code, 255), 0x7fc00000, bits);
  return f.bitcast(bits, f.b.getF32Type());
}

Value toPower(Bits &f, Value x, bool saturate, Rounding rounding) {
  Value magnitude = f.band(f.bitcast(x, f.b.getI32Type()), 0x7fffffff);
  Value tiny = f.compare(IntP::slt, magnitude, 0x00400000); // below 2^-127
  // 2^-127 to 2^-126 are denormal: shifted, the fraction stands where it does
  // in all others, under the exponent 0.
  Value denormal = f.shl(f.add(magnitude, -0x00400000), 1);
  Value code = f.select(f.compare(IntP::slt, magnitude, 0x00800000), denormal,
                        magnitude);
  code = f.select(tiny, 0, code);
  if (rounding != Rounding::down)
    code = f.add(code, rounding == Rounding::up ? 0x7fffff : 0x400000);
  code = f.shr(code, 23);
  if (saturate)
    code = f.select(f.compare(IntP::ugt, code, 254), 254, code);
  else
    code = f.select(tiny, 255, code);
  code = f.select(f.isNan(x), 255, code);
  return arith::TruncIOp::create(f.b, f.loc, f.typed(f.b.getIntegerType(8)),
                                 code);
}

} // namespace

Value buildFromSmallFloat(OpBuilder &b, Location loc, Value byte, Type from) {
  Bits f{b, loc, byte};
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value code = arith::ExtUIOp::create(b, loc, f.typed(i32), byte);
  if (isa<Float8E8M0FNUType>(from))
    return fromPower(f, code);
  SmallFloat layout = layoutOf(from);
  Value magnitude = f.band(code, layout.sign - 1);
  // Below the first exponent numbers are equally spaced: an integer times the
  // spacing. No denormal f32 is made on the way.
  Value whole = arith::SIToFPOp::create(b, loc, f.typed(f32), magnitude);
  Value spacing =
      f.real(whole, std::ldexp(1, 1 - layout.bias - layout.mantissa));
  Value small = f.bitcast(arith::MulFOp::create(b, loc, whole, spacing), i32);
  Value normal = f.add(f.shl(magnitude, 23 - layout.mantissa),
                       int64_t(127 - layout.bias) << 23);
  Value isSmall = f.compare(IntP::slt, magnitude, 1 << layout.mantissa);
  Value bits = f.select(isSmall, small, normal);
  if (layout.infinity >= 0) {
    bits = f.select(f.compare(IntP::eq, magnitude, layout.infinity), 0x7f800000,
                    bits);
    bits = f.select(f.compare(IntP::sgt, magnitude, layout.infinity),
                    0x7fc00000, bits);
  } else if (layout.nan >= 0 && !layout.zeroIsOne) {
    bits =
        f.select(f.compare(IntP::eq, magnitude, layout.nan), 0x7fc00000, bits);
  }
  unsigned signPosition = llvm::Log2_32(layout.sign);
  Value sign = f.shl(f.band(code, layout.sign), 31 - signPosition);
  bits = f.bor(bits, sign);
  if (layout.zeroIsOne)
    bits = f.select(f.compare(IntP::eq, code, layout.nan), 0x7fc00000, bits);
  return f.bitcast(bits, f32);
}

Value buildToSmallFloat(OpBuilder &b, Location loc, Value x, Type to,
                        bool saturate, Rounding rounding) {
  Bits f{b, loc, x};
  if (isa<Float8E8M0FNUType>(to))
    return toPower(f, x, saturate, rounding);
  SmallFloat layout = layoutOf(to);
  bool wide = getElementTypeOrSelf(x.getType()).isF64();
  int width = wide ? 64 : 32, mantissa = wide ? 52 : 23,
      bias = wide ? 1023 : 127;
  Type integer = b.getIntegerType(width);
  Value absolute = math::AbsFOp::create(b, loc, x);
  Value magnitude = f.bitcast(absolute, integer);
  // Normal numbers: the exponent moved, the mantissa rounded to nearest even; a
  // carry out of it moves into the exponent by itself.
  int shift = mantissa - layout.mantissa;
  Value moved = f.add(magnitude, -(int64_t(bias - layout.bias) << mantissa));
  Value odd = f.band(f.shr(moved, shift), 1);
  Value rounded = f.add(f.add(moved, odd), (int64_t(1) << (shift - 1)) - 1);
  Value by = f.integer(rounded, shift);
  Value normal = arith::ShRSIOp::create(b, loc, rounded, by);
  // Equally spaced numbers: the sum with a number whose last place is the
  // spacing is rounded as wanted.
  Value magic =
      f.real(x, std::ldexp(1, 1 - layout.bias - layout.mantissa + mantissa));
  Value shifted = arith::AddFOp::create(b, loc, absolute, magic);
  Value small = f.sub(f.bitcast(shifted, integer), f.bitcast(magic, integer));
  Value least = f.real(x, std::ldexp(1, 1 - layout.bias));
  Value isSmall = arith::CmpFOp::create(b, loc, FloatP::OLT, absolute, least);
  Value code = f.select(isSmall, small, normal);

  int beyond = saturate || layout.nan < 0 ? layout.largest
               : layout.infinity >= 0     ? layout.infinity
                                          : layout.nan;
  code = f.select(f.compare(IntP::sgt, code, layout.largest), beyond, code);
  Value nan = f.isNan(x);
  code = f.select(nan, std::max(layout.nan, 0), code);
  unsigned signPosition = llvm::Log2_32(layout.sign);
  Value sign = f.band(f.shr(f.bitcast(x, integer), width - 1 - signPosition),
                      layout.sign);
  if (layout.zeroIsOne)
    sign = f.select(f.compare(IntP::eq, code, 0), 0, sign);
  if (layout.nan < 0)
    sign = f.select(nan, 0, sign);
  return arith::TruncIOp::create(b, loc, f.typed(b.getIntegerType(8)),
                                 f.bor(code, sign));
}

Value buildFromSmallInteger(OpBuilder &b, Location loc, Value byte, Type from) {
  Bits f{b, loc, byte};
  unsigned width = from.getIntOrFloatBitWidth();
  if (from.isUnsignedInteger())
    return f.band(byte, (1 << width) - 1);
  Value left = f.shl(byte, 8 - width);
  Value by = f.integer(left, 8 - width);
  return arith::ShRSIOp::create(b, loc, left, by);
}

Value buildToSmallInteger(OpBuilder &b, Location loc, Value x, Type to,
                          bool saturate) {
  if (!saturate)
    return buildFromSmallInteger(b, loc, x, to); // wraps
  Bits f{b, loc, x};
  unsigned width = to.getIntOrFloatBitWidth();
  if (to.isUnsignedInteger()) {
    Value most = f.integer(x, (1 << width) - 1);
    return arith::MinUIOp::create(b, loc, x, most);
  }
  Value most = f.integer(x, (1 << (width - 1)) - 1);
  Value low = f.integer(x, -(1 << (width - 1)));
  Value below = arith::MinSIOp::create(b, loc, x, most);
  return arith::MaxSIOp::create(b, loc, below, low);
}

} // namespace knapper::ts
