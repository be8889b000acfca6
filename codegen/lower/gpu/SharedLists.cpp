// Lists of words in shared memory: sorted by counting what is larger, and
// exchanged between the blocks of a cluster. A thread takes a word at a time.
#include "codegen/lower/gpu/GpuLowering.h"

#include "codegen/lower/common/CarriedLoop.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

void GpuLowering::eachWord(llvm::Value *begin, llvm::Value *end,
                           llvm::Value *step,
                           llvm::function_ref<void(llvm::Value *)> body) {
  carriedLoop(
      b, "word", {begin},
      [&](const Carried &c) { return b.CreateICmpULT(c[0], end); },
      [&](const Carried &c) -> Carried {
        body(c[0]);
        return {b.CreateAdd(c[0], step)};
      });
}

void GpuLowering::rank(tile::RankOp op) {
  SmallVector<BufferRef, 2> from, to;
  for (auto [source, target] : llvm::zip(op.getFrom(), op.getTo())) {
    from.push_back(buffers[source]);
    to.push_back(buffers[target]);
  }
  auto place = [&](const BufferRef &ref, llvm::Value *i) {
    return address(ref, b.CreateZExt(i, b.getInt64Ty()));
  };
  auto read = [&](llvm::Value *i) {
    SmallVector<llvm::Value *, 2> words;
    for (const BufferRef &ref : from)
      words.push_back(b.CreateAlignedLoad(ref.memory, place(ref, i),
                                          llvm::Align(ref.bytes)));
    return words;
  };
  llvm::Type *number = b.getInt32Ty();
  llvm::Value *count = b.CreateTrunc(scalar(op.getCount()), number);
  llvm::Value *own = b.CreateTrunc(thread, number);
  eachWord(own, count, b.getInt32(threads), [&](llvm::Value *i) {
    SmallVector<llvm::Value *, 2> mine = read(i);
    Carried end = carriedLoop(
        b, "rank", {b.getInt32(0), b.getInt32(0)},
        [&](const Carried &c) { return b.CreateICmpULT(c[0], count); },
        [&](const Carried &c) -> Carried {
          llvm::Value *larger = nullptr, *equal = nullptr;
          for (auto [other, word] : llvm::zip(read(c[0]), mine)) {
            llvm::Value *here = b.CreateICmpUGT(other, word);
            larger =
                larger ? b.CreateOr(larger, b.CreateAnd(equal, here)) : here;
            llvm::Value *same = b.CreateICmpEQ(other, word);
            equal = equal ? b.CreateAnd(equal, same) : same;
          }
          return {b.CreateAdd(c[0], b.getInt32(1)),
                  b.CreateAdd(c[1], b.CreateZExt(larger, number))};
        });
    for (auto [ref, word] : llvm::zip(to, mine))
      b.CreateAlignedStore(word, place(ref, end[1]), llvm::Align(ref.bytes));
  });
}

LogicalResult GpuLowering::clusterCollect(tile::ClusterCollectOp op) {
  if (programs > 1)
    return op.emitOpError("takes programs that are blocks");
  llvm::Type *number = b.getInt32Ty();
  llvm::Value *memory =
      sharedArray(number, 1, "_cluster" + llvm::Twine(exchanges++));
  when(b.CreateICmpEQ(thread, b.getInt64(0)), [&] {
    b.CreateAlignedStore(b.CreateTrunc(scalar(op.getCount()), number), memory,
                         llvm::Align(4));
  });
  clusterBarrier();
  auto there = [&](llvm::Value *pointer, unsigned block) -> llvm::Value * {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {},
                             {pointer, b.getInt32(block)});
  };
  llvm::Value *total = b.getInt32(0), *own = b.CreateTrunc(thread, number);
  llvm::Value *limit = b.getInt32(op.getLimit());
  for (unsigned block = 0; block < cluster; ++block) {
    llvm::Value *count =
        b.CreateAlignedLoad(number, there(memory, block), llvm::Align(4));
    // What is behind the limit is left out.
    llvm::Value *room =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, limit, total);
    llvm::Value *end =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, room);
    eachWord(own, end, b.getInt32(threads), [&](llvm::Value *i) {
      for (auto [source, target] : llvm::zip(op.getFrom(), op.getTo())) {
        BufferRef from = buffers[source], to = buffers[target];
        llvm::Align align(from.bytes);
        llvm::Value *word = b.CreateAlignedLoad(
            from.memory,
            there(address(from, b.CreateZExt(i, b.getInt64Ty())), block),
            align);
        b.CreateAlignedStore(
            word,
            address(to, b.CreateZExt(b.CreateAdd(total, i), b.getInt64Ty())),
            align);
      }
    });
    total = b.CreateAdd(total, count);
  }
  barrier();
  set(op.getTotal(), {b.CreateZExt(total, b.getInt64Ty())});
  return success();
}

} // namespace knapper::lower
