// Matmuls by warps, for GPUs from sm_80 on: blocks copied by cp.async
// into a ring of stages, ldmatrix, mma.sync. f16 and bf16; f32 where `tf32`
// says that its products may be of that.
//
//   shared memory: [block of A, block of B] x stages
//                  16 rows of f32 a warp, where the ring was, at the end
//
// A stage is 128 bytes deep. A side whose depth is contiguous lies as a line of
// 128 bytes a row (column); else as boxes of 128 bytes of them, a line a depth.
// The 16 bytes that are number c of a line lie at number c ^ s, s by the line's
// last bits, so that what a warp reads together is in different banks.
//
// A side that is not `copied` lies where cp.async does not reach: its threads
// read by 16-byte accesses around, while the products of the stage before run,
// shift, and write.
//
// Thread t has of a product of 16 rows by 8 columns in sum i row t/4 + 8*(i/2),
// column 2*(t%4) + i%2. At the end the rows go through shared memory, so that a
// thread gets runs of columns and a warp whole rows.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/Pipeline.h"
#include "ir/config/MatmulGpuConfig.h"

#include "mlir/IR/Matchers.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

namespace {

constexpr unsigned kWarp = 32, kAccess = 16; // threads, bytes
constexpr unsigned kChunks = kRowBytes / kAccess;
constexpr unsigned kFragment = 16; // rows or columns that one ldmatrix gets
constexpr unsigned kShared = 3;    // address space

struct MmaSyncShape {
  MmaSyncShape(const config::MatmulGpuConfig &c, unsigned elementBytes)
      : rows(c.tileM), columns(c.tileN), stages(c.stages), warps(c.consumers),
        elementBytes(elementBytes), warpRows(c.warpsM),
        transposed{c.aTransposed, c.bTransposed}, copied{c.aCopied, c.bCopied} {
  }
  unsigned rows, columns, stages, warps, elementBytes;
  unsigned warpRows; ///< warps that share a block's rows
  bool transposed[2], copied[2];

  unsigned warpColumns() const { return warps / warpRows; }
  unsigned threads() const { return warps * kWarp; }
  /// Of a warp's part of the block.
  unsigned ownRows() const { return rows / warpRows; }
  unsigned ownColumns() const { return columns / warpColumns(); }
  unsigned depth() const { return kRowBytes / elementBytes; }
  unsigned lanes() const { return kAccess / elementBytes; }
  unsigned extent(unsigned side) const { return side ? columns : rows; }
  unsigned sideAt(unsigned side) const { return side ? rows * kRowBytes : 0; }
  unsigned stageBytes() const { return (rows + columns) * kRowBytes; }
  /// f32 from row to row of a warp's results: 8 more, for the banks.
  unsigned resultPitch() const { return ownColumns() + 8; }
  unsigned bytes() const {
    return std::max(stages * stageBytes(),
                    warps * kFragment * resultPitch() * 4);
  }
  /// Lines that all threads copy at once.
  unsigned lines() const { return threads() / kChunks; }
  bool fit() const {
    if (!warpRows || !warps || warps > 32 || warps % warpRows || stages < 2 ||
        rows % (kFragment * warpRows) ||
        columns % (kFragment * warpColumns()) ||
        ownRows() * ownColumns() > 64 * 64 || depth() % lines())
      return false;
    for (unsigned side = 0; side < 2; ++side)
      if (extent(side) % (transposed[side] ? depth() : lines()))
        return false;
    return true;
  }
};

/// A side of the product.
struct MmaSyncOperand {
  BufferRef buffer;
  llvm::Value *pitch; // elements from line to line, i64
  llvm::Value *limit; // rows or columns there are
  llvm::Value *from;  // the block's first
  llvm::Value *start; // element at depth 0 of this thread's first access, i64
  llvm::Value *skew;  // of what is not copied
  llvm::SmallVector<llvm::Value *> lines; // elements from there, an access each
};

/// An access of a side that is not copied, on its way.
struct InFlight {
  llvm::SmallVector<llvm::Value *, 8> around;
  llvm::Value *mask; // of what is inside the depth
  unsigned side, at; // bytes into the side of a stage, but for the thread's
};

} // namespace

LogicalResult GpuLowering::mmaSyncMatmul(tile::MatmulOp op) {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  Type element = op.getA().getType().getElementType();
  auto config = config::MatmulGpuConfig::of(op.getShape());
  bool tf32 = element.isF32() && config.tf32;
  MmaSyncShape s(config, aBuffer->bytes);
  if (op.getB().getType().getElementType() != element ||
      !(element.isF16() || element.isBF16() || tf32) || !s.fit() ||
      op.run() > 8)
    return op.emitOpError("has a shape or element types that this path cannot "
                          "do");
  Value along[] = {s.transposed[0] ? op.getARow() : op.getAK(),
                   s.transposed[1] ? op.getBColumn() : op.getBK()};
  if (!llvm::all_of(along, [](Value v) { return matchPattern(v, m_One()); }))
    return op.emitOpError("has lines that are not contiguous");
  shape.sharedBytes = s.bytes();

  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto n64 = [&](int64_t n) { return b.getInt64(n); };
  auto wide = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
  auto narrowed = [&](Value v) {
    return b.CreateTrunc(scalar(v), b.getInt32Ty());
  };
  auto plus = [&](llvm::Value *v, int64_t n) { return b.CreateAdd(v, n32(n)); };
  auto sharedAt = [&](llvm::Value *address) {
    return b.CreateIntToPtr(address,
                            llvm::PointerType::get(b.getContext(), kShared));
  };
  auto bitOf = [&](llvm::Value *v, unsigned bit) {
    return b.CreateAnd(b.CreateLShr(v, bit), n32(1));
  };
  llvm::Type *words = llvm::FixedVectorType::get(b.getInt32Ty(), 4);

  llvm::Value *base = launchedShared();
  llvm::Value *m = narrowed(op.getM()), *n = narrowed(op.getN()),
              *k = narrowed(op.getK());
  auto ceil = [&](llvm::Value *x, unsigned by) {
    return b.CreateUDiv(plus(x, by - 1), n32(by));
  };
  llvm::SmallVector<llvm::Value *> outerSizes;
  for (Value size : op.getOuter())
    outerSizes.push_back(narrowed(size));
  TileScheduler order(b, ceil(m, s.rows), ceil(n, s.columns), outerSizes,
                      s.rows, s.columns, config.rasterGroup);
  TileCoord block = order.at(b.CreateTrunc(programId, b.getInt32Ty()));
  llvm::Value *tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  llvm::Value *lane = b.CreateAnd(tid, n32(kWarp - 1));
  llvm::Value *warp = b.CreateLShr(tid, 5);
  llvm::Value *warpRow = b.CreateUDiv(warp, n32(s.warpColumns()));
  llvm::Value *warpColumn =
      b.CreateSub(warp, b.CreateMul(warpRow, n32(s.warpColumns())));

  //===-- Copies ----------------------------------------------------------===//
  // This thread's first access: 16 bytes number `chunk` of line `line`.
  llvm::Value *chunk = b.CreateAnd(tid, n32(kChunks - 1));
  llvm::Value *line = b.CreateLShr(tid, 3);
  llvm::Value *inLine = b.CreateMul(chunk, n32(s.lanes()));
  // Lines by depth of f32 are read a word a thread, four lines at a time.
  auto swizzle = [&](llvm::Value *line, unsigned side) -> llvm::Value * {
    return s.transposed[side] && tf32
               ? b.CreateShl(b.CreateAnd(line, n32(3)), 1)
               : b.CreateAnd(line, n32(7));
  };
  // From one access of a thread to the next, whole rounds of the swizzle.
  llvm::Value *chunkAt[2];
  for (unsigned side = 0; side < 2; ++side)
    chunkAt[side] =
        b.CreateAdd(b.CreateMul(line, n32(kRowBytes)),
                    b.CreateShl(b.CreateXor(chunk, swizzle(line, side)), 4));
  // Of a transposed side an access's depth and first row, from the thread's.
  auto depthOf = [&](unsigned access) {
    return access * s.lines() % s.depth();
  };
  auto boxOf = [&](unsigned access) {
    return access * s.lines() / s.depth() * s.depth();
  };
  auto makeSide = [&](unsigned number, const BufferRef &ref, Value offset,
                      Value stride, OperandRange outer, llvm::Value *limit,
                      llvm::Value *from) {
    MmaSyncOperand side{
        ref, scalar(stride), limit, from, scalar(offset), nullptr, {}};
    for (auto [outerStride, index] : llvm::zip(outer, block.outer))
      side.start = b.CreateAdd(side.start,
                               b.CreateMul(scalar(outerStride), wide(index)));
    side.start = b.CreateAdd(side.start, wide(inLine));
    if (s.transposed[number])
      side.start = b.CreateAdd(
          side.start,
          b.CreateAdd(wide(from), b.CreateMul(wide(line), side.pitch)));
    if (!s.copied[number]) {
      llvm::Value *first = side.start;
      if (!s.transposed[number])
        first = b.CreateAdd(
            first, b.CreateMul(wide(b.CreateAdd(from, line)), side.pitch));
      side.skew = skewOf(ref, first);
    }
    for (unsigned i = 0; i < s.extent(number) / s.lines(); ++i) {
      if (s.transposed[number]) {
        side.lines.push_back(b.CreateAdd(
            b.CreateMul(side.pitch, n64(depthOf(i))), n64(boxOf(i))));
        continue;
      }
      // What is past the last row is read as that: it becomes nothing's result.
      llvm::Value *row = b.CreateAdd(from, plus(line, i * s.lines()));
      if (s.copied[number])
        row = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row,
                                      b.CreateSub(limit, n32(1)));
      side.lines.push_back(b.CreateMul(wide(row), side.pitch));
    }
    return side;
  };
  MmaSyncOperand sides[2] = {
      makeSide(0, *aBuffer, op.getAOffset(),
               s.transposed[0] ? op.getAK() : op.getARow(), op.getAOuter(), m,
               block.row),
      makeSide(1, *bBuffer, op.getBOffset(),
               s.transposed[1] ? op.getBK() : op.getBColumn(), op.getBOuter(),
               n, block.column)};

  auto bytesOf = [&](llvm::Value *elements) {
    llvm::Value *some =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, elements, n32(0));
    return b.CreateMul(
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, some, n32(s.lanes())),
        n32(s.elementBytes));
  };
  auto copy = [&](llvm::Value *to, const BufferRef &ref, llvm::Value *from,
                  llvm::Value *bytes) {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {},
                      {sharedAt(to), address(ref, from), bytes});
  };
  // Bits of the elements of 16 bytes that are among the first `left`.
  auto maskOf = [&](llvm::Value *left) {
    llvm::Value *mask = llvm::PoisonValue::get(words);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned first = i * 4 / s.elementBytes;
      llvm::Value *word = b.CreateSelect(b.CreateICmpSGT(left, n32(first)),
                                         n32(tf32 ? -1 : 0xffff), n32(0));
      if (!tf32)
        word = b.CreateSelect(b.CreateICmpSGT(left, n32(first + 1)), n32(-1),
                              word);
      mask = b.CreateInsertElement(mask, word, i);
    }
    return mask;
  };
  // Starts to fill a stage; what is past the depth is zero.
  auto begin = [&](llvm::Value *stage, llvm::Value *depth) {
    llvm::SmallVector<InFlight> coming;
    for (unsigned number = 0; number < 2; ++number) {
      const MmaSyncOperand &side = sides[number];
      bool transposed = s.transposed[number];
      llvm::Value *first =
          transposed ? b.CreateMul(wide(depth), side.pitch) : wide(depth);
      first = b.CreateAdd(side.start, first);
      llvm::Value *to =
          b.CreateAdd(stage, plus(chunkAt[number], s.sideAt(number)));
      llvm::Value *left =
          b.CreateSub(k, b.CreateAdd(depth, transposed ? line : inLine));
      for (auto [i, apart] : llvm::enumerate(side.lines)) {
        unsigned at = i * s.lines() * kRowBytes;
        llvm::Value *from = b.CreateAdd(first, apart);
        // Of the access: elements that there are, and whether there is a line.
        llvm::Value *elements = left, *inside;
        if (transposed) {
          inside = b.CreateICmpSGT(left, n32(depthOf(i)));
          elements = b.CreateSub(
              side.limit, b.CreateAdd(side.from, plus(inLine, boxOf(i))));
        } else {
          inside = b.CreateICmpSLT(
              b.CreateAdd(side.from, plus(line, i * s.lines())), side.limit);
        }
        if (s.copied[number]) {
          llvm::Value *bytes = bytesOf(elements);
          if (transposed)
            bytes = b.CreateSelect(inside, bytes, n32(0));
          copy(plus(to, at), side.buffer, from, bytes);
          continue;
        }
        llvm::Value *mask =
            transposed
                ? b.CreateSelect(inside, llvm::Constant::getAllOnesValue(words),
                                 llvm::Constant::getNullValue(words))
                : maskOf(elements);
        inside = b.CreateAnd(inside, b.CreateICmpSGT(elements, n32(0)));
        llvm::Value *before =
            b.CreateUDiv(side.skew, n32(s.elementBytes)); // elements
        llvm::Value *both = b.CreateAnd(
            b.CreateAnd(inside, b.CreateICmpNE(before, n32(0))),
            b.CreateICmpSGT(b.CreateAdd(before, elements), n32(s.lanes())));
        from = b.CreateSelect(inside, from, n64(0));
        coming.push_back(
            {fetchAround(side.buffer, from, both), mask, number, at});
      }
    }
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group,
                      llvm::ArrayRef<llvm::Value *>());
    return coming;
  };
  auto finish = [&](llvm::Value *stage, llvm::ArrayRef<InFlight> coming) {
    for (const InFlight &c : coming) {
      const MmaSyncOperand &side = sides[c.side];
      llvm::Value *value = pickFrom(side.buffer, c.around, side.skew, words);
      llvm::Value *to =
          b.CreateAdd(stage, plus(chunkAt[c.side], s.sideAt(c.side) + c.at));
      b.CreateAlignedStore(b.CreateAnd(value, c.mask), sharedAt(to),
                           llvm::Align(kAccess));
    }
  };

  //===-- Products --------------------------------------------------------===//
  unsigned tiles[2] = {s.ownRows() / kFragment, s.ownColumns() / kFragment};
  llvm::Value *own[2] = {b.CreateMul(warpRow, n32(s.ownRows())),
                         b.CreateMul(warpColumn, n32(s.ownColumns()))};
  llvm::Value *last = b.CreateAnd(lane, n32(7));
  llvm::Value *quad = b.CreateAnd(lane, n32(3)),
              *eighth = b.CreateLShr(lane, 2);
  // Four matrices of 8 x 16 bytes: of A (rows, depth) 0 0, 8 0, 0 1, 8 1, of B
  // (columns, depth) 0 0, 0 1, 8 0, 8 1; eight lanes say where each lies.
  using Words = llvm::SmallVector<llvm::Value *, 4>;
  auto fragment = [&](unsigned side, unsigned tile, unsigned step,
                      llvm::Value *stage) -> Words {
    llvm::Value *second = bitOf(lane, side ? 4 : 3);
    llvm::Value *deeper = bitOf(lane, side ? 3 : 4);
    llvm::Value *at = plus(stage, s.sideAt(side));
    Words result;
    if (s.transposed[side] && tf32) {
      for (unsigned i = 0; i < 4; ++i) {
        unsigned farther = side ? i / 2 : i % 2, below = side ? i % 2 : i / 2;
        llvm::Value *row = b.CreateAdd(
            own[side], plus(eighth, tile * kFragment + farther * 8));
        llvm::Value *box =
            b.CreateMul(b.CreateLShr(row, 5), n32(s.depth() * kRowBytes));
        llvm::Value *where = b.CreateXor(b.CreateAnd(b.CreateLShr(row, 2), 7),
                                         b.CreateShl(quad, 1));
        llvm::Value *word = b.CreateAdd(
            b.CreateAdd(b.CreateShl(where, 4),
                        b.CreateShl(b.CreateAnd(row, n32(3)), 2)),
            b.CreateAdd(box, b.CreateMul(plus(quad, step * 8 + below * 4),
                                         n32(kRowBytes))));
        result.push_back(b.CreateAlignedLoad(
            b.getInt32Ty(), sharedAt(b.CreateAdd(at, word)), llvm::Align(4)));
      }
    } else {
      llvm::Value *row = b.CreateAdd(
          own[side], plus(b.CreateShl(second, 3), tile * kFragment));
      llvm::Value *offset;
      if (s.transposed[side]) {
        llvm::Value *depth = b.CreateAdd(b.CreateShl(deeper, 3), last);
        llvm::Value *box =
            b.CreateMul(b.CreateLShr(row, 6), n32(s.depth() * kRowBytes));
        llvm::Value *where =
            b.CreateXor(b.CreateAnd(b.CreateLShr(row, 3), 7), last);
        offset = b.CreateAdd(
            b.CreateAdd(b.CreateMul(plus(depth, step * 16), n32(kRowBytes)),
                        box),
            b.CreateShl(where, 4));
      } else {
        llvm::Value *where = b.CreateXor(plus(deeper, 2 * step), last);
        offset =
            b.CreateAdd(b.CreateMul(b.CreateAdd(row, last), n32(kRowBytes)),
                        b.CreateShl(where, 4));
      }
      llvm::Value *pointer = sharedAt(b.CreateAdd(at, offset));
      llvm::Value *all = b.CreateIntrinsic(
          s.transposed[side]
              ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
              : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
          {pointer->getType()}, {pointer});
      for (unsigned i = 0; i < 4; ++i)
        result.push_back(b.CreateExtractValue(all, i));
    }
    for (llvm::Value *&word : result) {
      if (tf32) // else the product cuts the bits off: a bias
        word = b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {},
                                 {b.CreateBitCast(word, b.getFloatTy())});
      if (element.isF16())
        word =
            b.CreateBitCast(word, llvm::FixedVectorType::get(b.getHalfTy(), 2));
    }
    return result;
  };
  llvm::Intrinsic::ID matmul =
      tf32               ? llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32
      : element.isBF16() ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                         : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
  auto multiply = [&](llvm::Value *stage,
                      llvm::MutableArrayRef<llvm::Value *> sums) {
    for (unsigned step = 0; step < kRowBytes / 32; ++step) {
      llvm::SmallVector<Words> as, bs;
      for (unsigned i = 0; i < tiles[0]; ++i)
        as.push_back(fragment(0, i, step, stage));
      for (unsigned j = 0; j < tiles[1]; ++j)
        bs.push_back(fragment(1, j, step, stage));
      for (unsigned i = 0; i < tiles[0]; ++i)
        for (unsigned j = 0; j < 2 * tiles[1]; ++j) {
          auto sum = sums.slice((i * 2 * tiles[1] + j) * 4, 4);
          llvm::SmallVector<llvm::Value *> args(as[i].begin(), as[i].end());
          args.append({bs[j / 2][j % 2 * 2], bs[j / 2][j % 2 * 2 + 1]});
          args.append(sum.begin(), sum.end());
          llvm::Value *all = b.CreateIntrinsic(matmul, {}, args);
          for (unsigned q = 0; q < 4; ++q)
            sum[q] = b.CreateExtractValue(all, q);
        }
    }
  };

  auto stageAt = [&](llvm::Value *number) {
    return b.CreateAdd(base, b.CreateMul(number, n32(s.stageBytes())));
  };
  auto advance = [&](llvm::Value *number) {
    llvm::Value *next = plus(number, 1);
    return b.CreateSelect(b.CreateICmpEQ(next, n32(s.stages)), n32(0), next);
  };
  for (unsigned stage = 0; stage + 1 < s.stages; ++stage) {
    llvm::Value *to = stageAt(n32(stage));
    finish(to, begin(to, n32(stage * s.depth())));
  }
  Carried state{n32(0), n32(s.stages - 1)};
  state.append(2 * tiles[0] * tiles[1] * 4,
               llvm::ConstantFP::get(b.getFloatTy(), 0));
  state = carriedFor(
      b, "steps", n32(0), ceil(k, s.depth()), n32(1), std::move(state),
      [&](llvm::Value *step, const Carried &now) -> Carried {
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {},
                          {n32(s.stages - 2)});
        // The stage is there, and the one before it has been read by all.
        barrier();
        llvm::Value *to = stageAt(now[1]);
        llvm::SmallVector<InFlight> coming =
            begin(to, b.CreateMul(plus(step, s.stages - 1), n32(s.depth())));
        Carried next(now);
        multiply(stageAt(now[0]), llvm::MutableArrayRef(next).drop_front(2));
        finish(to, coming);
        next[0] = advance(now[0]);
        next[1] = advance(now[1]);
        return next;
      });

  //===-- Results ---------------------------------------------------------===//
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_all,
                    llvm::ArrayRef<llvm::Value *>());
  barrier(); // all have read the ring
  auto meetWarp = [&] {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {n32(-1)});
  };
  unsigned run = op.run(), runs = s.ownColumns() / run;
  llvm::Value *area = b.CreateAdd(
      base, b.CreateMul(warp, n32(kFragment * s.resultPitch() * 4)));
  auto areaAt = [&](llvm::Value *row, llvm::Value *column) {
    return sharedAt(b.CreateAdd(
        area,
        b.CreateShl(b.CreateAdd(b.CreateMul(row, n32(s.resultPitch())), column),
                    2)));
  };
  auto *pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
  LogicalResult status = success();
  for (unsigned i = 0; i < tiles[0]; ++i) {
    if (i)
      meetWarp();
    for (unsigned j = 0; j < 2 * tiles[1]; ++j)
      for (unsigned half = 0; half < 2; ++half) {
        const auto *sum = &state[2 + (i * 2 * tiles[1] + j) * 4 + 2 * half];
        llvm::Value *two = llvm::PoisonValue::get(pair);
        two = b.CreateInsertElement(two, sum[0], uint64_t(0));
        two = b.CreateInsertElement(two, sum[1], 1);
        b.CreateAlignedStore(
            two,
            areaAt(plus(eighth, 8 * half), plus(b.CreateShl(quad, 1), 8 * j)),
            llvm::Align(8));
      }
    meetWarp();
    carriedFor(
        b, "runs", n32(0), n32(kFragment * runs / kWarp), n32(1), {},
        [&](llvm::Value *round, const Carried &) -> Carried {
          llvm::Value *number =
              b.CreateAdd(b.CreateMul(round, n32(kWarp)), lane);
          llvm::Value *inRow = b.CreateUDiv(number, n32(runs));
          llvm::Value *inColumn = b.CreateMul(
              b.CreateSub(number, b.CreateMul(inRow, n32(runs))), n32(run));
          llvm::Value *row = b.CreateAdd(b.CreateAdd(block.row, own[0]),
                                         plus(inRow, i * kFragment));
          llvm::Value *column =
              b.CreateAdd(b.CreateAdd(block.column, own[1]), inColumn);
          when(b.CreateAnd(b.CreateICmpSLT(row, m), b.CreateICmpSLT(column, n)),
               [&] {
                 llvm::Type *type =
                     run > 1 ? llvm::FixedVectorType::get(b.getFloatTy(), run)
                             : b.getFloatTy();
                 llvm::Value *value =
                     b.CreateAlignedLoad(type, areaAt(inRow, inColumn),
                                         llvm::Align(std::min(16u, 4 * run)));
                 if (failed(runRegion(op, value, block.outer, row, column)))
                   status = failure();
               });
          return {};
        });
  }
  return status;
}

} // namespace knapper::lower
