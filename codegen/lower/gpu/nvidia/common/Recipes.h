// The recipes of NVIDIA GPUs: each emits one kernel of a `tile.matmul` or a
// `tile.attention` into the function that `lowering` is at. A recipe fails with
// an error at the op if it does not serve the op's configuration.
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
