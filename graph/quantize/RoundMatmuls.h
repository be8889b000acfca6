//===- RoundMatmuls.h - Matmuls of float32 by tensor cores ----------------===//
//
//   dot(f32, f32)         gets `ts.tf32`: a schedule may round the operands to
//                         tf32, 10 bits of mantissa and the exponents of
//                         float32; products are exact and sums stay float32
//   its constant matrix   is transposed where the depth is not its last dim:
//                         tensor cores of Hopper read words by depth alone
//
// An operand is rounded to nearest, by up to 2^-11 of itself; a sum is then
// within 2^-10 of the sum of its terms' magnitudes. What a schedule computes in
// float32 all the same (a few rows, targets without such units) stays as exact
// as it was. Matmuls of float64, of 16 bits and of integers are left alone.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Run after all that makes or changes matmuls.
void roundMatmuls(mlir::func::FuncOp function);

} // namespace knapper
