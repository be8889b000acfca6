// Lowering for GPUs: a block of threads runs a program, a tile is spread over
// its threads cyclically, as [round][thread][lane]:
//
//   lane j of part p in thread t is element (p * threads + t) * width + j
//
// so that consecutive threads access consecutive runs of 16 bytes. Scalars are
// computed by every thread alike; so every branch and loop is uniform and
// barriers may stand in them. Accesses are whole 16-byte runs where the
// alignment allows; the run that a ragged edge cuts is accessed lane by lane.
#pragma once

#include "codegen/lower/Emitter.h"

namespace knapper::lower {

class GpuEmitter final : public Emitter {
public:
  using Emitter::Emitter;
  mlir::LogicalResult function(tile::FuncOp func) override;
  unsigned threadsPerBlock() const { return threads; }

private:
  llvm::SmallVector<llvm::Type *, 1> partTypes(mlir::Type type) override;
  mlir::LogicalResult tileOp(mlir::Operation &op) override;
  mlir::LogicalResult vectorOp(mlir::Operation &op) override;
  mlir::LogicalResult constantTile(mlir::Value result,
                                   mlir::DenseElementsAttr value) override;

  //===-- Layout (Gpu.cpp) ------------------------------------------------===//
  /// Chooses `width` and `threads` for the function's tiles.
  mlir::LogicalResult layout(tile::FuncOp func);
  /// Number of this thread's first element in a part, i64.
  llvm::Value *firstElement(unsigned part);
  /// Numbers of this thread's elements in a part, <width x i64>.
  llvm::Value *elements(unsigned part);
  mlir::LogicalResult reduction(mlir::vector::ReductionOp op);
  void barrier();

  //===-- Memory (GpuMemory.cpp) ------------------------------------------===//
  mlir::LogicalResult load(tile::LoadOp op);
  mlir::LogicalResult store(tile::StoreOp op);
  mlir::LogicalResult gather(mlir::Value bufferValue, mlir::Value result,
                             llvm::ArrayRef<llvm::Value *> offsets,
                             mlir::Value valid, mlir::Value mask,
                             mlir::Value pad);
  mlir::LogicalResult scatter(tile::ScatterOp op);
  /// Runs `body` where `condition` holds.
  void when(llvm::Value *condition, llvm::function_ref<void()> body);
  /// The value of `body` where `condition` holds, else `otherwise`.
  llvm::Value *when(llvm::Value *condition, llvm::Value *otherwise,
                    llvm::function_ref<llvm::Value *()> body);

  unsigned width = 4;            // lanes of a part: one 16-byte access
  unsigned threads = 0;          // of the block
  llvm::Value *thread = nullptr; // number of this thread in its block, i64
  llvm::Value *status = nullptr; // i32 *, global memory
  llvm::GlobalVariable *exchange = nullptr; // one word a warp
};

} // namespace knapper::lower
