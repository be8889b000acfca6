// What the parts of a product by warpgroups share: its sizes, and where its
// block is. GpuWarpgroups.cpp says how it lies in shared memory.
#pragma once

#include "codegen/lower/GpuRing.h"
#include "ir/tile/TileDialect.h"

namespace knapper::lower {

inline constexpr unsigned kDepth = 64;
inline constexpr unsigned kRing = 1024; // where stages begin
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
    shifted = op.getShape().get("shifted") && op.shapeOf("shifted");
  }

  unsigned rows, columns, stages, consumers, group, carriers = 0;
  bool pingpong, aTransposed, bTransposed;
  bool shifted; ///< rows of the result start anywhere: no boxes

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
           group >= 1 && carriers <= 2 && (!carriers || !stores || shifted) &&
           bytes(stores) <= 232448;
  }
};

class Warpgroups : public Ring {
public:
  Warpgroups(llvm::IRBuilder<> &b, const Sizes &s) : Ring(b, s.stages), s(s) {}

  using Ring::onward;
  /// `steps` stages later.
  Place onward(Place p, llvm::Value *steps) {
    llvm::Value *sum = b.CreateAdd(p.stage, steps);
    llvm::Value *rounds = b.CreateUDiv(sum, n32(s.stages));
    return {b.CreateSub(sum, b.CreateMul(rounds, n32(s.stages))),
            b.CreateXor(p.parity, b.CreateAnd(rounds, 1))};
  }

  const Sizes &s;
  llvm::Value *first = nullptr, *blocks = nullptr; // this block, of how many
  llvm::Value *steps = nullptr;                    // of depth
};

} // namespace knapper::lower
