//===- ConvertFloat.h - 16-bit storage for a float32 graph ----------------===//
//
// Tensors in memory become bf16 or f16. Arithmetic stays float32.
//
//   op or value           after the conversion
//   dot                   reads 16-bit operands, gives its float32 accumulator
//                         to the epilogue
//   conv, pool,           read 16-bit operands (weights and embedding tables
//   attention, softmax,   too), compute in float32, give 16-bit results
//   layer_norm, rope,
//   gather
//   elementwise ops,      float32, and so are their constants and vectors
//   reductions            (biases, channel scales)
//   operand of a matmul   rounded once; every reader reads the rounded value,
//   with other readers    so one copy is stored (the residual stream). The same
//                         holds for what a group norm reads twice
//   conv converted to     float32: it is a sum of integers
//   an integer type
//   matmul with positions float32: 16 bits do not hold the integers
//   function's inputs     float32
//   and results
//   other float types     not changed
//
// Rounding is to nearest even. From 65520 on, f16 is infinity.
//
// The function gets `ts.storage`: where kernels are formed for a GPU, what a
// matmul hands to another kernel is rounded, too (graph/fusion/StoreNarrow.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Converts the storage of `function` to `type`, bf16 or f16. Runs after
/// findComposites, and runs `simplify` afterwards. Fails if that does not
/// converge.
mlir::LogicalResult convertFloat(mlir::func::FuncOp function,
                                 mlir::FloatType type);

} // namespace knapper
