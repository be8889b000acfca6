//===- ScaledDot.h - The op ts.scaled_dot ---------------------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#define GET_OP_CLASSES
#include "ir/tensor/ScaledDot.h.inc"

namespace knapper::ts {

/// The [K, N] matrix that the op multiplies with, in f32.
mlir::Value expandedWeight(mlir::OpBuilder &builder, ScaledDotOp op);

} // namespace knapper::ts
