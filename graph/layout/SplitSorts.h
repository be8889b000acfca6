//===- SplitSorts.h - Sorts of long lines in several kernels --------------===//
//
// A line (the elements along the sorted dim) is sorted in one of four ways:
//
//   length                     how
//   up to `run`                one program sorts it
//   more than `run`            runs are sorted, then merged two at a time, one
//                              kernel for each step (bottom-up merge sort)
//   more than `shortest`       radix sort by 8 bits of the key at a time, from
//                              the lowest
//   first k of few long lines  the first k of each part, then the first k of
//                              these, so that every core has work
//
// The first element of each of many lines is a reduction's (arg_reduce). That
// op takes NaN as first both for the largest and for the smallest; a sort does
// not.
//
// The merge sort sorts 64-bit words that hold the element's key above its
// place. No two words are equal, so the sort is stable and a step has one
// result. Elements of 64 bits are sorted by their low halves, then by their
// high halves. A merge is a `ts.topk` with the attribute `ts.runs`: each of its
// lines consists of two sorted runs of that many elements. A step of the radix
// sort is a `ts.topk` with the attribute `ts.digit`: the lowest of the eight
// bits that it compares. Sizes are constants.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct SortModel {
  int64_t run = 4096;    ///< elements that one program sorts, a power of two
  int64_t fewest = 1024; ///< largest k that is selected in parts
  int64_t lines = 128;   ///< lines that give every core work
  int64_t held = 64;     ///< elements of a line that one thread sorts
  int64_t part = 1024;   ///< elements of a part, at least
  /// A line of more elements is radix-sorted, if all lines together have no
  /// more than `mostOfAll` elements: the schedule's counters take 4 MiB.
  int64_t shortest = 16384, mostOfAll = 12 << 20;
};

void splitSorts(mlir::func::FuncOp function, const SortModel &model = {});

} // namespace knapper
