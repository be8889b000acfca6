// The kernel of a tile.attention on Hopper. FlashAttention.cpp is the recipe:
// the walk of a consumer over the keys. FlashTiles.cpp multiplies,
// FlashFloat32.cpp has the results of f32,
// FlashPlace.cpp says which rows a CTA has, FlashProducer.cpp has the TMA
// loads, FlashScores.cpp the scores and masks.
#pragma once

#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/sm90/FlashTileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/OnlineSoftmax.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace knapper::lower {

/// Where the mask of keys is: its element of batch 0, head 0 and key 0, and
/// from one to the next.
struct KeyMask {
  BufferRef buffer;
  llvm::Value *offset, *batch, *head, *key; // i64
};

/// Where a result of f32 is: its first element, and from one batch, head, row
/// and column to the next.
struct Float32Result {
  BufferRef buffer;
  llvm::Value *offset, *batch, *head, *row, *column, *columns; // i64
  bool pairs; ///< stored by two columns
};

class FlashRecipe : KernelRecipe {
public:
  FlashRecipe(GpuLowering &lowering, tile::AttentionOp op)
      : KernelRecipe(lowering), op(op),
        config(config::AttentionGpuConfig::of(op.getShape())),
        s(config, mlir::getConstantIntValue(op.getSizes()[5]).value_or(0),
          mlir::getConstantIntValue(op.getSizes()[6]).value_or(0)),
        g(b, s, op), ptx(g.ptx) {}

  mlir::LogicalResult emit();

private:
  //===-- Which rows, when (FlashPlace.cpp) -------------------------------===//
  mlir::LogicalResult check();
  mlir::LogicalResult place();
  void initBarriers();
  FlashTile rowsAt(llvm::Value *program);
  /// Rows that see the first key are not empty; a mean over all keys needs all
  /// of them.
  llvm::Value *seesFirst(const FlashTile &rows);

  //===-- The copying thread (FlashProducer.cpp) --------------------------===//
  void produce();
  PipelineState copy(llvm::Value *program, llvm::Value *count,
                     PipelineState at);
  void load(unsigned map, llvm::Value *to, unsigned rows, llvm::Value *row,
            llvm::Value *head, llvm::Value *batch, llvm::Value *barrier);
  /// Block `n` of keys or values, by `map`, into the next stage.
  PipelineState loadBlock(unsigned map, llvm::Value *n, PipelineState at,
                          const FlashTile &rows);

  //===-- The multiplying warpgroups (FlashAttention.cpp) -----------------===//
  /// Of a consumer's rows of a tile.
  struct Work {
    FlashTile rows;
    llvm::Value *own; ///< its queries in shared memory
    llvm::SmallVector<llvm::Value *> inRegisters; ///< queries
  };
  /// What goes from block to block of keys.
  struct State {
    PipelineState at;
    OnlineSoftmax soft;
    Carried weights, sums, mask; ///< `mask`: of the block that comes
  };
  Carried carried(const State &state) const;
  State stateOf(const Carried &carried) const;

  void consume();
  PipelineState compute(llvm::Value *program, llvm::Value *count,
                        PipelineState at);
  /// The last block of keys, which comes first: there are no weights yet.
  State firstBlock(const Work &work, llvm::Value *last, llvm::Value *count,
                   llvm::Value *buffer, PipelineState at);
  /// What a consumer does with block `n` of the keys.
  using Step = State (FlashRecipe::*)(const Work &work, State state,
                                      llvm::Value *n, bool cut);
  /// Blocks to - 1 down to from, each by `one`; `cut`: not all rows see all of
  /// their keys.
  State walk(Step one, const Work &work, State state, llvm::Value *from,
             llvm::Value *to, bool cut);
  State step(const Work &work, State state, llvm::Value *n, bool cut);
  /// Starts S = Q K.
  Carried multiplyKeys(const Work &work, llvm::Value *stage);
  /// Starts O += P V.
  void multiplyValues(Carried &sums, llvm::ArrayRef<llvm::Value *> weights,
                      llvm::Value *stage);
  Carried packed(const Carried &weights);
  void inverses(const OnlineSoftmax &soft, llvm::Value *inverse[2]);
  /// Out through the rows of these queries, which all warps have read.
  void storeRows(const Work &work, const Carried &sums,
                 llvm::Value *inverse[2]);
  llvm::Value *matricesAt(llvm::Value *own, unsigned sixteen);
  void release(llvm::Value *stage) {
    when(leads, [&] { ptx.arrive(g.empty(stage)); });
  }

  //===-- Results of f32 (FlashFloat32.cpp) -------------------------------===//
  mlir::LogicalResult takeResult();
  /// Brings `at` up to date.
  void computeFloat32(const Work &work, llvm::Value *buffer, PipelineState &at);
  State stepFloat32(const Work &work, State state, llvm::Value *n, bool cut);
  /// Words of 16-bit terms whose sums are the weights, the largest terms first.
  llvm::SmallVector<Carried, 3> termsOf(const Carried &weights);
  /// O = O * scaled + P V.
  void addValues(Carried &sums, llvm::MutableArrayRef<Carried> terms,
                 llvm::Value *const scaled[2], llvm::Value *stage);
  /// Two neighbouring columns of a line, from `at` on; `left`: columns from
  /// this lane's first one on.
  void storePair(llvm::Value *at, llvm::Value *left, unsigned column,
                 llvm::Value *first, llvm::Value *second);
  void storeFloat32(const Work &work, const Carried &sums,
                    llvm::Value *const inverse[2]);

  //===-- Scores and masks (FlashScores.cpp) ------------------------------===//
  llvm::Value *maskAt(const FlashTile &rows, llvm::Value *key);
  /// What this lane has of the mask of block n of keys: one key of 32 each.
  Carried readMask(const FlashTile &rows, llvm::Value *n);
  /// A bit for each key, from this lane's first one on; past the end none.
  Carried shareMask(const Carried &read, llvm::Value *n);
  /// Scores of block n of keys; `cut`: not all rows see all of them. `read`:
  /// the mask.
  void finishScores(Carried &scores, llvm::Value *n, const FlashTile &rows,
                    bool cut, const Carried &read);
  void changeScores(Carried &scores, llvm::Value *firstKey,
                    const FlashTile &rows, llvm::Value *const row[2]);
  void maskScores(Carried &scores, const Carried &bits, llvm::Value *firstKey,
                  llvm::Value *const row[2], bool cut);

  tile::AttentionOp op;
  config::AttentionGpuConfig config;
  FlashSizes s;
  FlashKernel g;
  PtxAsm &ptx;
  bool bf16 = false;
  llvm::SmallVector<llvm::Value *> mapArgs;
  llvm::Value *tid = nullptr, *warpgroup = nullptr;
  llvm::Value *queries = nullptr, *keys = nullptr, *causal = nullptr;
  std::optional<KeyMask> mask;
  std::optional<Float32Result> result; ///< nothing: 16-bit elements, by map
  std::optional<FlashTileScheduler> programs;
  /// Queries stay in registers where there are enough of these.
  bool queriesInRegisters = false;
  /// Waiting for the next stage before the values' matmuls keeps the
  /// exponentials in front of that wait.
  bool waitsEarly = false;
  /// Of a consumer.
  llvm::Value *consumerNumber = nullptr, *lane = nullptr, *leads = nullptr,
              *ownRows = nullptr, *laneAt = nullptr, *laneRow = nullptr,
              *laneKey = nullptr, *ownColumn = nullptr;
  mlir::LogicalResult status = mlir::success();
};

} // namespace knapper::lower
