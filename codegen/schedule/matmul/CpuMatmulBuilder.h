//===- CpuMatmulBuilder.h - The builder of matmuls -----------------------===//
// Internal to CpuMatmul.cpp, whose head describes a program, CpuMatmulPanel.cpp
// and CpuGroupedMatmul.cpp.
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "codegen/schedule/matmul/AmxMatmul.h"
#include "codegen/schedule/matmul/CpuMatmul.h"

namespace knapper {

/// Emits one program: a block of rows of A times one or more panels of B.
class MatmulBuilder {
public:
  MatmulBuilder(BuildContext &context, const MatmulCpuConfig &config,
                MatmulProblem matmul, Epilogue epilogue)
      : e(context.emitter), b(e.builder), target(context.target),
        matmul(std::move(matmul)), epilogue(std::move(epilogue)),
        panel(config.panel), blockRows(config.rows),
        split(splitOf(this->matmul, config)),
        step(this->matmul.packed || target.pairDots ? dotGroup(this->matmul)
                                                    : 1),
        sums(this->matmul.bytes ? mlir::Type(b.getI32Type()) : b.getF32Type()),
        inTiles(!this->matmul.group &&
                fitsTiles(target, step,
                          this->matmul.lhs.contractStride.isConstant(1),
                          this->matmul.lhs.free.asConstant(),
                          this->matmul.lhs.contract.asConstant())),
        inParts(splitShape(config, target, this->matmul)),
        shape(inTiles              ? blockTile(panel)
              : this->matmul.group ? registerTile(target, panel)
                                   : groupTile(target, panel, step)),
        expandedRows((shape.rows + 1) / 2) {
    // No more rows than that: no scratch is needed.
    std::optional<int64_t> rows = this->matmul.lhs.free.asConstant();
    if (this->matmul.group && rows && *rows >= 1 && *rows <= expandedRows)
      shape.rows = expandedRows = *rows;
  }

  llvm::LogicalResult build();

private:
  /// The same for a grouped GEMM: each expert has its own rows
  /// (CpuGroupedMatmul.cpp).
  llvm::LogicalResult buildGrouped();
  /// Multiplies the program's rows by panel `panelIndex`. batchIndex,
  /// outerIndex, column and firstRow must be set. `rowsKey`: a number that
  /// identifies the rows, so that split rows can be reused.
  llvm::LogicalResult multiplyPanel(mlir::Value rows, mlir::Value panelIndex,
                                    mlir::Value tilesBefore, mlir::Value lines,
                                    llvm::function_ref<mlir::Value()> rowsKey);
  llvm::LogicalResult gatherPanel();
  llvm::LogicalResult copyRows(mlir::Value rows);
  llvm::LogicalResult transposePanel(mlir::Value source, mlir::Value base);
  void tile(mlir::Value row, mlir::Value valid, int64_t tileRows,
            mlir::Value share);
  llvm::LogicalResult tileBlock(mlir::Value row, mlir::Value valid,
                                mlir::Value share);
  llvm::LogicalResult multiply(mlir::Value rows, mlir::Value tilesBefore,
                               mlir::Value share);
  llvm::LogicalResult bySplitBlocks(mlir::Value rows, mlir::Value key);
  /// The sums of one register tile: `width` columns from column `shift` on.
  mlir::Value mainloop(mlir::Value row, mlir::Value valid, int64_t tileRows,
                       int64_t width, int64_t shift, mlir::Value fetch);
  mlir::Value scaledMainloop(mlir::VectorType type, mlir::Value aOffset,
                             mlir::Value valid, int64_t shift,
                             mlir::Value fetch);
  llvm::LogicalResult expandPanel();
  llvm::LogicalResult finish(mlir::Value row, mlir::Value valid);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  const TargetDesc &target;
  MatmulProblem matmul;
  Epilogue epilogue;
  int64_t panel, blockRows;
  RowSplit split;
  int64_t step;    ///< of K, whose elements of a column lie together in B
  mlir::Type sums; ///< element type of the accumulators
  bool inTiles;    ///< matmuls go through tile registers
  /// Set if float32 is multiplied in parts of bf16 through tile registers,
  /// which a program with enough rows does.
  std::optional<SplitShape> inParts;
  RegisterTile shape;
  /// For scaled integers: tiles of more rows than this read the expanded panel.
  int64_t expandedRows;

  llvm::SmallVector<mlir::Value> batchIndex, outerIndex;
  mlir::Value column;       ///< first column of the panel
  mlir::Value validColumns; ///< null: all
  mlir::Value endOfAll;     ///< rows from it on are of no expert; null: all are
  mlir::Value firstRow;     ///< of the block, in the merged row dim
  mlir::Value a, aBase, lda, ka;
  mlir::Value bBuffer, bBase, ldb;
  mlir::Value prefetchFrom, prefetchBase;
  mlir::Value
      fetchStep; ///< elements of the next panel that a tile fetches at a time
  mlir::Value scale, zero, scaleBase, expanded; ///< of scaled integers
  mlir::Value accumulators;                     ///< scratch, [tile rows][panel]
};

} // namespace knapper
