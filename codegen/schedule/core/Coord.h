//===- Coord.h - Where a tile lies in a tensor ----------------------------===//
//
// A tile is a run of `lanes` elements of a tensor. A Coord gives, for every dim
// of the tensor, the index of lane 0 and how it moves from lane to lane:
//
//   row r of a matrix, 64 elements from column c     (r, step 0) (c, step 1)
//   the same elements seen through a transposition   (c, step 1) (r, step 0)
//   64 elements crossing rows (after a reshape)      per-lane index vectors
//
// Schedules make Coords of a kernel's iteration space; the emitter maps them
// through the region's movement ops to the operands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace knapper {

/// The index into one dim. Either start + lane * step, or one index a lane.
struct LaneIndex {
  mlir::Value start = {};   ///< `index`; null when perLane is set
  int64_t step = 0;         ///< elements from one lane to the next
  mlir::Value perLane = {}; ///< vector<lanes x index>
  /// start, or every lane's index, is known to be a multiple of this (1:
  /// nothing known).
  int64_t multipleOf = 1;
  /// Null, or vector<lanes x index>, one number for each aligned group of `run`
  /// lanes, whose lane l has the index runs[l] * run + l % run.
  mlir::Value runs = {};
  int32_t run = 1;
  /// With perLane: the lanes of each aligned group of this many have one index.
  int32_t sharedBy = 1;

  bool isUniform() const { return !perLane && step == 0; }
};

struct Coord {
  llvm::SmallVector<LaneIndex, 4> dims;
  int64_t lanes = 0; ///< 0: one element, values are scalars
  /// `index`: lanes from here on lie outside, their memory is not touched and
  /// their values are unspecified. Null: all lanes are inside.
  mlir::Value valid;
  /// vector<lanes x i1> (or i1 for a scalar): elements that may be read.
  mlir::Value mask;
  /// The lanes of each aligned group of this many have one value of `mask`.
  int64_t maskSharedBy = 1;

  /// Takes another mask, which lies in the one before; `sharedBy` is of what
  /// was added.
  void restrict(mlir::Value to, int64_t sharedBy) {
    maskSharedBy = mask ? std::min(maskSharedBy, sharedBy) : sharedBy;
    mask = to;
  }

  bool isUniform() const {
    return llvm::all_of(dims, [](const LaneIndex &i) { return i.isUniform(); });
  }
  bool operator==(const Coord &other) const;
  size_t hash() const;
};

} // namespace knapper
