//===- PackedProducts.h - Constant integers as GPUs read them -------------===//
//
//   scaled_dot(x, q, s)   becomes   packed_dot(x, bytes, transpose(s))
//
// without zero points. The bytes are a constant expression of q's: by depth, of
// four bits two in a byte. x is what was there before it was widened to f32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

namespace ts {
class PackedDotOp;
}

/// Those that `takes` refuses stay as they are.
void packProducts(mlir::func::FuncOp function,
                  llvm::function_ref<bool(ts::PackedDotOp)> takes);

} // namespace knapper
