// What threads of a block tell each other: barriers, arrays in shared memory,
// shuffles, and the reductions that consist of them.
#include "codegen/lower/gpu/GpuLowering.h"

#include "codegen/lower/common/Lower.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

static constexpr unsigned kWarp = 32;
static constexpr unsigned kSharedMemory = 3;

void GpuLowering::barrier() {
  if (threads == kWarp)
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {},
                      {b.getInt32(~0u)});
  else
    blockBarrier();
}

void GpuLowering::blockBarrier() {
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {},
                    {b.getInt32(0)});
}

llvm::Value *GpuLowering::sharedArray(llvm::Type *element, uint64_t count,
                                      const llvm::Twine &suffix) {
  auto *type = llvm::ArrayType::get(element, count);
  auto *array = new llvm::GlobalVariable(
      module, type, false, llvm::GlobalValue::InternalLinkage,
      llvm::UndefValue::get(type), fn->getName() + suffix, nullptr,
      llvm::GlobalValue::NotThreadLocal, kSharedMemory);
  array->setAlignment(llvm::Align(16));
  return array;
}

llvm::Value *GpuLowering::launchedShared() {
  auto *memory = new llvm::GlobalVariable(
      module, llvm::ArrayType::get(b.getInt8Ty(), 0), false,
      llvm::GlobalValue::ExternalLinkage, nullptr, fn->getName() + "_shared",
      nullptr, llvm::GlobalValue::NotThreadLocal, kSharedMemory);
  memory->setAlignment(llvm::Align(1024));
  return b.CreatePtrToInt(memory, b.getInt32Ty());
}

llvm::SmallVector<llvm::Value *> GpuLowering::tmaDescriptors() {
  llvm::SmallVector<llvm::Value *> result;
  for (unsigned i = fn->arg_size() - maps; i < fn->arg_size(); ++i)
    result.push_back(fn->getArg(i));
  return result;
}

llvm::Value *GpuLowering::shuffle(llvm::Value *value, unsigned distance) {
  return shuffleBy(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, value,
                   b.getInt32(distance), kWarp - 1);
}

llvm::Value *GpuLowering::shuffleBy(llvm::Intrinsic::ID how, llvm::Value *value,
                                    llvm::Value *lane, unsigned bound) {
  llvm::Type *type = value->getType();
  unsigned bits = type->getPrimitiveSizeInBits();
  auto word = [&](llvm::Value *w) -> llvm::Value * {
    return b.CreateIntrinsic(how, {},
                             {b.getInt32(~0u), w, lane, b.getInt32(bound)});
  };
  llvm::Value *whole = b.CreateBitCast(value, b.getIntNTy(bits));
  if (bits <= 32)
    return b.CreateBitCast(
        b.CreateTrunc(word(b.CreateZExt(whole, b.getInt32Ty())),
                      b.getIntNTy(bits)),
        type);
  llvm::Value *low = word(b.CreateTrunc(whole, b.getInt32Ty()));
  llvm::Value *high =
      word(b.CreateTrunc(b.CreateLShr(whole, 32), b.getInt32Ty()));
  whole = b.CreateOr(b.CreateZExt(low, b.getInt64Ty()),
                     b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
  return b.CreateBitCast(whole, type);
}

// In the thread, then between the threads of a warp by shuffles, then between
// warps through shared memory; every thread gets the result.
LogicalResult GpuLowering::reduction(vector::ReductionOp op) {
  if (isOrdered(op))
    return op.emitOpError("is ordered; a GPU needs fastmath<reassoc>");
  llvm::Value *value = combineAll(op, wideParts(op));
  // What is reported each thread can report itself.
  if (llvm::all_of(op->getUsers(), llvm::IsaPred<tile::SetStatusOp>)) {
    finishReduction(op, value);
    return success();
  }
  llvm::Type *type = value->getType();
  for (unsigned distance = std::min(threads, kWarp) / 2; distance;
       distance /= 2)
    value = combine(op, value, shuffle(value, distance));
  unsigned warps = threads / kWarp;
  if (warps > 1) {
    // A word a warp. Each reduction has words of its own, so that only one that
    // runs again waits until its words have been read.
    llvm::Type *memory = type->isIntegerTy(1) ? b.getInt8Ty() : type;
    unsigned bytes = std::max(1u, unsigned(type->getPrimitiveSizeInBits()) / 8);
    llvm::Value *exchange =
        sharedArray(memory, warps, "_exchange" + llvm::Twine(exchanges++));
    auto slot = [&](llvm::Value *warp) {
      return b.CreateInBoundsGEP(memory, exchange, warp);
    };
    auto read = [&](llvm::Value *warp) -> llvm::Value * {
      llvm::Value *word =
          b.CreateAlignedLoad(memory, slot(warp), llvm::Align(bytes));
      return memory == type ? word : b.CreateTrunc(word, type);
    };
    llvm::Value *lane = b.CreateAnd(thread, b.getInt64(kWarp - 1));
    if (!isa<tile::FuncOp>(op->getParentOp()))
      barrier();
    when(b.CreateICmpEQ(lane, b.getInt64(0)), [&] {
      llvm::Value *word = memory == type ? value : b.CreateZExt(value, memory);
      b.CreateAlignedStore(word, slot(b.CreateLShr(thread, b.getInt64(5))),
                           llvm::Align(bytes));
    });
    barrier();
    // Of few words every thread reads all, of many one, for another tree; a
    // tree has 2^n leaves, which take the words beyond them first.
    constexpr unsigned few = 8;
    if (warps <= few) {
      value = read(b.getInt64(0));
      for (unsigned warp = 1; warp < warps; ++warp)
        value = combine(op, value, read(b.getInt64(warp)));
    } else {
      unsigned leaves = llvm::bit_floor(warps);
      llvm::Value *leaf = b.CreateAnd(lane, b.getInt64(leaves - 1));
      value = read(leaf);
      if (leaves < warps) {
        llvm::Value *beyond = b.CreateAdd(leaf, b.getInt64(leaves));
        llvm::Value *isWord = b.CreateICmpULT(beyond, b.getInt64(warps));
        llvm::Value *word = read(b.CreateSelect(isWord, beyond, leaf));
        value = b.CreateSelect(isWord, combine(op, value, word), value);
      }
      for (unsigned distance = leaves / 2; distance; distance /= 2)
        value = combine(op, value, shuffle(value, distance));
    }
  }
  // What the blocks of a cluster have, in their order.
  if (cluster > 1 && op->hasAttr("tile.of_cluster")) {
    llvm::Value *own =
        sharedArray(type, 1, "_exchange" + llvm::Twine(exchanges++));
    llvm::Align align(type->getPrimitiveSizeInBits() / 8);
    when(b.CreateICmpEQ(thread, b.getInt64(0)),
         [&] { b.CreateAlignedStore(value, own, align); });
    clusterBarrier();
    llvm::Value *all = nullptr;
    for (unsigned block = 0; block < cluster; ++block) {
      llvm::Value *one = b.CreateAlignedLoad(
          type,
          b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {},
                            {own, b.getInt32(block)}),
          align);
      all = all ? combine(op, all, one) : one;
    }
    value = all;
  }
  finishReduction(op, value);
  return success();
}

} // namespace knapper::lower
