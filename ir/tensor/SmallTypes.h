//===- SmallTypes.h - Bytes of the storage types, and numbers -------------===//
//
// Floats of eight, six and four bits and integers of four and two are bytes in
// compute form (i8, scalar or vector). What turns them into numbers and back is
// arithmetic on integers: no instruction of the target is needed. High bits of
// a byte that a type does not use are ignored; results carry the sign there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::ts {

/// The layout of a small float: sign, then exponent, then `mantissa` bits.
struct SmallFloat {
  int mantissa, bias;
  int largest;    ///< bits of the largest finite number
  int nan;        ///< bits of a NaN, with the sign bit where it has none; -1
  int infinity;   ///< bits of infinity; -1: the type has none
  bool zeroIsOne; ///< one zero, no -0; its bits with a sign are NaN
  int sign;       ///< the sign bit
};
/// Of every small float but f8E8M0FNU, which has neither sign nor mantissa.
SmallFloat layoutOf(mlir::Type element);

/// The number as f32, exactly.
mlir::Value buildFromSmallFloat(mlir::OpBuilder &b, mlir::Location loc,
                                mlir::Value byte, mlir::Type from);
/// `x` (f32 or f64) as `ts.convert` defines it.
mlir::Value buildToSmallFloat(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::Value x, mlir::Type to, bool saturate,
                              Rounding rounding);
/// The number as i8: the high bits become copies of the sign, or 0.
mlir::Value buildFromSmallInteger(mlir::OpBuilder &b, mlir::Location loc,
                                  mlir::Value byte, mlir::Type from);
/// `x` (i8, of the signedness of `to`) wrapped, or moved to the nearest value.
mlir::Value buildToSmallInteger(mlir::OpBuilder &b, mlir::Location loc,
                                mlir::Value x, mlir::Type to, bool saturate);

} // namespace knapper::ts
