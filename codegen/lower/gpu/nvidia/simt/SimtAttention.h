// The kernel of a tile.attention by FMAs. SimtAttention.cpp is the recipe: the
// walk over the keys. SimtSoftmax.cpp makes weights of scores,
// SimtAttentionBlocks.cpp has what lies in memory.
#pragma once

#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/common/PtxAsm.h"
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "ir/config/AttentionGpuConfig.h"

namespace knapper::lower {

namespace simt_attention {
inline constexpr unsigned kThreads = config::AttentionGpuConfig::kSimtThreads;
inline constexpr unsigned kRows = 64, kKeys = 64, kDepth = 16;
inline constexpr unsigned kOwnRows = 8, kOwnKeys = 4;
inline constexpr unsigned kPitch = kRows + 4; // of a line in shared memory
inline constexpr double kLog2E = 1.4426950408889634;
/// Below every score, yet exp2 of its distance to itself is 1.
inline constexpr double kUnseen = -0x1p100;

/// Where what a thread carries from block to block is: largest scores, sums of
/// weights, results, of its rows.
inline constexpr unsigned largestAt = 0, sumAt = kOwnRows,
                          resultAt = 2 * kOwnRows;
} // namespace simt_attention

/// Rows of elements in global memory, one matrix of the operand.
struct StridedMatrix {
  BufferRef buffer;
  mlir::Type element;
  llvm::Value *base, *rowStride, *stride; // in elements, i64
  llvm::Value *rows, *columns;            // there are, i64
  unsigned lanes;                         // of an access
};

class SimtAttentionRecipe : KernelRecipe {
public:
  SimtAttentionRecipe(GpuLowering &lowering, tile::AttentionOp op)
      : KernelRecipe(lowering), op(op),
        config(config::AttentionGpuConfig::of(op.getShape())),
        width(config.headDim), ownColumns(width / 16),
        mean(config.emptyRow == config::EmptyRowValue::mean), fast(b) {}

  mlir::LogicalResult emit();

private:
  /// Which rows, columns, head and batch this CTA has.
  void place();
  /// state = (largest, sum, result) of the thread's rows, for a block of keys
  /// from `key` on.
  Carried walk(llvm::Value *key, const Carried &before);
  Carried multiplyKeys(llvm::Value *key);
  Carried multiplyValues(llvm::Value *key, Carried sums);

  //===-- Scores (SimtSoftmax.cpp) ----------------------------------------===//
  /// What the region makes of the scores.
  void changeScores(Carried &scores, llvm::Value *ownKey);
  /// The weights of row `r` in place of its scores; brings `next` up to date.
  void softmaxRow(unsigned r, llvm::MutableArrayRef<llvm::Value *> own,
                  llvm::Value *ownKey, const Carried &before, Carried &next);
  /// The score of the key at `at`, where the row sees it.
  llvm::Value *seenScore(llvm::Value *score, llvm::Value *at, llvm::Value *row);
  void writeWeights(const Carried &scores);
  /// Over the 16 lanes of a row.
  llvm::Value *overRow(llvm::Value *value, bool largest);

  //===-- Memory (SimtAttentionBlocks.cpp) --------------------------------===//
  mlir::LogicalResult takeOperands();
  StridedMatrix matrix(mlir::Value bufferValue, mlir::Value offset,
                       mlir::OperandRange strides, llvm::Value *h,
                       llvm::Value *rows, mlir::Value extent);
  void makeShared();
  /// `count` rows by `across` elements from (row, column) on to shared memory,
  /// as [element][row] or, `straight`, [row][element]. Zero where there are
  /// none.
  void copy(const StridedMatrix &m, llvm::Value *row, llvm::Value *column,
            unsigned count, unsigned across, llvm::Value *to, bool straight);
  /// Number `i` of the thread's accesses of a copy.
  void copyPiece(const StridedMatrix &m, llvm::Value *row, llvm::Value *column,
                 unsigned across, llvm::Value *to, bool straight,
                 llvm::Value *i);
  void fetch(llvm::Value *memory, llvm::Value *offset, unsigned count,
             Carried &values);
  llvm::Value *sharedAt(llvm::Value *memory, llvm::Value *offset) {
    return b.CreateInBoundsGEP(b.getFloatTy(), memory, offset);
  }
  /// Row `r` of `results`, of all the thread's rows, times `inverse`.
  void storeRow(unsigned r, llvm::ArrayRef<llvm::Value *> results,
                llvm::Value *inverse);

  /// i64 of an i32 that may be negative.
  llvm::Value *wide(llvm::Value *v) { return b.CreateSExt(v, b.getInt64Ty()); }
  llvm::Value *number(double n) { return f32(n); }
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {x, y, z});
  }
  llvm::Value *ceil64(llvm::Value *x, unsigned by) {
    return b.CreateUDiv(b.CreateAdd(x, n64(by - 1)), n64(by));
  }

  tile::AttentionOp op;
  config::AttentionGpuConfig config;
  unsigned width, ownColumns;
  bool mean;
  PtxAsm fast;                  ///< 2^x, which all GPUs have
  llvm::Type *four = nullptr;   ///< of f32
  llvm::Value *never = nullptr; ///< the score of what is not seen
  llvm::Value *queries = nullptr, *keys = nullptr, *depth = nullptr,
              *columns = nullptr; // i64
  llvm::Value *firstColumn = nullptr, *firstRow = nullptr, *head = nullptr,
              *batch = nullptr, *keyHead = nullptr, *causal = nullptr,
              *end = nullptr; // i64
  StridedMatrix q, k, v, o;
  llvm::Value *queryBlock = nullptr, *keyBlock = nullptr,
              *weightBlock = nullptr, *valueBlock = nullptr;
  llvm::Value *tid = nullptr, *x4 = nullptr, *ownRow = nullptr,
              *ownFirst = nullptr, *lastRow = nullptr, *lastKey = nullptr;
  mlir::LogicalResult status = mlir::success();
};

} // namespace knapper::lower
