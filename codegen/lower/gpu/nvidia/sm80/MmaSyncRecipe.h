// The kernel of a tile.matmul by mma.sync. MmaSyncMatmul.cpp is the recipe and
// says how blocks lie in shared memory; MmaSyncLoad.cpp fills the stages,
// MmaSyncFragment.cpp multiplies them.
#pragma once

#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/common/Pipeline.h"
#include "ir/config/MatmulGpuConfig.h"

namespace knapper::lower {

namespace mma_sync {
inline constexpr unsigned kWarp = 32, kAccess = 16; // threads, bytes
inline constexpr unsigned kChunks = kRowBytes / kAccess;
inline constexpr unsigned kFragment =
    16; // rows or columns that one ldmatrix gets

} // namespace mma_sync

struct MmaSyncShape {
  MmaSyncShape(const config::MatmulGpuConfig &c, unsigned elementBytes)
      : rows(c.tileM), columns(c.tileN), stages(c.stages), warps(c.consumers),
        elementBytes(elementBytes), warpRows(c.warpsM),
        transposed{c.aTransposed, c.bTransposed}, copied{c.aCopied, c.bCopied} {
  }
  unsigned rows, columns, stages, warps, elementBytes;
  unsigned warpRows; ///< warps that share a block's rows
  bool transposed[2], copied[2];

  unsigned warpColumns() const { return warps / warpRows; }
  unsigned threads() const { return warps * mma_sync::kWarp; }
  /// Of a warp's part of the block.
  unsigned ownRows() const { return rows / warpRows; }
  unsigned ownColumns() const { return columns / warpColumns(); }
  unsigned depth() const { return kRowBytes / elementBytes; }
  unsigned lanes() const { return mma_sync::kAccess / elementBytes; }
  unsigned extent(unsigned side) const { return side ? columns : rows; }
  unsigned sideAt(unsigned side) const { return side ? rows * kRowBytes : 0; }
  unsigned stageBytes() const { return (rows + columns) * kRowBytes; }
  /// f32 from row to row of a warp's results: 8 more, for the banks.
  unsigned resultPitch() const { return ownColumns() + 8; }
  unsigned bytes() const {
    return std::max(stages * stageBytes(),
                    warps * mma_sync::kFragment * resultPitch() * 4);
  }
  /// Lines that all threads copy at once.
  unsigned lines() const { return threads() / mma_sync::kChunks; }
  bool fit() const {
    if (!warpRows || !warps || warps > 32 || warps % warpRows || stages < 2 ||
        rows % (mma_sync::kFragment * warpRows) ||
        columns % (mma_sync::kFragment * warpColumns()) ||
        ownRows() * ownColumns() > 64 * 64 || depth() % lines())
      return false;
    for (unsigned side = 0; side < 2; ++side)
      if (extent(side) % (transposed[side] ? depth() : lines()))
        return false;
    return true;
  }
};

/// A side of the matmul.
struct MmaSyncOperand {
  BufferRef buffer;
  llvm::Value *pitch; // elements from line to line, i64
  llvm::Value *limit; // rows or columns there are
  llvm::Value *from;  // the block's first
  llvm::Value *start; // element at depth 0 of this thread's first access, i64
  llvm::Value *skew;  // of what is not copied
  llvm::SmallVector<llvm::Value *> lines; // elements from there, an access each
};

/// An access of a side that is not copied, on its way.
struct InFlight {
  llvm::SmallVector<llvm::Value *, 8> around;
  llvm::Value *mask; // of what is inside the depth
  unsigned side, at; // bytes into the side of a stage, but for the thread's
};

class MmaSyncRecipe : KernelRecipe {
public:
  MmaSyncRecipe(GpuLowering &lowering, tile::MatmulOp op)
      : KernelRecipe(lowering), op(op),
        config(config::MatmulGpuConfig::of(op.getShape())),
        element(op.getA().getType().getElementType()),
        tf32(element.isF32() && config.tf32) {}

  mlir::LogicalResult emit();

private:
  using Words = llvm::SmallVector<llvm::Value *, 4>;

  mlir::LogicalResult check();
  /// Which block this CTA has, and which part of it each thread.
  void place();
  Carried mainloop();
  void storeResults(const Carried &state);
  void storeRuns(unsigned tile);
  llvm::Value *areaAt(llvm::Value *row, llvm::Value *column);
  llvm::Value *stageAt(llvm::Value *number);
  llvm::Value *advance(llvm::Value *number);

  //===-- Filling stages (MmaSyncLoad.cpp) --------------------------------===//
  void placeAccesses();
  MmaSyncOperand makeSide(unsigned number, const BufferRef &ref,
                          mlir::Value offset, mlir::Value stride,
                          mlir::OperandRange outer, llvm::Value *limit,
                          llvm::Value *from);
  llvm::Value *swizzle(llvm::Value *line, unsigned side);
  // Of a transposed side an access's depth and first row, from the thread's.
  unsigned depthOf(unsigned access) const {
    return access * s.lines() % s.depth();
  }
  unsigned boxOf(unsigned access) const {
    return access * s.lines() / s.depth() * s.depth();
  }
  llvm::Value *bytesOf(llvm::Value *elements);
  /// Bits of the elements of 16 bytes that are among the first `left`.
  llvm::Value *maskOf(llvm::Value *left);
  /// Starts to fill a stage; what is past the depth is zero.
  llvm::SmallVector<InFlight> begin(llvm::Value *stage, llvm::Value *depth);
  void beginSide(unsigned number, llvm::Value *stage, llvm::Value *depth,
                 llvm::SmallVectorImpl<InFlight> &coming);
  /// Writes what `begin` only read.
  void finish(llvm::Value *stage, llvm::ArrayRef<InFlight> coming);

  //===-- MMAs (MmaSyncFragment.cpp) --------------------------------------===//
  /// Four matrices of 8 x 16 bytes: of A (rows, depth) 0 0, 8 0, 0 1, 8 1, of B
  /// (columns, depth) 0 0, 0 1, 8 0, 8 1; eight lanes say where each lies.
  Words fragment(unsigned side, unsigned tile, unsigned step,
                 llvm::Value *stage);
  /// The same a word at a time: f32 that lie by depth.
  Words words32(unsigned side, unsigned tile, unsigned step, llvm::Value *at);
  Words matrices(unsigned side, unsigned tile, unsigned step, llvm::Value *at);
  void multiply(llvm::Value *stage, llvm::MutableArrayRef<llvm::Value *> sums);
  llvm::Value *bitOf(llvm::Value *v, unsigned bit) {
    return b.CreateAnd(b.CreateLShr(v, bit), n32(1));
  }

  tile::MatmulOp op;
  config::MatmulGpuConfig config;
  mlir::Type element;
  bool tf32;
  BufferRef buffers[2];
  MmaSyncShape s{{}, 4};
  llvm::Type *words = nullptr; ///< 16 bytes
  llvm::Value *base = nullptr, *m = nullptr, *n = nullptr, *k = nullptr;
  TileCoord block;
  llvm::Value *lane = nullptr, *warp = nullptr, *warpRow = nullptr,
              *warpColumn = nullptr, *tid = nullptr;
  /// This thread's first access: 16 bytes number `chunk` of line `line`.
  llvm::Value *line = nullptr, *inLine = nullptr, *chunkAt[2] = {};
  MmaSyncOperand sides[2];
  unsigned tiles[2] = {}; ///< of 16 rows, of 16 columns, of a warp
  llvm::Value *own[2] = {}, *last = nullptr, *quad = nullptr, *eighth = nullptr;
  llvm::Value *area = nullptr; ///< of a warp's results, in shared memory
  mlir::LogicalResult status = mlir::success();
};

} // namespace knapper::lower
