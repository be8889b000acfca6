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
//
// A mask of keys is read a block ahead, a key a lane; votes of the warp then
// give every lane all of the block's bits.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/sm90/FlashTileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/OnlineSoftmax.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

namespace {

/// Where the mask of keys is: its element of batch 0, head 0 and key 0, and
/// from one to the next.
struct KeyMask {
  BufferRef buffer;
  llvm::Value *offset, *batch, *head, *key; // i64
};

} // namespace

LogicalResult GpuLowering::flashAttention(tile::AttentionOp op) {
  auto config = config::AttentionGpuConfig::of(op.getShape());
  FlashSizes s(config);
  Type element = op.getQ().getType().getElementType();
  if (!s.fit() || !(element.isBF16() || element.isF16()) ||
      !llvm::all_equal({element, op.getK().getType().getElementType(),
                        op.getV().getType().getElementType(),
                        op.getO().getType().getElementType()}))
    return op.emitOpError("has a shape or element types that this path cannot "
                          "do");
  bool bf16 = element.isBF16();
  shape.sharedBytes = s.bytes();

  FlashKernel g(b, s, op);
  PtxAsm &ptx = g.ptx;
  auto n32 = [&](int64_t n) { return g.n32(n); };
  auto narrowed = [&](Value v) {
    return b.CreateTrunc(scalar(v), b.getInt32Ty());
  };
  g.base = launchedShared();
  llvm::SmallVector<llvm::Value *> mapArgs = tensorMaps();

  //===-- Which rows, when ------------------------------------------------===//
  llvm::Value *tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  OperandRange sizes = op.getSizes();
  llvm::Value *queries = narrowed(sizes[3]), *keys = narrowed(sizes[4]);
  llvm::Value *causal = op.getCausal() ? narrowed(op.getCausal()) : nullptr;
  std::optional<KeyMask> mask;
  if (op.getMask()) {
    auto maskBuffer = buffer(op.getMask());
    if (failed(maskBuffer))
      return failure();
    OperandRange at = op.getMaskAt();
    mask.emplace(KeyMask{*maskBuffer, scalar(at[0]), scalar(at[1]),
                         scalar(at[2]), scalar(at[3])});
  }
  auto maskAt = [&](const FlashTile &rows, llvm::Value *key) {
    auto wide = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
    llvm::Value *offset = b.CreateAdd(
        b.CreateAdd(mask->offset, b.CreateMul(wide(rows.batch), mask->batch)),
        b.CreateAdd(b.CreateMul(wide(rows.head), mask->head),
                    b.CreateMul(wide(key), mask->key)));
    return tag(b.CreateAlignedLoad(mask->buffer.memory,
                                   address(mask->buffer, offset),
                                   llvm::Align(1)),
               mask->buffer);
  };
  FlashTileScheduler programs(
      b, {s.rows, s.keys, s.width, unsigned(config.headGroupMiB)},
      {narrowed(sizes[0]), narrowed(sizes[1]), narrowed(sizes[2]), queries,
       keys, causal});
  // Rows that see the first key are not empty; a mean over all keys needs all
  // of them.
  auto seesFirst = [&](const FlashTile &rows) -> llvm::Value * {
    if (!g.mean)
      return b.getTrue();
    if (g.region || !causal)
      return b.getFalse();
    llvm::Value *sees = b.CreateICmpSGT(causal, n32(0));
    return mask ? b.CreateAnd(sees, b.CreateIsNotNull(maskAt(rows, n32(0))))
                : sees;
  };
  auto rowsAt = [&](llvm::Value *program) {
    FlashTile rows = programs.rows(program);
    programs.setBlocks(rows, seesFirst(rows), !g.general);
    return rows;
  };
  llvm::Value *warpgroup = b.CreateUDiv(tid, n32(kWarpgroup));

  when(b.CreateICmpEQ(tid, n32(0)), [&] {
    for (unsigned stage = 0; stage < s.stages; ++stage) {
      ptx.initBarrier(g.full(n32(stage)), 1);
      ptx.initBarrier(g.empty(n32(stage)), s.consumers);
    }
    for (unsigned i = 0; i < kQueryBuffers; ++i) {
      ptx.initBarrier(g.barrierAt(kQueriesFull, n32(i)), 1);
      ptx.initBarrier(g.barrierAt(kQueriesEmpty, n32(i)), s.consumers);
    }
    ptx.fenceBarrierInit();
  });
  barrier();

  llvm::BasicBlock *producer = newBlock("producer"),
                   *consumer = newBlock("consumer"), *end = newBlock("end");
  b.CreateCondBr(b.CreateICmpEQ(warpgroup, n32(0)), producer, consumer);

  //===-- The copying thread ----------------------------------------------===//
  b.SetInsertPoint(producer);
  ptx.registers(s.consumers == 3 ? 32 : 24, false);
  auto copy = [&] {
    for (llvm::Value *map : mapArgs)
      ptx.prefetchDescriptor(map);
    auto load = [&](unsigned map, llvm::Value *to, unsigned rows,
                    llvm::Value *row, llvm::Value *head, llvm::Value *batch,
                    llvm::Value *barrier) {
      for (unsigned c = 0; c < s.chunks(); ++c)
        ptx.tmaLoad(g.at(to, c * rows * kRowBytes), mapArgs[map],
                    {n32(c * kChunk), row, head, batch}, barrier);
    };
    programs.each(
        {n32(0), n32(1)},
        [&](llvm::Value *program, llvm::Value *count, PipelineState place) {
          FlashTile rows = rowsAt(program);
          llvm::Value *buffer = b.CreateAnd(count, 1);
          llvm::Value *phase = b.CreateAnd(b.CreateLShr(count, 1), 1);
          ptx.wait(g.barrierAt(kQueriesEmpty, buffer), b.CreateXor(phase, 1));
          llvm::Value *here = g.barrierAt(kQueriesFull, buffer);
          ptx.arriveExpecting(here, s.queryBytes());
          load(0, g.queries(buffer), s.rows, rows.first, rows.head, rows.batch,
               here);
          auto next = [&](unsigned map, llvm::Value *n, PipelineState place) {
            ptx.wait(g.empty(place.stage), place.parity);
            llvm::Value *full = g.full(place.stage);
            ptx.arriveExpecting(full, s.stageBytes());
            load(map, g.stageAt(place.stage), s.keys,
                 b.CreateMul(n, n32(s.keys)), rows.keyHead, rows.batch, full);
            return g.advance(place);
          };
          llvm::Value *last = b.CreateSub(rows.blocks, n32(1));
          place = next(1, last, place);
          Carried state = carriedFor(
              b, "blocks", n32(0), last, n32(1), {place.stage, place.parity},
              [&](llvm::Value *i, const Carried &state) -> Carried {
                llvm::Value *before = b.CreateSub(last, i);
                PipelineState place =
                    next(1, b.CreateSub(before, n32(1)), {state[0], state[1]});
                place = next(2, before, place);
                return {place.stage, place.parity};
              });
          return next(2, n32(0), {state[0], state[1]});
        });
  };
  when(b.CreateICmpULT(tid, n32(32)), [&] { when(ptx.elect(), copy); });
  b.CreateBr(end);

  //===-- The multiplying warpgroups --------------------------------------===//
  b.SetInsertPoint(consumer);
  ptx.registers(s.consumers == 3 ? 160 : 240, true);
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
    when(leads, [&] { ptx.arrive(g.empty(stage)); });
  };
  // Starts S = Q K.
  auto multiplyKeys = [&](llvm::Value *own,
                          llvm::ArrayRef<llvm::Value *> inRegisters,
                          llvm::Value *stage) {
    Carried scores(s.scores(), llvm::UndefValue::get(b.getFloatTy()));
    llvm::Value *a = queriesInRegisters ? nullptr : g.descriptor(own, false);
    llvm::Value *bb = g.descriptor(g.stageAt(stage), false);
    for (unsigned d = 0; d < s.width / 16; ++d) {
      PtxAsm::Wgmma kind{s.keys, bf16, d == 0, false, false};
      llvm::Value *keysAt = b.CreateAdd(bb, b.getInt64(g.alongRows(d, s.keys)));
      if (queriesInRegisters)
        ptx.wgmma(kind, inRegisters.slice(4 * d, 4), keysAt, scores);
      else
        ptx.wgmma(kind, b.CreateAdd(a, b.getInt64(g.alongRows(d, s.rows))),
                  keysAt, scores);
    }
    ptx.wgmmaCommit();
    return scores;
  };
  // Starts O += P V.
  auto multiplyValues = [&](Carried &sums,
                            llvm::ArrayRef<llvm::Value *> weights,
                            llvm::Value *stage) {
    llvm::Value *bb = g.descriptor(g.stageAt(stage), true);
    for (unsigned d = 0; d < s.keys / 16; ++d)
      ptx.wgmma({s.width, bf16, false, false, true}, weights.slice(4 * d, 4),
                b.CreateAdd(bb, b.getInt64(d * 16 * kRowBytes / 16)), sums);
    ptx.wgmmaCommit();
  };
  auto packed = [&](const Carried &weights) {
    Carried words;
    for (unsigned i = 0; i < weights.size(); i += 2)
      words.push_back(ptx.pack(weights[i], weights[i + 1], bf16));
    return words;
  };
  // What this lane has of the mask of block n of keys: one key of 32 each.
  auto readMask = [&](const FlashTile &rows, llvm::Value *n) {
    Carried read;
    for (unsigned j = 0; mask && j < s.keys; j += 32) {
      llvm::Value *key =
          b.CreateAdd(b.CreateMul(n, n32(s.keys)), b.CreateAdd(lane, n32(j)));
      read.push_back(maskAt(rows, g.least(key, b.CreateSub(keys, n32(1)))));
    }
    return read;
  };
  // A bit for each key, from this lane's first one on; past the end none.
  auto shareMask = [&](const Carried &read, llvm::Value *n) {
    Carried words;
    for (auto [j, value] : llvm::enumerate(read)) {
      llvm::Value *key = b.CreateAdd(b.CreateMul(n, n32(s.keys)),
                                     b.CreateAdd(lane, n32(32 * j)));
      llvm::Value *seen =
          b.CreateAnd(b.CreateIsNotNull(value), b.CreateICmpSLT(key, keys));
      llvm::Value *all = b.CreateIntrinsic(
          llvm::Intrinsic::nvvm_vote_ballot_sync, {}, {n32(~0u), seen});
      words.push_back(b.CreateLShr(all, laneKey));
    }
    return words;
  };
  // Scores of block n of keys; `cut`: not all rows see all of them. `read`: the
  // mask.
  auto finishScores = [&](Carried &scores, llvm::Value *n,
                          const FlashTile &rows, bool cut,
                          const Carried &read) {
    Carried bits = shareMask(read, n);
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
    if (!cut && !mask)
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
      llvm::Value *sees = nullptr;
      auto both = [&](llvm::Value *condition) {
        sees = sees ? b.CreateAnd(sees, condition) : condition;
      };
      if (mask)
        both(b.CreateIsNotNull(
            b.CreateAnd(bits[i / 16], n32(1u << (i / 4 % 4 * 8 + i % 2)))));
      // (Past the end there are no bits.)
      if (cut && (causal || !(mask || g.mean)))
        both(b.CreateICmpSGT(seen[i / 2 % 2], place));
      if (!g.mean) {
        scores[i] = b.CreateSelect(sees, scores[i], g.infinity(true));
        continue;
      }
      if (g.region) {
        // What the region leaves out.
        llvm::Value *has = b.CreateFCmpUGE(scores[i], g.number(kUnseen));
        sees = sees ? b.CreateAnd(sees, has) : has;
      }
      if (sees)
        scores[i] = b.CreateSelect(sees, scores[i], g.number(kUnseen));
      if (cut)
        scores[i] = b.CreateSelect(b.CreateICmpSGT(inside, place), scores[i],
                                   g.infinity(true));
    }
  };

  auto compute = [&](llvm::Value *program, llvm::Value *count,
                     PipelineState place) {
    FlashTile rows = rowsAt(program);
    llvm::Value *buffer = b.CreateAnd(count, 1);
    ptx.wait(g.barrierAt(kQueriesFull, buffer),
             b.CreateAnd(b.CreateLShr(count, 1), 1));
    llvm::Value *own = b.CreateAdd(
        g.queries(buffer), b.CreateMul(consumerNumber, n32(64 * kRowBytes)));
    llvm::SmallVector<llvm::Value *> inRegisters;
    if (queriesInRegisters)
      for (unsigned d = 0; d < s.width / 16; ++d)
        inRegisters.append(ptx.loadMatrices(matricesAt(own, d)));
    llvm::Value *last = b.CreateSub(rows.blocks, n32(1));

    // The last block of keys first: there are no weights yet.
    Carried read = readMask(rows, last);
    ptx.wait(g.full(place.stage), place.parity);
    ptx.wgmmaFence();
    Carried scores = multiplyKeys(own, inRegisters, place.stage);
    ptx.wgmmaWait(scores);
    release(place.stage);
    place = g.advance(place);
    // The rows before have left their buffer: it can have new queries.
    when(b.CreateAnd(leads, b.CreateICmpNE(count, n32(0))), [&] {
      ptx.waitStoresRead(0);
      ptx.arrive(g.barrierAt(kQueriesEmpty, b.CreateXor(buffer, 1)));
    });
    finishScores(scores, last, rows, true, read);
    read = readMask(rows, g.most(b.CreateSub(last, n32(1)), n32(0)));
    OnlineSoftmax soft;
    llvm::Value *scaled[2];
    g.softmax(scores, soft, scaled, true, true);
    Carried carried{place.stage,     place.parity, soft.largest[0],
                    soft.largest[1], soft.sum[0],  soft.sum[1]};
    const unsigned weightsAt = carried.size(), sumsAt = weightsAt + s.keys / 4;
    carried.append(packed(scores));
    carried.append(s.sums(), g.number(0));
    const unsigned readAt = carried.size();
    carried.append(read);
    if (waitsEarly)
      ptx.wait(g.full(place.stage), place.parity);

    // Blocks to - 1 down to from.
    auto walk = [&](llvm::Value *from, llvm::Value *to, bool cut) {
      carried = carriedFor(
          b, cut ? "cut" : "whole", n32(0), b.CreateSub(to, from), n32(1),
          std::move(carried),
          [&](llvm::Value *i, const Carried &state) -> Carried {
            PipelineState place{state[0], state[1]};
            OnlineSoftmax soft{{state[2], state[3]}, {state[4], state[5]}};
            Carried weights(state.begin() + weightsAt, state.begin() + sumsAt);
            Carried sums(state.begin() + sumsAt, state.begin() + readAt);
            Carried read(state.begin() + readAt, state.end());
            llvm::Value *n = b.CreateSub(b.CreateSub(to, n32(1)), i);
            if (!waitsEarly)
              ptx.wait(g.full(place.stage), place.parity);
            ptx.wgmmaFence(sums, weights);
            Carried scores = multiplyKeys(own, inRegisters, place.stage);
            llvm::Value *keysStage = place.stage;
            place = g.advance(place);
            ptx.wait(g.full(place.stage), place.parity);
            ptx.wgmmaFence(sums, weights);
            multiplyValues(sums, weights, place.stage);
            ptx.wgmmaWait(scores, 1);
            release(keysStage);
            finishScores(scores, n, rows, cut, read);
            read = readMask(rows, g.most(b.CreateSub(n, n32(1)), n32(0)));
            llvm::Value *scaled[2];
            g.softmax(scores, soft, scaled, false, cut || (mask && !g.mean));
            llvm::Value *valuesStage = place.stage;
            place = g.advance(place);
            if (waitsEarly)
              ptx.wait(g.full(place.stage), place.parity);
            // Weights are packed behind the wait: the ones under way have
            // their registers until then.
            Carried both(sums);
            both.append(scores);
            ptx.wgmmaWait(both);
            release(valuesStage);
            Carried next{place.stage,     place.parity, soft.largest[0],
                         soft.largest[1], soft.sum[0],  soft.sum[1]};
            next.append(packed(Carried(both.begin() + s.sums(), both.end())));
            for (unsigned i = 0; i < s.sums(); ++i)
              next.push_back(b.CreateFMul(both[i], scaled[i / 2 % 2]));
            next.append(read);
            return next;
          });
    };
    if (causal || g.general)
      walk(rows.whole, last, true);
    if (!g.general)
      walk(n32(0), rows.whole, false);

    place = {carried[0], carried[1]};
    Carried weights(carried.begin() + weightsAt, carried.begin() + sumsAt);
    Carried sums(carried.begin() + sumsAt, carried.begin() + readAt);
    if (!waitsEarly)
      ptx.wait(g.full(place.stage), place.parity);
    ptx.wgmmaFence(sums, weights);
    multiplyValues(sums, weights, place.stage);
    llvm::Value *inverse[2];
    for (unsigned r = 0; r < 2; ++r) {
      llvm::Value *sum = g.quad(llvm::Intrinsic::not_intrinsic, carried[4 + r]);
      llvm::Value *none = config.emptyRow == config::EmptyRow::nan
                              ? llvm::ConstantFP::getNaN(b.getFloatTy())
                              : static_cast<llvm::Constant *>(
                                    llvm::ConstantFP::get(b.getFloatTy(), 0));
      inverse[r] = b.CreateSelect(b.CreateFCmpOEQ(sum, g.number(0)), none,
                                  ptx.reciprocal(sum));
    }
    ptx.wgmmaWait(sums);
    release(place.stage);
    place = g.advance(place);

    // Out through the rows of these queries, which all warps have read.
    ptx.sync(warpgroup, kWarpgroup);
    for (unsigned d = 0; d < s.width / 16; ++d) {
      llvm::SmallVector<llvm::Value *, 4> words;
      for (unsigned i = 8 * d; i < 8 * d + 8; i += 2) {
        llvm::Value *factor = inverse[i / 2 % 2];
        words.push_back(ptx.pack(b.CreateFMul(sums[i], factor),
                                 b.CreateFMul(sums[i + 1], factor), bf16));
      }
      ptx.storeMatrices(matricesAt(own, d), words);
    }
    ptx.fenceShared();
    ptx.sync(warpgroup, kWarpgroup);
    when(leads, [&] {
      for (unsigned c = 0; c < s.chunks(); ++c)
        ptx.tmaStore(mapArgs[3],
                     {n32(c * kChunk), b.CreateAdd(rows.first, ownRows),
                      rows.head, rows.batch},
                     g.at(own, c * s.rows * kRowBytes));
      ptx.commitStores();
    });
    return place;
  };
  programs.each({n32(0), n32(0)}, compute);
  when(leads, [&] { ptx.waitStores(); });
  b.CreateBr(end);
  b.SetInsertPoint(end);
  return status;
}

} // namespace knapper::lower
