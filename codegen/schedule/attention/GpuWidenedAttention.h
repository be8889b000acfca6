//===- GpuWidenedAttention.h - Attention in f32 of 16-bit operands --------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace knapper {

/// Exporters widen query, key and value of f16 or bf16 to f32 and compute the
/// attention there. Where all three are widened from one such type, each gets
/// views and a conversion of its own, and `ts.reads_widened` says that the
/// kernel takes them in: it reads the 16 bits.
void readWidenedOperands(mlir::func::FuncOp function);

} // namespace knapper
