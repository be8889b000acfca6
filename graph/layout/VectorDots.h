//===- VectorDots.h - Products of a matrix and a vector
//--------------------===//
//
//   dot of x [.., K] and y [.., K], which has no free dim
//   becomes a reduction of x * y over K.
//
// Each element of x is used once, so memory is all that counts, and reductions
// read it in order whatever the sizes are. The schedules of matmuls
// want two free dims.
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
