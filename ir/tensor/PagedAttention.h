//===- PagedAttention.h - The op ts.paged_attention -----------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#define GET_OP_CLASSES
#include "ir/tensor/PagedAttention.h.inc"

namespace knapper::ts {

/// Whether a kernel may read the blocks where they lie: f32, f16 or bf16, sizes
/// of heads and blocks are numbers, blocks hold a multiple of 16 positions.
bool hasPlainPages(PagedAttentionOp op);

/// The same by gathering all blocks of each token's sequence in front of a
/// ts.attention with a mask.
mlir::Value gatheredAttention(mlir::OpBuilder &builder, PagedAttentionOp op);

} // namespace knapper::ts
