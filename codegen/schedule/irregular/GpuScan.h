// What the choice and the builder of scans on GPUs share.
#pragma once

#include "codegen/schedule/core/Schedule.h"
#include "ir/tile/GridOps.h"

namespace knapper::scan {

/// 64-bit words of `Schedule::state` before those of the lines.
constexpr int64_t kHeadWords = 16;

/// Size, in 64-bit words, of the decoupled look-back state of a line: a status
/// word a tile and a group of tiles, two where an element is wider than 32
/// bits.
inline ts::Dim wordsOfLine(ts::Dim tiles, mlir::Type element) {
  ts::Dim groups =
      tiles.floorDiv(tiles.like(tile::LookBackOp::kGroup)) + tiles.like(1);
  return (tiles + groups) * (element.getIntOrFloatBitWidth() > 32 ? 2 : 1);
}

/// The narrow form (few columns beside each other): a group of threads has one
/// element of each column. kGroupsAtOnce groups are combined at a time.
constexpr int64_t kGroupsAtOnce = 8;
/// Groups of a CTA of `threads` threads. Beyond two times kGroupsAtOnce it is a
/// multiple of kGroupsAtOnce.
inline int64_t narrowGroups(int64_t threads, int64_t columns) {
  int64_t groups = threads / columns;
  return groups <= 2 * kGroupsAtOnce ? groups
                                     : groups / kGroupsAtOnce * kGroupsAtOnce;
}
/// The same if a program has whole lines of `length` elements and a thread has
/// `steps` of them.
inline int64_t wholeGroups(int64_t length, int64_t steps) {
  int64_t groups = (length + steps - 1) / steps;
  return groups <= 2 * kGroupsAtOnce
             ? groups
             : (groups + kGroupsAtOnce - 1) / kGroupsAtOnce * kGroupsAtOnce;
}

} // namespace knapper::scan
