//===- Integers.h - Matmuls of quantised tensors --------------------------===//
//
// 8-bit factors less their zero points, summed in i32: what the *Integer and
// QLinear* operators share. Zero points may be null.
//
// A matrix or filter of constants multiplies as bytes, the zero points coming
// in after the sums. Other matmuls run on the float units where that is exact:
// as long as every partial sum is an integer below 2^24 in magnitude, f32 holds
// it, in whatever order it is added up. So the contracted dim is cut into
// slices that cannot leave that range (256 to 1024 long), each an f32 matmul
// rounded to i32; the slices are added as integers. What has no known length,
// or would be too many slices, multiplies in i32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// A factor less its zero point, in f32 and in i32 (null until asked for).
struct Centred {
  mlir::Value value, zero; ///< of the same rank, or zero a scalar; zero null
  int64_t largest;         ///< the magnitude of the difference

  mlir::Value as(Node &n, mlir::Type element) const {
    mlir::Value wide = n.convert(value, element);
    return zero ? n.sub(wide, n.convert(zero, element)) : wide;
  }
};
/// `zero` may be null; one that is known to be 0 is left out.
Centred centred(mlir::Value value, mlir::Value zero);

/// How many matmuls of the two a slice adds up at most; 0: none is exact.
int64_t exactTerms(const Centred &a, const Centred &b);
inline constexpr int64_t maxSlices = 64;

/// NumPy's matmul. A zero point is one number, one a row of `a`, or one a
/// column of `b`.
mlir::Value integerMatMul(Node &n, mlir::Value a, mlir::Value aZero,
                          mlir::Value b, mlir::Value bZero);
/// The convolution that the node's attributes describe, without bias. A zero
/// point is one number, or one a filter.
mlir::Value integerConv(Node &n, mlir::Value x, mlir::Value xZero,
                        mlir::Value filter, mlir::Value filterZero);

/// u8 with a range that holds 0 and all of x (f32); the scale and the zero
/// point are of rank 0.
struct DynamicSteps {
  mlir::Value steps, scale, zero;
};
DynamicSteps quantizeDynamically(Node &n, mlir::Value x);

} // namespace knapper
