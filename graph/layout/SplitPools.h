//===- SplitPools.h - Large pools, a dim at a time ------------------------===//
//
//   a pool of kh x kw becomes one of 1 x kw and one of kh x 1
//
// Neighbouring windows share what their rows give. Maxima are the same; sums
// and averages of f32 and f64 are formed a dim at a time, which is another
// order of the sum. Those of 16 bits stay as they are, because what is between
// would be rounded. Only where the second pool and what lies between cost less
// than the taps saved.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// `maximaOnly`: floats will be stored in 16 bits (ConvertFloat.h).
void splitPools(mlir::func::FuncOp function, bool maximaOnly = false);

} // namespace knapper
