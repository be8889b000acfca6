// What the CPU's schedules of ts.topk share (CpuTopK.cpp, Sort.cpp).
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// The coordinate of the program's line, one program for each line. The index
/// along the sorted dim is not set.
Coord lineOfProgram(ElementEmitter &e, ts::TopKOp op);

/// Bytes of scratch that `buildRadixSort` needs for a line of `length`
/// elements.
ts::Dim radixSortScratch(ts::Dim length);
/// Emits a radix sort of the line by 8 bits of the keys at a time, lowest
/// first, and the stores of the op's first k elements. Fails after a
/// diagnostic.
llvm::LogicalResult buildRadixSort(BuildContext &context, ts::TopKOp op,
                                   const Coord &line);

} // namespace knapper
