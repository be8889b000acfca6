// How what a warpgroup has multiplied leaves it: by the region, and through
// shared memory where results are dense tensors of 16-bit elements.
//
// Thread t of a warpgroup (warp w, lane l) has of a 64-row wgmma in sum i
//   row 16w + l/4 + 8*((i/2)%2), column 8*(i/4) + 2*(l%4) + i%2
// of the block. Where A and B are swapped, rows of the block are columns of the
// result: matrices are transposed on their way to shared memory, whose lines
// are always parts of the result's rows.
#include "codegen/lower/gpu/nvidia/sm90/StoreTile.h"

#include "llvm/IR/PatternMatch.h"

using namespace mlir;

namespace knapper::lower {

llvm::Value *StoreTile::handOver(llvm::ArrayRef<llvm::Value *> values,
                                 llvm::Value *row, llvm::Value *column) {
  llvm::Value *run = values[0];
  // Rows that no expert has.
  llvm::Value *has =
      to.group ? b.CreateICmpSLT(row, to.group->zeroFrom) : nullptr;
  if (op.run() > 1) {
    run = llvm::PoisonValue::get(
        llvm::FixedVectorType::get(b.getFloatTy(), values.size()));
    for (auto [i, value] : llvm::enumerate(values))
      run = b.CreateInsertElement(run, value, i);
  }
  if (has)
    run =
        b.CreateSelect(has, run, llvm::Constant::getNullValue(run->getType()));
  if (s.swapAB)
    std::swap(row, column);
  FailureOr<llvm::Value *> result =
      runRegion(op, run, block.outer, row, column);
  if (failed(result)) {
    status = failure();
    return nullptr;
  }
  return *result;
}

void StoreTile::handOverAll() {
  for (unsigned p = 0; p < s.wgmmas(); ++p)
    for (unsigned h = 0; h < 2; ++h) {
      llvm::Value *row =
          b.CreateAdd(b.CreateAdd(block.row, laneRow), n32(64 * p + 8 * h));
      llvm::Value *inside =
          b.CreateICmpSLT(row, to.group ? to.group->end : to.m);
      when(inside, [&] {
        for (unsigned at = 0; at < s.ownColumns(); at += 8)
          for (unsigned i = 0; i < 2; i += op.run()) {
            llvm::Value *column = b.CreateAdd(firstColumn, n32(at + i));
            when(b.CreateICmpSLT(column, edge), [&] {
              handOver(
                  sums.slice(p * s.ownSums() + at / 2 + 2 * h + i, op.run()),
                  row, column);
            });
          }
      });
    }
}

LogicalResult StoreTile::placeInChunks() {
  bf16 = op.getC().getType().getElementType().isBF16();
  ownResult = b.CreateAdd(
      g.base,
      b.CreateAdd(b.CreateMul(to.self, n32(s.buffers() * s.chunkBytes())),
                  n32(s.resultAt())));
  ownBarrier = b.CreateAdd(to.self, n32(1));
  // Where the lane's line of the matrices is in a chunk. Narrower
  // chunks are swizzled as copies of their width do.
  unsigned pitch = s.unaligned || s.swapAB ? kRowBytes : 2 * s.chunkColumns();
  // Row l%16 of the warp's 16, 16 bytes from column 8*(l/16) on; swapAB:
  // row l%8 + 8*(l/16), the warp's 32 bytes.
  llvm::Value *line =
      s.swapAB ? b.CreateAdd(b.CreateShl(b.CreateLShr(lane, 4), 3),
                             b.CreateAnd(lane, 7))
               : b.CreateAdd(b.CreateShl(warp, 4), b.CreateAnd(lane, 15));
  llvm::Value *run = s.swapAB
                         ? b.CreateAdd(b.CreateShl(warp, 1),
                                       b.CreateAnd(b.CreateLShr(lane, 3), 1))
                         : b.CreateLShr(lane, 4);
  llvm::Value *swizzle =
      b.CreateAnd(b.CreateLShr(line, n32(llvm::Log2_32(kRowBytes / pitch))),
                  n32(pitch / 16 - 1));
  chunkAt = b.CreateAdd(b.CreateMul(line, n32(pitch)),
                        b.CreateShl(b.CreateXor(run, swizzle), 4));

  if (s.unaligned) {
    FailureOr<BufferRef> given = buffer(op.getC());
    if (failed(given))
      return failure();
    result = *given;
  }
  rows = s.swapAB ? to.n : to.m;
  columns = s.swapAB ? to.m : to.n;
  lastRow = b.CreateSub(to.m, n32(1));
  lastColumn = b.CreateSub(to.n, n32(op.run()));
  cut = s.splitK * s.ownColumns() != s.columns;
  return success();
}

llvm::Value *StoreTile::unrounded(llvm::Value *value) {
  using namespace llvm::PatternMatch;
  llvm::Type *stored = bf16 ? b.getBFloatTy() : b.getHalfTy();
  llvm::Value *rounded, *exact;
  return match(value, m_FPExt(m_Value(rounded))) &&
                 match(rounded, m_FPTrunc(m_Value(exact))) &&
                 rounded->getType()->getScalarType() == stored &&
                 exact->getType() == value->getType()
             ? exact
             : value;
}

LogicalResult StoreTile::emit() {
  warp = b.CreateUDiv(to.local, n32(32));
  lane = b.CreateURem(to.local, n32(32));
  leads = b.CreateICmpEQ(to.local, n32(0));
  laneRow = b.CreateAdd(b.CreateShl(warp, 4), b.CreateLShr(lane, 2));
  llvm::Value *laneColumn = b.CreateShl(b.CreateAnd(lane, 3), 1);
  firstColumn = b.CreateAdd(block.column, laneColumn);
  if (!op.getC()) {
    handOverAll();
    return status;
  }
  if (failed(placeInChunks()))
    return failure();
  unsigned chunk = 0;
  for (unsigned p = 0; p < s.wgmmas(); ++p)
    storeWgmma(p, chunk);
  return status;
}

void StoreTile::storeWgmma(unsigned wgmma, unsigned &chunk) {
  wgmmaRow = b.CreateAdd(block.row, n32(64 * wgmma));
  for (unsigned h = 0; h < 2; ++h)
    laneRows[h] = atMost(
        b.CreateAdd(b.CreateAdd(wgmmaRow, laneRow), n32(8 * h)), lastRow);
  // Some of the block's columns at a time.
  unsigned width = s.chunkExtent();
  for (unsigned c = 0; c < s.ownColumns(); c += width, ++chunk) {
    auto store = [&] {
      storeChunk({wgmma, c, std::min(width, s.ownColumns() - c), chunk});
    };
    if (cut)
      when(b.CreateICmpSLT(b.CreateAdd(block.column, n32(c)), edge), store);
    else
      store();
  }
}

bool StoreTile::packWords(const Chunk &chunk, unsigned q,
                          llvm::SmallVectorImpl<llvm::Value *> &words) {
  unsigned end = chunk.column + std::min(q + 16, chunk.extent);
  for (unsigned at = chunk.column + q; at < end; at += 8)
    for (unsigned h = 0; h < 2; ++h) {
      llvm::Value *pair[2];
      for (unsigned i = 0; i < 2; i += op.run()) {
        llvm::Value *column =
            atMost(b.CreateAdd(firstColumn, n32(at + i)), lastColumn);
        unsigned first = chunk.wgmma * s.ownSums() + at / 2 + 2 * h + i;
        llvm::Value *value =
            handOver(sums.slice(first, op.run()), laneRows[h], column);
        if (!value)
          return false;
        value = unrounded(value);
        pair[i] = value;
        if (op.run() == 2)
          for (unsigned e = 0; e < 2; ++e)
            pair[e] = b.CreateExtractElement(value, uint64_t(e));
      }
      words.push_back(ptx.pack(pair[0], pair[1], bf16));
    }
  return true;
}

void StoreTile::waitForBuffer(const Chunk &chunk) {
  if (chunk.number == 0 && !s.epilogueChunks) {
    // Other consumers may still multiply what lies there.
    ptx.sync(n32(kMeet), s.consumers * kWarpgroup);
  } else if (chunk.number == 0 || s.epilogueChunks == 1) {
    // The buffers of the block or the chunk before have been read.
    if (!s.unaligned)
      when(leads, [&] { ptx.waitStoresRead(0); });
    if (!s.unaligned || s.swapAB)
      ptx.sync(ownBarrier, kWarpgroup);
    else if (chunk.number)
      meetWarp();
  }
}

void StoreTile::storeChunk(const Chunk &chunk) {
  llvm::Value *buffer =
      b.CreateAdd(ownResult, n32(chunk.number % s.buffers() * s.chunkBytes()));
  for (unsigned q = 0; q < chunk.extent; q += 16) {
    llvm::SmallVector<llvm::Value *, 4> words;
    if (!packWords(chunk, q, words))
      return;
    if (q == 0)
      waitForBuffer(chunk);
    ptx.storeMatrices(
        b.CreateAdd(buffer, s.swapAB ? b.CreateAdd(chunkAt, n32(q * kRowBytes))
                                     : b.CreateXor(chunkAt, n32(2 * q))),
        words, s.swapAB);
  }
  llvm::Value *column = b.CreateAdd(block.column, n32(chunk.column));
  if (s.unaligned && !s.swapAB) {
    meetWarp();
    storeRows(wgmmaRow, to.m, column, edge, s.chunkExtent(), buffer);
    return;
  }
  if (!s.unaligned) {
    ptx.fenceShared();
    if (s.epilogueChunks == 2)
      when(leads, [&] { ptx.waitStoresRead(0); });
  }
  // Behind one barrier the chunk is there and, of two, the other is free.
  ptx.sync(ownBarrier, kWarpgroup);
  if (s.unaligned) {
    llvm::Value *end = b.CreateAdd(column, n32(chunk.extent));
    storeRows(column, atMost(edge, end), wgmmaRow, to.m, 64, buffer);
    return;
  }
  when(leads, [&] { sendChunk(chunk, column, buffer); });
}

void StoreTile::sendChunk(const Chunk &chunk, llvm::Value *column,
                          llvm::Value *buffer) {
  if (to.group) {
    // Rows past the group's are cut off as those past row 63 of the 64 that
    // end with it (mapResult).
    llvm::Value *left = b.CreateSub(to.group->end, wgmmaRow);
    llvm::Value *first = b.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, b.CreateSub(n32(64), atMost(left, n32(64))),
        n32(0));
    first = atMost(first, n32(64));
    ptx.tmaStore(
        to.map,
        {column, first, b.CreateSub(b.CreateAdd(wgmmaRow, n32(64)), first)},
        buffer);
  } else if (!s.swapAB) {
    ptx.tmaStore(to.map, boxAt(column, wgmmaRow, block, ~int64_t(0)), buffer);
  } else {
    for (unsigned i = 0; i < chunk.extent; i += s.chunkColumns()) {
      llvm::Value *row = b.CreateAdd(column, n32(i));
      auto store = [&] {
        ptx.tmaStore(to.map, boxAt(wgmmaRow, row, block, ~int64_t(0)),
                     g.at(buffer, i * kRowBytes));
      };
      if (cut)
        when(b.CreateICmpSLT(row, edge), store);
      else
        store();
    }
  }
  ptx.commitStores();
}

LogicalResult storeTile(GpuLowering &lowering, tile::MatmulOp op,
                        WgmmaMatmul &g, const WgmmaResult &to, TileCoord block,
                        llvm::Value *edge, llvm::ArrayRef<llvm::Value *> sums) {
  return StoreTile(lowering, op, g, to, std::move(block), edge, sums).emit();
}

} // namespace knapper::lower
