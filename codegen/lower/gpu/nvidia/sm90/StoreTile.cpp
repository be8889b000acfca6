// How what a warpgroup has multiplied leaves it: by the region, and through
// shared memory where results are dense tensors of 16-bit elements.
//
// Thread t of a warpgroup (warp w, lane l) has of a 64-row product in sum i
//   row 16w + l/4 + 8*((i/2)%2), column 8*(i/4) + 2*(l%4) + i%2
// of the block. Where A and B are swapped, rows of the block are columns of the
// result: matrices are turned on their way to shared memory, whose lines are
// always parts of the result's rows.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/PatternMatch.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult GpuLowering::storeTile(tile::MatmulOp op, WgmmaMatmul &g,
                                     const WgmmaResult &to, TileCoord block,
                                     llvm::Value *edge,
                                     llvm::ArrayRef<llvm::Value *> sums) {
  const WgmmaShape &s = g.s;
  PtxAsm &ptx = g.ptx;
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto atMost = [&](llvm::Value *x, llvm::Value *most) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, most);
  };
  llvm::Value *local = to.local;
  llvm::Value *warp = b.CreateUDiv(local, n32(32));
  llvm::Value *lane = b.CreateURem(local, n32(32));
  llvm::Value *leads = b.CreateICmpEQ(local, n32(0));
  llvm::Value *laneRow =
      b.CreateAdd(b.CreateShl(warp, 4), b.CreateLShr(lane, 2));
  llvm::Value *laneColumn = b.CreateShl(b.CreateAnd(lane, 3), 1);
  llvm::Value *firstColumn = b.CreateAdd(block.column, laneColumn);
  LogicalResult status = success();

  // Hands a run of a row of product p to the region. Null: nothing yielded.
  auto handOver = [&](llvm::ArrayRef<llvm::Value *> values, llvm::Value *row,
                      llvm::Value *column) -> llvm::Value * {
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
      run = b.CreateSelect(has, run,
                           llvm::Constant::getNullValue(run->getType()));
    if (s.swapAB)
      std::swap(row, column);
    FailureOr<llvm::Value *> result =
        runRegion(op, run, block.outer, row, column);
    if (failed(result)) {
      status = failure();
      return nullptr;
    }
    return *result;
  };

  if (!op.getC()) {
    for (unsigned p = 0; p < s.products(); ++p)
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
    return status;
  }

  bool bf16 = op.getC().getType().getElementType().isBF16();
  llvm::Value *ownResult = b.CreateAdd(
      g.base,
      b.CreateAdd(b.CreateMul(to.self, n32(s.buffers() * s.chunkBytes())),
                  n32(s.resultAt())));
  llvm::Value *ownBarrier = b.CreateAdd(to.self, n32(1));
  // Where the lane's line of the matrices is in a chunk. Narrower
  // Chunks are swizzled as copies of their width do.
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
  llvm::Value *chunkAt = b.CreateAdd(b.CreateMul(line, n32(pitch)),
                                     b.CreateShl(b.CreateXor(run, swizzle), 4));

  FailureOr<BufferRef> result = BufferRef();
  if (s.unaligned && failed(result = buffer(op.getC())))
    return failure();
  // Rows and columns that the result has.
  llvm::Value *rows = s.swapAB ? to.n : to.m;
  llvm::Value *columns = s.swapAB ? to.m : to.n;
  llvm::Type *word = b.getInt32Ty();
  // 64 columns of 16 rows of the result for each warp, which start at any
  // element: a lane writes a word of each row, of two words of shared memory
  // that the row's start may split; single elements only at the ends.
  auto storeRows = [&](llvm::Value *row, llvm::Value *rowEdge,
                       llvm::Value *column, llvm::Value *columnEdge,
                       unsigned width, llvm::Value *buffer) {
    auto wide = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
    row = b.CreateAdd(row, b.CreateShl(warp, 4));
    llvm::Value *line = wide(row), *matrix = nullptr;
    for (auto [index, size] : llvm::zip(block.outer, to.outer))
      matrix = matrix
                   ? b.CreateAdd(b.CreateMul(matrix, wide(size)), wide(index))
                   : wide(index);
    if (matrix)
      line = b.CreateAdd(line, b.CreateMul(matrix, wide(rows)));
    llvm::Value *first =
        b.CreateAdd(b.CreateMul(line, wide(columns)), wide(column));
    llvm::Value *left = atMost(b.CreateSub(columnEdge, column), n32(width));
    llvm::Value *last = b.CreateSub(left, n32(1));
    llvm::Value *holdsLast = b.CreateICmpEQ(lane, b.CreateLShr(last, 1));
    llvm::Value *from =
        b.CreateAdd(buffer, b.CreateShl(warp, 4 + 7)); // 16 rows of 128 bytes
    constexpr unsigned atOnce = 4;
    carriedFor(
        b, "rows", n32(0), n32(16), n32(atOnce), {first},
        [&](llvm::Value *begin, const Carried &state) -> Carried {
          llvm::Value *start = state[0];
          for (unsigned i = 0; i < atOnce; ++i) {
            llvm::Value *r = b.CreateAdd(begin, n32(i));
            llvm::Value *chunk =
                b.CreateXor(b.CreateLShr(lane, 2), b.CreateAnd(r, n32(7)));
            llvm::Value *at = b.CreateAdd(
                b.CreateAdd(from, b.CreateShl(r, 7)),
                b.CreateAdd(b.CreateShl(chunk, 4),
                            b.CreateShl(b.CreateAnd(lane, n32(3)), 2)));
            llvm::Value *own = b.CreateAlignedLoad(
                word,
                b.CreateIntToPtr(
                    at, llvm::PointerType::get(b.getContext(), /*shared*/ 3)),
                llvm::Align(4));
            llvm::Value *before =
                b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_up_i32, {},
                                  {n32(~0u), own, n32(1), n32(0)});
            llvm::Value *odd =
                b.CreateTrunc(b.CreateAnd(start, b.getInt64(1)), word);
            llvm::Value *both =
                b.CreateIntrinsic(llvm::Intrinsic::fshl, {word},
                                  {own, before, b.CreateShl(odd, n32(4))});
            llvm::Value *element = b.CreateSub(b.CreateShl(lane, 1), odd);
            llvm::Value *inside = b.CreateICmpSLT(b.CreateAdd(row, r), rowEdge);
            auto put = [&](llvm::Value *condition, llvm::Value *value,
                           llvm::Value *index, unsigned align) {
              when(b.CreateAnd(inside, condition), [&] {
                llvm::Value *offset =
                    b.CreateAdd(start, b.CreateSExt(index, b.getInt64Ty()));
                tag(b.CreateAlignedStore(value, address(*result, offset),
                                         llvm::Align(align)),
                    *result);
              });
            };
            auto half = [&](llvm::Value *value) {
              return b.CreateTrunc(value, b.getInt16Ty());
            };
            put(b.CreateAnd(b.CreateICmpSGE(element, n32(0)),
                            b.CreateICmpSLT(element, last)),
                both, element, 4);
            put(b.CreateAnd(b.CreateICmpSLT(element, n32(0)),
                            b.CreateICmpSGE(last, n32(0))),
                half(own), n32(0), 2);
            llvm::Value *single = b.CreateICmpEQ(
                b.CreateAnd(b.CreateXor(last, odd), n32(1)), n32(0));
            llvm::Value *shift = b.CreateShl(b.CreateAnd(last, n32(1)), n32(4));
            put(b.CreateAnd(b.CreateAnd(holdsLast, single),
                            b.CreateICmpSGE(last, n32(0))),
                half(b.CreateLShr(own, shift)), last, 2);
            start = b.CreateAdd(start, wide(columns));
          }
          return {start};
        });
  };

  // What packing rounds again alike: a conversion alone the assembler would
  // move up in front of the wait for its product.
  auto unrounded = [&](llvm::Value *value) {
    using namespace llvm::PatternMatch;
    llvm::Type *stored = bf16 ? b.getBFloatTy() : b.getHalfTy();
    llvm::Value *rounded, *exact;
    return match(value, m_FPExt(m_Value(rounded))) &&
                   match(rounded, m_FPTrunc(m_Value(exact))) &&
                   rounded->getType()->getScalarType() == stored &&
                   exact->getType() == value->getType()
               ? exact
               : value;
  };
  // Some of the block's columns at a time.
  unsigned width = s.chunkExtent();
  llvm::Value *lastRow = b.CreateSub(to.m, n32(1));
  llvm::Value *lastColumn = b.CreateSub(to.n, n32(op.run()));
  // Of a cluster's columns the last block may have none.
  bool cut = s.splitK * s.ownColumns() != s.columns;
  unsigned chunk = 0;
  for (unsigned p = 0; p < s.products(); ++p) {
    llvm::Value *blockRow = b.CreateAdd(block.row, n32(64 * p));
    llvm::Value *laneRows[2];
    for (unsigned h = 0; h < 2; ++h)
      laneRows[h] = atMost(
          b.CreateAdd(b.CreateAdd(blockRow, laneRow), n32(8 * h)), lastRow);
    // Columns c, c + 1, ... c + extent - 1 of product p.
    auto storeChunk = [&](unsigned c, unsigned extent, unsigned chunk) {
      llvm::Value *buffer =
          b.CreateAdd(ownResult, n32(chunk % s.buffers() * s.chunkBytes()));
      for (unsigned q = 0; q < extent; q += 16) {
        llvm::SmallVector<llvm::Value *, 4> words;
        for (unsigned at = c + q; at < c + std::min(q + 16, extent); at += 8) {
          for (unsigned h = 0; h < 2; ++h) {
            llvm::Value *pair[2];
            for (unsigned i = 0; i < 2; i += op.run()) {
              llvm::Value *column =
                  atMost(b.CreateAdd(firstColumn, n32(at + i)), lastColumn);
              llvm::Value *value = handOver(
                  sums.slice(p * s.ownSums() + at / 2 + 2 * h + i, op.run()),
                  laneRows[h], column);
              if (!value)
                return;
              value = unrounded(value);
              pair[i] = value;
              if (op.run() == 2)
                for (unsigned e = 0; e < 2; ++e)
                  pair[e] = b.CreateExtractElement(value, uint64_t(e));
            }
            words.push_back(ptx.pack(pair[0], pair[1], bf16));
          }
        }
        if (q == 0 && chunk == 0 && !s.epilogueChunks) {
          // Other consumers may still multiply what lies there.
          ptx.sync(n32(kMeet), s.consumers * kWarpgroup);
        } else if (q == 0 && (chunk == 0 || s.epilogueChunks == 1)) {
          // The buffers of the block or the chunk before have been read.
          if (!s.unaligned)
            when(leads, [&] { ptx.waitStoresRead(0); });
          if (!s.unaligned || s.swapAB)
            ptx.sync(ownBarrier, kWarpgroup);
          else if (chunk)
            b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {},
                              {n32(~0u)});
        }
        ptx.storeMatrices(
            b.CreateAdd(buffer, s.swapAB
                                    ? b.CreateAdd(chunkAt, n32(q * kRowBytes))
                                    : b.CreateXor(chunkAt, n32(2 * q))),
            words, s.swapAB);
      }
      llvm::Value *column = b.CreateAdd(block.column, n32(c));
      if (s.unaligned && !s.swapAB) {
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {n32(~0u)});
        storeRows(blockRow, to.m, column, edge, width, buffer);
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
        llvm::Value *end = b.CreateAdd(column, n32(extent));
        storeRows(column, atMost(edge, end), blockRow, to.m, 64, buffer);
        return;
      }
      when(leads, [&] {
        if (to.group) {
          // Rows past the group's are cut off as those past row 63 of the
          // 64 that end with it (mapResult).
          llvm::Value *left = b.CreateSub(to.group->end, blockRow);
          llvm::Value *first = b.CreateBinaryIntrinsic(
              llvm::Intrinsic::smax,
              b.CreateSub(n32(64), atMost(left, n32(64))), n32(0));
          first = atMost(first, n32(64));
          ptx.tmaStore(to.map,
                       {column, first,
                        b.CreateSub(b.CreateAdd(blockRow, n32(64)), first)},
                       buffer);
        } else if (!s.swapAB) {
          ptx.tmaStore(to.map, boxAt(column, blockRow, block, ~int64_t(0)),
                       buffer);
        } else {
          for (unsigned i = 0; i < extent; i += s.chunkColumns()) {
            llvm::Value *row = b.CreateAdd(column, n32(i));
            auto store = [&] {
              ptx.tmaStore(to.map, boxAt(blockRow, row, block, ~int64_t(0)),
                           g.at(buffer, i * kRowBytes));
            };
            if (cut)
              when(b.CreateICmpSLT(row, edge), store);
            else
              store();
          }
        }
        ptx.commitStores();
      });
    };
    for (unsigned c = 0; c < s.ownColumns(); c += width, ++chunk) {
      auto store = [&] {
        storeChunk(c, std::min(width, s.ownColumns() - c), chunk);
      };
      if (cut)
        when(b.CreateICmpSLT(b.CreateAdd(block.column, n32(c)), edge), store);
      else
        store();
    }
  }
  return status;
}

} // namespace knapper::lower
