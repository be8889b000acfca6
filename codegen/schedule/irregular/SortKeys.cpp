#include "codegen/schedule/irregular/SortKeys.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

SortKeys::SortKeys(ElementEmitter &e, ts::TopKOp op)
    : e(e), b(e.builder),
      element(computeType(ts::elementTypeOf(op.getInput()))),
      isFloat(isa<FloatType>(element)),
      isUnsigned(ts::elementTypeOf(op.getInput()).isUnsignedInteger()),
      largest(op.getLargest()) {
  constexpr unsigned word = 32;
  type =
      element.getIntOrFloatBitWidth() <= word ? b.getI32Type() : b.getI64Type();
}

Type SortKeys::shaped(Type element, int64_t lanes) {
  return lanes ? Type(VectorType::get(lanes, element)) : element;
}

Value SortKeys::number(uint64_t n, int64_t lanes) {
  auto attribute =
      b.getIntegerAttr(type, llvm::APInt(64, n).trunc(type.getWidth()));
  Value value = arith::ConstantOp::create(b, e.location, attribute);
  return lanes ? e.widen(value, lanes) : value;
}

Value SortKeys::of(Value x, int64_t lanes) {
  Location loc = e.location;
  const uint64_t sign = uint64_t(1) << (type.getWidth() - 1);
  Type keys = shaped(type, lanes);
  auto flip = [&](Value v, uint64_t bits) -> Value {
    return arith::XOrIOp::create(b, loc, v, number(bits, lanes));
  };
  Value key;
  if (isFloat) {
    Value bits = arith::BitcastOp::create(b, loc, keys, x);
    Value negativeZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                               bits, number(sign, lanes));
    bits =
        arith::SelectOp::create(b, loc, negativeZero, number(0, lanes), bits);
    // A negative number is smaller, the larger its bits are.
    Value smear = arith::ShRSIOp::create(b, loc, bits,
                                         number(type.getWidth() - 1, lanes));
    smear = arith::OrIOp::create(b, loc, smear, number(sign, lanes));
    key = arith::XOrIOp::create(b, loc, bits, smear);
    Value isNan =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
    key = arith::SelectOp::create(b, loc, isNan, number(~uint64_t(0), lanes),
                                  key);
  } else {
    bool narrow = element != type;
    if (isUnsigned)
      key = narrow ? Value(arith::ExtUIOp::create(b, loc, keys, x)) : x;
    else
      key = flip(narrow ? Value(arith::ExtSIOp::create(b, loc, keys, x)) : x,
                 sign);
  }
  return largest ? key : flip(key, ~uint64_t(0));
}

Value SortKeys::elementOf(Value key, int64_t lanes) {
  Location loc = e.location;
  const uint64_t sign = uint64_t(1) << (type.getWidth() - 1);
  auto flip = [&](Value v, uint64_t bits) -> Value {
    return arith::XOrIOp::create(b, loc, v, number(bits, lanes));
  };
  if (!largest)
    key = flip(key, ~uint64_t(0));
  if (!isUnsigned)
    key = flip(key, sign);
  if (element == type)
    return key;
  return arith::TruncIOp::create(b, loc, shaped(element, lanes), key);
}

SmallVector<Type, 2> SortKeys::wordTypes() {
  if (type.getWidth() == 64)
    return {b.getI64Type(), b.getI32Type()};
  return {b.getI64Type()};
}

SmallVector<Value, 2> SortKeys::words(Value keys, Value places, int64_t lanes) {
  Location loc = e.location;
  Value ones = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(-1));
  Value behind = arith::XOrIOp::create(b, loc, places,
                                       lanes ? e.widen(ones, lanes) : ones);
  if (type.getWidth() == 64)
    return {keys, behind};
  Type wide = shaped(b.getI64Type(), lanes);
  Value shift = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(32));
  Value high =
      arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, wide, keys),
                            lanes ? e.widen(shift, lanes) : shift);
  return {arith::OrIOp::create(b, loc, high,
                               arith::ExtUIOp::create(b, loc, wide, behind))};
}

Value SortKeys::places(ValueRange words, int64_t lanes) {
  Location loc = e.location;
  Value behind = words.back();
  if (words.size() == 1)
    behind =
        arith::TruncIOp::create(b, loc, shaped(b.getI32Type(), lanes), behind);
  Value ones = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(-1));
  return arith::XOrIOp::create(b, loc, behind,
                               lanes ? e.widen(ones, lanes) : ones);
}

Value SortKeys::comparable(Value x, int64_t lanes) {
  return isFloat ? x : of(x, lanes);
}

Value SortKeys::keyOfComparable(Value x, int64_t lanes) {
  return isFloat ? of(x, lanes) : x;
}

Value SortKeys::first(Value a, Value x) {
  Location loc = e.location;
  if (!isFloat)
    return arith::MaxUIOp::create(b, loc, a, x);
  if (largest)
    return arith::MaximumFOp::create(b, loc, a, x);
  return arith::MinNumFOp::create(b, loc, a, x); // a NaN if both are
}

Value SortKeys::last(int64_t lanes) {
  if (!isFloat)
    return number(0, lanes);
  auto type = cast<FloatType>(element);
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  Value value = arith::ConstantOp::create(
      b, e.location,
      b.getFloatAttr(type, largest ? llvm::APFloat::getInf(semantics, true)
                                   : llvm::APFloat::getNaN(semantics)));
  return lanes ? e.widen(value, lanes) : value;
}

Value SortKeys::mayReach(Value comparable, Value key, int64_t lanes) {
  Location loc = e.location;
  if (!isFloat)
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, comparable,
                                 e.widen(key, lanes));
  // The number with that key; of NaN everything.
  const uint64_t sign = uint64_t(1) << (type.getWidth() - 1);
  auto flip = [&](Value v, uint64_t bits) -> Value {
    return arith::XOrIOp::create(b, loc, v, number(bits, 0));
  };
  Value whole = largest ? key : flip(key, ~uint64_t(0));
  Value positive = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge,
                                         whole, number(sign, 0));
  Value bits = arith::SelectOp::create(b, loc, positive, flip(whole, sign),
                                       flip(whole, ~uint64_t(0)));
  Value bound = arith::BitcastOp::create(b, loc, element, bits);
  return arith::CmpFOp::create(
      b, loc, largest ? arith::CmpFPredicate::UGE : arith::CmpFPredicate::ULE,
      comparable, e.widen(bound, lanes));
}

} // namespace knapper
