// Which blocks of rows an attention on Hopper has, and when which block of
// threads takes them. All values are i32.
#pragma once

#include "codegen/lower/gpu/nvidia/common/Pipeline.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"

namespace knapper::lower {

/// Where a block of rows lies: its first row, head and batch; the keys of the
/// head.
struct FlashTile {
  llvm::Value *first, *head, *batch, *keyHead;
  llvm::Value *blocks = nullptr; // of keys that are visited, at least 1
  /// Of these the first so many have no end and no diagonal.
  llvm::Value *whole = nullptr;
};

class FlashTileScheduler {
public:
  /// Rows and keys of a block, elements of a head; MiB of keys and values whose
  /// heads are walked together (0: one).
  struct Shape {
    unsigned rows, keys, width, group;
  };
  /// `causal`: row s sees the keys below s + causal; null: all.
  struct Counts {
    llvm::Value *batch, *heads, *keyHeads, *queries, *keys, *causal;
  };
  FlashTileScheduler(llvm::IRBuilder<> &b, Shape shape, Counts counts);

  /// Where a program's rows lie, but for the blocks of keys.
  FlashTile rows(llvm::Value *program) const;
  /// Sets them. `skips` (i1): keys above the diagonal are not visited.
  /// `someWhole`: there are blocks that need no comparisons of places.
  void setBlocks(FlashTile &rows, llvm::Value *skips, bool someWhole) const;

  /// Runs `body` with each of this block's programs, how many it had before,
  /// and a place in the ring that goes on.
  template <typename Body> void each(PipelineState place, Body body) const {
    carriedFor(b, "rounds", b.getInt32(0), rounds, b.getInt32(1),
               {place.stage, place.parity},
               [&](llvm::Value *round, const Carried &state) -> Carried {
                 PipelineState next = body(programAt(round), round,
                                           PipelineState{state[0], state[1]});
                 return {next.stage, next.parity};
               });
  }

private:
  llvm::Value *placeIn(llvm::Value *iteration) const;
  llvm::Value *shareOf(llvm::Value *count, llvm::Value *first) const;
  llvm::Value *programAt(llvm::Value *round) const;
  llvm::Value *least(llvm::Value *x, llvm::Value *y) const {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  }
  llvm::Value *most(llvm::Value *x, llvm::Value *y) const {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
  }

  llvm::IRBuilder<> &b;
  Shape shape;
  Counts counts;
  llvm::Value *self, *blocks; // this block, of how many
  llvm::Value *allHeads, *shares, *rowBlocks, *together, *section, *rounds;
  llvm::Value *even = nullptr, *twoSections = nullptr; // with causality
};

} // namespace knapper::lower
