//===- PackedDot.h - The op ts.packed_dot ---------------------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#define GET_OP_CLASSES
#include "ir/tensor/PackedDot.h.inc"

namespace knapper::ts {

/// The first rows of the [N, K] matrix that the op multiplies with, in f32.
mlir::Value expandedWeight(mlir::OpBuilder &builder, PackedDotOp op, Dim rows);

} // namespace knapper::ts
