//===- PackedMatmuls.h - Constant integers as GPUs read them --------------===//
//
//   scaled_dot(x, q, s)   becomes   packed_dot(x, bytes, transpose(s))
//
// For GPUs, and for matrices without zero points. `bytes` is a constant
// expression of q: an element a byte, consecutive along the depth, or two 4-bit
// elements a byte. x is the tensor before it was widened to f32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

namespace ts {
class PackedDotOp;
}

/// Rewrites the scaled_dots that `takes` accepts. A matmul that is known to
/// have more than `few` rows stays: expanding its matrix once, when constants
/// are packed, is faster.
void packMatmuls(mlir::func::FuncOp function, int64_t few,
                 llvm::function_ref<bool(ts::PackedDotOp)> takes);

/// Gives every packed_dot that may have more than `few` rows its matrix as
/// floats too, for tensor cores. The float matrix has a symbolic number of
/// rows: all of them if the matmul has more than `few` rows, otherwise 0. With
/// 0 rows nothing is computed and no memory is taken.
void expandForManyRows(mlir::func::FuncOp function, int64_t few);

} // namespace knapper
