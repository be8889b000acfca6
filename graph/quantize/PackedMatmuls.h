//===- PackedMatmuls.h - Constant integers as GPUs read them --------------===//
//
//   scaled_dot(x, q, s)   becomes   packed_dot(x, bytes, transpose(s))
//
// without zero points. The bytes are a constant expression of q's: by depth, of
// four bits two in a byte. x is what was there before it was widened to f32.
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

/// Those that `takes` refuses stay as they are, and those that are known to have
/// more than `few` rows: their matrix is better expanded once, when constants
/// are packed.
void packMatmuls(mlir::func::FuncOp function, int64_t few,
                 llvm::function_ref<bool(ts::PackedDotOp)> takes);

/// Gives every packed_dot that may have more than `few` rows its matrix as
/// floats, too: as many rows as it has columns where it has more than `few`,
/// else none, so that nothing is computed and no memory taken. Of the many
/// rows, tensor cores then multiply a matrix as they like it.
void expandForManyRows(mlir::func::FuncOp function, int64_t few);

} // namespace knapper
