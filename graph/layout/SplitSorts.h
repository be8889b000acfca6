// A sort of a line longer than a run becomes sorts of runs and merges of two
// runs each, a kernel every time (bottom-up merge sort).
//
// The sort is of 64-bit words: the element's order above its place. No two
// words are equal, so the sort is stable and needs one result a step. Elements
// of 64 bits are sorted by their low halves, then by their high ones. A merge
// is a `ts.topk` whose attribute `ts.runs` says that its lines are two sorted
// runs of so many elements; a schedule may use that. Sizes are constants.
//
// Still longer lines are sorted by eight bits of the order at a time, from the
// lowest: a `ts.topk` whose attribute `ts.digit` says from which bit on the
// eight are that are compared.
//
// The first k elements of few long lines, k small, are selected in parts first,
// so that all processors have work; then those of the parts' first elements.
// The first one of many lines is what a reduction finds. (It counts NaN as
// first whether it looks for the largest or the smallest, unlike the sort.)
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct SortModel {
  int64_t run = 4096;    ///< elements that one program sorts, a power of two
  int64_t fewest = 1024; ///< results up to which they are selected
  int64_t lines = 128;   ///< that a selection needs for all cores
  int64_t held = 64;     ///< elements of a line that a thread sorts
  int64_t part = 1024;   ///< elements of a part, at least
  /// Elements of a line beyond which it is sorted by digits, and of all lines
  /// up to which they are (the schedule counts values in 4 MiB).
  int64_t shortest = 16384, mostOfAll = 12 << 20;
};

void splitSorts(mlir::func::FuncOp function, const SortModel &model = {});

} // namespace knapper
