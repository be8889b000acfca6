//===- QuantisedMatmuls.h - Matmuls and convolutions of bytes -------------===//
//
//   dot((x - p) * s, (w - q) * t)   becomes   dot(x, w), the zero points after
//                                             the sums, times s and t, in f32
//
// where x and w are bytes that were converted to f32 (DequantizeLinear), w is a
// constant matrix, p and s one number each, q and t one number or one a column.
// Bytes of the other sign move by 128: what multiplies is u8 times i8, summed
// in i32 (PackedOperand). The sum is exact, where one of floats rounds at each
// step; scales are applied one after the other, so that nothing overflows or
// underflows which did not before. A sum that i32 may not hold stays as it is.
//
//   conv((x - p) * s, (w - q) * t)   becomes   conv(x padded with p, w),
//   likewise conv(x - p, w - q) in i32        the same without scales
//
// q and t are one number or one a feature. A border is p, so that what p takes
// away is the same at every position; without p it stays the convolution's.
//
// Runs before constants are folded: a folded w is bytes no more.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void multiplyQuantised(mlir::func::FuncOp function);

} // namespace knapper
