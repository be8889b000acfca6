// Lowering for CPU cores: one core runs a whole program, tiles are SIMD
// vectors.
//
// A scalar or a vector whose lane count is a power of two is one part. Other
// lane counts are cut into pieces of the target's f32 width and then powers of
// two (48 lanes on AVX-512: 16 + 16 + 16), because LLVM would widen them to the
// next power of two and compute the difference. Rank 2 is its rows, one after
// the other.
#pragma once

#include "codegen/lower/common/TileLowering.h"
#include <optional>

namespace knapper::tile {
class AddByteProductsOp;
}

namespace knapper::lower {

class CpuLowering final : public TileLowering {
public:
  using TileLowering::TileLowering;
  mlir::LogicalResult function(tile::FuncOp func) override;

private:
  llvm::SmallVector<llvm::Type *, 1> partTypes(mlir::Type type) override;
  mlir::LogicalResult tileOp(mlir::Operation &op) override;
  mlir::LogicalResult vectorOp(mlir::Operation &op) override;
  mlir::LogicalResult constantTile(mlir::Value result,
                                   mlir::DenseElementsAttr value) override;
  llvm::Value *special(mlir::Operation *op,
                       llvm::ArrayRef<llvm::Value *> operands) override;

  //===-- Parts (CpuLowering.cpp) -----------------------------------------===//
  /// Lane counts of the parts of a vector of rank 1.
  llvm::SmallVector<unsigned, 4> partLanes(unsigned lanes);
  llvm::Value *join(llvm::ArrayRef<llvm::Value *> pieces);
  llvm::Value *joined(mlir::Value value) { return join(parts(value)); }
  Parts split(llvm::Value *whole, unsigned lanes);

  //===-- The vector dialect (CpuVector.cpp) ------------------------------===//
  llvm::Value *shuffleByRegister(llvm::Value *x, llvm::Value *y,
                                 llvm::ArrayRef<int> mask);
  /// Sets `result` to lanes of whole vectors of rank 1; `y` may be null.
  mlir::LogicalResult shuffle(mlir::Value result, llvm::Value *x,
                              llvm::Value *y, llvm::ArrayRef<int> mask);
  /// Of an element of rank 1 or a row of rank 2: static or an index.
  llvm::Value *position(mlir::OpFoldResult p);
  mlir::LogicalResult vectorOp(mlir::vector::BroadcastOp op);
  mlir::LogicalResult vectorOp(mlir::vector::ExtractOp op);
  mlir::LogicalResult vectorOp(mlir::vector::InsertOp op);
  mlir::LogicalResult vectorOp(mlir::vector::ShuffleOp op);
  mlir::LogicalResult vectorOp(mlir::vector::InterleaveOp op);
  mlir::LogicalResult vectorOp(mlir::vector::DeinterleaveOp op);
  mlir::LogicalResult vectorOp(mlir::vector::ExtractStridedSliceOp op);
  mlir::LogicalResult vectorOp(mlir::vector::InsertStridedSliceOp op);
  mlir::LogicalResult vectorOp(mlir::vector::StepOp op);
  mlir::LogicalResult vectorOp(mlir::vector::CreateMaskOp op);
  mlir::LogicalResult vectorOp(mlir::vector::ConstantMaskOp op);
  mlir::LogicalResult vectorOp(mlir::vector::BitCastOp op);
  mlir::LogicalResult vectorOp(mlir::vector::ShapeCastOp op);
  mlir::LogicalResult vectorOp(mlir::vector::FromElementsOp op);
  mlir::LogicalResult vectorOp(mlir::vector::ToElementsOp op);
  mlir::LogicalResult vectorOp(mlir::vector::FMAOp op);
  mlir::LogicalResult reduction(mlir::vector::ReductionOp op);

  //===-- Blocks of rows (CpuRowTranspose.cpp) ----------------------------===//
  mlir::LogicalResult loadRows(tile::LoadRowsOp op);
  mlir::LogicalResult transpose(tile::TransposeOp op);
  /// A value's lanes, `lanes` at a time.
  Parts pieces(mlir::Value value, unsigned lanes);
  /// The parts of a vector of rank 1 whose lanes the pieces, of one width, are.
  void setPieces(mlir::Value value, llvm::ArrayRef<llvm::Value *> pieces);

  //===-- Memory (CpuMemory.cpp) ------------------------------------------===//
  mlir::LogicalResult load(tile::LoadOp op);
  /// Whether the elements are a run of memory that is read backwards, at once.
  bool isReversedRun(tile::LoadStridedOp op);
  /// The run, and its lanes in reverse: a load an element would be 64 of them,
  /// which LLVM compares with all others.
  mlir::LogicalResult loadReversed(tile::LoadStridedOp op);
  /// Whether the elements are every second to fourth of a run.
  bool isInterleaved(tile::LoadStridedOp op);
  /// The run from the first element to the last, of which shuffles choose.
  mlir::LogicalResult loadInterleaved(tile::LoadStridedOp op);
  mlir::LogicalResult store(tile::StoreOp op);
  mlir::LogicalResult gather(mlir::Operation *op, mlir::Value bufferValue,
                             mlir::Value result, llvm::Value *offsets,
                             mlir::Value valid, mlir::Value mask,
                             mlir::Value pad);
  mlir::LogicalResult scatter(tile::ScatterOp op);
  llvm::LogicalResult pageOffset(tile::PageOffsetOp op);
  void lookup(tile::LookupOp op);
  void scaleByPower(tile::ScaleByPowerOp op);
  mlir::LogicalResult prefetch(tile::PrefetchOp op);
  mlir::LogicalResult setStatus(tile::SetStatusOp op);
  llvm::Value *firstLanes(llvm::Value *valid, unsigned lanes, unsigned bytes);
  /// A constant that is computed with as if it were not known.
  llvm::Value *keptInRegister(llvm::Value *number);
  llvm::Value *loadPart(const BufferRef &ref, llvm::Value *offset,
                        llvm::Type *type, llvm::Align align, llvm::Value *valid,
                        llvm::Value *pad);
  void storePart(const BufferRef &ref, llvm::Value *offset, llvm::Value *value,
                 llvm::Align align, llvm::Value *valid, bool nontemporal);
  llvm::Value *edgeBuffer(uint64_t bytes);

  //===-- Copies (CpuCopy.cpp) --------------------------------------------===//
  mlir::FailureOr<llvm::BasicBlock *>
  copiedAtOnce(mlir::scf::ForOp loop) override;

  //===-- Matmul (CpuMatmulMainloop.cpp) ----------------------------------===//
  mlir::LogicalResult mainloop(tile::MainloopOp op);
  /// The loop over K of one register tile.
  struct Mainloop;
  void fetch(llvm::Value *at, unsigned locality);
  /// The cache lines of so many bytes, at least one.
  void fetchLines(llvm::Value *from, llvm::Value *bytes);
  /// A row of B in groups, an i32 a lane of the sum, made ready for
  /// instructions: as it is, or its even and odd elements.
  struct GroupRow {
    llvm::Value *all = nullptr, *even = nullptr, *odd = nullptr;
  };
  /// sum[j] += a[j][0..3] * b[j][0..3]: of a lane of the sum `a` has four bytes
  /// without sign, `b` four with sign.
  GroupRow byteRow(llvm::Value *words);
  llvm::Value *addByteDots(llvm::Value *sum, llvm::Value *a,
                           const GroupRow &row);
  void byteDots(tile::AddByteProductsOp op);
  /// sum[j] += a[0] * b[j][0] + a[1] * b[j][1]: pairs of bf16, f32 sums. Of the
  /// last pair of an odd K `count` is 1, and a[1] and b[j][1] are zero.
  GroupRow pairRow(llvm::Value *words);
  llvm::Value *addPairDots(llvm::Value *sum, llvm::Value *a,
                           const GroupRow &row, unsigned count);
  /// The low (part 0) or high four bits of each byte, with sign, as f32.
  llvm::Value *nibbleRow(llvm::Value *bytes, unsigned part);

  //===-- Tile registers (AmxTiles.cpp) -----------------------------------===//
  mlir::LogicalResult blockMatmul(tile::BlockOp op);
  /// The key of the program before lives in a register of the call.
  mlir::LogicalResult otherKey(tile::OtherKeyOp op);
  /// One matmul's way into tile registers.
  struct TileBlock;
  void tileStep(const TileBlock &block, llvm::Value *a, llvm::Value *lda,
                llvm::Value *bPointer, llvm::Value *ldb);
  void tileTail(const TileBlock &block, llvm::Value *a, llvm::Value *bPointer,
                llvm::Value *left);
  void configureTiles(llvm::Value *config);
  /// Gives the tile registers back before the function returns, the builder
  /// being there.
  void finishTiles();
  /// On the stack, made at the first use: the configuration of the function,
  /// that of a block of fewer rows, the end of K of A and of B.
  struct TileMemory {
    llvm::Value *whole, *ragged, *a, *b;
  };
  std::optional<TileMemory> tileMemory;
  void useTiles();

  /// What a part of a main loop's sums was joined from: LLVM takes long to
  /// take apart again what is only stored.
  llvm::DenseMap<llvm::Value *, Parts> registersOf;
  llvm::Value *context = nullptr; // KernelContext *
  llvm::Value *scratchBase = nullptr;
  llvm::DenseMap<llvm::Value *, llvm::Value *> numbersKept;
  llvm::Value *edge = nullptr; // stack buffer of ragged edges
  uint64_t edgeBytes = 0;
  bool nontemporalUsed = false;
};

} // namespace knapper::lower
