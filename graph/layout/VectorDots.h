//===- VectorDots.h - Matmuls of a matrix and a vector --------------------===//
//
//   dot of x [.., K] and y [.., K], which has no free dim
//   becomes a reduction of x * y over K.
//
// Each element of x is used once, so the time is that of reading x. A reduction
// reads it in order whatever the sizes are; the schedules of matmuls want two
// free dims.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Of floats; 16-bit ones are multiplied and summed in f32, as `ts.dot` says.
void reduceVectorDots(mlir::func::FuncOp function);

} // namespace knapper
