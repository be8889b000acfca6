// Matmuls with packed integers (tile.packed_matmul) by mma.sync, for GPUs from
// sm_80 on. The integers are the left operand, 16 columns of the result a warp;
// rows of A are the right one, 8 an MMA. So of few rows nothing but the
// reading of the integers takes time, and of many each integer is made a
// float once for all rows of the CTA.
//
// An MMA may have its depths in any order that both operands share. Thread t
// of a warp reads `access` bytes of columns t/4 and t/4 + 8 at place t%4 of a
// span, and has that part of the depth of both operands:
//
//   column   | place 0 | place 1 | place 2 | place 3 |   one span
//             lanes of thread 0 .. 3, MMAs of 4 depths of each
//
// Integers become f16 or bf16 two at a time, in the halves of a word. Depths
// i and i + 4 (of four bits) or i and i + 2 (of eight) lie one half of a word
// apart, so they make a pair, and A's words are picked to match. What is not
// the integer is an exponent under which the last bit counts one:
//
//   4 bits, bf16   0x4300 | (q ^ 8) = 136 + q, less 136
//   4 bits, f16    0x6400 | (q ^ 8) = 1032 + q, less 1032
//   8 bits, f16    0x6400 | (q ^ 128) = 1152 + q, less 1152
//   8 bits, bf16   its seven bits hold no byte: (0x4300 | q & 127) less
//                  (0x4300 | q & 128), which is 128 or 256
//
// Every step is exact, and so is a product of two 16-bit floats in f32. A of
// f32 is the sum of three bf16, each multiplied. Sums of a span begin at zero
// and are scaled into the thread's own, in f32. Warps share the spans out;
// their sums meet in shared memory, from where each thread ends some elements.
#include "codegen/lower/common/CarriedLoop.h"
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "ir/config/PackedMatmulGpuConfig.h"
#include "ir/tile/PackedOps.h"

using namespace mlir;

namespace knapper::lower {

namespace {

constexpr unsigned kTileRows = 8; // of A in an MMA

class PackedMatmulRecipe : KernelRecipe {
public:
  PackedMatmulRecipe(GpuLowering &lowering, tile::PackedMatmulOp op)
      : KernelRecipe(lowering), op(op),
        c(config::PackedMatmulGpuConfig::of(op.getShape())),
        element(op.getA().getType().getElementType()), isF16(element.isF16()),
        pieces(element.isF32() ? 3 : 1), tiles(c.tileM / kTileRows) {}

  LogicalResult emit();

private:
  using Words = llvm::SmallVector<llvm::Value *, 16>;
  /// Of a span, what the thread reads of its two columns, as it comes.
  struct Span {
    llvm::Value *words[2], *scales[2]; // scales: null where there is one group
    Words row;                         // of A, where there are few rows
  };

  /// Whether a span's part of A is read with its integers.
  bool rowsAhead() const { return tiles == 1 && pieces == 1; }
  void place();
  llvm::Value *load(const BufferRef &ref, llvm::Value *offset, unsigned words);
  /// Integers and scales of span `number`; past the last one anything.
  void read(llvm::Value *number, Span &span);
  /// The thread's part of a span of row `tile` * 8 + t / 4 of A: words of
  /// memory, zeros past the depth. `ahead`: the span may lie past the last one.
  Words readRow(llvm::Value *number, unsigned tile, bool ahead);
  /// Pairs of 16-bit elements; of f32 three lists of them.
  llvm::SmallVector<Words> partsOf(const Words &raw);
  /// Two integers as 16-bit floats.
  llvm::Value *pair(llvm::Value *word, unsigned number);
  void multiply(llvm::Value *number, const Span &span,
                llvm::MutableArrayRef<llvm::Value *> sums);
  Carried mainloop();
  void writeSums(const Carried &sums);
  void storeResult();

  llvm::Value *permuted(llvm::Value *low, llvm::Value *high, unsigned which) {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {},
                             {low, high, n32(which)});
  }
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  }
  llvm::Type *halves() {
    return llvm::FixedVectorType::get(isF16 ? b.getHalfTy() : b.getBFloatTy(),
                                      2);
  }
  llvm::Value *below(llvm::Value *x, llvm::Value *end) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x,
                                   b.CreateSub(end, n32(1)));
  }
  llvm::Value *word(llvm::Value *index) {
    return b.CreateInBoundsGEP(b.getFloatTy(), words, index);
  }

  tile::PackedMatmulOp op;
  config::PackedMatmulGpuConfig c;
  Type element;
  bool isF16;
  unsigned pieces; ///< 16-bit floats that an element of A is the sum of
  unsigned tiles;  ///< of 8 rows
  BufferRef a, integers, scales;
  llvm::Value *m = nullptr, *n = nullptr;
  llvm::Value *firstRow = nullptr, *firstColumn = nullptr, *tid = nullptr,
              *warp = nullptr, *eighth = nullptr, *quad = nullptr;
  llvm::Value *columns[2] = {}; ///< this thread's, i64
  llvm::SmallVector<llvm::Value *> rowStarts;
  llvm::Value *words = nullptr; ///< sums in shared memory
  LogicalResult status = success();
};

} // namespace

void PackedMatmulRecipe::place() {
  m = narrowed(op.getM());
  n = narrowed(op.getN());
  tid = narrowed(threadOfBlock);
  llvm::Value *blocks = ceil(n, c.tileN()), *program = narrowed(programId);
  firstRow = b.CreateMul(b.CreateUDiv(program, blocks), n32(c.tileM));
  firstColumn = b.CreateMul(b.CreateURem(program, blocks), n32(c.tileN()));
  warp = b.CreateLShr(tid, 5);
  eighth = b.CreateAnd(b.CreateLShr(tid, 2), n32(7));
  quad = b.CreateAnd(tid, n32(3));
  // Rows and columns past the edge are read as the last ones and dropped.
  llvm::Value *own =
      b.CreateAdd(firstColumn, b.CreateMul(b.CreateURem(warp, n32(c.warpsN)),
                                           n32(c.warpColumns)));
  for (unsigned i = 0; i < 2; ++i)
    columns[i] =
        wide(below(b.CreateAdd(own, plus(eighth, i * c.warpColumns / 2)), n));
  for (unsigned i = 0; i < tiles; ++i)
    rowStarts.push_back(b.CreateMul(
        wide(below(b.CreateAdd(firstRow, plus(eighth, i * kTileRows)), m)),
        n64(c.depth)));
}

llvm::Value *PackedMatmulRecipe::load(const BufferRef &ref, llvm::Value *offset,
                                      unsigned count) {
  llvm::Type *type = llvm::FixedVectorType::get(b.getInt32Ty(), count);
  return tag(
      b.CreateAlignedLoad(type, address(ref, offset), llvm::Align(4 * count)),
      ref);
}

void PackedMatmulRecipe::read(llvm::Value *number, Span &span) {
  // The thread's first depth of the span.
  llvm::Value *depth =
      b.CreateMul(b.CreateAdd(b.CreateMul(number, n32(c.spanThreads)), quad),
                  n32(c.lanes()));
  llvm::Value *inside = b.CreateICmpULT(depth, n32(c.depth));
  llvm::Value *at =
      b.CreateMul(b.CreateAdd(b.CreateMul(number, n32(c.spanThreads)), quad),
                  n32(c.access));
  at = b.CreateSelect(inside, at, n32(0));
  llvm::Value *group = nullptr;
  if (c.groups() > 1)
    group = b.CreateBinaryIntrinsic(
        llvm::Intrinsic::umin,
        b.CreateUDiv(b.CreateMul(number, n32(c.span())), n32(c.group)),
        n32(c.groups() - 1));
  for (unsigned i = 0; i < 2; ++i) {
    llvm::Value *from = b.CreateMul(columns[i], n64(c.depth * c.bits / 8));
    span.words[i] = load(integers, b.CreateAdd(from, wide(at)), c.access / 4);
    if (!group)
      continue;
    llvm::Value *where =
        b.CreateAdd(b.CreateMul(columns[i], n64(c.groups())), wide(group));
    span.scales[i] =
        tag(b.CreateAlignedLoad(b.getFloatTy(), address(scales, where),
                                llvm::Align(4)),
            scales);
  }
}

PackedMatmulRecipe::Words
PackedMatmulRecipe::readRow(llvm::Value *number, unsigned tile, bool ahead) {
  llvm::Value *depth =
      b.CreateMul(b.CreateAdd(b.CreateMul(number, n32(c.spanThreads)), quad),
                  n32(c.lanes()));
  llvm::Value *inside = b.CreateICmpULT(depth, n32(c.depth));
  bool whole = c.depth % (c.span() * c.warpsK * c.stages) == 0;
  llvm::Value *from = b.CreateAdd(
      rowStarts[tile],
      wide(whole && !ahead ? depth : b.CreateSelect(inside, depth, n32(0))));
  unsigned count = c.lanes() * a.bytes / 4; // words
  unsigned each = std::min(count, 4u);
  Words raw;
  for (unsigned i = 0; i < count; i += each) {
    llvm::Value *loaded =
        load(a, b.CreateAdd(from, n64(i * 4 / a.bytes)), each);
    for (unsigned j = 0; j < each; ++j) {
      llvm::Value *one = b.CreateExtractElement(loaded, j);
      raw.push_back(whole ? one : b.CreateSelect(inside, one, n32(0)));
    }
  }
  return raw;
}

llvm::SmallVector<PackedMatmulRecipe::Words>
PackedMatmulRecipe::partsOf(const Words &raw) {
  if (pieces == 1)
    return {raw};
  // x = high + middle + low: each has the next eight bits of what is left.
  llvm::SmallVector<Words> parts(pieces);
  for (unsigned i = 0; i < raw.size(); i += 2) {
    llvm::Value *left[2] = {b.CreateBitCast(raw[i], b.getFloatTy()),
                            b.CreateBitCast(raw[i + 1], b.getFloatTy())};
    for (unsigned p = 0; p < pieces; ++p) {
      llvm::Value *bits[2];
      for (unsigned j = 0; j < 2; ++j) {
        bits[j] = b.CreateAnd(b.CreateBitCast(left[j], b.getInt32Ty()),
                              n32(int32_t(0xffff0000)));
        llvm::Value *part = b.CreateBitCast(bits[j], b.getFloatTy());
        llvm::Value *rest = b.CreateFSub(left[j], part);
        // Of an infinity nothing is left.
        left[j] = b.CreateSelect(b.CreateFCmpOEQ(left[j], part), f32(0), rest);
      }
      parts[p].push_back(permuted(bits[0], bits[1], 0x7632));
    }
  }
  return parts;
}

llvm::Value *PackedMatmulRecipe::pair(llvm::Value *word, unsigned number) {
  auto twice = [](unsigned half) { return int64_t(half << 16 | half); };
  llvm::Value *shifted =
      number ? b.CreateLShr(word, n32(number * c.bits)) : word;
  auto number16 = [&](double value) {
    return llvm::ConstantFP::get(halves(), value);
  };
  auto masked = [&](unsigned mask) {
    return b.CreateAnd(shifted, n32(int32_t(twice(mask))));
  };
  auto changed = [&](llvm::Value *bits, unsigned by) {
    return b.CreateBitCast(b.CreateXor(bits, n32(int32_t(twice(by)))),
                           halves());
  };
  llvm::Value *one = number16(1);
  if (c.bits == 4)
    return fma(changed(masked(0x000f), isF16 ? 0x6408 : 0x4308), one,
               number16(isF16 ? -1032 : -136));
  if (isF16)
    return fma(changed(masked(0x00ff), 0x6480), one, number16(-1152));
  return fma(changed(masked(0x0080), 0x4300), number16(-1),
             changed(masked(0x007f), 0x4300));
}

void PackedMatmulRecipe::multiply(llvm::Value *number, const Span &span,
                                  llvm::MutableArrayRef<llvm::Value *> sums) {
  unsigned pairs = 16 / c.bits; // of a word
  llvm::Intrinsic::ID mma =
      isF16 ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32
            : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
  // A word of the operand as the intrinsics want it.
  auto operand = [&](llvm::Value *value) {
    return b.CreateBitCast(value, isF16 ? halves() : b.getInt32Ty());
  };
  llvm::SmallVector<Words> left;
  for (llvm::Value *column : span.words) {
    left.emplace_back();
    for (unsigned i = 0; i < c.access / 4; ++i) {
      llvm::Value *word = b.CreateExtractElement(column, i);
      for (unsigned p = 0; p < pairs; ++p)
        left.back().push_back(operand(pair(word, p)));
    }
  }
  for (unsigned tile = 0; tile < tiles; ++tile) {
    llvm::SmallVector<Words> right = partsOf(
        rowsAhead() ? span.row : readRow(number, tile, /*ahead=*/false));
    llvm::SmallVector<llvm::Value *> own(4, f32(0));
    for (unsigned i = 0; i < left[0].size(); i += 2)
      for (const Words &part : right) {
        // Pair p of a word: its depths p and p + `pairs`.
        auto picked = [&](unsigned number) {
          unsigned first = number / pairs * 2 * pairs + number % pairs;
          return operand(permuted(part[first / 2], part[(first + pairs) / 2],
                                  first % 2 ? 0x7632 : 0x5410));
        };
        llvm::SmallVector<llvm::Value *> args{left[0][i],     left[1][i],
                                              left[0][i + 1], left[1][i + 1],
                                              picked(i),      picked(i + 1)};
        args.append(own.begin(), own.end());
        llvm::Value *all = b.CreateIntrinsic(mma, {}, args);
        for (unsigned q = 0; q < 4; ++q)
          own[q] = b.CreateExtractValue(all, q);
      }
    for (unsigned q = 0; q < 4; ++q) {
      llvm::Value *&sum = sums[tile * 4 + q];
      sum = span.scales[q / 2] ? fma(own[q], span.scales[q / 2], sum)
                               : b.CreateFAdd(sum, own[q]);
    }
  }
}

Carried PackedMatmulRecipe::mainloop() {
  Carried sums(tiles * 4, f32(0));
  unsigned stages = c.stages, round = c.warpsK * stages;
  llvm::Value *first = b.CreateUDiv(warp, n32(c.warpsN));
  auto at = [&](llvm::Value *from, unsigned i) {
    return plus(b.CreateAdd(from, first), i * c.warpsK);
  };
  auto readAll = [&](llvm::Value *from) {
    llvm::SmallVector<Span> spans(stages);
    // Rows before all integers: behind them they would come last, and
    // everything would wait for them.
    if (rowsAhead())
      for (auto [i, span] : llvm::enumerate(spans))
        span.row = readRow(at(from, i), 0, c.spans() > round);
    for (auto [i, span] : llvm::enumerate(spans))
      read(at(from, i), span);
    return spans;
  };
  llvm::SmallVector<Span> coming = readAll(n32(0));
  auto use = [&](llvm::Value *from, llvm::ArrayRef<Span> spans, Carried &sums) {
    for (auto [i, span] : llvm::enumerate(spans))
      multiply(at(from, i), span, sums);
  };
  if (c.spans() <= round) {
    use(n32(0), coming, sums);
    return sums;
  }
  // The next round's integers are on their way while this one's are used.
  bool scaled = c.groups() > 1;
  auto flat = [&](llvm::ArrayRef<Span> spans, Carried sums) {
    for (const Span &span : spans)
      for (unsigned i = 0; i < 2; ++i) {
        sums.push_back(span.words[i]);
        if (scaled)
          sums.push_back(span.scales[i]);
      }
    for (const Span &span : spans)
      llvm::append_range(sums, span.row);
    return sums;
  };
  unsigned numSums = sums.size();
  Carried state = carriedFor(
      b, "depth", n32(0), n32(c.spans()), n32(round), flat(coming, sums),
      [&](llvm::Value *from, const Carried &now) -> Carried {
        llvm::SmallVector<Span> spans;
        auto value = now.begin() + numSums;
        for (unsigned i = 0; i < stages; ++i) {
          Span span{};
          for (unsigned j = 0; j < 2; ++j) {
            span.words[j] = *value++;
            span.scales[j] = scaled ? *value++ : nullptr;
          }
          spans.push_back(span);
        }
        for (Span &span : spans)
          for (size_t j = 0; j < coming[0].row.size(); ++j)
            span.row.push_back(*value++);
        llvm::SmallVector<Span> next = readAll(plus(from, round));
        Carried sums(now.begin(), now.begin() + numSums);
        use(from, spans, sums);
        return flat(next, std::move(sums));
      });
  state.truncate(numSums);
  return state;
}

void PackedMatmulRecipe::writeSums(const Carried &sums) {
  words = sharedArray(b.getFloatTy(), c.sumsBytes() / 4, "_sums");
  llvm::Value *to = b.CreateMul(warp, n32(c.tileM * c.sumsPitch));
  for (unsigned tile = 0; tile < tiles; ++tile)
    for (unsigned q = 0; q < 4; ++q) {
      llvm::Value *row = plus(b.CreateShl(quad, 1), tile * kTileRows + q % 2);
      llvm::Value *column = plus(eighth, q / 2 * c.warpColumns / 2);
      llvm::Value *where = b.CreateAdd(
          to, b.CreateAdd(b.CreateMul(row, n32(c.sumsPitch)), column));
      b.CreateAlignedStore(sums[tile * 4 + q], word(where), llvm::Align(4));
    }
}

void PackedMatmulRecipe::storeResult() {
  llvm::Value *column = b.CreateURem(tid, n32(c.tileN()));
  llvm::Value *resultColumn = b.CreateAdd(firstColumn, column);
  auto end = [&](llvm::Value *row) {
    llvm::Value *resultRow = b.CreateAdd(firstRow, row);
    llvm::Value *has =
        b.CreateAnd(b.CreateICmpULT(row, n32(c.tileM)),
                    b.CreateAnd(b.CreateICmpULT(resultRow, m),
                                b.CreateICmpULT(resultColumn, n)));
    when(has, [&] {
      llvm::Value *from =
          b.CreateAdd(b.CreateMul(b.CreateUDiv(column, n32(c.warpColumns)),
                                  n32(c.tileM * c.sumsPitch)),
                      b.CreateAdd(b.CreateMul(row, n32(c.sumsPitch)),
                                  b.CreateURem(column, n32(c.warpColumns))));
      llvm::Value *value = nullptr;
      for (unsigned i = 0; i < c.warpsK; ++i) {
        llvm::Value *next = b.CreateAlignedLoad(
            b.getFloatTy(),
            word(plus(from, i * c.warpsN * c.tileM * c.sumsPitch)),
            llvm::Align(4));
        value = value ? b.CreateFAdd(value, next) : next;
      }
      if (c.groups() == 1)
        value = b.CreateFMul(
            value, tag(b.CreateAlignedLoad(b.getFloatTy(),
                                           address(scales, wide(resultColumn)),
                                           llvm::Align(4)),
                       scales));
      if (failed(runBlock(op.getBody().front(),
                          {value, wide(resultRow), wide(resultColumn)})))
        status = failure();
    });
  };
  llvm::Value *row = b.CreateUDiv(tid, n32(c.tileN()));
  unsigned rowsAtOnce = std::max<int64_t>(1, c.threads() / c.tileN());
  if (rowsAtOnce >= c.tileM) {
    end(row);
    return;
  }
  carriedFor(b, "rows", n32(0), n32(c.tileM), n32(rowsAtOnce), {},
             [&](llvm::Value *from, const Carried &) -> Carried {
               end(b.CreateAdd(from, row));
               return {};
             });
}

LogicalResult PackedMatmulRecipe::emit() {
  struct {
    BufferRef &to;
    Value from;
  } buffers[] = {
      {a, op.getA()}, {integers, op.getWeight()}, {scales, op.getScale()}};
  for (auto &[to, from] : buffers) {
    auto ref = buffer(from);
    if (failed(ref))
      return failure();
    to = *ref;
  }
  if (c.threads() % c.tileN())
    return op.emitOpError("has threads that its columns cut");
  place();
  writeSums(mainloop());
  barrier();
  storeResult();
  return status;
}

LogicalResult GpuLowering::packedMatmulLayout(tile::PackedMatmulOp op) {
  auto config = config::PackedMatmulGpuConfig::of(op.getShape());
  shape.threads = config.threads();
  ctasPerSm = config.ctasPerSm();
  return regionLayout(op, 1);
}

LogicalResult GpuLowering::packedMatmul(tile::PackedMatmulOp op) {
  return PackedMatmulRecipe(*this, op).emit();
}

} // namespace knapper::lower
