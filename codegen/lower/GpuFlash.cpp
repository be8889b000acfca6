// Attention on Hopper: a warpgroup whose one thread copies boxes of queries,
// keys and values into shared memory, and warpgroups that each have 64 rows of
// queries and walk all keys with the scores and the result in registers.
//
//   shared memory: [full, empty barriers of the ring | of the queries | pad]
//                  [block of queries, later of the result] x 2
//                  [block of keys or values] x stages
//
// Blocks lie as chunks of 64 elements: 128 bytes a row, in the copies' 128-byte
// swizzle. One ring has keys and values in the order of their use: K0 K1 V0 K2
// V1 .. (the first is the last block of keys: walked backwards, so that what is
// cut by the end or the diagonal comes first, in a loop of its own).
//
// Per block n: start S = Q K(n), then O += P V(n + 1), whose P is that of the
// block before; when S is done (O is still under way) the softmax of S; when O
// is done P takes the new weights and O is scaled to the new maximum. So the
// exponentials hide under the products. Weights are 2^(c S - c m), c the scale
// times log2 e and m the row's largest S so far.
//
// Queries have two buffers: the next block's come while this one is computed,
// and a result leaves from its own queries' rows while the next is computed.
//
// Thread t of a warpgroup (warp w, lane l) has of its 64 rows in sum i
//   row 16w + l/4 + 8*((i/2)%2), column 8*(i/4) + 2*(l%4) + i%2
// which, packed in pairs, is how a product takes its left side from registers.
#include "codegen/lower/Gpu.h"
#include "codegen/lower/GpuBlocks.h"
#include "codegen/lower/GpuRing.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

namespace {

constexpr unsigned kChunk = 64;
// Where the queries' barriers are, and where the blocks begin.
constexpr unsigned kQueriesFull = 256, kQueriesEmpty = 288, kBlocks = 1024;
constexpr unsigned kQueryBuffers = 2;
constexpr double kLog2E = 1.4426950408889634;
/// Below every score, yet exp2 of its distance to itself is 1.
constexpr double kUnseen = -0x1p100;

/// The sizes of a kernel.
struct Sizes {
  explicit Sizes(tile::AttentionOp op)
      : rows(op.shapeOf("rows")), keys(op.shapeOf("keys")),
        width(op.shapeOf("width")), stages(op.shapeOf("stages")),
        consumers(op.shapeOf("consumers")) {}

  unsigned rows, keys, width, stages, consumers;

  unsigned chunks() const { return width / kChunk; }
  unsigned queryBytes() const { return rows * width * 2; }
  unsigned stageBytes() const { return keys * width * 2; }
  unsigned ringAt() const { return kBlocks + kQueryBuffers * queryBytes(); }
  unsigned bytes() const { return ringAt() + stages * stageBytes(); }
  unsigned scores() const { return keys / 2; } // of a thread
  unsigned sums() const { return width / 2; }
  bool fit() const {
    return consumers >= 2 && consumers <= 3 && rows == 64 * consumers &&
           keys % 16 == 0 && keys >= 16 && keys <= 256 && width % kChunk == 0 &&
           width >= kChunk && width <= 128 && stages >= 2 && stages <= 16 &&
           bytes() <= 232448;
  }
};

/// Where a block of rows lies: its first row, head and batch; the keys of the
/// head. All i32.
struct Rows {
  llvm::Value *first, *head, *batch, *keyHead;
  llvm::Value *blocks; // of keys that some row sees, at least 1
  llvm::Value *whole;  // of these the first so many are seen by all rows
};

/// What a row has of its softmax so far, for a thread's two rows; the sums are
/// the thread's share.
struct Softmax {
  llvm::Value *largest[2], *sum[2];
};

class Flash : public Ring {
public:
  Flash(llvm::IRBuilder<> &b, const Sizes &s, tile::AttentionOp op)
      : Ring(b, s.stages), s(s), scale(op.getScale().convertToDouble()),
        mean(op.shapeOf("empty") == 2) {
    region = !op.keepsScores();
    general = region || mean || !(scale > 0);
  }

  llvm::Value *number(double n) {
    return llvm::ConstantFP::get(b.getFloatTy(), n);
  }
  llvm::Value *infinity(bool negative) {
    return llvm::ConstantFP::getInfinity(b.getFloatTy(), negative);
  }
  llvm::Value *queries(llvm::Value *buffer) {
    return at(b.CreateAdd(base, b.CreateMul(buffer, n32(s.queryBytes()))),
              kBlocks);
  }
  llvm::Value *stageAt(llvm::Value *stage) {
    return at(b.CreateAdd(base, b.CreateMul(stage, n32(s.stageBytes()))),
              s.ringAt());
  }
  llvm::Value *binary(llvm::Intrinsic::ID id, llvm::Value *x, llvm::Value *y) {
    return b.CreateBinaryIntrinsic(id, x, y);
  }
  llvm::Value *least(llvm::Value *x, llvm::Value *y) {
    return binary(llvm::Intrinsic::smin, x, y);
  }
  llvm::Value *most(llvm::Value *x, llvm::Value *y) {
    return binary(llvm::Intrinsic::smax, x, y);
  }
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {x, y, z});
  }
  /// What wgmma is told of a block, but for its address: swizzle of 128 bytes,
  /// 1024 bytes from eight rows to the next eight. `byDepth`: the rows are the
  /// depth (values), `keys` rows from 64 columns to the next.
  llvm::Value *descriptor(llvm::Value *address, bool byDepth) {
    uint64_t leading = byDepth ? s.keys * kRowBytes / 16 : 1;
    uint64_t high =
        uint64_t(1) << 62 | uint64_t(1024 / 16) << 32 | leading << 16;
    llvm::Value *low = b.CreateZExt(
        b.CreateAnd(b.CreateLShr(address, 4), n32(0x3fff)), b.getInt64Ty());
    return b.CreateOr(low, b.getInt64(high));
  }
  /// 16 bytes from a block's start to a depth of 16, along its rows of `count`.
  unsigned alongRows(unsigned depth, unsigned count) {
    return depth / 4 * count * kRowBytes / 16 + depth % 4 * 2;
  }

  /// The same operation over what the four lanes of a row have.
  llvm::Value *quad(llvm::Intrinsic::ID id, llvm::Value *x) {
    for (unsigned distance : {1, 2})
      x = combine(id, x,
                  b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_f32,
                                    llvm::ArrayRef<llvm::Value *>{
                                        n32(-1), x, n32(distance), n32(31)}));
    return x;
  }
  /// maxnum, or fadd for not_intrinsic.
  llvm::Value *combine(llvm::Intrinsic::ID id, llvm::Value *x, llvm::Value *y) {
    return id == llvm::Intrinsic::not_intrinsic ? b.CreateFAdd(x, y)
                                                : binary(id, x, y);
  }
  /// Of a row's sums (r = 0, 1), in four chains.
  llvm::Value *overRow(llvm::Intrinsic::ID id, const Carried &values,
                       unsigned r) {
    llvm::SmallVector<llvm::Value *> chains;
    unsigned count = 0;
    for (auto [i, value] : llvm::enumerate(values)) {
      if ((i / 2) % 2 != r)
        continue;
      if (count < 4)
        chains.push_back(value);
      else
        chains[count % 4] = combine(id, chains[count % 4], value);
      ++count;
    }
    while (chains.size() > 1) {
      unsigned half = chains.size() / 2;
      for (unsigned i = 0; i < half; ++i)
        chains[i] = combine(id, chains[2 * i], chains[2 * i + 1]);
      chains.resize(half);
    }
    return chains[0];
  }
  /// Scores to weights; `scaled`: what the sums of the blocks before are to be
  /// multiplied by. `first`: there are none. `cut`: a row may see nothing yet.
  void softmax(Carried &values, Softmax &state, llvm::Value *scaled[2],
               bool first, bool cut) {
    double factor = general ? kLog2E : scale * kLog2E;
    llvm::Value *c = number(factor);
    llvm::Value *shift[2];
    for (unsigned r = 0; r < 2; ++r) {
      llvm::Value *largest = quad(llvm::Intrinsic::maxnum,
                                  overRow(llvm::Intrinsic::maxnum, values, r));
      if (!first)
        largest = binary(llvm::Intrinsic::maxnum, largest, state.largest[r]);
      llvm::Value *reference = largest;
      if (cut)
        reference = b.CreateSelect(b.CreateFCmpOEQ(largest, infinity(true)),
                                   number(0), largest);
      shift[r] = general ? reference : b.CreateFMul(reference, number(-factor));
      if (!first)
        scaled[r] = weight(state.largest[r], c, shift[r]);
      state.largest[r] = largest;
    }
    for (auto [i, value] : llvm::enumerate(values))
      value = weight(value, c, shift[i / 2 % 2]);
    for (unsigned r = 0; r < 2; ++r) {
      llvm::Value *sum = overRow(llvm::Intrinsic::not_intrinsic, values, r);
      state.sum[r] = first ? sum : fma(state.sum[r], scaled[r], sum);
    }
  }
  /// The distance is taken before the product where scores are any numbers:
  /// that of equal ones is then 0, however large they are.
  llvm::Value *weight(llvm::Value *score, llvm::Value *c, llvm::Value *shift) {
    return hopper.exp2(general ? b.CreateFMul(b.CreateFSub(score, shift), c)
                               : fma(score, c, shift));
  }

  const Sizes &s;
  double scale;
  bool mean;
  bool region;  // scores are what the region makes of scaled products
  bool general; // scores are scaled before the softmax
};

} // namespace

LogicalResult GpuEmitter::warpgroupAttention(tile::AttentionOp op) {
  Sizes s(op);
  Type element = op.getQ().getType().getElementType();
  if (!s.fit() || !(element.isBF16() || element.isF16()) ||
      !llvm::all_equal({element, op.getK().getType().getElementType(),
                        op.getV().getType().getElementType(),
                        op.getO().getType().getElementType()}))
    return op.emitOpError("has a shape or element types that this path cannot "
                          "do");
  bool bf16 = element.isBF16();
  shape.sharedBytes = s.bytes();

  Flash g(b, s, op);
  HopperAsm &hopper = g.hopper;
  auto n32 = [&](int64_t n) { return g.n32(n); };
  auto narrowed = [&](Value v) {
    return b.CreateTrunc(scalar(v), b.getInt32Ty());
  };
  auto special = [&](llvm::Intrinsic::ID id) {
    return b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>());
  };
  g.base = launchedShared();
  llvm::SmallVector<llvm::Value *> mapArgs = tensorMaps();

  //===-- Which rows, when ------------------------------------------------===//
  llvm::Value *tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  llvm::Value *self = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  llvm::Value *blocks = special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  OperandRange sizes = op.getSizes();
  llvm::Value *heads = narrowed(sizes[1]), *keyHeads = narrowed(sizes[2]),
              *queries = narrowed(sizes[3]), *keys = narrowed(sizes[4]);
  llvm::Value *allHeads = b.CreateMul(narrowed(sizes[0]), heads);
  llvm::Value *shares = b.CreateUDiv(heads, keyHeads);
  llvm::Value *causal = op.getCausal() ? narrowed(op.getCausal()) : nullptr;
  llvm::Value *rowBlocks =
      b.CreateUDiv(b.CreateAdd(queries, n32(s.rows - 1)), n32(s.rows));
  llvm::Value *programs = b.CreateMul(allHeads, rowBlocks);
  // Heads that are walked together, row block by row block.
  llvm::Value *together = n32(1);
  if (uint64_t group = op.shapeOf("group")) {
    llvm::Value *bytes = b.CreateMul(b.CreateZExt(keys, b.getInt64Ty()),
                                     b.getInt64(4 * s.width));
    together = b.CreateTrunc(b.CreateUDiv(b.getInt64(group << 20), bytes),
                             b.getInt32Ty());
    together = b.CreateMul(g.most(together, n32(1)), shares);
  }
  // The programs of a section (those of the heads that are walked together) go
  // to the blocks turn by turn, longest rows first, every other turn from the
  // last block on, and so do sections: all get equally much. Without causality
  // all rows are alike, and all programs one section.
  llvm::Value *section = b.CreateMul(together, rowBlocks);
  auto placeIn = [&](llvm::Value *turn) {
    llvm::Value *back = b.CreateICmpNE(b.CreateAnd(turn, 1), n32(0));
    return b.CreateSelect(back, b.CreateSub(b.CreateSub(blocks, n32(1)), self),
                          self);
  };
  // How many of `count` programs are this block's, from turn `first` on.
  auto shareOf = [&](llvm::Value *count, llvm::Value *first) {
    llvm::Value *turns = b.CreateUDiv(count, blocks);
    llvm::Value *rest = b.CreateSub(count, b.CreateMul(turns, blocks));
    llvm::Value *place = causal ? placeIn(b.CreateAdd(turns, first)) : self;
    return b.CreateAdd(
        turns, b.CreateZExt(b.CreateICmpULT(place, rest), b.getInt32Ty()));
  };
  llvm::Value *rounds, *even = nullptr, *twoSections = nullptr;
  if (causal) {
    even = shareOf(section, n32(0));
    twoSections = b.CreateAdd(even, shareOf(section, n32(1)));
    llvm::Value *whole = b.CreateUDiv(programs, section);
    llvm::Value *odd = b.CreateAnd(whole, 1);
    llvm::Value *rest = b.CreateSub(programs, b.CreateMul(whole, section));
    rounds = b.CreateAdd(b.CreateMul(b.CreateLShr(whole, 1), twoSections),
                         b.CreateMul(odd, even));
    rounds = b.CreateAdd(rounds, shareOf(rest, odd));
  } else {
    rounds = shareOf(programs, n32(0));
  }
  // This block's program in a round.
  auto programAt = [&](llvm::Value *round) -> llvm::Value * {
    if (!causal)
      return b.CreateAdd(b.CreateMul(round, blocks), self);
    llvm::Value *pair = b.CreateUDiv(round, twoSections);
    llvm::Value *turn = b.CreateSub(round, b.CreateMul(pair, twoSections));
    llvm::Value *second = b.CreateICmpUGE(turn, even);
    turn = b.CreateSelect(second, b.CreateSub(turn, even), turn);
    llvm::Value *parity = b.CreateZExt(second, b.getInt32Ty());
    llvm::Value *number = b.CreateAdd(b.CreateShl(pair, 1), parity);
    return b.CreateAdd(b.CreateMul(number, section),
                       b.CreateAdd(b.CreateMul(turn, blocks),
                                   placeIn(b.CreateAdd(turn, parity))));
  };
  // Runs `body` with each of this block's programs, how many it had before, and
  // a place in the ring that goes on.
  auto forPrograms = [&](Place place, auto body) {
    carriedFor(b, "rounds", n32(0), rounds, n32(1), {place.stage, place.parity},
               [&](llvm::Value *round, const Carried &state) -> Carried {
                 Place next =
                     body(programAt(round), round, Place{state[0], state[1]});
                 return {next.stage, next.parity};
               });
  };
  auto rowsAt = [&](llvm::Value *program) {
    llvm::Value *number = b.CreateUDiv(program, section);
    llvm::Value *inside = b.CreateSub(program, b.CreateMul(number, section));
    llvm::Value *firstHead = b.CreateMul(number, together);
    llvm::Value *here = g.least(together, b.CreateSub(allHeads, firstHead));
    llvm::Value *row = b.CreateUDiv(inside, here);
    llvm::Value *head =
        b.CreateAdd(firstHead, b.CreateSub(inside, b.CreateMul(row, here)));
    if (causal)
      row = b.CreateSub(b.CreateSub(rowBlocks, n32(1)), row);
    Rows rows;
    rows.first = b.CreateMul(row, n32(s.rows));
    rows.batch = b.CreateUDiv(head, heads);
    rows.head = b.CreateSub(head, b.CreateMul(rows.batch, heads));
    rows.keyHead = b.CreateUDiv(rows.head, shares);
    // (A mean over all keys needs all of them.)
    bool skips = causal && !g.mean;
    llvm::Value *end = keys;
    if (skips)
      end = g.least(
          keys, b.CreateAdd(b.CreateAdd(rows.first, causal), n32(s.rows - 1)));
    rows.blocks = g.most(
        b.CreateSDiv(b.CreateAdd(end, n32(s.keys - 1)), n32(s.keys)), n32(1));
    llvm::Value *last = b.CreateSub(rows.blocks, n32(1));
    if (g.general)
      rows.whole = n32(0);
    else if (!causal)
      rows.whole = last;
    else
      rows.whole =
          g.least(g.most(g.least(b.CreateSDiv(b.CreateAdd(rows.first, causal),
                                              n32(s.keys)),
                                 b.CreateUDiv(keys, n32(s.keys))),
                         n32(0)),
                  last);
    return rows;
  };
  llvm::Value *warpgroup = b.CreateUDiv(tid, n32(kWarpgroup));

  when(b.CreateICmpEQ(tid, n32(0)), [&] {
    for (unsigned stage = 0; stage < s.stages; ++stage) {
      hopper.initBarrier(g.full(n32(stage)), 1);
      hopper.initBarrier(g.empty(n32(stage)), s.consumers);
    }
    for (unsigned i = 0; i < kQueryBuffers; ++i) {
      hopper.initBarrier(g.barrierAt(kQueriesFull, n32(i)), 1);
      hopper.initBarrier(g.barrierAt(kQueriesEmpty, n32(i)), s.consumers);
    }
    hopper.fenceBarrierInit();
  });
  barrier();

  llvm::BasicBlock *producer = newBlock("producer"),
                   *consumer = newBlock("consumer"), *end = newBlock("end");
  b.CreateCondBr(b.CreateICmpEQ(warpgroup, n32(0)), producer, consumer);

  //===-- The copying thread ----------------------------------------------===//
  b.SetInsertPoint(producer);
  hopper.registers(s.consumers == 3 ? 32 : 24, false);
  auto copy = [&] {
    for (llvm::Value *map : mapArgs)
      hopper.prefetchMap(map);
    auto load = [&](unsigned map, llvm::Value *to, unsigned rows,
                    llvm::Value *row, llvm::Value *head, llvm::Value *batch,
                    llvm::Value *barrier) {
      for (unsigned c = 0; c < s.chunks(); ++c)
        hopper.loadBox(g.at(to, c * rows * kRowBytes), mapArgs[map],
                       {n32(c * kChunk), row, head, batch}, barrier);
    };
    forPrograms({n32(0), n32(1)}, [&](llvm::Value *program, llvm::Value *count,
                                      Place place) {
      Rows rows = rowsAt(program);
      llvm::Value *buffer = b.CreateAnd(count, 1);
      llvm::Value *phase = b.CreateAnd(b.CreateLShr(count, 1), 1);
      hopper.wait(g.barrierAt(kQueriesEmpty, buffer), b.CreateXor(phase, 1));
      llvm::Value *here = g.barrierAt(kQueriesFull, buffer);
      hopper.arriveExpecting(here, s.queryBytes());
      load(0, g.queries(buffer), s.rows, rows.first, rows.head, rows.batch,
           here);
      auto next = [&](unsigned map, llvm::Value *n, Place place) {
        hopper.wait(g.empty(place.stage), place.parity);
        llvm::Value *full = g.full(place.stage);
        hopper.arriveExpecting(full, s.stageBytes());
        load(map, g.stageAt(place.stage), s.keys, b.CreateMul(n, n32(s.keys)),
             rows.keyHead, rows.batch, full);
        return g.onward(place);
      };
      llvm::Value *last = b.CreateSub(rows.blocks, n32(1));
      place = next(1, last, place);
      Carried state = carriedFor(
          b, "blocks", n32(0), last, n32(1), {place.stage, place.parity},
          [&](llvm::Value *i, const Carried &state) -> Carried {
            llvm::Value *before = b.CreateSub(last, i);
            Place place =
                next(1, b.CreateSub(before, n32(1)), {state[0], state[1]});
            place = next(2, before, place);
            return {place.stage, place.parity};
          });
      return next(2, n32(0), {state[0], state[1]});
    });
  };
  when(b.CreateICmpULT(tid, n32(32)), [&] { when(hopper.elect(), copy); });
  b.CreateBr(end);

  //===-- The multiplying warpgroups --------------------------------------===//
  b.SetInsertPoint(consumer);
  hopper.registers(s.consumers == 3 ? 160 : 240, true);
  // Queries stay in registers where there are enough of these.
  bool queriesInRegisters = s.width == 128 && !g.region;
  // Waiting for the next stage before the values' products keeps the
  // exponentials in front of that wait.
  bool waitsEarly = s.consumers == 3;
  llvm::Value *consumerNumber = b.CreateSub(warpgroup, n32(1));
  llvm::Value *local = b.CreateURem(tid, n32(kWarpgroup));
  llvm::Value *warp = b.CreateUDiv(local, n32(32));
  llvm::Value *lane = b.CreateURem(tid, n32(32));
  llvm::Value *leads = b.CreateICmpEQ(local, n32(0));
  llvm::Value *ownRows = b.CreateMul(consumerNumber, n32(64));
  // Where the lane's matrices are in a chunk: row l%16 of the warp's 16, 16
  // bytes from column 8*(l/16) on, swizzled.
  llvm::Value *laneAt = b.CreateAdd(
      b.CreateMul(b.CreateAdd(b.CreateShl(warp, 4), b.CreateAnd(lane, 15)),
                  n32(kRowBytes)),
      b.CreateShl(b.CreateXor(b.CreateLShr(lane, 4), b.CreateAnd(lane, 7)), 4));
  auto matricesAt = [&](llvm::Value *own, unsigned sixteen) {
    return g.at(b.CreateAdd(own, b.CreateXor(laneAt, n32(32 * (sixteen % 4)))),
                sixteen / 4 * s.rows * kRowBytes);
  };
  llvm::Value *laneRow = b.CreateAdd(
      ownRows, b.CreateAdd(b.CreateShl(warp, 4), b.CreateLShr(lane, 2)));
  llvm::Value *laneKey = b.CreateShl(b.CreateAnd(lane, 3), 1);
  LogicalResult status = success();

  auto release = [&](llvm::Value *stage) {
    when(leads, [&] { hopper.arrive(g.empty(stage)); });
  };
  // Starts S = Q K.
  auto multiplyKeys = [&](llvm::Value *own,
                          llvm::ArrayRef<llvm::Value *> inRegisters,
                          llvm::Value *stage) {
    Carried scores(s.scores(), llvm::UndefValue::get(b.getFloatTy()));
    llvm::Value *a = queriesInRegisters ? nullptr : g.descriptor(own, false);
    llvm::Value *bb = g.descriptor(g.stageAt(stage), false);
    for (unsigned d = 0; d < s.width / 16; ++d) {
      HopperAsm::Product kind{s.keys, bf16, d == 0, false, false};
      llvm::Value *keysAt = b.CreateAdd(bb, b.getInt64(g.alongRows(d, s.keys)));
      if (queriesInRegisters)
        hopper.product(kind, inRegisters.slice(4 * d, 4), keysAt, scores);
      else
        hopper.product(kind, b.CreateAdd(a, b.getInt64(g.alongRows(d, s.rows))),
                       keysAt, scores);
    }
    hopper.closeProducts();
    return scores;
  };
  // Starts O += P V.
  auto multiplyValues = [&](Carried &sums,
                            llvm::ArrayRef<llvm::Value *> weights,
                            llvm::Value *stage) {
    llvm::Value *bb = g.descriptor(g.stageAt(stage), true);
    for (unsigned d = 0; d < s.keys / 16; ++d)
      hopper.product(
          {s.width, bf16, false, false, true}, weights.slice(4 * d, 4),
          b.CreateAdd(bb, b.getInt64(d * 16 * kRowBytes / 16)), sums);
    hopper.closeProducts();
  };
  auto packed = [&](const Carried &weights) {
    Carried words;
    for (unsigned i = 0; i < weights.size(); i += 2)
      words.push_back(hopper.pack(weights[i], weights[i + 1], bf16));
    return words;
  };
  // Scores of block n of keys; `cut`: not all rows see all of them.
  auto finishScores = [&](Carried &scores, llvm::Value *n, const Rows &rows,
                          bool cut) {
    llvm::Value *firstKey = b.CreateMul(n, n32(s.keys));
    llvm::Value *row[2];
    for (unsigned r = 0; r < 2; ++r)
      row[r] = b.CreateAdd(b.CreateAdd(rows.first, laneRow), n32(8 * r));
    if (g.general)
      for (llvm::Value *&score : scores)
        score = b.CreateFMul(score, g.number(g.scale));
    if (g.region)
      for (unsigned i = 0; i < scores.size(); i += op.run()) {
        llvm::Value *key = g.least(
            b.CreateAdd(b.CreateAdd(firstKey, laneKey), n32(i / 4 * 8 + i % 2)),
            b.CreateSub(keys, n32(op.run())));
        if (failed(this->scores(
                op, llvm::MutableArrayRef(scores).slice(i, op.run()),
                rows.batch, rows.head,
                g.least(row[i / 2 % 2], b.CreateSub(queries, n32(1))), key)))
          status = failure();
      }
    if (!cut)
      return;
    // What is seen lies below: of all keys, and of those before the diagonal.
    llvm::Value *from = b.CreateAdd(firstKey, laneKey);
    llvm::Value *inside = b.CreateSub(keys, from);
    llvm::Value *seen[2] = {inside, inside};
    if (causal)
      for (unsigned r = 0; r < 2; ++r) {
        seen[r] = b.CreateSub(b.CreateAdd(row[r], causal), from);
        if (!g.mean)
          seen[r] = g.least(seen[r], inside);
      }
    for (unsigned i = 0; i < scores.size(); ++i) {
      llvm::Value *place = n32(i / 4 * 8 + i % 2);
      if (g.mean) {
        llvm::Value *unseen = b.CreateFCmpOLT(scores[i], g.number(kUnseen));
        if (causal)
          unseen = b.CreateOr(unseen, b.CreateICmpSLE(seen[i / 2 % 2], place));
        scores[i] = b.CreateSelect(unseen, g.number(kUnseen), scores[i]);
      }
      scores[i] = b.CreateSelect(
          b.CreateICmpSGT(g.mean ? inside : seen[i / 2 % 2], place), scores[i],
          g.infinity(true));
    }
  };

  auto compute = [&](llvm::Value *program, llvm::Value *count, Place place) {
    Rows rows = rowsAt(program);
    llvm::Value *buffer = b.CreateAnd(count, 1);
    hopper.wait(g.barrierAt(kQueriesFull, buffer),
                b.CreateAnd(b.CreateLShr(count, 1), 1));
    llvm::Value *own = b.CreateAdd(
        g.queries(buffer), b.CreateMul(consumerNumber, n32(64 * kRowBytes)));
    llvm::SmallVector<llvm::Value *> inRegisters;
    if (queriesInRegisters)
      for (unsigned d = 0; d < s.width / 16; ++d)
        inRegisters.append(hopper.loadMatrices(matricesAt(own, d)));
    llvm::Value *last = b.CreateSub(rows.blocks, n32(1));

    // The last block of keys first: there are no weights yet.
    hopper.wait(g.full(place.stage), place.parity);
    hopper.beginProducts();
    Carried scores = multiplyKeys(own, inRegisters, place.stage);
    hopper.waitProducts(scores);
    release(place.stage);
    place = g.onward(place);
    // The rows before have left their buffer: it can have new queries.
    when(b.CreateAnd(leads, b.CreateICmpNE(count, n32(0))), [&] {
      hopper.waitStoresRead(0);
      hopper.arrive(g.barrierAt(kQueriesEmpty, b.CreateXor(buffer, 1)));
    });
    finishScores(scores, last, rows, true);
    Softmax soft;
    llvm::Value *scaled[2];
    g.softmax(scores, soft, scaled, true, true);
    Carried carried{place.stage,     place.parity, soft.largest[0],
                    soft.largest[1], soft.sum[0],  soft.sum[1]};
    const unsigned weightsAt = carried.size(), sumsAt = weightsAt + s.keys / 4;
    carried.append(packed(scores));
    carried.append(s.sums(), g.number(0));
    if (waitsEarly)
      hopper.wait(g.full(place.stage), place.parity);

    // Blocks to - 1 down to from.
    auto walk = [&](llvm::Value *from, llvm::Value *to, bool cut) {
      carried = carriedFor(
          b, cut ? "cut" : "whole", n32(0), b.CreateSub(to, from), n32(1),
          std::move(carried),
          [&](llvm::Value *i, const Carried &state) -> Carried {
            Place place{state[0], state[1]};
            Softmax soft{{state[2], state[3]}, {state[4], state[5]}};
            Carried weights(state.begin() + weightsAt, state.begin() + sumsAt);
            Carried sums(state.begin() + sumsAt, state.end());
            if (!waitsEarly)
              hopper.wait(g.full(place.stage), place.parity);
            hopper.beginProducts(sums, weights);
            Carried scores = multiplyKeys(own, inRegisters, place.stage);
            llvm::Value *keysStage = place.stage;
            place = g.onward(place);
            hopper.wait(g.full(place.stage), place.parity);
            hopper.beginProducts(sums, weights);
            multiplyValues(sums, weights, place.stage);
            hopper.waitProducts(scores, 1);
            release(keysStage);
            finishScores(scores,
                         cut ? b.CreateSub(b.CreateSub(to, n32(1)), i) : n32(0),
                         rows, cut);
            llvm::Value *scaled[2];
            g.softmax(scores, soft, scaled, false, cut);
            llvm::Value *valuesStage = place.stage;
            place = g.onward(place);
            if (waitsEarly)
              hopper.wait(g.full(place.stage), place.parity);
            // Weights are packed behind the wait: the ones under way have
            // their registers until then.
            Carried both(sums);
            both.append(scores);
            hopper.waitProducts(both);
            release(valuesStage);
            Carried next{place.stage,     place.parity, soft.largest[0],
                         soft.largest[1], soft.sum[0],  soft.sum[1]};
            next.append(packed(Carried(both.begin() + s.sums(), both.end())));
            for (unsigned i = 0; i < s.sums(); ++i)
              next.push_back(b.CreateFMul(both[i], scaled[i / 2 % 2]));
            return next;
          });
    };
    if (causal || g.general)
      walk(rows.whole, last, true);
    if (!g.general)
      walk(n32(0), rows.whole, false);

    place = {carried[0], carried[1]};
    Carried weights(carried.begin() + weightsAt, carried.begin() + sumsAt);
    Carried sums(carried.begin() + sumsAt, carried.end());
    if (!waitsEarly)
      hopper.wait(g.full(place.stage), place.parity);
    hopper.beginProducts(sums, weights);
    multiplyValues(sums, weights, place.stage);
    llvm::Value *inverse[2];
    for (unsigned r = 0; r < 2; ++r) {
      llvm::Value *sum = g.quad(llvm::Intrinsic::not_intrinsic, carried[4 + r]);
      llvm::Value *none = op.shapeOf("empty") == 1
                              ? llvm::ConstantFP::getNaN(b.getFloatTy())
                              : static_cast<llvm::Constant *>(
                                    llvm::ConstantFP::get(b.getFloatTy(), 0));
      inverse[r] = b.CreateSelect(b.CreateFCmpOEQ(sum, g.number(0)), none,
                                  hopper.reciprocal(sum));
    }
    hopper.waitProducts(sums);
    release(place.stage);
    place = g.onward(place);

    // Out through the rows of these queries, which all warps have read.
    hopper.sync(warpgroup, kWarpgroup);
    for (unsigned d = 0; d < s.width / 16; ++d) {
      llvm::SmallVector<llvm::Value *, 4> words;
      for (unsigned i = 8 * d; i < 8 * d + 8; i += 2) {
        llvm::Value *factor = inverse[i / 2 % 2];
        words.push_back(hopper.pack(b.CreateFMul(sums[i], factor),
                                    b.CreateFMul(sums[i + 1], factor), bf16));
      }
      hopper.storeMatrices(matricesAt(own, d), words);
    }
    hopper.fenceShared();
    hopper.sync(warpgroup, kWarpgroup);
    when(leads, [&] {
      for (unsigned c = 0; c < s.chunks(); ++c)
        hopper.storeBox(mapArgs[3],
                        {n32(c * kChunk), b.CreateAdd(rows.first, ownRows),
                         rows.head, rows.batch},
                        g.at(own, c * s.rows * kRowBytes));
      hopper.closeStores();
    });
    return place;
  };
  forPrograms({n32(0), n32(0)}, compute);
  when(leads, [&] { hopper.waitStores(); });
  b.CreateBr(end);
  b.SetInsertPoint(end);
  return status;
}

} // namespace knapper::lower
