//===- ConvertFloat.h - 16-bit storage for a float32 graph ----------------===//
//
// What is stored becomes bf16 or f16, what is computed stays float32:
//
//   matmuls, windows   dot, conv, pool, attention, softmax, layer_norm, rope
//     and the like      and gather read 16-bit operands (weights and embedding
//                       tables too) and compute in float32 inside, as the ops
//                       say; they give 16 bits, except dot, which gives the
//                       float32 of its accumulator to the epilogue
//   elementwise,        stay float32, with their constants and vectors (biases,
//     reductions        scales of channels)
//   a value that goes   is rounded once, and its other readers read the rounded
//     into a matmul    value: one copy is stored (the residual stream); so is
//                       what a norm without an op, as a group norm, reads twice
//   sums of integers    conv that goes to an integer type at once stays float32
//   matmuls with       positions, which 16 bits do not hold: stay float32
//     integers
//   inputs, results     of the function stay float32
//   other float types   are left alone
//
// Rounding is to nearest even; f16 overflows to infinity above 65504.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// `type` is bf16 or f16. Run after composites are found; `simplify` follows
/// inside.
mlir::LogicalResult convertFloat(mlir::func::FuncOp function,
                                 mlir::FloatType type);

} // namespace knapper
