//===- AmxMatmul.h - Matmuls in tile registers ----------------------------===//
#pragma once

#include "codegen/schedule/core/RegisterTiles.h"

namespace knapper {

/// The register tile for a panel if the matmul uses AMX tile registers.
RegisterTile blockTile(int64_t panel);

/// Whether a matmul can use AMX tile registers: `group` elements of K a step,
/// rows of A consecutive in K (`inRows`) and long enough to fill a tile, and
/// enough rows. Symbolic sizes count as large.
bool fitsTiles(const TargetDesc &target, int64_t group, bool inRows,
               std::optional<int64_t> rows, std::optional<int64_t> depth);

/// Operands of tile.block, for row 0 of A and C. Offsets and leading dimensions
/// (lda, ldb, ldc) are in elements.
struct AmxMatmul {
  mlir::Value a, aOffset, lda;
  mlir::Value b, bOffset, ldb;
  mlir::Value k;
  mlir::Value c, cOffset, ldc;
  mlir::Value prefetch, prefetchOffset, prefetchStep; ///< null: none
  int64_t parts = 1;
  mlir::Value aPart, bPart; ///< null of one part
};
/// Emits the matmul of rows 0 .. valid - 1, at most blockTile's, and `columns`
/// columns.
llvm::LogicalResult multiplyBlock(ElementEmitter &emitter,
                                  const AmxMatmul &matmul, mlir::Value valid,
                                  int64_t columns);

/// Cuts rows [0, rows) into blocks of blockTile's rows and emits for each
/// body(first row, valid rows, number of the block).
llvm::LogicalResult forBlocks(
    ElementEmitter &emitter, mlir::Value rows,
    llvm::function_ref<llvm::LogicalResult(mlir::Value row, mlir::Value valid,
                                           mlir::Value number)>
        body);

} // namespace knapper
