//===- RegisterTiles.h - Register tiles over the rows of a block ---------===//
#pragma once

#include "codegen/TargetDesc.h"
#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

/// The shape of a register tile over a panel of B: `rows` accumulator rows of
/// `width` columns; a panel wider than that is done in parts.
struct RegisterTile {
  int64_t rows, width;
};
/// Rows x columns accumulators, one row of B and one broadcast fit the vector
/// registers. `panel` is a multiple of 16.
RegisterTile registerTile(const TargetDesc &target, int64_t panel);
/// The same for matmuls in groups (four of bytes, two of bf16): where they are
/// not added in one instruction, a row of B and an element of A take two
/// registers each.
RegisterTile groupTile(const TargetDesc &target, int64_t panel, int64_t group);

/// A panel and the relative time that a column of a full one takes.
struct PanelCost {
  int64_t panel;
  double cost;
};
/// Whether a panel cuts no run of results (`runDivisor` as in Epilogue; 0: it
/// may), or is the narrowest, which always can.
inline bool keepsRuns(int64_t panel, int64_t runDivisor) {
  return panel == 16 || !runDivisor || runDivisor % panel == 0;
}
/// Of `panels` that keep runs, the one of which `count(panel)` take the least
/// time.
int64_t cheapestPanel(llvm::ArrayRef<PanelCost> panels, int64_t runDivisor,
                      llvm::function_ref<int64_t(int64_t panel)> count);

/// body(0), body(shape.width), ... below `panel`, a multiple of the width:
/// first columns of a panel's parts. Emitted once.
llvm::LogicalResult
forParts(ElementEmitter &emitter, const RegisterTile &shape, int64_t panel,
         llvm::function_ref<llvm::LogicalResult(mlir::Value part)> body);

/// Cuts rows [0, rows) into tiles of `tileRows`; the last one takes the
/// smallest of a few sizes that holds it:
///   body(first row, valid rows of the tile, rows of the tile, its number)
/// The tile's rows are a constant of the code, valid <= that; the body is
/// emitted once a size. `finish(first row, valid rows)` follows every tile and
/// is emitted once.
/// `known`: the rows as a number. The tiles then differ by at most one row, and
/// none has more rows than are valid.
/// `counts`: the numbers of valid rows that tiles may have, where they are
/// known: no other size is emitted.
llvm::LogicalResult forRowTiles(
    ElementEmitter &emitter, mlir::Value rows, int64_t tileRows,
    llvm::function_ref<llvm::LogicalResult(mlir::Value row, mlir::Value valid,
                                           int64_t tileRows,
                                           mlir::Value number)>
        body,
    llvm::function_ref<llvm::LogicalResult(mlir::Value row, mlir::Value valid)>
        finish = nullptr,
    std::optional<int64_t> known = std::nullopt,
    llvm::ArrayRef<int64_t> counts = {});

/// The numbers of valid rows that tiles of `tileRows` may have, of blocks that
/// cut `rows` at multiples of `block`, itself one of `tileRows` or the end of
/// all rows.
llvm::SmallVector<int64_t> countsOfTiles(int64_t rows, int64_t tileRows,
                                         int64_t block);
/// The sizes that tiles of `counts` valid rows are emitted in, rising: each
/// count has one that holds it. No counts: what any number of rows takes.
llvm::SmallVector<int64_t> sizesOfTiles(int64_t tileRows,
                                        llvm::ArrayRef<int64_t> counts);

} // namespace knapper
