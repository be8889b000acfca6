// Filling the ring of a matmul by warpgroups without the TMA unit, which
// wants strides of whole 16 bytes. The operands are 16-bit elements.
//
// A stage's lines of 128 bytes (rows of a side, or depths of a transposed one)
// lie as copied boxes do. Thread t of a warpgroup has chunk t % 8 of line
// 16*p + t/8 for each p: its distance from a multiple of 16 bytes is the same
// in all of them. The warpgroups take turns stage by stage, so that one's loads
// are under way while another writes.
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kLanes = 8;  // elements of 16 bytes
constexpr unsigned kLines = 16; // that a warpgroup's access has
constexpr unsigned kAtOnce = 8; // accesses of a thread before the first is used

/// A side of the matmul.
struct StagedOperand {
  BufferRef buffer;
  Value offset, pitch; // pitch: elements from line to line
  OperandRange outer;
  bool transposed;
  unsigned extent, shared; // rows or columns of a block; bytes into a stage
  llvm::Value *limit;      // rows or columns there are
  llvm::Value *from;       // the block's first
  llvm::Value *start;      // this thread's first element at depth 0, i64
  llvm::Value *skew;
};

class RegisterStaging : KernelRecipe {
public:
  RegisterStaging(GpuLowering &lowering, tile::MatmulOp op, WgmmaMatmul &g)
      : KernelRecipe(lowering), op(op), g(g), s(g.s) {}

  LogicalResult emit(const TileScheduler &order, llvm::Value *warpgroup);

private:
  struct Access {
    llvm::SmallVector<llvm::Value *, 8> around;
    const StagedOperand *side;
    llvm::Value *mask; // of what is inside the depth
    unsigned number;
  };
  /// A stage that is being filled.
  struct Filling {
    PipelineState at;
    llvm::Value *stage; // where this thread writes in it
    llvm::SmallVector<Access> accesses;
    bool waited = false;
  };

  LogicalResult takeOperands();
  void placeThread();
  void begin(const TileCoord &block);
  /// One stage: reads all of it that there is, waits until it is free, writes.
  void fill(PipelineState at, llvm::Value *depth);
  void readLines(Filling &filling, const StagedOperand &side,
                 llvm::Value *depth);
  void readTransposed(Filling &filling, const StagedOperand &side,
                      llvm::Value *depth);
  void read(Filling &filling, const StagedOperand &side, llvm::Value *inside,
            llvm::Value *offset, llvm::Value *second, llvm::Value *mask,
            unsigned number);
  void write(Filling &filling);
  /// Whether the second access holds an element of the `left` that there are.
  llvm::Value *both(llvm::Value *before, llvm::Value *left) {
    return b.CreateAnd(b.CreateICmpNE(before, n32(0)),
                       b.CreateICmpSGT(b.CreateAdd(before, left), n32(kLanes)));
  }

  tile::MatmulOp op;
  WgmmaMatmul &g;
  const WgmmaShape &s;
  llvm::SmallVector<StagedOperand, 2> sides;
  llvm::Value *k = nullptr, *line = nullptr, *chunkAt = nullptr,
              *inLine = nullptr;
  llvm::Type *words = nullptr; // 16 bytes
};
} // namespace

LogicalResult RegisterStaging::takeOperands() {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  Value runs[] = {s.aTransposed ? op.getARow() : op.getAK(),
                  s.bTransposed ? op.getBColumn() : op.getBK()};
  if (!llvm::all_of(runs, [](Value v) { return matchPattern(v, m_One()); }))
    return op.emitOpError("has lines that are not contiguous");
  k = narrowed(op.getK());
  sides.push_back({*aBuffer, op.getAOffset(),
                   s.aTransposed ? op.getAK() : op.getARow(), op.getAOuter(),
                   s.aTransposed, s.rows, 0, narrowed(op.getM()), nullptr,
                   nullptr, nullptr});
  sides.push_back({*bBuffer, op.getBOffset(),
                   s.bTransposed ? op.getBK() : op.getBColumn(), op.getBOuter(),
                   s.bTransposed, s.columns, s.aBytes(), narrowed(op.getN()),
                   nullptr, nullptr, nullptr});
  return success();
}

void RegisterStaging::placeThread() {
  llvm::Value *local = b.CreateURem(
      b.CreateTrunc(threadOfBlock, b.getInt32Ty()), n32(kWarpgroup));
  llvm::Value *chunk = b.CreateAnd(local, n32(7));
  line = b.CreateLShr(local, 3);
  chunkAt = b.CreateAdd(
      b.CreateMul(line, n32(kRowBytes)),
      b.CreateShl(b.CreateXor(chunk, b.CreateAnd(line, n32(7))), 4));
  inLine = b.CreateMul(chunk, n32(kLanes));
  words = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
}

void RegisterStaging::write(Filling &filling) {
  if (!filling.waited)
    g.ptx.wait(g.empty(filling.at.stage), filling.at.parity);
  filling.waited = true;
  for (Access &a : filling.accesses) {
    llvm::Value *value =
        pickFrom(a.side->buffer, a.around, a.side->skew, words);
    value = b.CreateAnd(value, a.mask);
    llvm::Value *to = b.CreateAdd(
        filling.stage, n32(a.side->shared + a.number * kLines * kRowBytes));
    b.CreateAlignedStore(value, sharedPointer(to), llvm::Align(16));
  }
  filling.accesses.clear();
}

void RegisterStaging::read(Filling &filling, const StagedOperand &side,
                           llvm::Value *inside, llvm::Value *offset,
                           llvm::Value *second, llvm::Value *mask,
                           unsigned number) {
  offset = b.CreateSelect(inside, offset, n64(0));
  second = b.CreateAnd(inside, second);
  filling.accesses.push_back(
      {fetchAround(side.buffer, offset, second), &side, mask, number});
  if (filling.accesses.size() == kAtOnce)
    write(filling);
}

void RegisterStaging::readLines(Filling &filling, const StagedOperand &side,
                                llvm::Value *depth) {
  llvm::Value *before = b.CreateLShr(side.skew, 1); // elements
  // What is of a line beyond the depth is zero.
  llvm::Value *left = b.CreateSub(k, b.CreateAdd(depth, inLine));
  llvm::Value *mask = llvm::PoisonValue::get(words);
  for (unsigned i = 0; i < 4; ++i) {
    llvm::Value *low =
        b.CreateSelect(b.CreateICmpSGT(left, n32(2 * i)), n32(0xffff), n32(0));
    llvm::Value *word =
        b.CreateSelect(b.CreateICmpSGT(left, n32(2 * i + 1)), n32(-1), low);
    mask = b.CreateInsertElement(mask, word, i);
  }
  llvm::Value *second = both(before, left);
  llvm::Value *any = b.CreateICmpSGT(left, n32(0));
  llvm::Value *first = b.CreateAdd(side.start, wide(depth));
  llvm::Value *lines = b.CreateSub(side.limit, b.CreateAdd(side.from, line));
  for (unsigned p = 0; p < side.extent / kLines; ++p) {
    llvm::Value *inside =
        b.CreateAnd(any, b.CreateICmpSGT(lines, n32(kLines * p)));
    llvm::Value *offset =
        b.CreateAdd(first, b.CreateMul(n64(kLines * p), scalar(side.pitch)));
    read(filling, side, inside, offset, second, mask, p);
  }
}

void RegisterStaging::readTransposed(Filling &filling,
                                     const StagedOperand &side,
                                     llvm::Value *depth) {
  llvm::Value *before = b.CreateLShr(side.skew, 1); // elements
  // Lines beyond the depth are zero.
  constexpr unsigned perBox = kDepth / kLines;
  llvm::Value *left = b.CreateSub(side.limit, b.CreateAdd(side.from, inLine));
  llvm::Value *lines = b.CreateSub(k, b.CreateAdd(depth, line));
  for (unsigned q = 0; q < perBox; ++q) {
    llvm::Value *there = b.CreateICmpSGT(lines, n32(kLines * q));
    llvm::Value *mask =
        b.CreateSelect(there, llvm::Constant::getAllOnesValue(words),
                       llvm::Constant::getNullValue(words));
    llvm::Value *first = b.CreateAdd(
        side.start, b.CreateMul(wide(b.CreateAdd(depth, n32(kLines * q))),
                                scalar(side.pitch)));
    for (unsigned p = q; p < side.extent / kLines; p += perBox) {
      unsigned within = p / perBox * kDepth;
      llvm::Value *here = b.CreateSub(left, n32(within));
      llvm::Value *inside = b.CreateAnd(there, b.CreateICmpSGT(here, n32(0)));
      llvm::Value *offset = b.CreateAdd(first, n64(within));
      read(filling, side, inside, offset, both(before, here), mask, p);
    }
  }
}

void RegisterStaging::fill(PipelineState at, llvm::Value *depth) {
  llvm::Value *stage = b.CreateAdd(
      g.base, b.CreateAdd(b.CreateMul(at.stage, n32(s.stageBytes())),
                          b.CreateAdd(chunkAt, n32(kStagesAt))));
  Filling filling{at, stage, {}};
  for (const StagedOperand &side : sides)
    if (side.transposed)
      readTransposed(filling, side, depth);
    else
      readLines(filling, side, depth);
  if (!filling.accesses.empty())
    write(filling);
  g.ptx.fenceShared();
  g.ptx.arrive(g.full(at.stage));
}

void RegisterStaging::begin(const TileCoord &block) {
  for (StagedOperand &side : sides) {
    side.from = &side == sides.begin() ? block.row : block.column;
    llvm::Value *start = b.CreateAdd(scalar(side.offset), wide(inLine));
    for (auto [stride, index] : llvm::zip(side.outer, block.outer))
      start = b.CreateAdd(start, b.CreateMul(scalar(stride), wide(index)));
    llvm::Value *lines = side.transposed ? line : b.CreateAdd(side.from, line);
    start = b.CreateAdd(start, b.CreateMul(wide(lines), scalar(side.pitch)));
    if (side.transposed)
      start = b.CreateAdd(start, wide(side.from));
    side.start = start;
    side.skew = skewOf(side.buffer, start);
  }
}

LogicalResult RegisterStaging::emit(const TileScheduler &order,
                                    llvm::Value *warpgroup) {
  if (failed(takeOperands()))
    return failure();
  placeThread();
  carriedFor(
      b, "blocks", g.first, order.programs(), g.blocks,
      {n32(0), n32(1), n32(0)},
      [&](llvm::Value *program, const Carried &outerState) -> Carried {
        TileCoord block = order.at(program);
        llvm::Value *back = b.CreateICmpNE(
            b.CreateAnd(b.CreateUDiv(program, g.blocks), 1), n32(0));
        begin(block);
        return carriedFor(
            b, "steps", n32(0), g.steps, n32(1), outerState,
            [&](llvm::Value *step, const Carried &state) -> Carried {
              PipelineState at{state[0], state[1]};
              llvm::Value *fromEnd =
                  b.CreateSub(b.CreateSub(g.steps, n32(1)), step);
              llvm::Value *depth = b.CreateMul(
                  b.CreateAdd(g.begin, b.CreateSelect(back, fromEnd, step)),
                  n32(kDepth));
              when(b.CreateICmpEQ(state[2], warpgroup),
                   [&] { fill(at, depth); });
              PipelineState next = g.advance(at);
              llvm::Value *turn = b.CreateSub(n32(s.stagingWarpgroups - 1),
                                              state[2]); // of two at most
              return {next.stage, next.parity, turn};
            });
      });
  return success();
}

LogicalResult stageThroughRegisters(GpuLowering &lowering, tile::MatmulOp op,
                                    WgmmaMatmul &g, const TileScheduler &order,
                                    llvm::Value *warpgroup) {
  return RegisterStaging(lowering, op, g).emit(order, warpgroup);
}

} // namespace knapper::lower
