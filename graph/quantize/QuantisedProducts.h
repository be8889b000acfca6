//===- QuantisedProducts.h - Products of dequantised bytes ----------------===//
//
//   dot((x - p) * s, (w - q) * t)   becomes   dot(x, w), the zero points after
//                                             the sums, times s and t, in f32
//
// where x and w are bytes that were converted to f32 (DequantizeLinear), w is a
// constant matrix, p and s one number each, q and t one number or one a column.
// Bytes of the other sign move by 128: what multiplies is u8 times i8, summed in
// i32 (PackedOperand). The sum is exact, where one of floats rounds at each step;
// scales are applied one after the other, so that nothing overflows or underflows
// which did not before. A sum that i32 may not hold stays as it is.
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
