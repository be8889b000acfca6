//===- GroupedMatmul.h - The op ts.grouped_matmul -------------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#define GET_OP_CLASSES
#include "ir/tensor/GroupedMatmul.h.inc"

namespace knapper::ts {

/// The same by gathering each row's matrix in front of a batch of matmuls: T
/// matrices in memory.
mlir::Value gatheredMatmul(mlir::OpBuilder &builder, GroupedMatmulOp op);

} // namespace knapper::ts
