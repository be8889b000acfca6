// The tiles of a grouped matmul: rows are sorted by expert, and how many each
// has is known on the device alone.
//
// Tiles are numbered expert by expert, an expert's as TileScheduler does. A CTA
// takes tiles in increasing order, so it walks along the experts once: what it
// knows of the one it is at goes with it from tile to tile, 4 bytes of `ends`
// an expert.
#pragma once

#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"
#include <functional>

namespace knapper::lower {

/// Where in the result a tile of a grouped matmul may write, all i32.
struct GroupRows {
  llvm::Value *begin, *end; ///< rows that are stored
  llvm::Value *zeroFrom;    ///< from here on no expert has them: zeros
};

class GroupedTileScheduler {
public:
  /// `end(i)` reads ends[i]; `all`: rows there are; `height` x `width`: a tile.
  GroupedTileScheduler(llvm::IRBuilder<> &b,
                       std::function<llvm::Value *(llvm::Value *)> end,
                       llvm::Value *experts, llvm::Value *all,
                       llvm::Value *columns, unsigned height, unsigned width,
                       unsigned rasterGroup)
      : b(b), end(std::move(end)), experts(experts), all(all), height(height),
        width(width), rasterGroup(rasterGroup),
        across(b.CreateUDiv(b.CreateAdd(columns, b.getInt32(width - 1)),
                            b.getInt32(width))) {}

  /// What is known before the first tile; values that loops carry.
  Carried start() const;
  /// The same at the expert of tile `program`, which is no smaller than any
  /// before. Past the last tile `isPast` holds.
  Carried seek(const Carried &state, llvm::Value *program) const;
  llvm::Value *isPast(const Carried &state) const {
    return b.CreateICmpSGE(state[expert], experts);
  }
  /// The tile's expert, first row and column; its rows may go on past those of
  /// the expert.
  TileCoord at(const Carried &state, llvm::Value *program) const;
  GroupRows rows(const Carried &state) const {
    return {state[begin], state[last], state[zeroFrom]};
  }
  /// state = body(tile, place, rows, state) for tiles start, start + stride,
  /// ...
  template <typename Body>
  void forTiles(llvm::Value *start, llvm::Value *stride, Carried state,
                Body body) const {
    Carried carried{start};
    carried.append(seek(this->start(), start));
    carried.append(state);
    auto known = [](const Carried &now) {
      return Carried(now.begin() + 1, now.begin() + 1 + size);
    };
    carriedLoop(
        b, "tiles", carried,
        [&](const Carried &now) { return b.CreateNot(isPast(known(now))); },
        [&](const Carried &now) {
          Carried group = known(now);
          Carried next = body(now[0], at(group, now[0]), rows(group),
                              Carried(now.begin() + 1 + size, now.end()));
          llvm::Value *tile = b.CreateAdd(now[0], stride);
          next.insert(next.begin(), tile);
          Carried then = seek(group, tile);
          next.insert(next.begin() + 1, then.begin(), then.end());
          return next;
        });
  }

private:
  /// Of the state: the expert; its rows (`last`: with those that nobody has),
  /// where those of experts end so far, numbers of its first tile and the next
  /// expert's.
  enum { expert, begin, last, zeroFrom, first, next, size };

  llvm::IRBuilder<> &b;
  std::function<llvm::Value *(llvm::Value *)> end;
  llvm::Value *experts, *all;
  unsigned height, width, rasterGroup;
  llvm::Value *across;
};

} // namespace knapper::lower
