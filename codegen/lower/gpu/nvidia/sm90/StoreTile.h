// How a consumer's sums of a block leave a matmul by wgmma: StoreTile.cpp, and
// StoreUnaligned.cpp for results whose rows start anywhere.
#pragma once

#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

namespace knapper::lower {

class StoreTile : KernelRecipe {
public:
  StoreTile(GpuLowering &lowering, tile::MatmulOp op, WgmmaMatmul &g,
            const WgmmaResult &to, TileCoord block, llvm::Value *edge,
            llvm::ArrayRef<llvm::Value *> sums)
      : KernelRecipe(lowering), op(op), g(g), s(g.s), ptx(g.ptx), to(to),
        block(std::move(block)), edge(edge), sums(sums) {}

  mlir::LogicalResult emit();

private:
  /// Columns `column` to `column + extent - 1` of wgmma `wgmma`, which are
  /// number `number` of the chunks of a block.
  struct Chunk {
    unsigned wgmma, column, extent, number;
  };

  /// Hands a run of a row to the region. Null: nothing yielded.
  llvm::Value *handOver(llvm::ArrayRef<llvm::Value *> values, llvm::Value *row,
                        llvm::Value *column);
  /// All sums, where the region stores what it makes of them.
  void handOverAll();
  /// Where a thread writes in a chunk.
  mlir::LogicalResult placeInChunks();
  void storeWgmma(unsigned wgmma, unsigned &chunk);
  void storeChunk(const Chunk &chunk);
  /// What the region makes of 16 columns from `q` on, as words of two; false:
  /// it failed.
  bool packWords(const Chunk &chunk, unsigned q,
                 llvm::SmallVectorImpl<llvm::Value *> &words);
  /// Waits until the chunk's buffer may be written.
  void waitForBuffer(const Chunk &chunk);
  /// By one thread: the chunk's TMA stores.
  void sendChunk(const Chunk &chunk, llvm::Value *column, llvm::Value *buffer);
  /// Without the rounding that packing does again: a conversion alone the
  /// assembler would move up in front of the wait for its wgmma.
  llvm::Value *unrounded(llvm::Value *value);

  //===-- Rows that start anywhere (StoreUnaligned.cpp) -------------------===//
  void storeRows(llvm::Value *row, llvm::Value *rowEdge, llvm::Value *column,
                 llvm::Value *columnEdge, unsigned width, llvm::Value *buffer);
  /// One row of the result.
  struct Row {
    /// It is number `number` from `first` on; stored where below `edge`.
    llvm::Value *first, *number, *edge;
    llvm::Value *start;        ///< its first element in the buffer, i64
    llvm::Value *last;         ///< its last column
    llvm::Value *holdsLast;    ///< whether this lane has it
    llvm::Value *own, *before; ///< words of this lane and of the one before
  };
  void storeRow(const Row &row);
  llvm::Value *firstElement(llvm::Value *row, llvm::Value *column);

  llvm::Value *atMost(llvm::Value *x, llvm::Value *most) {
    return least(x, most);
  }

  tile::MatmulOp op;
  WgmmaMatmul &g;
  const WgmmaShape &s;
  PtxAsm &ptx;
  const WgmmaResult &to;
  TileCoord block;
  llvm::Value *edge;
  llvm::ArrayRef<llvm::Value *> sums;
  mlir::LogicalResult status = mlir::success();

  llvm::Value *warp = nullptr, *lane = nullptr, *leads = nullptr,
              *laneRow = nullptr, *firstColumn = nullptr;
  bool bf16 = false;
  llvm::Value *ownResult = nullptr, *ownBarrier = nullptr, *chunkAt = nullptr;
  BufferRef result; ///< of what is stored without TMA
  /// Rows and columns that the result has.
  llvm::Value *rows = nullptr, *columns = nullptr;
  llvm::Value *lastRow = nullptr, *lastColumn = nullptr;
  bool cut = false; ///< of a cluster's columns the last block may have none
  llvm::Value *wgmmaRow = nullptr, *laneRows[2] = {};
};

} // namespace knapper::lower
