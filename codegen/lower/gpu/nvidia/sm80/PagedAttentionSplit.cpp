// One token a CTA of an attention over blocks: warps, and the CTAs of a
// cluster, share out its keys (flash decoding); their results meet in shared
// memory.
#include "codegen/lower/gpu/nvidia/sm80/PagedAttentionLowering.h"

namespace knapper::lower {

void PagedAttentionLowering::oneToken() {
  unsigned warps = c.warps, split = c.keySplit, stages = c.stages;
  unsigned blocks = (share + kFragment - 1) / kFragment; // of rows
  unsigned rows = std::min<int64_t>(share, kFragment);
  Value *program = b.CreateTrunc(g.programId, b.getInt32Ty());
  Value *rank = split > 1 ? ptx.clusterRank() : n32(0);
  program = b.CreateUDiv(program, n32(split));
  Value *row = b.CreateMul(b.CreateURem(program, n32(blocks)), n32(kFragment));
  program = b.CreateUDiv(program, n32(blocks));
  Value *head = b.CreateURem(program, n32(c.keyHeads));
  Run run;
  run.first = b.CreateUDiv(program, n32(c.keyHeads));
  run.end = b.CreateAdd(run.first, n32(1));
  run.sequence = sequenceOf(run.first);
  run.keys = seenBy(run.first);
  Rows own = loadRows(run, head, row);
  // Rows behind the group's last head would be another token's.
  Value *ring = b.CreateAdd(base, b.CreateMul(warp, n32(stages * stepBytes())));
  auto stageAt = [&](Value *number) {
    return b.CreateAdd(ring, b.CreateMul(number, n32(stepBytes())));
  };
  auto advance = [&](Value *number) {
    Value *next = b.CreateAdd(number, n32(1));
    return b.CreateSelect(b.CreateICmpEQ(next, n32(stages)), n32(0), next);
  };
  unsigned apart = split * warps * kFragment; // keys from step to step
  Value *place = b.CreateAdd(b.CreateMul(rank, n32(warps)), warp);
  Value *first = b.CreateAdd(b.CreateAnd(run.keys.begin, n32(-16)),
                             b.CreateMul(place, n32(kFragment)));
  for (unsigned i = 0; i + 1 < stages; ++i)
    fetch(run, head, b.CreateAdd(first, n32(i * apart)), stageAt(n32(i)), lane,
          kWarp);
  Carried state{first, n32(0), n32(stages - 1)};
  llvm::append_range(state, beginRows());
  state = carriedLoop(
      b, "keys", state,
      [&](const Carried &now) { return b.CreateICmpSLT(now[0], run.keys.end); },
      [&](const Carried &now) {
        ptx.waitCopies(stages - 2);
        meetWarp(); // it is there, and the step before was read by all
        fetch(run, head, b.CreateAdd(now[0], n32((stages - 1) * apart)),
              stageAt(now[2]), lane, kWarp);
        Carried next{b.CreateAdd(now[0], n32(apart)), advance(now[1]),
                     advance(now[2])};
        llvm::append_range(next, step(own, stageAt(now[1]), now[0],
                                      Carried(now.begin() + 3, now.end())));
        return next;
      });
  state.erase(state.begin(), state.begin() + 3);
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned distance : {1, 2})
      state[kSums + half] = b.CreateFAdd(
          state[kSums + half], g.shuffle(state[kSums + half], distance));

  //===-- The warps' results ----------------------------------------------===//
  // A row is its results, maximum, sum, and two words that nobody reads.
  unsigned rowBytes = (c.columns + 4) * 4, area = kFragment * rowBytes;
  ptx.waitCopies(0);
  g.barrier(); // all have read their rings
  auto *pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  Value *quad = b.CreateAnd(lane, n32(3));
  for (unsigned half = 0; half < 2; ++half) {
    Value *to = b.CreateAdd(
        b.CreateAdd(base, b.CreateMul(warp, n32(area))),
        b.CreateMul(b.CreateAdd(b.CreateLShr(lane, 2), n32(8 * half)),
                    n32(rowBytes)));
    auto store = [&](Value *x, Value *y, Value *at) {
      Value *two = llvm::PoisonValue::get(pair);
      two = b.CreateInsertElement(two, x, uint64_t(0));
      two = b.CreateInsertElement(two, y, 1);
      b.CreateAlignedStore(two, sharedAt(at), llvm::Align(8));
    };
    for (unsigned n = 0; n < c.columns / 8; ++n)
      store(state[kResults + 4 * n + 2 * half],
            state[kResults + 4 * n + 2 * half + 1],
            b.CreateAdd(to, b.CreateAdd(n32(32 * n), b.CreateShl(quad, 3))));
    g.when(b.CreateICmpEQ(quad, n32(0)), [&] {
      store(state[half], state[kSums + half],
            b.CreateAdd(to, n32(c.columns * 4)));
    });
  }
  g.barrier();
  // Four elements of `count` rows like this, joined: results, maximum, sum.
  auto join = [&](unsigned count, auto load) {
    Value *largest = nullptr;
    llvm::SmallVector<llvm::SmallVector<Value *, 4>> heads, tails;
    for (unsigned i = 0; i < count; ++i) {
      auto [mine, last] = load(i);
      heads.push_back(mine);
      tails.push_back(last);
      largest = largest ? larger(largest, last[0]) : last[0];
    }
    llvm::SmallVector<Value *> all(5, number(0));
    all.push_back(largest);
    for (unsigned i = 0; i < count; ++i) {
      Value *factor = ptx.exp2(b.CreateFSub(tails[i][0], largest));
      auto add = [&](Value *&to, Value *what) {
        to = b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()},
                               {what, factor, to});
      };
      for (unsigned j = 0; j < 4; ++j)
        add(all[j], heads[i][j]);
      add(all[4], tails[i][1]);
    }
    return all;
  };
  unsigned fours = c.columns / 4, threads = warps * kWarp;
  auto finish = [&](Value *ownRow, Value *column, llvm::ArrayRef<Value *> all) {
    Value *inGroup = b.CreateAdd(row, ownRow);
    g.when(b.CreateICmpSLT(inGroup, n32(share)), [&] {
      Value *inverse = inverseOf(all[4]);
      llvm::SmallVector<Value *> numbers;
      for (unsigned j = 0; j < 4; ++j)
        numbers.push_back(b.CreateFMul(all[j], inverse));
      storeFour(run.first, b.CreateAdd(b.CreateMul(head, n32(share)), inGroup),
                column, numbers);
    });
  };
  auto eachFour = [&](Value *from, unsigned step, auto body) {
    carriedFor(b, "join", from, n32(rows * fours), n32(step), {},
               [&](Value *i, const Carried &) -> Carried {
                 body(b.CreateUDiv(i, n32(fours)),
                      b.CreateShl(b.CreateURem(i, n32(fours)), 2));
                 return {};
               });
  };
  Value *joined = b.CreateAdd(base, n32(warps * area));
  eachFour(tid, threads, [&](Value *ownRow, Value *column) {
    Value *rowAt = b.CreateMul(ownRow, n32(rowBytes));
    auto all = join(warps, [&](unsigned i) {
      auto read = [&](Value *at) {
        Value *words = b.CreateAlignedLoad(four, sharedAt(at), llvm::Align(16));
        llvm::SmallVector<Value *, 4> numbers;
        for (unsigned j = 0; j < 4; ++j)
          numbers.push_back(b.CreateExtractElement(words, j));
        return numbers;
      };
      Value *from = b.CreateAdd(b.CreateAdd(base, n32(i * area)), rowAt);
      return std::pair(read(b.CreateAdd(from, b.CreateShl(column, 2))),
                       read(b.CreateAdd(from, n32(c.columns * 4))));
    });
    if (split == 1)
      return finish(ownRow, column, all);
    Value *to = b.CreateAdd(joined, rowAt);
    auto write = [&](llvm::ArrayRef<Value *> numbers, Value *at) {
      Value *words = llvm::PoisonValue::get(four);
      for (unsigned j = 0; j < 4; ++j)
        words = b.CreateInsertElement(words, numbers[j], j);
      b.CreateAlignedStore(words, sharedAt(at), llvm::Align(16));
    };
    write(llvm::ArrayRef(all).take_front(4),
          b.CreateAdd(to, b.CreateShl(column, 2)));
    g.when(b.CreateICmpEQ(column, n32(0)), [&] {
      write({all[5], all[4], number(0), number(0)},
            b.CreateAdd(to, n32(c.columns * 4)));
    });
  });
  if (split == 1)
    return;

  //===-- The cluster's results -------------------------------------------===//
  ptx.clusterBarrier();
  eachFour(b.CreateAdd(b.CreateMul(rank, n32(threads)), tid), split * threads,
           [&](Value *ownRow, Value *column) {
             Value *from =
                 b.CreateAdd(joined, b.CreateMul(ownRow, n32(rowBytes)));
             auto all = join(split, [&](unsigned i) {
               auto read = [&](Value *at) {
                 return ptx.loadPeer(ptx.inPeer(at, n32(i)));
               };
               return std::pair(read(b.CreateAdd(from, b.CreateShl(column, 2))),
                                read(b.CreateAdd(from, n32(c.columns * 4))));
             });
             finish(ownRow, column, all);
           });
  ptx.clusterBarrier(); // others have read what this CTA has
}

} // namespace knapper::lower
