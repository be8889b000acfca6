// One token a CTA of an attention over blocks: warps, and the CTAs of a
// cluster, share out its keys (flash decoding); their results meet in shared
// memory.
#include "codegen/lower/gpu/nvidia/common/PagedAttentionLowering.h"

namespace knapper::lower {

PagedAttentionLowering::Split PagedAttentionLowering::splitOf() {
  unsigned blocks = (share + kFragment - 1) / kFragment; // of rows
  Split s;
  s.rows = std::min<int64_t>(share, kFragment);
  // A row is its results, maximum, sum, and two words that nobody reads.
  s.rowBytes = (c.columns + 4) * 4;
  s.area = kFragment * s.rowBytes;
  Value *program = b.CreateTrunc(g.programId, b.getInt32Ty());
  s.rank = c.keySplit > 1 ? ptx.clusterRank() : n32(0);
  program = b.CreateUDiv(program, n32(c.keySplit));
  s.row = b.CreateMul(b.CreateURem(program, n32(blocks)), n32(kFragment));
  program = b.CreateUDiv(program, n32(blocks));
  s.head = b.CreateURem(program, n32(c.keyHeads));
  s.run.first = b.CreateUDiv(program, n32(c.keyHeads));
  s.run.end = b.CreateAdd(s.run.first, n32(1));
  s.run.sequence = sequenceOf(s.run.first);
  s.run.keys = seenBy(s.run.first);
  return s;
}

Carried PagedAttentionLowering::walkShare(const Split &split) {
  unsigned warps = c.warps, stages = c.stages;
  const Run &run = split.run;
  Value *head = split.head;
  Rows own = loadRows(run, head, split.row);
  // Rows behind the group's last head would be another token's.
  Value *ring = b.CreateAdd(base, b.CreateMul(warp, n32(stages * stepBytes())));
  auto stageAt = [&](Value *number) {
    return b.CreateAdd(ring, b.CreateMul(number, n32(stepBytes())));
  };
  auto advance = [&](Value *number) {
    Value *next = b.CreateAdd(number, n32(1));
    return b.CreateSelect(b.CreateICmpEQ(next, n32(stages)), n32(0), next);
  };
  unsigned apart = c.keySplit * warps * kFragment; // keys from step to step
  Value *place = b.CreateAdd(b.CreateMul(split.rank, n32(warps)), warp);
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

  return state;
}

void PagedAttentionLowering::writeRows(const Split &split,
                                       const Carried &state) {
  auto *pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
  Value *quad = b.CreateAnd(lane, n32(3));
  for (unsigned half = 0; half < 2; ++half) {
    Value *to = b.CreateAdd(
        b.CreateAdd(base, b.CreateMul(warp, n32(split.area))),
        b.CreateMul(b.CreateAdd(b.CreateLShr(lane, 2), n32(8 * half)),
                    n32(split.rowBytes)));
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
}

llvm::SmallVector<llvm::Value *> PagedAttentionLowering::join(
    unsigned count, llvm::function_ref<std::pair<Four, Four>(unsigned)> load) {
  Value *largest = nullptr;
  llvm::SmallVector<Four> heads, tails;
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
}

void PagedAttentionLowering::finishFour(const Split &split, Value *ownRow,
                                        Value *column,
                                        llvm::ArrayRef<Value *> all) {
  Value *inGroup = b.CreateAdd(split.row, ownRow);
  g.when(b.CreateICmpSLT(inGroup, n32(share)), [&] {
    Value *inverse = inverseOf(all[4]);
    llvm::SmallVector<Value *> numbers;
    for (unsigned j = 0; j < 4; ++j)
      numbers.push_back(b.CreateFMul(all[j], inverse));
    storeFour(split.run.first,
              b.CreateAdd(b.CreateMul(split.head, n32(share)), inGroup), column,
              numbers);
  });
}

void PagedAttentionLowering::eachFour(
    const Split &split, Value *from, unsigned step,
    llvm::function_ref<void(Value *, Value *)> body) {
  unsigned fours = c.columns / 4;
  carriedFor(b, "join", from, n32(split.rows * fours), n32(step), {},
             [&](Value *i, const Carried &) -> Carried {
               body(b.CreateUDiv(i, n32(fours)),
                    b.CreateShl(b.CreateURem(i, n32(fours)), 2));
               return {};
             });
}

PagedAttentionLowering::Four PagedAttentionLowering::readFour(Value *at) {
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  Value *words = b.CreateAlignedLoad(four, sharedAt(at), llvm::Align(16));
  Four numbers;
  for (unsigned j = 0; j < 4; ++j)
    numbers.push_back(b.CreateExtractElement(words, j));
  return numbers;
}

void PagedAttentionLowering::writeFour(llvm::ArrayRef<Value *> numbers,
                                       Value *at) {
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  Value *words = llvm::PoisonValue::get(four);
  for (unsigned j = 0; j < 4; ++j)
    words = b.CreateInsertElement(words, numbers[j], j);
  b.CreateAlignedStore(words, sharedAt(at), llvm::Align(16));
}

void PagedAttentionLowering::joinWarps(const Split &split) {
  eachFour(split, tid, c.warps * kWarp, [&](Value *ownRow, Value *column) {
    Value *rowAt = b.CreateMul(ownRow, n32(split.rowBytes));
    auto all = join(c.warps, [&](unsigned i) {
      Value *from = b.CreateAdd(b.CreateAdd(base, n32(i * split.area)), rowAt);
      Four mine = readFour(b.CreateAdd(from, b.CreateShl(column, 2)));
      return std::pair(mine, readFour(b.CreateAdd(from, n32(c.columns * 4))));
    });
    if (c.keySplit == 1)
      return finishFour(split, ownRow, column, all);
    Value *to = b.CreateAdd(split.joined, rowAt);
    writeFour(llvm::ArrayRef(all).take_front(4),
              b.CreateAdd(to, b.CreateShl(column, 2)));
    g.when(b.CreateICmpEQ(column, n32(0)), [&] {
      writeFour({all[5], all[4], number(0), number(0)},
                b.CreateAdd(to, n32(c.columns * 4)));
    });
  });
}

void PagedAttentionLowering::joinCluster(const Split &split) {
  unsigned threads = c.warps * kWarp;
  ptx.clusterBarrier();
  Value *first = b.CreateAdd(b.CreateMul(split.rank, n32(threads)), tid);
  eachFour(
      split, first, c.keySplit * threads, [&](Value *ownRow, Value *column) {
        Value *from =
            b.CreateAdd(split.joined, b.CreateMul(ownRow, n32(split.rowBytes)));
        auto all = join(c.keySplit, [&](unsigned i) {
          auto read = [&](Value *at) -> Four {
            return ptx.loadPeer(ptx.inPeer(at, n32(i)));
          };
          Four mine = read(b.CreateAdd(from, b.CreateShl(column, 2)));
          return std::pair(mine, read(b.CreateAdd(from, n32(c.columns * 4))));
        });
        finishFour(split, ownRow, column, all);
      });
  ptx.clusterBarrier(); // others have read what this CTA has
}

void PagedAttentionLowering::oneToken() {
  Split split = splitOf();
  Carried state = walkShare(split);
  ptx.waitCopies(0);
  g.barrier(); // all have read their rings
  writeRows(split, state);
  g.barrier();
  split.joined = b.CreateAdd(base, n32(c.warps * split.area));
  joinWarps(split);
  if (c.keySplit > 1)
    joinCluster(split);
}

} // namespace knapper::lower
