// Matmuls on GPUs: what all ways to compute one share.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

using namespace mlir;
using knapper::config::MatmulAlgorithm;

namespace knapper::lower {

llvm::SmallVector<llvm::Value *> boxAt(llvm::Value *inner, llvm::Value *second,
                                       const TileCoord &block, int64_t batch) {
  llvm::SmallVector<llvm::Value *> at{inner, second};
  for (auto [i, index] : llvm::enumerate(block.outer))
    if (batch >> i & 1)
      at.push_back(index);
  return at;
}

TileCoord TileScheduler::at(llvm::Value *program) const {
  TileCoord result;
  if (!outer.empty()) {
    llvm::Value *matrix = b.CreateMul(blockRows, blockColumns);
    llvm::Value *rest = b.CreateUDiv(program, matrix);
    program = b.CreateSub(program, b.CreateMul(rest, matrix));
    result.outer.resize(outer.size());
    for (size_t i = outer.size(); i-- > 0;) {
      result.outer[i] = i ? b.CreateURem(rest, outer[i]) : rest;
      rest = b.CreateUDiv(rest, outer[i]);
    }
  }
  llvm::Value *size = b.CreateMul(blockColumns, b.getInt32(rasterGroup));
  llvm::Value *number = b.CreateUDiv(program, size);
  llvm::Value *inside = b.CreateSub(program, b.CreateMul(number, size));
  llvm::Value *firstRow = b.CreateMul(number, b.getInt32(rasterGroup));
  llvm::Value *high = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin,
                                              b.CreateSub(blockRows, firstRow),
                                              b.getInt32(rasterGroup));
  llvm::Value *column = b.CreateUDiv(inside, high);
  llvm::Value *row =
      b.CreateAdd(firstRow, b.CreateSub(inside, b.CreateMul(column, high)));
  result.row = b.CreateMul(row, b.getInt32(rows));
  result.column = b.CreateMul(column, b.getInt32(columns));
  return result;
}

LogicalResult
GpuLowering::groupedTiles(tile::MatmulOp op, unsigned tileColumns,
                          std::optional<GroupedTileScheduler> &tiles) {
  FailureOr<BufferRef> ends = buffer(op.getEnds());
  if (failed(ends))
    return failure();
  auto config = config::MatmulGpuConfig::of(op.getShape());
  auto narrowed = [&](Value v) {
    return b.CreateTrunc(scalar(v), b.getInt32Ty());
  };
  auto end = [this, ends = *ends](llvm::Value *index) -> llvm::Value * {
    llvm::Value *at = b.CreateZExt(index, b.getInt64Ty());
    return tag(
        b.CreateAlignedLoad(b.getInt32Ty(), address(ends, at), llvm::Align(4)),
        ends);
  };
  llvm::Value *experts =
      op.getOuter().empty() ? b.getInt32(1) : narrowed(op.getOuter()[0]);
  tiles.emplace(b, end, experts, narrowed(op.getM()), narrowed(op.getN()),
                config.tileM, tileColumns, config.rasterGroup);
  return success();
}

LogicalResult GpuLowering::regionLayout(Operation *op, int64_t run) {
  threads = 1;
  width = run; // a part is the whole run
  LogicalResult sizes = success();
  op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    for (Type type : inner->getResultTypes())
      if (auto vector = dyn_cast<VectorType>(type);
          vector && (vector.getRank() != 1 || vector.getDimSize(0) != width)) {
        sizes = inner->emitOpError("has no lowering for GPUs: tiles in the "
                                   "region of ")
                << op->getName() << " are runs of " << width << " elements";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  if (failed(sizes))
    return failure();
  for (Operation &other : op->getBlock()->getOperations())
    for (Type type : other.getResultTypes())
      if (isa<VectorType>(type))
        return other.emitOpError("has no lowering for GPUs beside a ")
               << op->getName();
  return success();
}

LogicalResult GpuLowering::matmulLayout(tile::MatmulOp op) {
  if (failed(regionLayout(op, op.run())))
    return failure();
  auto config = config::MatmulGpuConfig::of(op.getShape());
  bool simt = config.algorithm == MatmulAlgorithm::simt;
  shape.threads = config.threads();
  if (config.algorithm != MatmulAlgorithm::wgmma) {
    if (simt)
      cluster = config.splitK;
    if (op.getC())
      return op.emitOpError("takes no 'to' by this algorithm");
    if (!op.getWindow().empty() && !simt)
      return op.emitOpError("takes no window by this algorithm");
    return success();
  }
  WgmmaShape s(op);
  cluster = s.cluster();
  ctasPerSm = s.ctasPerSm;
  // Blocks share the programs out. Clusters have one each where their sums take
  // the place of the next one's operands, and where it is not known how many
  // fit: of two, one for every two processors.
  if (s.splitK == 1 && cluster <= 2 && s.epilogueChunks)
    shape.ctasPerSm = s.ctasPerSm;
  maps = (s.gathers             ? 1
          : s.stagingWarpgroups ? 0
                                : 2) +
         (op.getC() && !s.unaligned ? 1 : 0);
  return success();
}

LogicalResult GpuLowering::matmul(tile::MatmulOp op) {
  switch (config::MatmulGpuConfig::of(op.getShape()).algorithm) {
  case MatmulAlgorithm::simt:
    return simtMatmul(*this, op);
  case MatmulAlgorithm::wgmma:
    return wgmmaMatmul(*this, op);
  case MatmulAlgorithm::gemv:
    return gemv(*this, op);
  case MatmulAlgorithm::mmaSync:
    return mmaSyncMatmul(*this, op);
  }
  return failure();
}

FailureOr<llvm::Value *>
GpuLowering::runRegion(tile::MatmulOp op, llvm::Value *value,
                       llvm::ArrayRef<llvm::Value *> outer, llvm::Value *row,
                       llvm::Value *column) {
  Block &body = op.getBody().front();
  auto index = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
  set(body.getArgument(0), {value});
  for (auto [i, v] : llvm::enumerate(outer))
    set(body.getArgument(1 + i), {index(v)});
  set(body.getArgument(1 + outer.size()), {index(row)});
  set(body.getArgument(2 + outer.size()), {index(column)});
  if (failed(block(body)))
    return failure();
  auto yield = cast<tile::YieldOp>(body.getTerminator());
  return yield.getValue() ? scalar(yield.getValue()) : nullptr;
}

} // namespace knapper::lower
