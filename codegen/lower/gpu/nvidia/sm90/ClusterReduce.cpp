// What the tiles of a cluster's programs make together. Programs of a block
// combine theirs through its shared memory, then the blocks what each of them
// has: both times in their order, so that every run gives the same bits. A tile
// lies as [part][thread], as registers hold it.
#include "codegen/lower/gpu/GpuLowering.h"
#include "ir/config/DeviceLimits.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

void GpuLowering::clusterBarrier() {
  // What was written before is seen behind it (release, acquire).
  for (llvm::Intrinsic::ID id : {llvm::Intrinsic::nvvm_barrier_cluster_arrive,
                                 llvm::Intrinsic::nvvm_barrier_cluster_wait})
    b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>());
}

LogicalResult GpuLowering::combineTiles(tile::CombineOp op) {
  Parts tile = parts(op.getTile());
  llvm::Type *type = tile.front()->getType();
  llvm::Align align(
      llvm::PowerOf2Ceil(type->getPrimitiveSizeInBits().getFixedValue() / 8));
  auto memoryOf = [&](unsigned tiles) {
    uint64_t count = uint64_t(tiles) * tile.size() * threads;
    combinedBytes += count * module.getDataLayout().getTypeAllocSize(type);
    llvm::Value *memory =
        sharedArray(type, count, "_tiles" + llvm::Twine(exchanges++));
    cast<llvm::GlobalVariable>(memory)->setAlignment(align);
    return memory;
  };
  auto place = [&](llvm::Value *memory, llvm::Value *program, unsigned part) {
    llvm::Value *row = b.CreateAdd(
        b.CreateMul(program, b.getInt64(tile.size())), b.getInt64(part));
    return b.CreateInBoundsGEP(
        type, memory,
        b.CreateAdd(b.CreateMul(row, b.getInt64(threads)), thread));
  };
  auto leave = [&](llvm::Value *memory, llvm::Value *program) {
    for (auto [part, value] : llvm::enumerate(tile))
      b.CreateAlignedStore(value, place(memory, program, part), align);
  };
  auto join = [&](unsigned count,
                  llvm::function_ref<llvm::Value *(unsigned, unsigned)> at) {
    for (unsigned part = 0; part < tile.size(); ++part) {
      llvm::Value *all = nullptr;
      for (unsigned i = 0; i < count; ++i) {
        llvm::Value *one = b.CreateAlignedLoad(type, at(i, part), align);
        all = all ? combine(op.getKind(), op.getFastmath(), all, one) : one;
      }
      tile[part] = all;
    }
  };
  // One that runs again: others may still read what was left.
  if (!isa<tile::FuncOp>(op->getParentOp()))
    clusterBarrier();
  if (programs > 1) {
    llvm::Value *memory = memoryOf(programs);
    leave(memory, group);
    blockBarrier();
    join(programs, [&](unsigned program, unsigned part) {
      return place(memory, b.getInt64(program), part);
    });
  }
  if (cluster > 1) {
    llvm::Value *memory = memoryOf(1), *first = b.getInt64(0);
    if (programs > 1)
      when(b.CreateICmpEQ(group, first), [&] { leave(memory, first); });
    else
      leave(memory, first);
    clusterBarrier();
    join(cluster, [&](unsigned block, unsigned part) {
      return b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {},
                               {place(memory, first, part), b.getInt32(block)});
    });
  }
  if (combinedBytes > uint64_t(config::kStaticSharedBytes))
    return op.emitOpError("and those before it leave ")
           << combinedBytes << " bytes in shared memory, which has "
           << config::kStaticSharedBytes;
  set(op.getResult(), tile);
  return success();
}

} // namespace knapper::lower
