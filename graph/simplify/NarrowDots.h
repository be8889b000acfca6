//===- NarrowDots.h - Matmuls of widened operands --------------------------===//
//
//   dot(convert x, convert y)   of bf16 or f16 x and y in f32
//   becomes dot(x, y), whose sums are f32 and whose result stays f32.
//
// A product of two 16-bit numbers is exact in f32, so nothing changes but the
// order of the sum, and tensor cores take the operands (GPUs).
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void narrowDots(mlir::func::FuncOp function);

} // namespace knapper
