// Attention over blocks by warps, for GPUs from sm_80 on: keys and values by
// cp.async into a ring of steps, ldmatrix, mma.sync; scores and weights stay in
// registers, maxima and sums are brought up to date with each step.
//
//   shared memory: [keys, values] x stages, a row of a head each, 16 bytes
//                  further apart than it is long: so eight rows' 16 bytes are
//                  in different banks
//
// One token: each warp has a ring of its own and every (warps x CTAs)th step,
// and waits for nobody until it joins the others' results, in shared memory and
// then in that of the cluster. Many tokens: a ring for the CTA, 16 rows a warp.
//
// Thread t has of 16 rows by 8 columns in sum i row t/4 + 8*(i/2), column
// 2*(t%4) + i%2. Two such tiles of weights are a left operand of values.
#include "codegen/lower/gpu/nvidia/common/PagedAttentionLowering.h"

#include "runtime/base/KernelAbi.h"

using namespace mlir;
using knapper::config::PagedAttentionAlgorithm;
using knapper::config::PagedAttentionGpuConfig;

namespace knapper::lower {

namespace {
constexpr double kLog2E = 1.4426950408889634;
/// Below every score, yet exp2 of its distance to itself is 1.
constexpr double kNothingSeen = -0x1p100;
} // namespace

unsigned PagedAttentionLowering::sharedBytes(const PagedAttentionGpuConfig &c) {
  if (c.algorithm == PagedAttentionAlgorithm::simt)
    return 0;
  unsigned ring = c.stages * c.keys * (2 * (c.depth + c.columns) + 32);
  if (c.tokens)
    return ring;
  // Results, maxima and sums of each warp, then of the CTA.
  unsigned rows = kFragment * (c.columns + 4) * 4;
  return std::max<unsigned>(c.warps * ring, (c.warps + 1) * rows);
}

LogicalResult GpuLowering::pagedAttentionLayout(tile::PagedAttentionOp op) {
  auto config = PagedAttentionGpuConfig::of(op.getShape());
  threads = width = 1;
  shape.threads = 32 * config.warps;
  shape.sharedBytes = PagedAttentionLowering::sharedBytes(config);
  cluster = config.keySplit;
  return success();
}

LogicalResult GpuLowering::pagedAttention(tile::PagedAttentionOp op) {
  return PagedAttentionLowering(*this, op).emit();
}

LogicalResult PagedAttentionLowering::emit() {
  struct {
    BufferRef &to;
    mlir::Value from;
  } buffers[] = {{queries, op.getQ()},
                 {keys, op.getK()},
                 {values, op.getV()},
                 {table, op.getTable()},
                 {sequences, op.getSequence()},
                 {positions, op.getPosition()},
                 {result, op.getO()}};
  for (auto [to, from] : buffers) {
    auto found = g.buffer(from);
    if (failed(found))
      return failure();
    to = *found;
  }
  element = op.getQ().getType().getElementType();
  bf16 = element.isBF16();
  if (!c.keyHeads || c.heads % c.keyHeads || !c.warps)
    return op.emitOpError("has a shape that this algorithm cannot do");
  share = c.heads / c.keyHeads;
  tid = b.CreateTrunc(g.threadOfBlock, b.getInt32Ty());
  lane = b.CreateAnd(tid, n32(kWarp - 1));
  warp = b.CreateLShr(tid, 5);
  if (c.algorithm == PagedAttentionAlgorithm::simt) {
    byFma();
    return success();
  }
  if (!(bf16 || element.isF16()) || c.depth % kFragment ||
      c.columns % kFragment || c.keys % kFragment || c.stages < 2 ||
      c.positions % kFragment ||
      (c.tokens ? c.tokens * share > kFragment * c.warps || c.keySplit != 1
                : c.keys != kFragment))
    return op.emitOpError("has a shape that this algorithm cannot do");
  base = g.launchedShared();
  if (c.tokens)
    manyTokens();
  else
    oneToken();
  return success();
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

llvm::Value *PagedAttentionLowering::integer(const BufferRef &ref, Value *at) {
  return g.tag(b.CreateAlignedLoad(b.getInt32Ty(), g.address(ref, wide(at)),
                                   llvm::Align(4)),
               ref);
}

llvm::Value *PagedAttentionLowering::inside(Value *at, Value *bound) {
  Value *outside = b.CreateICmpUGE(at, bound);
  g.when(outside, [&] {
    b.CreateAlignedStore(n32(kernelIndexOutOfRange), g.status, llvm::Align(4));
  });
  return b.CreateSelect(outside, n32(0), at);
}

PagedAttentionLowering::Range PagedAttentionLowering::seenBy(Value *token) {
  Value *position = integer(positions, token);
  Value *room = b.CreateMul(size(2), n32(c.positions));
  // (Below the largest number: one more must not be the smallest.)
  Value *end = b.CreateAdd(least(position, b.CreateSub(room, n32(1))), n32(1));
  Value *begin = n32(0);
  if (auto window = static_cast<int64_t>(op.getWindow());
      window > 0 && window <= INT32_MAX)
    begin = b.CreateAdd(most(position, n32(window - 1)), n32(1 - window));
  return {begin, most(end, n32(0))};
}

llvm::Value *PagedAttentionLowering::tableAt(Value *sequence, Value *key) {
  return integer(table, b.CreateAdd(b.CreateMul(sequence, size(2)),
                                    b.CreateUDiv(key, n32(c.positions))));
}

llvm::Value *PagedAttentionLowering::blockOf(Value *sequence, Value *key) {
  return inside(tableAt(sequence, key), size(3));
}

llvm::Value *PagedAttentionLowering::rowOf(Value *block, Value *head,
                                           Value *key, int64_t width) {
  Value *matrix =
      b.CreateAdd(b.CreateMul(wide(block), b.getInt64(c.keyHeads)), wide(head));
  Value *row = b.CreateAdd(b.CreateMul(matrix, b.getInt64(c.positions)),
                           wide(b.CreateURem(key, n32(c.positions))));
  return b.CreateMul(row, b.getInt64(width));
}

llvm::Value *PagedAttentionLowering::scoreOf(Value *dot) {
  double scale = op.getScale().convertToDouble(),
         cap = op.getSoftcap().convertToDouble();
  if (cap <= 0)
    return b.CreateFMul(dot, number(scale * kLog2E));
  // cap * tanh(x) = cap - 2 * cap / (1 + exp(2x))
  Value *power = ptx.exp2(b.CreateFMul(dot, number(2 * scale / cap * kLog2E)));
  Value *part = ptx.reciprocal(b.CreateFAdd(power, number(1)));
  return b.CreateIntrinsic(
      llvm::Intrinsic::fma, {b.getFloatTy()},
      {part, number(-2 * cap * kLog2E), number(cap * kLog2E)});
}

llvm::Value *PagedAttentionLowering::inverseOf(Value *sum) {
  return b.CreateSelect(b.CreateFCmpOEQ(sum, number(0)), number(0),
                        b.CreateFDiv(number(1), sum));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

llvm::Value *PagedAttentionLowering::multiply(const Words &a, Value *b0,
                                              Value *b1, Carried &sums,
                                              unsigned at) {
  llvm::SmallVector<Value *> args(a.begin(), a.end());
  args.append({b0, b1});
  if (!bf16)
    for (Value *&word : args)
      word =
          b.CreateBitCast(word, llvm::FixedVectorType::get(b.getHalfTy(), 2));
  args.append(sums.begin() + at, sums.begin() + at + 4);
  Value *all = b.CreateIntrinsic(
      bf16 ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
           : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32,
      {}, args);
  for (unsigned i = 0; i < 4; ++i)
    sums[at + i] = b.CreateExtractValue(all, i);
  return all;
}

PagedAttentionLowering::Words
PagedAttentionLowering::matrices(Value *shared, bool transposed) {
  Value *pointer = sharedAt(shared);
  Value *all = b.CreateIntrinsic(
      transposed ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                 : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
      {pointer->getType()}, {pointer});
  Words words;
  for (unsigned i = 0; i < 4; ++i)
    words.push_back(b.CreateExtractValue(all, i));
  return words;
}

PagedAttentionLowering::Rows
PagedAttentionLowering::loadRows(const Run &run, Value *head, Value *row) {
  Rows rows;
  rows.fragments.resize(c.depth / kFragment, Words(4));
  for (unsigned half = 0; half < 2; ++half) {
    Value *own =
        b.CreateAdd(b.CreateAdd(row, b.CreateLShr(lane, 2)), n32(8 * half));
    Value *token = b.CreateAdd(run.first, b.CreateUDiv(own, n32(share)));
    Value *there = b.CreateICmpSLT(token, run.end);
    token = b.CreateSelect(there, token, run.first);
    Range seen = seenBy(token);
    seen.end = b.CreateSelect(there, seen.end, n32(0));
    rows.seen[half] = seen;
    Value *queryHead = b.CreateAdd(b.CreateMul(head, n32(share)),
                                   b.CreateURem(own, n32(share)));
    Value *from = b.CreateAdd(b.CreateMul(wide(token), b.getInt64(c.heads)),
                              wide(queryHead));
    from = b.CreateAdd(b.CreateMul(from, b.getInt64(c.depth)),
                       wide(b.CreateShl(b.CreateAnd(lane, n32(3)), 1)));
    for (auto [k, words] : llvm::enumerate(rows.fragments))
      for (unsigned right = 0; right < 2; ++right) {
        Value *at = b.CreateAdd(from, b.getInt64(k * kFragment + 8 * right));
        Value *word =
            g.tag(b.CreateAlignedLoad(b.getInt32Ty(), g.address(queries, at),
                                      llvm::Align(4)),
                  queries);
        words[2 * right + half] = b.CreateSelect(there, word, n32(0));
      }
  }
  return rows;
}

Carried PagedAttentionLowering::beginRows() {
  Carried state(2, number(kNothingSeen));
  state.append(2 + c.columns / 8 * 4, number(0));
  return state;
}

Carried PagedAttentionLowering::step(const Rows &rows, Value *shared,
                                     Value *key, const Carried &before) {
  unsigned parts = c.keys / kFragment;
  Value *inMatrix = b.CreateAnd(lane, n32(7)), *matrix = b.CreateLShr(lane, 3);
  Value *low = b.CreateAnd(matrix, n32(1)), *high = b.CreateLShr(matrix, 1);
  auto rowAt = [&](Value *eighth, unsigned pitch) {
    return b.CreateMul(b.CreateAdd(b.CreateShl(eighth, 3), inMatrix),
                       n32(pitch));
  };
  // Of keys: rows 0-7 left, right, rows 8-15 left, right.
  Value *keyAt = b.CreateAdd(
      shared, b.CreateAdd(rowAt(high, pitch(c.depth)), b.CreateShl(low, 4)));
  Carried scores(parts * 8, number(0));
  for (unsigned k = 0; k < rows.fragments.size(); ++k)
    for (unsigned part = 0; part < parts; ++part) {
      Words words = matrices(
          b.CreateAdd(keyAt, n32(part * kFragment * pitch(c.depth) + k * 32)),
          /*transposed=*/false);
      multiply(rows.fragments[k], words[0], words[1], scores, part * 8);
      multiply(rows.fragments[k], words[2], words[3], scores, part * 8 + 4);
    }
  Value *never = llvm::ConstantFP::getInfinity(b.getFloatTy(), true);
  Value *ownKey = b.CreateAdd(key, b.CreateShl(b.CreateAnd(lane, n32(3)), 1));
  Carried next(before);
  for (unsigned half = 0; half < 2; ++half) {
    const Range &seen = rows.seen[half];
    Value *largest = before[half];
    for (unsigned i = 0; i < parts * 8; ++i) {
      if (i / 2 % 2 != half)
        continue;
      Value *at = b.CreateAdd(ownKey, n32(i / 4 * 8 + i % 2));
      Value *visible = b.CreateICmpSLT(at, seen.end);
      if (op.getWindow() > 0)
        visible = b.CreateAnd(visible, b.CreateICmpSGE(at, seen.begin));
      scores[i] = b.CreateSelect(visible, scoreOf(scores[i]), never);
      largest = larger(largest, scores[i]);
    }
    for (unsigned distance : {1, 2})
      largest = larger(largest, g.shuffle(largest, distance));
    Value *scaled = ptx.exp2(b.CreateFSub(before[half], largest));
    Value *sum = b.CreateFMul(before[kSums + half], scaled);
    for (unsigned i = 0; i < parts * 8; ++i)
      if (i / 2 % 2 == half) {
        scores[i] = ptx.exp2(b.CreateFSub(scores[i], largest));
        sum = b.CreateFAdd(sum, scores[i]);
      }
    next[half] = largest;
    next[kSums + half] = sum;
    for (unsigned i = kResults; i < next.size(); ++i)
      if ((i - kResults) / 2 % 2 == half)
        next[i] = b.CreateFMul(next[i], scaled);
  }
  // Of values, transposed: rows 0-7 left, rows 8-15 left, then right.
  Value *valueAt = b.CreateAdd(
      b.CreateAdd(shared, n32(c.keys * pitch(c.depth))),
      b.CreateAdd(rowAt(low, pitch(c.columns)), b.CreateShl(high, 4)));
  for (unsigned part = 0; part < parts; ++part) {
    Words weights;
    for (unsigned i = 0; i < 4; ++i)
      weights.push_back(ptx.pack(scores[part * 8 + 2 * i],
                                 scores[part * 8 + 2 * i + 1], bf16));
    for (unsigned d = 0; d < c.columns / kFragment; ++d) {
      Words words = matrices(
          b.CreateAdd(valueAt,
                      n32(part * kFragment * pitch(c.columns) + d * 32)),
          /*transposed=*/true);
      multiply(weights, words[0], words[1], next, kResults + d * 8);
      multiply(weights, words[2], words[3], next, kResults + d * 8 + 4);
    }
  }
  return next;
}

void PagedAttentionLowering::fetch(const Run &run, Value *head, Value *key,
                                   Value *shared, Value *lane, unsigned lanes) {
  g.when(b.CreateICmpSLT(key, run.keys.end), [&] {
    struct {
      const BufferRef &pool;
      int64_t width;
      unsigned at;
    } sides[] = {{keys, c.depth, 0},
                 {values, c.columns, unsigned(c.keys) * pitch(c.depth)}};
    // All of one token's step are in one block.
    Value *block = c.keys == kFragment ? blockOf(run.sequence, key) : nullptr;
    // Where a thread's accesses are, the same of keys and values as long; and
    // what is wrong with the table, said once: branches would part the loads.
    struct Access {
      Value *row, *chunk, *there, *from;
    };
    llvm::SmallVector<Access> accesses;
    Value *outside = nullptr;
    auto access = [&](Value *id, unsigned chunks, int64_t width,
                      bool whole) -> Access {
      Value *row = b.CreateUDiv(id, n32(chunks)),
            *chunk = b.CreateURem(id, n32(chunks));
      Value *own = b.CreateAdd(key, row);
      Value *there = b.CreateAnd(b.CreateICmpSGE(own, run.keys.begin),
                                 b.CreateICmpSLT(own, run.keys.end));
      Value *place = b.CreateSelect(there, own, run.keys.begin);
      Value *of = block;
      if (!of && !whole) {
        of = blockOf(run.sequence, place);
      } else if (!of) {
        of = tableAt(run.sequence, place);
        Value *wrong = b.CreateICmpUGE(of, size(3));
        outside = outside ? b.CreateOr(outside, wrong) : wrong;
        of = b.CreateSelect(wrong, n32(0), of);
      }
      Value *from = rowOf(of, head, block ? own : place, width);
      return {row, chunk, there,
              b.CreateAdd(from, wide(b.CreateShl(chunk, 3)))};
    };
    for (auto &[pool, width, at] : sides) {
      unsigned chunks = width / 8, all = unsigned(c.keys) * chunks;
      bool again = at != 0 && c.depth == c.columns;
      for (unsigned i = 0; i < all; i += lanes) {
        Value *id = b.CreateAdd(lane, n32(i));
        bool whole = i + lanes <= all;
        auto copy = [&, &pool = pool, width = width, at = at] {
          Access found = again && whole ? accesses[i / lanes]
                                        : access(id, chunks, width, whole);
          if (whole)
            accesses.push_back(found);
          Value *to =
              b.CreateAdd(b.CreateAdd(shared, n32(at)),
                          b.CreateAdd(b.CreateMul(found.row, n32(pitch(width))),
                                      b.CreateShl(found.chunk, 4)));
          ptx.copyRun(to, g.address(pool, found.from), found.there);
        };
        if (whole)
          copy();
        else
          g.when(b.CreateICmpULT(id, n32(all)), copy);
      }
    }
    if (outside)
      g.when(outside, [&] {
        b.CreateAlignedStore(n32(kernelIndexOutOfRange), g.status,
                             llvm::Align(4));
      });
  });
  ptx.commitCopies();
}

void PagedAttentionLowering::storeFour(Value *token, Value *head, Value *column,
                                       llvm::ArrayRef<Value *> numbers) {
  Value *at =
      b.CreateAdd(b.CreateMul(wide(token), b.getInt64(c.heads)), wide(head));
  at = b.CreateAdd(b.CreateMul(at, b.getInt64(c.columns)), wide(column));
  Value *words =
      llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), 2));
  for (unsigned i = 0; i < 2; ++i)
    words = b.CreateInsertElement(
        words, ptx.pack(numbers[2 * i], numbers[2 * i + 1], bf16), i);
  g.tag(b.CreateAlignedStore(words, g.address(result, at), llvm::Align(8)),
        result);
}

//===----------------------------------------------------------------------===//
// Many tokens
//===----------------------------------------------------------------------===//

void PagedAttentionLowering::manyTokens() {
  unsigned stages = c.stages, threads = c.warps * kWarp;
  Value *tokens = size(0);
  Value *program = b.CreateTrunc(g.programId, b.getInt32Ty());
  Value *head = b.CreateURem(program, n32(c.keyHeads));
  // The last tokens see the most: they go first.
  Value *tiles =
      b.CreateUDiv(b.CreateAdd(tokens, n32(c.tokens - 1)), n32(c.tokens));
  Value *tile = b.CreateSub(
      tiles, b.CreateAdd(b.CreateUDiv(program, n32(c.keyHeads)), n32(1)));
  Value *begin = b.CreateMul(tile, n32(c.tokens));
  Value *end = least(tokens, b.CreateAdd(begin, n32(c.tokens)));
  auto stageAt = [&](Value *number) {
    return b.CreateAdd(base, b.CreateMul(number, n32(stepBytes())));
  };
  auto advance = [&](Value *number) {
    Value *next = b.CreateAdd(number, n32(1));
    return b.CreateSelect(b.CreateICmpEQ(next, n32(stages)), n32(0), next);
  };
  // Run after run of tokens of one sequence.
  auto more = [&](const Carried &now) { return b.CreateICmpSLT(now[0], end); };
  carriedLoop(b, "runs", {begin}, more, [&](const Carried &now) -> Carried {
    Run run;
    run.first = now[0];
    run.sequence = integer(sequences, run.first);
    run.end = end;
    for (int64_t i = 0; i < c.tokens; i += kWarp) {
      Value *token = b.CreateAdd(run.first, b.CreateAdd(lane, n32(i)));
      Value *there = b.CreateICmpSLT(token, end);
      Value *other =
          integer(sequences, b.CreateSelect(there, token, run.first));
      Value *ballot =
          b.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {},
                            {n32(-1), b.CreateICmpNE(other, run.sequence)});
      Value *next = b.CreateAdd(
          b.CreateAdd(run.first, n32(i)),
          b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, ballot, b.getFalse()));
      run.end = b.CreateSelect(b.CreateICmpEQ(ballot, n32(0)), run.end,
                               least(run.end, next));
    }
    run.sequence = inside(run.sequence, size(1));
    run.keys = {n32(INT32_MAX), n32(0)};
    for (int64_t i = 0; i < c.tokens; i += kWarp) {
      Value *token = b.CreateAdd(run.first, b.CreateAdd(lane, n32(i)));
      Value *there = b.CreateICmpSLT(token, run.end);
      Range seen = seenBy(b.CreateSelect(there, token, run.first));
      run.keys.begin = least(run.keys.begin, seen.begin);
      run.keys.end = most(run.keys.end, seen.end);
    }
    for (unsigned distance = kWarp / 2; distance; distance /= 2) {
      run.keys.begin =
          least(run.keys.begin, g.shuffle(run.keys.begin, distance));
      run.keys.end = most(run.keys.end, g.shuffle(run.keys.end, distance));
    }
    Value *row = b.CreateMul(warp, n32(kFragment));
    Rows own = loadRows(run, head, row);
    Value *first = b.CreateAnd(run.keys.begin, n32(-kFragment));
    for (unsigned i = 0; i + 1 < stages; ++i)
      fetch(run, head, b.CreateAdd(first, n32(i * c.keys)), stageAt(n32(i)),
            tid, threads);
    Carried state{first, n32(0), n32(stages - 1)};
    llvm::append_range(state, beginRows());
    state = carriedLoop(
        b, "keys", state,
        [&](const Carried &now) {
          return b.CreateICmpSLT(now[0], run.keys.end);
        },
        [&](const Carried &now) {
          ptx.waitCopies(stages - 2);
          g.barrier(); // it is there, and the step before was read by all
          fetch(run, head, b.CreateAdd(now[0], n32((stages - 1) * c.keys)),
                stageAt(now[2]), tid, threads);
          Carried next{b.CreateAdd(now[0], n32(c.keys)), advance(now[1]),
                       advance(now[2])};
          llvm::append_range(next, step(own, stageAt(now[1]), now[0],
                                        Carried(now.begin() + 3, now.end())));
          return next;
        });
    state.erase(state.begin(), state.begin() + 3);
    ptx.waitCopies(0);
    g.barrier(); // the next run's copies may come
    Value *quad = b.CreateAnd(lane, n32(3));
    for (unsigned half = 0; half < 2; ++half) {
      Value *sum = state[kSums + half];
      for (unsigned distance : {1, 2})
        sum = b.CreateFAdd(sum, g.shuffle(sum, distance));
      Value *inverse = inverseOf(sum);
      Value *ownRow =
          b.CreateAdd(b.CreateAdd(row, b.CreateLShr(lane, 2)), n32(8 * half));
      Value *token = b.CreateAdd(run.first, b.CreateUDiv(ownRow, n32(share)));
      g.when(b.CreateICmpSLT(token, run.end), [&] {
        Value *queryHead = b.CreateAdd(b.CreateMul(head, n32(share)),
                                       b.CreateURem(ownRow, n32(share)));
        Value *at = b.CreateAdd(b.CreateMul(wide(token), b.getInt64(c.heads)),
                                wide(queryHead));
        at = b.CreateAdd(b.CreateMul(at, b.getInt64(c.columns)),
                         wide(b.CreateShl(quad, 1)));
        for (unsigned n = 0; n < c.columns / 8; ++n) {
          const auto *two = &state[kResults + 4 * n + 2 * half];
          Value *word = ptx.pack(b.CreateFMul(two[0], inverse),
                                 b.CreateFMul(two[1], inverse), bf16);
          g.tag(b.CreateAlignedStore(
                    word, g.address(result, b.CreateAdd(at, b.getInt64(8 * n))),
                    llvm::Align(4)),
                result);
        }
      });
    }
    return {run.end};
  });
}

} // namespace knapper::lower
