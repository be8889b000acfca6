// A stable sort by eight bits of words, one launch: the programs with the first
// tickets count the values in a tile each and look back at what the tiles
// before have; those with later tickets place a tile's words. Nobody waits for
// a later ticket. (As Onesweep, Adinets and Merrill 2022, whose counts of the
// whole line are known before: here they are the last tile's sums.)
//
// A thread stands for a value of the eight bits where counts are summed up. The
// words of a warp follow each other; those of one item that have equal values
// find each other by votes, a bit at a time.
#include "codegen/lower/gpu/GpuLowering.h"

#include "codegen/lower/common/CarriedLoop.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

class RadixPassLowering {
public:
  RadixPassLowering(GpuLowering &gpu, tile::RadixPassOp op)
      : gpu(gpu), b(gpu.b), op(op), items(op.getItems()) {}

  LogicalResult run();

private:
  static constexpr unsigned kWarp = 32, kBits = 8,
                            kValues = tile::RadixPassOp::kValues,
                            kWarps = kValues / kWarp, kTile = kValues;
  static constexpr unsigned kCountBits = 30, kRankBits = 16;
  /// What a state word says: nothing yet, the tile's own, the sum.
  static constexpr unsigned kOwn = 1, kSum = 2;

  llvm::Value *number(uint64_t n) { return b.getInt32(n); }
  llvm::Value *wide(llvm::Value *x) { return b.CreateZExt(x, b.getInt64Ty()); }
  llvm::Value *narrow(llvm::Value *x) { return b.CreateTrunc(x, word); }
  llvm::Value *slot(llvm::Type *type, llvm::Value *array, llvm::Value *i) {
    return b.CreateInBoundsGEP(type, array, wide(i));
  }
  llvm::Value *load(llvm::Value *array, llvm::Value *i) {
    return b.CreateAlignedLoad(word, slot(word, array, i), llvm::Align(4));
  }
  void store(llvm::Value *x, llvm::Value *array, llvm::Value *i) {
    b.CreateAlignedStore(x, slot(word, array, i), llvm::Align(4));
  }
  llvm::Value *digitOf(llvm::Value *x) {
    return b.CreateAnd(narrow(b.CreateLShr(x, uint64_t(op.getBit()))),
                       number(kValues - 1));
  }
  llvm::Value *ballot(llvm::Value *condition) {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {},
                             {number(~0u), condition});
  }
  void warpBarrier() {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {number(~0u)});
  }
  llvm::Value *popcount(llvm::Value *x) {
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x);
  }
  llvm::Value *least(llvm::Value *x, llvm::Value *y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y);
  }

  /// The state word of this thread's value and a tile of the line.
  llvm::Value *stateWord(llvm::Value *tileNumber) {
    llvm::Value *index = b.CreateAdd(b.CreateMul(line, tiles), tileNumber);
    index = b.CreateAdd(b.CreateMul(wide(index), b.getInt64(kValues)),
                        wide(thread));
    return b.CreateInBoundsGEP(word, state, index);
  }
  llvm::Value *readState(llvm::Value *tileNumber) {
    auto *x = b.CreateAlignedLoad(word, stateWord(tileNumber), llvm::Align(4));
    x->setAtomic(llvm::AtomicOrdering::Monotonic, device);
    return x;
  }
  void publish(llvm::Value *count, unsigned says) {
    auto *x = b.CreateAlignedStore(
        b.CreateOr(count, number(uint64_t(says) << kCountBits)),
        stateWord(tileNumber), llvm::Align(4));
    x->setAtomic(llvm::AtomicOrdering::Monotonic, device);
  }
  /// Between two reads of what is not there yet: those who wait are many, and
  /// the cache that they read would keep the others from writing it.
  void sleep() {
    constexpr unsigned nanoseconds = 200;
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_nanosleep, {},
                      {number(nanoseconds)});
  }
  llvm::Value *saysOf(llvm::Value *x) { return b.CreateLShr(x, kCountBits); }
  llvm::Value *countOf(llvm::Value *x) {
    return b.CreateAnd(x, number((1u << kCountBits) - 1));
  }

  void read();
  void count();
  void rank();
  /// The tile's count of this thread's value. With `keeps` those of each warp
  /// become what the warps before it have.
  llvm::Value *sumWarps(bool keeps);
  struct Walk {
    llvm::Value *count, *next, *done;
  };
  Walk look(llvm::Value *at, unsigned atOnce);
  void lookBack(llvm::Value *total);
  /// What threads before this one have, of each of two numbers.
  std::pair<llvm::Value *, llvm::Value *> before(llvm::Value *x,
                                                 llvm::Value *y);
  void place(llvm::Value *total);

  GpuLowering &gpu;
  llvm::IRBuilder<> &b;
  tile::RadixPassOp op;
  unsigned items;
  llvm::Type *word = b.getInt32Ty();
  llvm::SyncScope::ID device = {};
  BufferRef from = {}, to = {};
  llvm::Value *state = nullptr, *thread = nullptr, *lane = nullptr,
              *warp = nullptr;
  llvm::Value *tiles = nullptr, *line = nullptr, *tileNumber = nullptr;
  llvm::Value *begin = nullptr; ///< of the line, i64
  llvm::Value *first = nullptr; ///< of the tile in its line
  llvm::Value *left = nullptr;  ///< words of the tile
  llvm::Value *counts = nullptr, *starts = nullptr, *sums = nullptr,
              *sorted = nullptr; ///< shared
  SmallVector<llvm::Value *> words, ranks, valid;
};

void RadixPassLowering::read() {
  llvm::Value *own =
      b.CreateAdd(b.CreateMul(warp, number(kWarp * items)), lane);
  llvm::Value *start = b.CreateAdd(begin, wide(first));
  llvm::Value *last = b.CreateSub(left, number(1));
  for (unsigned i = 0; i < items; ++i) {
    llvm::Value *at = b.CreateAdd(own, number(i * kWarp));
    valid.push_back(b.CreateICmpULT(at, left));
    // No read waits for a branch.
    words.push_back(gpu.tag(
        b.CreateAlignedLoad(
            b.getInt64Ty(),
            gpu.address(from, b.CreateAdd(start, wide(least(at, last)))),
            llvm::Align(8)),
        from));
  }
}

void RadixPassLowering::count() {
  llvm::SyncScope::ID block =
      gpu.module.getContext().getOrInsertSyncScopeID("block");
  llvm::Value *row = b.CreateMul(warp, number(kValues));
  for (unsigned i = 0; i < items; ++i)
    gpu.when(valid[i], [&] {
      b.CreateAtomicRMW(llvm::AtomicRMWInst::Add,
                        slot(word, counts, b.CreateAdd(row, digitOf(words[i]))),
                        number(1), llvm::Align(4),
                        llvm::AtomicOrdering::Monotonic, block);
    });
  gpu.barrier();
}

void RadixPassLowering::rank() {
  llvm::Value *below =
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_lanemask_lt,
                        llvm::ArrayRef<llvm::Value *>());
  llvm::Value *row = b.CreateMul(warp, number(kValues));
  for (unsigned i = 0; i < items; ++i) {
    llvm::Value *digit = digitOf(words[i]), *same = ballot(valid[i]);
    for (unsigned bit = 0; bit < kBits; ++bit) {
      llvm::Value *set =
          b.CreateAnd(b.CreateLShr(digit, uint64_t(bit)), number(1));
      llvm::Value *vote = ballot(b.CreateICmpNE(set, number(0)));
      same = b.CreateAnd(same, b.CreateXor(vote, b.CreateSub(set, number(1))));
    }
    llvm::Value *at = b.CreateAdd(row, digit), *old = load(counts, at);
    llvm::Value *earlier = popcount(b.CreateAnd(same, below));
    warpBarrier();
    gpu.when(b.CreateAnd(valid[i], b.CreateICmpEQ(earlier, number(0))),
             [&] { store(b.CreateAdd(old, popcount(same)), counts, at); });
    warpBarrier();
    // A register for both.
    ranks.push_back(
        b.CreateOr(b.CreateShl(digit, kRankBits), b.CreateAdd(old, earlier)));
  }
  gpu.barrier();
}

llvm::Value *RadixPassLowering::sumWarps(bool keeps) {
  llvm::Value *total = number(0);
  for (unsigned i = 0; i < kWarps; ++i) {
    llvm::Value *at = b.CreateAdd(thread, number(i * kValues));
    llvm::Value *count = load(counts, at);
    if (keeps)
      store(total, counts, at);
    total = b.CreateAdd(total, count);
  }
  return total;
}

/// What was found of the tiles before `at`: their count, how many have one, and
/// whether the last of these has the sum of all before it.
RadixPassLowering::Walk RadixPassLowering::look(llvm::Value *at,
                                                unsigned atOnce) {
  SmallVector<llvm::Value *> read;
  for (unsigned i = 0; i < atOnce; ++i)
    read.push_back(readState(
        b.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, at, number(i))));
  Walk walk{number(0), at, b.getFalse()};
  llvm::Value *going = b.getTrue();
  for (llvm::Value *x : read) {
    llvm::Value *says = saysOf(x);
    llvm::Value *takes = b.CreateAnd(going, b.CreateICmpNE(says, number(0)));
    llvm::Value *ends = b.CreateICmpEQ(says, number(kSum));
    walk.count =
        b.CreateAdd(walk.count, b.CreateSelect(takes, countOf(x), number(0)));
    walk.next = b.CreateSub(walk.next, b.CreateZExt(takes, word));
    walk.done = b.CreateOr(walk.done, b.CreateAnd(takes, ends));
    going = b.CreateAnd(takes, b.CreateNot(ends));
  }
  return walk;
}

// A tile that began long after others finds a sum nearby. One that began with
// many others walks past all of them, in few steps: each takes the time of one
// read, however many tiles it passes.
void RadixPassLowering::lookBack(llvm::Value *total) {
  constexpr unsigned nearby = 8, atOnce = 32;
  llvm::Value *isFirst = b.CreateICmpEQ(tileNumber, number(0));
  llvm::BasicBlock *alone = gpu.newBlock("alone"),
                   *others = gpu.newBlock("others"),
                   *known = gpu.newBlock("known");
  b.CreateCondBr(isFirst, alone, others);
  b.SetInsertPoint(others);
  publish(total, kOwn);
  Walk first = look(b.CreateSub(tileNumber, number(1)), nearby);
  llvm::BasicBlock *near = b.GetInsertBlock(), *walk = gpu.newBlock("walk"),
                   *rest = gpu.newBlock("rest"), *again = gpu.newBlock("again");
  b.CreateCondBr(first.done, known, walk);
  b.SetInsertPoint(walk);
  llvm::PHINode *at = b.CreatePHI(word, 2), *sum = b.CreatePHI(word, 2);
  at->addIncoming(first.next, near);
  sum->addIncoming(first.count, near);
  Walk far = look(at, atOnce);
  llvm::Value *has = b.CreateAdd(sum, far.count);
  llvm::BasicBlock *walked = b.GetInsertBlock();
  b.CreateCondBr(far.done, known, again);
  b.SetInsertPoint(again);
  llvm::BasicBlock *idle = gpu.newBlock("idle");
  b.CreateCondBr(b.CreateICmpEQ(far.next, at), idle, rest);
  b.SetInsertPoint(idle);
  sleep();
  b.CreateBr(rest);
  b.SetInsertPoint(rest);
  at->addIncoming(far.next, rest);
  sum->addIncoming(has, rest);
  b.CreateBr(walk);
  b.SetInsertPoint(alone);
  b.CreateBr(known);
  b.SetInsertPoint(known);
  llvm::PHINode *prefix = b.CreatePHI(word, 3);
  prefix->addIncoming(first.count, near);
  prefix->addIncoming(has, walked);
  prefix->addIncoming(number(0), alone);
  publish(b.CreateAdd(total, prefix), kSum);
}

std::pair<llvm::Value *, llvm::Value *>
RadixPassLowering::before(llvm::Value *x, llvm::Value *y) {
  auto add = vector::CombiningKind::ADD;
  llvm::Value *own[] = {x, y}, *all[2], *result[2];
  for (unsigned i = 0; i < 2; ++i)
    all[i] = gpu.warpScan(add, own[i], lane, /*reverse=*/false, kWarp);
  gpu.when(b.CreateICmpEQ(lane, number(kWarp - 1)), [&] {
    for (unsigned i = 0; i < 2; ++i)
      store(all[i], sums, b.CreateAdd(warp, number(i * kWarps)));
  });
  gpu.barrier();
  for (unsigned i = 0; i < 2; ++i) {
    result[i] = b.CreateSub(all[i], own[i]);
    for (unsigned w = 0; w + 1 < kWarps; ++w) {
      llvm::Value *sum = load(sums, number(i * kWarps + w));
      result[i] = b.CreateAdd(
          result[i],
          b.CreateSelect(b.CreateICmpUGT(warp, number(w)), sum, number(0)));
    }
  }
  return {result[0], result[1]};
}

void RadixPassLowering::place(llvm::Value *total) {
  llvm::BasicBlock *wait = gpu.newBlock("wait"), *idle = gpu.newBlock("idle"),
                   *there = gpu.newBlock("there");
  b.CreateBr(wait);
  b.SetInsertPoint(wait);
  llvm::Value *isFirst = b.CreateICmpEQ(tileNumber, number(0));
  llvm::Value *previous = readState(b.CreateBinaryIntrinsic(
      llvm::Intrinsic::usub_sat, tileNumber, number(1)));
  llvm::Value *last = readState(b.CreateSub(tiles, number(1)));
  auto summed = [&](llvm::Value *x) {
    return b.CreateICmpEQ(saysOf(x), number(kSum));
  };
  b.CreateCondBr(b.CreateAnd(summed(previous), summed(last)), there, idle);
  b.SetInsertPoint(idle);
  sleep();
  b.CreateBr(wait);
  b.SetInsertPoint(there);
  llvm::Value *ofTiles = b.CreateSelect(isFirst, number(0), countOf(previous));
  auto [local, whole] = before(total, countOf(last));
  // What a word's place in the tile is less than its place in the line.
  store(b.CreateSub(b.CreateAdd(whole, ofTiles), local), starts, thread);
  for (unsigned i = 0; i < kWarps; ++i) {
    llvm::Value *at = b.CreateAdd(thread, number(i * kValues));
    store(b.CreateAdd(load(counts, at), local), counts, at);
  }
  gpu.barrier();
  llvm::Value *row = b.CreateMul(warp, number(kValues));
  auto *pair = b.getInt64Ty();
  for (unsigned i = 0; i < items; ++i)
    gpu.when(valid[i], [&] {
      llvm::Value *digit = b.CreateLShr(ranks[i], uint64_t(kRankBits));
      llvm::Value *own = b.CreateAnd(ranks[i], number((1u << kRankBits) - 1));
      llvm::Value *at = b.CreateAdd(load(counts, b.CreateAdd(row, digit)), own);
      b.CreateAlignedStore(words[i], slot(pair, sorted, at), llvm::Align(8));
    });
  gpu.barrier();
  for (unsigned i = 0; i < items; ++i) {
    llvm::Value *at = b.CreateAdd(thread, number(i * kTile));
    gpu.when(b.CreateICmpULT(at, left), [&] {
      llvm::Value *x =
          b.CreateAlignedLoad(pair, slot(pair, sorted, at), llvm::Align(8));
      llvm::Value *place = b.CreateAdd(load(starts, digitOf(x)), at);
      gpu.tag(b.CreateAlignedStore(
                  x, gpu.address(to, b.CreateAdd(begin, wide(place))),
                  llvm::Align(8)),
              to);
    });
  }
}

LogicalResult RadixPassLowering::run() {
  if (gpu.programs > 1 || gpu.threads != kValues)
    return op.emitOpError("takes programs of ") << kValues << " threads";
  auto source = gpu.buffer(op.getFrom()), target = gpu.buffer(op.getTo()),
       shared = gpu.buffer(op.getState());
  if (failed(source) || failed(target) || failed(shared))
    return failure();
  from = *source, to = *target;
  device = gpu.module.getContext().getOrInsertSyncScopeID("device");
  state = gpu.address(*shared, gpu.scalar(op.getOffset()));
  thread = narrow(gpu.thread);
  lane = b.CreateAnd(thread, number(kWarp - 1));
  warp = b.CreateLShr(thread, uint64_t(llvm::Log2_32(kWarp)));
  auto array = [&](llvm::Type *type, unsigned count) {
    return gpu.sharedArray(type, count, "_pass" + llvm::Twine(gpu.exchanges++));
  };
  counts = array(word, kWarps * kValues);
  starts = array(word, kValues);
  sums = array(word, 2 * kWarps);
  sorted = array(b.getInt64Ty(), kValues * items);

  llvm::Value *length = narrow(gpu.scalar(op.getLength())),
              *lines = narrow(gpu.scalar(op.getLines())),
              *task = narrow(gpu.scalar(op.getNumber()));
  llvm::Value *size = number(kValues * items);
  tiles = b.CreateUDiv(b.CreateAdd(length, number(kValues * items - 1)), size);
  llvm::Value *tasks = b.CreateMul(tiles, lines);
  llvm::Value *places = b.CreateICmpUGE(task, tasks);
  task = b.CreateSub(task, b.CreateSelect(places, tasks, number(0)));
  // Lines in turns: what a tile waits for began long before.
  tileNumber = b.CreateUDiv(task, lines);
  line = b.CreateURem(task, lines);
  begin = b.CreateMul(wide(line), wide(length));
  first = b.CreateMul(tileNumber, size);
  left = least(b.CreateSub(length, first), size);
  read();
  for (unsigned i = 0; i < kWarps; ++i)
    store(number(0), counts, b.CreateAdd(thread, number(i * kValues)));
  gpu.barrier();
  llvm::BasicBlock *counting = gpu.newBlock("count"),
                   *placing = gpu.newBlock("place"), *end = gpu.newBlock("end");
  b.CreateCondBr(places, placing, counting);
  b.SetInsertPoint(counting);
  count();
  lookBack(sumWarps(/*keeps=*/false));
  b.CreateBr(end);
  b.SetInsertPoint(placing);
  rank();
  place(sumWarps(/*keeps=*/true));
  b.CreateBr(end);
  b.SetInsertPoint(end);
  return success();
}

LogicalResult GpuLowering::radixPass(tile::RadixPassOp op) {
  return RadixPassLowering(*this, op).run();
}

} // namespace knapper::lower
