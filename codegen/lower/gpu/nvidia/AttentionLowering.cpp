// Attention on GPUs: what all ways to compute it share.
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "ir/config/AttentionGpuConfig.h"

using namespace mlir;
using knapper::config::AttentionAlgorithm;

namespace knapper::lower {

LogicalResult GpuLowering::attentionLayout(tile::AttentionOp op) {
  if (failed(regionLayout(op, op.run())))
    return failure();
  auto config = config::AttentionGpuConfig::of(op.getShape());
  shape.threads = config.threads();
  if (config.algorithm == AttentionAlgorithm::simt)
    return success();
  shape.ctasPerSm = 1;
  // A result of f32 is stored from registers.
  maps = op.getO().getType().getElementType().isF32() ? 3 : 4;
  return success();
}

LogicalResult GpuLowering::attention(tile::AttentionOp op) {
  return config::AttentionGpuConfig::of(op.getShape()).algorithm ==
                 AttentionAlgorithm::simt
             ? simtAttention(*this, op)
             : flashAttention(*this, op);
}

LogicalResult GpuLowering::scores(tile::AttentionOp op,
                                  llvm::MutableArrayRef<llvm::Value *> run,
                                  llvm::Value *batch, llvm::Value *head,
                                  llvm::Value *row, llvm::Value *key) {
  Block &body = op.getBody().front();
  llvm::Value *value = run[0];
  if (op.run() > 1) {
    value = llvm::PoisonValue::get(
        llvm::FixedVectorType::get(b.getFloatTy(), run.size()));
    for (auto [i, score] : llvm::enumerate(run))
      value = b.CreateInsertElement(value, score, i);
  }
  set(body.getArgument(0), {value});
  llvm::Value *indices[] = {batch, head, row, key};
  for (auto [i, index] : llvm::enumerate(indices))
    set(body.getArgument(1 + i), {b.CreateSExt(index, b.getInt64Ty())});
  if (failed(block(body)))
    return failure();
  value = scalar(cast<tile::YieldOp>(body.getTerminator()).getValue());
  if (op.run() == 1)
    run[0] = value;
  else
    for (auto [i, score] : llvm::enumerate(run))
      score = b.CreateExtractElement(value, i);
  return success();
}

} // namespace knapper::lower
