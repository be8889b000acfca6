// The ring of stages in shared memory that products by warpgroups work on: its
// sizes, its barriers, and how one goes from stage to stage. GpuWarpgroups.cpp
// says how it lies in memory.
#pragma once

#include "codegen/lower/HopperAsm.h"
#include "ir/tile/TileDialect.h"

namespace knapper::lower {

inline constexpr unsigned kWarpgroup = 128;
inline constexpr unsigned kDepth = 64, kRowBytes = 128;
inline constexpr unsigned kRing = 1024; // where stages begin
inline constexpr unsigned kEmpty = 128; // where the empty barriers are
inline constexpr unsigned kSharedMemory = 3;
// Named barriers: one a consumer (1, 2), and the turns of ping-pong.
inline constexpr unsigned kTurn = 4;

/// The sizes of a kernel.
struct Sizes {
  explicit Sizes(tile::ProductOp op)
      : rows(op.shapeOf("rows")), columns(op.shapeOf("columns")),
        stages(op.shapeOf("stages")), consumers(op.shapeOf("consumers")),
        group(op.shapeOf("group")), pingpong(op.shapeOf("pingpong")),
        aTransposed(op.shapeOf("a_transposed")),
        bTransposed(op.shapeOf("b_transposed")) {
    if (op.getShape().get("carriers"))
      carriers = op.shapeOf("carriers");
  }

  unsigned rows, columns, stages, consumers, group, carriers = 0;
  bool pingpong, aTransposed, bTransposed;

  /// The first warpgroups fill the ring.
  unsigned fillers() const { return carriers ? carriers : 1; }
  unsigned aBytes() const { return rows * kRowBytes; }
  unsigned stageBytes() const { return (rows + columns) * kRowBytes; }
  /// Rows of a consumer's part of the block, 64 a product.
  unsigned consumerRows() const { return pingpong ? rows : rows / consumers; }
  unsigned products() const { return consumerRows() / 64; }
  unsigned sums() const { return columns / 2; }
  unsigned chunkBytes() const { return 64 * kRowBytes; }
  unsigned resultAt() const { return kRing + stages * stageBytes(); }
  unsigned bytes(bool stores) const {
    return resultAt() + (stores ? consumers * 2 * chunkBytes() : 0);
  }
  bool fit(bool stores) const {
    return rows % (64 * (pingpong ? 1 : consumers)) == 0 && columns % 64 == 0 &&
           columns <= 256 && rows <= 256 && stages >= 2 && stages <= 16 &&
           consumers >= 1 && consumers <= 2 && (!pingpong || consumers == 2) &&
           group >= 1 && carriers <= 2 && (!carriers || !stores) &&
           bytes(stores) <= 232448;
  }
};

/// A stage of the ring and the parity its barriers are waited for with.
struct Place {
  llvm::Value *stage, *parity;
};

class Warpgroups {
public:
  Warpgroups(llvm::IRBuilder<> &b, const Sizes &s) : b(b), s(s), hopper(b) {}

  llvm::Value *number(int64_t n) { return b.getInt32(n); }
  llvm::Value *at(llvm::Value *address, llvm::Value *offset) {
    return b.CreateAdd(address, offset);
  }
  llvm::Value *full(llvm::Value *stage) {
    return at(base, b.CreateShl(stage, 3));
  }
  llvm::Value *empty(llvm::Value *stage) {
    return at(full(stage), number(kEmpty));
  }
  Place onward(Place p) {
    llvm::Value *next = b.CreateAdd(p.stage, number(1));
    llvm::Value *wraps = b.CreateICmpEQ(next, number(s.stages));
    return {b.CreateSelect(wraps, number(0), next),
            b.CreateSelect(wraps, b.CreateXor(p.parity, 1), p.parity)};
  }
  /// `steps` stages later.
  Place onward(Place p, llvm::Value *steps) {
    llvm::Value *sum = b.CreateAdd(p.stage, steps);
    llvm::Value *rounds = b.CreateUDiv(sum, number(s.stages));
    return {b.CreateSub(sum, b.CreateMul(rounds, number(s.stages))),
            b.CreateXor(p.parity, b.CreateAnd(rounds, 1))};
  }
  void when(llvm::Value *condition, llvm::function_ref<void()> body) {
    llvm::Function *fn = b.GetInsertBlock()->getParent();
    auto *then = llvm::BasicBlock::Create(b.getContext(), "when", fn);
    auto *after = llvm::BasicBlock::Create(b.getContext(), "after", fn);
    b.CreateCondBr(condition, then, after);
    b.SetInsertPoint(then);
    body();
    b.CreateBr(after);
    b.SetInsertPoint(after);
  }

  llvm::IRBuilder<> &b;
  const Sizes &s;
  HopperAsm hopper;
  llvm::Value *base = nullptr;                     // of shared memory
  llvm::Value *first = nullptr, *blocks = nullptr; // this block, of how many
  llvm::Value *steps = nullptr;                    // of depth
};

} // namespace knapper::lower
