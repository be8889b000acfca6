// What the CPU's schedules of ts.topk share (CpuTopK.cpp, Sort.cpp).
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// The coordinate of the program's line, one program for each line. The index
/// along the sorted dim is not set.
Coord lineOfProgram(ElementEmitter &e, ts::TopKOp op);

/// Bytes of scratch that `buildRadixSort` needs for a list of up to `length`
/// elements.
ts::Dim radixSortScratch(ts::Dim length);

/// Where `buildRadixSort` finds a list: up to `length` keys (SortKeys.h) and
/// the places (i64) of their elements, each with as much room behind it.
struct RadixList {
  mlir::Value keys, places; ///< buffers
  ts::Dim counts; ///< where kRadixCounts bytes are free before the sort
};
constexpr int64_t kRadixCounts = 16384;
RadixList radixList(ElementEmitter &e, mlir::Type key, ts::Dim length);

/// Emits a radix sort of the `listed` elements by 8 bits of the keys at a time,
/// lowest first, and the stores of the op's first k elements. Fails after a
/// diagnostic.
llvm::LogicalResult buildRadixSort(BuildContext &context, ts::TopKOp op,
                                   const Coord &line, mlir::Value listed);

} // namespace knapper
