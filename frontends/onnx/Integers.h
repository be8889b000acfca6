//===- Integers.h - Products of quantised tensors -------------------------===//
//
// 8-bit factors less their zero points, summed in i32: what the *Integer and
// QLinear* operators share. Zero points may be null.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// NumPy's matmul. A zero point is one number, one a row of `a`, or one a
/// column of `b`.
mlir::Value integerMatMul(Node &n, mlir::Value a, mlir::Value aZero,
                          mlir::Value b, mlir::Value bZero);
/// The convolution that the node's attributes describe, without bias. A zero
/// point is one number, or one a filter.
mlir::Value integerConv(Node &n, mlir::Value x, mlir::Value xZero,
                        mlir::Value filter, mlir::Value filterZero);

} // namespace knapper
