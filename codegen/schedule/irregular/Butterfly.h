//===- Butterfly.h - Small transforms of complex numbers in registers -----===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

/// A tile of complex numbers: two vectors, real and imaginary parts.
struct ComplexTile {
  mlir::Value re, im;
};

/// Emits discrete Fourier transforms whose elements are whole tiles of one
/// vector type: lane l of the results is the transform of the lanes l.
class Butterfly {
public:
  /// `sign` of the exponent: -1 forward, 1 inverse (without the factor 1 / r).
  Butterfly(ElementEmitter &emitter, mlir::VectorType type, int sign)
      : e(emitter), b(emitter.builder), loc(emitter.location), type(type),
        sign(sign) {}

  /// y[p] = sum over q of x[q] exp(sign 2 pi i p q / r). r, the number of
  /// tiles, is 2, 4, 8 or odd.
  llvm::SmallVector<ComplexTile> transform(llvm::ArrayRef<ComplexTile> x);

  ComplexTile multiply(ComplexTile x, ComplexTile y);
  ComplexTile add(ComplexTile x, ComplexTile y) {
    return {add(x.re, y.re), add(x.im, y.im)};
  }
  ComplexTile sub(ComplexTile x, ComplexTile y) {
    return {sub(x.re, y.re), sub(x.im, y.im)};
  }
  /// x times the imaginary unit, or minus it where `sign` is negative.
  ComplexTile rotated(ComplexTile x, int sign) {
    return sign > 0 ? ComplexTile{neg(x.im), x.re}
                    : ComplexTile{x.im, neg(x.re)};
  }
  ComplexTile scaled(ComplexTile x, double factor);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value neg(mlir::Value x);

private:
  llvm::SmallVector<ComplexTile> binary(llvm::ArrayRef<ComplexTile> x);
  llvm::SmallVector<ComplexTile> odd(llvm::ArrayRef<ComplexTile> x);
  mlir::Value splat(double number);
  /// x * factor + y
  mlir::Value fma(mlir::Value x, double factor, mlir::Value y);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::VectorType type;
  int sign;
};

/// Interleaves tiles by runs of `run` elements, a power of two: the first run
/// of each tile, then the second run of each, and so on. Returns as many tiles
/// as are given. Two tiles, runs of 1: a0 b0 a1 b1 ...
llvm::SmallVector<mlir::Value> interleaved(ElementEmitter &emitter,
                                           llvm::ArrayRef<mlir::Value> tiles,
                                           int64_t run);

} // namespace knapper
