// Values that emit the operations done on them, so that the expansions of this
// folder read as formulas. Internal to the folder.
//
// A `V` is a scalar or a vector of floats or of integers of the same width. Its
// operators emit at its builder's insertion point; a `double` operand becomes a
// constant of the other one's type. Nothing is folded: LLVM does that.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/ArrayRef.h"

namespace knapper::vecmath {

struct V {
  mlir::OpBuilder *builder;
  mlir::Location loc;
  mlir::Value value;
  bool spread = false; // Lanes are spread over threads.

  mlir::Type type() const { return value.getType(); }
  mlir::Type element() const { return mlir::getElementTypeOrSelf(type()); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(element()); }
  bool isF64() const { return element().isF64(); }
  bool isF32() const { return element().isF32(); }
  unsigned width() const { return element().getIntOrFloatBitWidth(); }

  V with(mlir::Value other) const { return {builder, loc, other, spread}; }
  /// A constant of this value's float type.
  V constant(double c) const;
  /// An integer constant as wide as this value's elements (low bits of `c`).
  V integer(uint64_t c) const;

  template <typename Op, typename... Args> V make(Args... args) const {
    return with(Op::create(*builder, loc, args...).getResult());
  }
};

/// The type `type` with elements `element`.
mlir::Type withElement(mlir::Type type, mlir::Type element);

// Floats or integers, by the operands' type.
V operator+(V a, V b);
V operator-(V a, V b);
V operator*(V a, V b);
V operator/(V a, V b);
V operator-(V a);
V operator+(V a, double b);
V operator-(V a, double b);
V operator-(double a, V b);
V operator*(V a, double b);
V operator/(double a, V b);

/// a * b + c, rounded once.
V fma(V a, V b, V c);
V fma(V a, double b, V c);
V fma(V a, double b, double c);
V fma(V a, V b, double c);

// Bits of integers and masks.
V operator&(V a, V b);
V operator|(V a, V b);
V operator^(V a, V b);
V operator&(V a, uint64_t b);
V operator^(V a, uint64_t b);
V shl(V a, unsigned n);
V shr(V a, unsigned n); // logical
V sar(V a, unsigned n); // arithmetic
V shl(V a, V n);
V shr(V a, V n);

// Comparisons of floats: ordered, so false on a NaN, but `ne` and `isNaN`.
V operator<(V a, V b);
V operator>(V a, V b);
V operator>=(V a, V b);
V operator==(V a, V b);
V operator!=(V a, V b);
V operator<(V a, double b);
V operator>(V a, double b);
V operator>=(V a, double b);
V operator==(V a, double b);
V isNaN(V a);
V compare(mlir::arith::CmpIPredicate predicate, V a, V b);
V operator!(V mask);

V select(V mask, V a, V b);
V select(V mask, double a, V b);
V select(V mask, V a, double b);
V select(V mask, double a, double b, V like);

/// The smaller or larger of a bound and a value; a NaN value stays.
V atMost(double bound, V a);
V atLeast(double bound, V a);

V abs(V a);
V copysign(V magnitude, V sign);
V sqrt(V a);
V trunc(V a);

V bits(V a);                        // float -> integer of its width
V asFloat(V a);                     // integer -> float of its width
V toFloat(V a, V like);             // signed value -> `like`'s float type
V convert(V a, mlir::Type element); // float <-> float
V zext(V a, mlir::Type element);
V truncInt(V a, mlir::Type element);

/// c[0] + c[1] x + ...
V horner(llvm::ArrayRef<double> c, V x);

/// One bit: some lane of the mask is set.
V anyLane(V mask);

} // namespace knapper::vecmath
