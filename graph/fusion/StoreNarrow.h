//===- StoreNarrow.h - Kernels store what was rounded as it is ------------===//
//
// Where a value is rounded to 16 bits and read as f32 again (graph/quantize/
// ConvertFloat.h), the kernel that makes it has taken the widening conversion
// in. It gives the 16 bits instead, and each kernel that reads them widens
// them:
//
//   before  kernel conv -> f32 { .. narrow; widen }
//           kernel reduce(%x: f32) { reduce %x }
//   after   kernel conv -> bf16 { .. narrow }
//           kernel reduce(%x: bf16) { widen; reduce }
//
// Where a function has a storage type (ts.storage), a matmul or convolution of
// operands of that type whose f32 sums another kernel reads is rounded as well,
// as a framework that runs op by op in 16 bits rounds it. Values that masks,
// comparisons or positions go into are not.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper::fusion {

/// Of results that kernels alone read, for elementwise work and reductions.
/// Kernels are formed already. `roundsMatmuls`: the second kind as well
/// (config::Machine).
void storeNarrow(mlir::func::FuncOp function, bool roundsMatmuls);

} // namespace knapper::fusion
