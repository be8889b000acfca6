//===- AmxMatmul.h - Matmuls in tile registers ----------------------------===//
#pragma once

#include "codegen/schedule/core/RegisterTiles.h"

namespace knapper {

/// A register tile over a panel where matmuls go through tile registers.
RegisterTile blockTile(int64_t panel);

/// Whether these matmuls can: in groups, rows of A consecutive in K (`inRows`)
/// and long enough to fill a tile, and enough rows. Sizes that are not known
/// are taken to be large.
bool fitsTiles(const TargetDesc &target, int64_t group, bool inRows,
               std::optional<int64_t> rows, std::optional<int64_t> depth);

/// Operands of tile.block, for row 0 of A and C.
struct AmxMatmul {
  mlir::Value a, aOffset, lda;
  mlir::Value b, bOffset, ldb;
  mlir::Value k;
  mlir::Value c, cOffset, ldc;
  mlir::Value prefetch, prefetchOffset, prefetchStep; ///< null: none
  int64_t parts = 1;
  mlir::Value aPart, bPart; ///< null of one part
};
/// Rows 0 .. valid - 1 of at most blockTile's, times `columns` columns.
llvm::LogicalResult multiplyBlock(ElementEmitter &emitter,
                                  const AmxMatmul &matmul, mlir::Value valid,
                                  int64_t columns);

/// Cuts rows [0, rows) into blockTile's: body(first row, valid rows, number).
llvm::LogicalResult forBlocks(
    ElementEmitter &emitter, mlir::Value rows,
    llvm::function_ref<llvm::LogicalResult(mlir::Value row, mlir::Value valid,
                                           mlir::Value number)>
        body);

} // namespace knapper
