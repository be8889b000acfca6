//===- QuantisedMatmuls.h - Matmuls and convolutions of bytes -------------===//
//
//   dot((x - p) * s, (w - q) * t)   becomes   dot(x, w), the zero points after
//                                             the sums, times s and t, in f32
//
// x and w are bytes that were converted to f32 (DequantizeLinear). w is a
// constant matrix. p and s are one number each. q and t are one number, or one
// for each column.
//
// The kernel multiplies u8 by i8 and sums in i32 (PackedOperand). An operand of
// the other sign is shifted by 128. The i32 sum is exact; the float sum before
// rounded at each step. The two scales are applied one after the other, so no
// intermediate overflows or underflows that did not before. A matmul whose sum
// may exceed i32 is not changed.
//
//   conv((x - p) * s, (w - q) * t)   becomes   conv(x padded with p, w),
//   likewise conv(x - p, w - q) in i32        the same without scales
//
// q and t are one number, or one for each feature. The border is filled with p,
// so that subtracting p has the same effect at every position. Without p the
// convolution keeps its border of zeros.
//
// Runs before constants are folded: folding would turn w into floats.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Rewrites the matmuls and convolutions of `function`.
void multiplyQuantised(mlir::func::FuncOp function);

} // namespace knapper
