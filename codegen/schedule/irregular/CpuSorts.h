// What the sorts of CPUs share.
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// Where programs of one line each are: the index of the sorted dim is left
/// out.
Coord lineOfProgram(ElementEmitter &e, ts::TopKOp op);

/// Scratch bytes of `buildRadixSort`.
ts::Dim radixSortScratch(ts::Dim length);
/// Sorts the line by eight bits of its keys at a time and stores its first
/// elements.
llvm::LogicalResult buildRadixSort(BuildContext &context, ts::TopKOp op,
                                   const Coord &line);

} // namespace knapper
