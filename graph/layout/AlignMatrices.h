//===- AlignMatrices.h - Constant matrices with rows at aligned places ----===//
//
//   dot of x [.., K] and a constant w [K, N] whose rows are no multiple of
//   sixteen bytes becomes a dot of x and transpose(w) [N, K], where those are.
//
// The copy engine of GPUs (TMA) and 16-byte loads take no other rows: a matmul
// of 768 by 50257 bf16 numbers, the last of a language model's, took 1.23 ms
// with shifted loads and 0.54 from the transposed matrix. The transpose is a
// constant expression, computed once when constants are packed; a constant that
// is read elsewhere as it was lies in memory twice. Numbers do not change.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void alignMatrices(mlir::func::FuncOp function);

} // namespace knapper
