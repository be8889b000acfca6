//===- OperandCoord.h - Where a contraction reads its operands ------------===//
#pragma once

#include "codegen/schedule/core/Coord.h"
#include "ir/tensor/Indexing.h"

namespace knapper {

/// Where operand `operand` of an op is read for the result's elements `at`,
/// with the contracted loops at `contracted` (`index` values, one a loop). Each
/// dim of the operand is one loop's.
inline Coord operandCoord(const Coord &at, const ts::Indexing &indexing,
                          unsigned operand,
                          llvm::ArrayRef<mlir::Value> contracted) {
  Coord coord = at;
  coord.dims.clear();
  for (const ts::IndexExpr &expr : indexing.maps[operand].dims) {
    unsigned loop = *expr.asLoop();
    coord.dims.push_back(
        loop < indexing.parallelLoops
            ? at.dims[loop]
            : LaneIndex{contracted[loop - indexing.parallelLoops]});
  }
  return coord;
}

} // namespace knapper
