// Matmuls on Hopper: a warpgroup whose one thread copies boxes of A and
// B into a ring of stages in shared memory, and warpgroups that multiply them.
//
//   shared memory: [full barriers | empty barriers | pad to 1024]
//                  [stage: block of A, block of B] x stages
//                  [two chunks of 64 rows of the result] x consumers
//
// A stage is 64 deep: 128 bytes a row, in the copies' 128-byte swizzle. A side
// whose rows (columns) are contiguous lies as boxes of 64 of them by 64 deep.
//
// With `stagingWarpgroups`, warpgroups of that number take the place of the
// copying one: operands that lie where no box does (strides of an odd number of
// elements) are read by 16-byte accesses around them, shifted, and written to
// shared memory as the copies would.
//
// The input of a convolution is gathered by the copying warpgroup, the filter
// copied (ImplicitGemmLoad.cpp).
//
// Blocks are taken in groups of `rasterGroup` block rows, column by column, so
// that what runs at one time reads few operands; every other round walks the
// depth backwards, from what the cache still has. Consumers share a block by
// rows, or with `pingpong` have a block each and take turns, so that the end of
// one's block is hidden under the other's products.
//
// With `splitK`, the blocks of a cluster share one block's depth; each then
// ends some of its columns (SplitK.cpp). How results leave is in StoreTile.cpp.
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

namespace {

/// What wgmma is told of a block in shared memory, but for its address: swizzle
/// of 128 bytes; 1024 bytes from eight rows (of depth) to the next eight; for a
/// transposed side 8192 from 64 of its columns to the next.
uint64_t descriptor(bool transposed) {
  uint64_t leading = transposed ? 8192 / 16 : 1;
  return uint64_t(1) << 62 | uint64_t(1024 / 16) << 32 | leading << 16;
}
/// From one depth of 16 to the next, in 16 bytes.
uint64_t depthStep(bool transposed) {
  return transposed ? 16 * kRowBytes / 16 : 32 / 16;
}

} // namespace

LogicalResult GpuLowering::wgmmaMatmul(tile::MatmulOp op) {
  WgmmaShape s(op);
  bool stores = bool(op.getC());
  Type element = op.getA().getType().getElementType();
  if (!s.fit(stores) || op.getB().getType().getElementType() != element ||
      !(element.isBF16() || element.isF16() || s.tf32))
    return op.emitOpError("has a shape or element types that this path cannot "
                          "do");
  if (stores && op.run() > 2)
    return op.emitOpError("stores runs of two columns at most");
  if (s.swapAB && op.run() != 1)
    return op.emitOpError("has runs, but its rows are the result's columns");
  bool bf16 = element.isBF16();
  shape.sharedBytes = s.bytes(stores);
  auto config = config::MatmulGpuConfig::of(op.getShape());
  int64_t aBatch = config.aBatchDims, bBatch = config.bBatchDims;

  WgmmaMatmul g(b, s);
  PtxAsm &ptx = g.ptx;
  auto n32 = [&](int64_t n) { return g.n32(n); };
  auto narrowed = [&](Value v) {
    return b.CreateTrunc(scalar(v), b.getInt32Ty());
  };
  auto special = [&](llvm::Intrinsic::ID id) {
    return b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>());
  };
  g.base = launchedShared();
  llvm::SmallVector<llvm::Value *> mapArgs = tensorMaps();

  llvm::Value *tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  g.first = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  g.blocks = special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  llvm::Value *m = narrowed(op.getM()), *n = narrowed(op.getN()),
              *k = narrowed(op.getK());
  auto ceil = [&](llvm::Value *x, unsigned by) {
    return b.CreateUDiv(b.CreateAdd(x, n32(by - 1)), n32(by));
  };
  g.begin = n32(0);
  g.steps = ceil(k, s.depth());
  // Where this block is in its cluster: which part of the depth, and whose
  // mate.
  llvm::Value *rank = nullptr, *mate = nullptr, *firstMate = nullptr,
              *mateRow = nullptr, *mateColumn = nullptr;
  if (s.cluster() > 1) {
    llvm::Value *number = ptx.clusterRank();
    rank = b.CreateUDiv(number, n32(s.clusterTiles()));
    firstMate = b.CreateMul(rank, n32(s.clusterTiles()));
    mate = b.CreateSub(number, firstMate);
    mateRow = b.CreateUDiv(mate, n32(s.clusterColumns));
    mateColumn = b.CreateSub(mate, b.CreateMul(mateRow, n32(s.clusterColumns)));
    g.first = b.CreateUDiv(g.first, n32(s.cluster()));
    g.blocks = b.CreateUDiv(g.blocks, n32(s.cluster()));
  }
  if (s.splitK > 1) {
    auto part = [&](llvm::Value *number) {
      return b.CreateUDiv(b.CreateMul(g.steps, number), n32(s.splitK));
    };
    g.begin = part(rank);
    g.steps = b.CreateSub(part(b.CreateAdd(rank, n32(1))), g.begin);
  }
  llvm::SmallVector<llvm::Value *> outerSizes;
  for (Value size : op.getOuter())
    outerSizes.push_back(narrowed(size));
  unsigned clusterRows = s.clusterRows * s.rows,
           clusterColumns = s.clusterColumns * s.columns;
  TileScheduler order(b, ceil(m, clusterRows), ceil(n, clusterColumns),
                      outerSizes, clusterRows, clusterColumns, s.rasterGroup);
  auto ownOf = [&](TileCoord block) {
    if (s.clusterRows > 1)
      block.row = b.CreateAdd(block.row, b.CreateMul(mateRow, n32(s.rows)));
    if (s.clusterColumns > 1)
      block.column =
          b.CreateAdd(block.column, b.CreateMul(mateColumn, n32(s.columns)));
    return block;
  };
  std::optional<GroupedTileScheduler> groups;
  if (op.getEnds() && failed(groupedTiles(op, clusterColumns, groups)))
    return failure();
  // state = body(program, its block, rows of its group, state) for each of this
  // block's programs.
  using TileBody = llvm::function_ref<Carried(
      llvm::Value *, TileCoord, std::optional<GroupRows>, const Carried &)>;
  auto forTiles = [&](llvm::Value *start, llvm::Value *stride, Carried state,
                      TileBody body) {
    if (groups)
      groups->forTiles(start, stride, std::move(state),
                       [&](llvm::Value *program, TileCoord block,
                           GroupRows rows, const Carried &state) {
                         if (outerSizes.empty())
                           block.outer.clear();
                         return body(program, ownOf(block), rows, state);
                       });
    else
      carriedFor(b, "blocks", start, order.programs(), stride, std::move(state),
                 [&](llvm::Value *program, const Carried &state) -> Carried {
                   return body(program, ownOf(order.at(program)), std::nullopt,
                               state);
                 });
  };
  llvm::Value *warpgroup = b.CreateUDiv(tid, n32(kWarpgroup));

  when(b.CreateICmpEQ(tid, n32(0)), [&] {
    for (unsigned stage = 0; stage < s.stages; ++stage) {
      ptx.initBarrier(g.full(n32(stage)), s.gathers             ? kWarpgroup + 1
                                          : s.stagingWarpgroups ? kWarpgroup
                                                                : 1);
      ptx.initBarrier(g.empty(n32(stage)),
                      (s.pingpong ? 1 : s.consumers) * s.clusterTiles());
    }
    ptx.fenceBarrierInit();
  });
  if (s.clusterTiles() > 1)
    ptx.clusterBarrier();
  else
    barrier();

  llvm::BasicBlock *producer = newBlock("producer"),
                   *consumer = newBlock("consumer"), *end = newBlock("end");
  b.CreateCondBr(b.CreateICmpULT(warpgroup, n32(s.producers())), producer,
                 consumer);

  //===-- The copying thread ----------------------------------------------===//
  b.SetInsertPoint(producer);
  // The sums of two consumers take what the copying warpgroup gives up.
  bool moves = s.consumers > 1 && !s.stagingWarpgroups;
  bool wide = moves && s.products() * s.sums() > 128;
  // Of two that stageThroughRegisters, the one that multiplies gets what is
  // left.
  bool many = s.stagingWarpgroups == 2 && s.consumers == 1 &&
              s.products() * s.sums() > 64;
  if (moves)
    ptx.registers(s.gathers ? 104 : wide || s.consumers > 2 ? 24 : 40, false);
  else if (many)
    ptx.registers(144, false);
  auto copy = [&] {
    for (llvm::Value *map : mapArgs)
      ptx.prefetchDescriptor(map);
    // The blocks that have the same rows, and those with the same columns.
    llvm::Value *rowMates = nullptr, *columnMates = nullptr;
    auto mask = [&](unsigned count, unsigned apart, llvm::Value *first) {
      unsigned bits = 0;
      for (unsigned i = 0; i < count; ++i)
        bits |= 1u << i * apart;
      return b.CreateTrunc(
          b.CreateShl(n32(bits), b.CreateAdd(firstMate, first)),
          b.getInt16Ty());
    };
    if (s.clusterColumns > 1)
      rowMates = mask(s.clusterColumns, 1,
                      b.CreateMul(mateRow, n32(s.clusterColumns)));
    if (s.clusterRows > 1)
      columnMates = mask(s.clusterRows, s.clusterColumns, mateColumn);
    forTiles(
        g.first, g.blocks, {n32(0), n32(1)},
        [&](llvm::Value *program, TileCoord block, std::optional<GroupRows>,
            const Carried &outerState) -> Carried {
          llvm::Value *back = b.CreateICmpNE(
              b.CreateAnd(b.CreateUDiv(program, g.blocks), 1), n32(0));
          return carriedFor(
              b, "steps", n32(0), g.steps, n32(1), outerState,
              [&](llvm::Value *step, const Carried &state) -> Carried {
                PipelineState place{state[0], state[1]};
                ptx.wait(g.empty(place.stage), place.parity);
                llvm::Value *full = g.full(place.stage);
                ptx.arriveExpecting(full, s.stageBytes());
                llvm::Value *fromEnd =
                    b.CreateSub(b.CreateSub(g.steps, n32(1)), step);
                llvm::Value *depth = b.CreateMul(
                    b.CreateAdd(g.begin, b.CreateSelect(back, fromEnd, step)),
                    n32(s.depth()));
                llvm::Value *to = b.CreateAdd(
                    g.base,
                    b.CreateAdd(b.CreateMul(place.stage, n32(s.stageBytes())),
                                n32(kStagesAt)));
                // Of `clusterTiles` blocks each copies some lines for all of
                // them: rows of the block, or depths of each of its boxes.
                auto side = [&](unsigned map, bool transposed, unsigned extent,
                                llvm::Value *from, int64_t batch,
                                unsigned clusterTiles, llvm::Value *mate,
                                llvm::Value *blocks) {
                  unsigned lines =
                      (transposed ? s.depth() : extent) / clusterTiles;
                  llvm::Value *at = to, *line = transposed ? depth : from;
                  if (clusterTiles > 1) {
                    llvm::Value *own = b.CreateMul(mate, n32(lines));
                    at = b.CreateAdd(to, b.CreateMul(own, n32(kRowBytes)));
                    line = b.CreateAdd(line, own);
                  }
                  if (!transposed) {
                    ptx.tmaLoad(at, mapArgs[map],
                                boxAt(depth, line, block, batch), full, blocks);
                  } else {
                    for (unsigned i = 0; i < extent; i += 64)
                      ptx.tmaLoad(
                          g.at(at, i * kRowBytes), mapArgs[map],
                          boxAt(b.CreateAdd(from, n32(i)), line, block, batch),
                          full, blocks);
                  }
                  to = g.at(to, extent * kRowBytes);
                };
                side(0, s.aTransposed, s.aRows, block.row, aBatch,
                     s.clusterColumns, mateColumn, rowMates);
                side(1, s.bTransposed, s.columns, block.column, bBatch,
                     s.clusterRows, mateRow, columnMates);
                PipelineState next = g.advance(place);
                return {next.stage, next.parity};
              });
        });
  };
  LogicalResult status = success();
  if (s.gathers)
    status = loadImplicitGemm(op, g, order, mapArgs[0]);
  else if (s.stagingWarpgroups)
    status = stageThroughRegisters(op, g, order, warpgroup);
  else
    when(b.CreateICmpULT(tid, n32(32)), [&] { when(ptx.elect(), copy); });
  if (s.splitK > 1)
    ptx.clusterBarrier(); // all sums are there
  b.CreateBr(end);

  //===-- The multiplying warpgroups --------------------------------------===//
  b.SetInsertPoint(consumer);
  if (moves)
    ptx.registers(s.gathers         ? 200
                  : s.consumers > 2 ? 160
                  : wide            ? 240
                                    : 232,
                  true);
  else if (many)
    ptx.registers(208, true);
  llvm::Value *self = b.CreateSub(warpgroup, n32(s.producers()));
  llvm::Value *local = b.CreateURem(tid, n32(kWarpgroup));
  llvm::Value *leads = b.CreateICmpEQ(local, n32(0));
  llvm::Value *ownRows =
      s.pingpong ? n32(0) : b.CreateMul(self, n32(s.consumerRows()));

  auto descriptorAt = [&](llvm::Value *stage, llvm::Value *offset,
                          bool transposed) {
    llvm::Value *address = b.CreateAdd(
        g.base, b.CreateAdd(b.CreateMul(stage, n32(s.stageBytes())), offset));
    llvm::Value *low = b.CreateZExt(
        b.CreateAnd(b.CreateLShr(address, 4), n32(0x3fff)), b.getInt64Ty());
    return b.CreateOr(low, b.getInt64(descriptor(transposed)));
  };
  llvm::Value *aAt =
      b.CreateAdd(b.CreateMul(ownRows, n32(kRowBytes)), n32(kStagesAt));
  llvm::Value *bAt = n32(kStagesAt + s.aBytes());
  // One stage: waits for it and starts its products.
  auto multiply = [&](PipelineState place, Carried &sums, bool fresh) {
    ptx.wait(g.full(place.stage), place.parity);
    llvm::Value *a = descriptorAt(place.stage, aAt, s.aTransposed);
    llvm::Value *bb = descriptorAt(place.stage, bAt, s.bTransposed);
    ptx.wgmmaFence();
    for (unsigned d = 0; d < kRowBytes / 32; ++d)
      for (unsigned p = 0; p < s.products(); ++p) {
        PtxAsm::Wgmma kind{s.columns,     bf16,          fresh && d == 0,
                           s.aTransposed, s.bTransposed, s.tf32};
        ptx.wgmma(kind,
                  b.CreateAdd(a, b.getInt64(p * 64 * kRowBytes / 16 +
                                            d * depthStep(s.aTransposed))),
                  b.CreateAdd(bb, b.getInt64(d * depthStep(s.bTransposed))),
                  llvm::MutableArrayRef(sums).slice(p * s.sums(), s.sums()));
      }
    ptx.wgmmaCommit();
  };
  // All blocks that copy into this one's stage hear of it.
  llvm::Value *tells = b.CreateICmpULT(local, n32(s.clusterTiles()));
  auto release = [&](llvm::Value *stage) {
    when(tells, [&] {
      if (s.clusterTiles() == 1)
        ptx.arrive(g.empty(stage));
      else
        ptx.arriveInPeer(
            ptx.inPeer(g.empty(stage), b.CreateAdd(firstMate, local)));
    });
  };

  llvm::Value *start = g.first, *stride = g.blocks;
  PipelineState begin{n32(0), n32(0)};
  if (s.pingpong) {
    start = b.CreateAdd(g.first, b.CreateMul(self, g.blocks));
    stride = b.CreateMul(g.blocks, n32(2));
    begin = g.advance(begin, b.CreateMul(self, g.steps));
    // The second consumer gives the first one its first turn.
    when(b.CreateICmpEQ(self, n32(1)),
         [&] { ptx.notify(n32(kTurn), 2 * kWarpgroup); });
  }
  WgmmaResult to{
      m,    n,     outerSizes,  mapArgs.empty() ? nullptr : mapArgs.back(),
      self, local, std::nullopt};
  forTiles(
      start, stride, {begin.stage, begin.parity},
      [&](llvm::Value *, TileCoord block, std::optional<GroupRows> group,
          const Carried &state) -> Carried {
        PipelineState place{state[0], state[1]};
        to.group = group;
        // Waiting for more than one phase ahead would see the phase before.
        if (s.pingpong)
          ptx.sync(b.CreateAdd(self, n32(kTurn)), 2 * kWarpgroup);
        // The first step writes the sums: zeros written before would make the
        // assembler wait for every product.
        Carried sums(s.products() * s.sums(),
                     llvm::UndefValue::get(b.getFloatTy()));
        multiply(place, sums, true);
        PipelineState next = g.advance(place);
        Carried carried{next.stage, next.parity, place.stage};
        carried.append(sums);
        carried =
            carriedFor(b, "steps", n32(1), g.steps, n32(1), std::move(carried),
                       [&](llvm::Value *, const Carried &state) -> Carried {
                         PipelineState place{state[0], state[1]};
                         Carried sums(state.begin() + 3, state.end());
                         multiply(place, sums, false);
                         // The products of the stage before are done.
                         ptx.wgmmaWait(1);
                         release(state[2]);
                         PipelineState next = g.advance(place);
                         Carried result{next.stage, next.parity, place.stage};
                         result.append(sums);
                         return result;
                       });
        if (s.pingpong)
          ptx.notify(b.CreateSub(n32(kTurn + 1), self), 2 * kWarpgroup);
        sums.assign(carried.begin() + 3, carried.end());
        ptx.wgmmaWait(sums);
        release(carried[2]);
        block.row = b.CreateAdd(block.row, ownRows);
        llvm::Value *edge = n;
        if (s.splitK > 1) {
          edge = b.CreateBinaryIntrinsic(
              llvm::Intrinsic::smin, n,
              b.CreateAdd(block.column, n32(s.columns)));
          reduceSplitK(g, rank, mate, self, local, sums);
          block.column =
              b.CreateAdd(block.column, b.CreateMul(rank, n32(s.ownColumns())));
        }
        if (failed(storeTile(op, g, to, block, edge, sums)))
          status = failure();
        place = {carried[0], carried[1]};
        if (s.pingpong)
          place = g.advance(place, g.steps);
        return {place.stage, place.parity};
      });
  if (stores && !s.unaligned)
    when(leads, [&] { ptx.waitStores(); });
  b.CreateBr(end);
  b.SetInsertPoint(end);
  if (s.cluster() > 1)
    ptx.clusterBarrier(); // nobody reads or writes here any more
  return status;
}

} // namespace knapper::lower
