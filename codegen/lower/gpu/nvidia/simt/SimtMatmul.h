// The kernel of a tile.matmul by FMAs. SimtMatmul.cpp is the recipe,
// SimtLoad.cpp brings the operands to shared memory, SimtStore.cpp hands out
// the results.
#pragma once

#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "ir/config/MatmulGpuConfig.h"

#include "mlir/IR/Matchers.h"

namespace knapper::lower {

/// One operand and its two buffers in shared memory.
struct SimtOperand {
  BufferRef buffer;
  mlir::Type element;
  llvm::Value *base;                 // element of the matrix's first, i64
  llvm::Value *stride, *depthStride; // i64
  llvm::Value *extent;               // rows or columns there are, i64
  llvm::Value *from;                 // the block's first, i64
  unsigned block;                    // rows or columns of a block
  unsigned tileDepth;                // of a buffer
  bool depthFirst;                   // which is contiguous, if any
  unsigned lanes;                    // of an access
  llvm::Value *shared;
  std::optional<ImplicitGemmIndex> window; // of a convolution's input
  llvm::SmallVector<ImplicitGemmIndex::Part>
      rows; // there, of the thread's accesses

  unsigned pitch() const { return block + 4; }
  unsigned bufferElements() const { return tileDepth * pitch(); }
};

class SimtMatmulRecipe : KernelRecipe {
public:
  SimtMatmulRecipe(GpuLowering &lowering, tile::MatmulOp op)
      : KernelRecipe(lowering), op(op),
        config(config::MatmulGpuConfig::of(op.getShape())), rows(config.tileM),
        columns(config.tileN), depth(config.tileK), slices(config.sliceK),
        threadRows(config.threadRows()), threadColumns(config.threadColumns()),
        team(config.threads() / config.sliceK), threadsOfBlock(shape.threads) {}

  mlir::LogicalResult emit();

private:
  mlir::LogicalResult check();
  /// Which block this CTA has.
  mlir::LogicalResult place();
  /// Of a grouped matmul: the block's rows, none past the last tile.
  void placeInGroup();
  /// Which sums of the block a thread has.
  void placeThread();
  Carried mainloop();
  /// `own` f32, four or eight, of the operand's tile `which` in shared memory,
  /// at `depth`: four from `first` on, and four half a block behind them.
  llvm::SmallVector<llvm::Value *, 8> fetch(const SimtOperand &o,
                                            llvm::Value *which, unsigned depth,
                                            llvm::Value *first, unsigned own);

  //===-- Loads (SimtLoad.cpp) --------------------------------------------===//
  void takeOperands();
  SimtOperand makeOperand(BufferRef ref, mlir::Value bufferValue,
                          mlir::Value offset, mlir::Value stride,
                          mlir::Value depthStride,
                          mlir::OperandRange outerStrides, mlir::Value extent,
                          llvm::Value *from, unsigned size);
  /// The left side of a convolution.
  void takeWindow();
  void limitRegisters();
  /// Where the rows of a thread's accesses to a convolution's input are.
  void placeWindowRows();
  /// Which accesses of a block a thread makes: (in the block, in the depth).
  llvm::SmallVector<std::pair<llvm::Value *, llvm::Value *>>
  accesses(const SimtOperand &o);
  /// Parts outside the matrix are zero; what is read instead is its first
  /// element.
  void read(const SimtOperand &o, llvm::Value *depth, Carried &values);
  void write(const SimtOperand &o, llvm::Value *which,
             llvm::ArrayRef<llvm::Value *> values);
  llvm::Value *sharedAt(const SimtOperand &o, llvm::Value *which,
                        llvm::Value *depth, llvm::Value *inBlock);

  //===-- Results (SimtStore.cpp) -----------------------------------------===//
  void storeResults();
  /// `row`: the sums of the thread's row `i`.
  void storeRow(unsigned i, llvm::ArrayRef<llvm::Value *> row);
  llvm::ArrayRef<llvm::Value *> rowOf(unsigned i) const {
    return llvm::ArrayRef(sums).slice(i * threadColumns, threadColumns);
  }
  /// Adds up what the teams of `sliceK` have; `end` gets the sums of each row.
  void addSlices(
      unsigned adder,
      llvm::function_ref<void(unsigned, llvm::ArrayRef<llvm::Value *>)> end);
  /// Floats of shared memory in which the teams' sums meet.
  unsigned sliceFloats() const {
    return (slices - 1) * (threadRows * threadColumns / slices) * team;
  }
  /// Adds up what the CTAs of `splitK` have left, and stores it.
  void addSplits();
  /// Sum `i` of the thread's tile, as the cluster reads it.
  llvm::Value *splitAt(unsigned i);

  llvm::Value *ceil64(llvm::Value *x, unsigned by) {
    return narrowed(b.CreateUDiv(b.CreateAdd(x, n64(by - 1)), n64(by)));
  }
  static bool isOne(mlir::Value v) {
    return mlir::matchPattern(v, mlir::m_One());
  }

  tile::MatmulOp op;
  config::MatmulGpuConfig config;
  unsigned rows, columns, depth, slices;
  unsigned threadRows, threadColumns;
  unsigned team; ///< threads that have a block's sums
  unsigned threadsOfBlock;
  BufferRef buffers[2];
  llvm::SmallVector<SimtOperand, 2> sides;
  llvm::Value *m = nullptr, *n = nullptr, *k = nullptr; // i64
  llvm::SmallVector<llvm::Value *> outerSizes;
  std::optional<GroupedTileScheduler> groups;
  std::optional<GroupRows> group;
  TileCoord block;
  llvm::Value *rowsEnd = nullptr; // i64
  llvm::Value *tid = nullptr, *slice = nullptr, *inTeam = nullptr,
              *tx = nullptr, *ty = nullptr, *sliceDepth = nullptr;
  llvm::Value *rank = nullptr;   ///< of the CTA in its cluster, i32
  llvm::Value *shared = nullptr; ///< the operands' tiles, then the sums
  Carried sums;
  llvm::Value *m32 = nullptr, *columnsEnd = nullptr; // i32
  mlir::LogicalResult status = mlir::success();
};

} // namespace knapper::lower
