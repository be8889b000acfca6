// The recipes of NVIDIA GPUs: each emits one kernel of a `tile.matmul` or a
// `tile.attention` into the function that `lowering` is
// at. They fail with an error at the op where its configuration is not one of
// theirs.
#pragma once

#include "codegen/lower/gpu/GpuLowering.h"

namespace knapper::lower {

mlir::LogicalResult wgmmaMatmul(GpuLowering &lowering, tile::MatmulOp op);
mlir::LogicalResult mmaSyncMatmul(GpuLowering &lowering, tile::MatmulOp op);
mlir::LogicalResult gemv(GpuLowering &lowering, tile::MatmulOp op);
mlir::LogicalResult simtMatmul(GpuLowering &lowering, tile::MatmulOp op);
mlir::LogicalResult flashAttention(GpuLowering &lowering, tile::AttentionOp op);
mlir::LogicalResult simtAttention(GpuLowering &lowering, tile::AttentionOp op);

} // namespace knapper::lower
