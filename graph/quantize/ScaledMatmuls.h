//===- ScaledMatmuls.h - Matmuls with matrices stored as integers ---------===//
//
//   dot(x, (q - z) * s)   becomes   scaled_dot(x, q, s, z)
//
// where x is f32 and q a constant matrix of 8 or 4 bits (DequantizeLinear of
// weights alone), s and z one number, one a column, or one a block of rows of a
// column. Unsigned integers move by half their range, and their zero points
// with them. Numbers stay as they are: the op expands its matrix in the same
// steps.
//
// Runs before constants are folded: a folded matrix is floats.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void scaleMatmuls(mlir::func::FuncOp function);

} // namespace knapper
