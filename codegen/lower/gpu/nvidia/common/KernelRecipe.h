// What a recipe is made of: the steps that every kernel of warps or warpgroups
// takes from the lowering. A recipe is a class that derives from KernelRecipe,
// emits one kernel into the function that is being lowered, and lives no longer
// than that. nvidia/common/Recipes.h lists them.
#pragma once

#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/ImplicitGemmIndex.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace knapper::lower {

class KernelRecipe {
protected:
  explicit KernelRecipe(GpuLowering &lowering)
      : lowering(lowering), b(lowering.b), shape(lowering.shape),
        fn(lowering.fn), programId(lowering.programId),
        threadOfBlock(lowering.threadOfBlock) {}

  //===-- Values ----------------------------------------------------------===//
  llvm::Value *n32(int64_t n) { return b.getInt32(n); }
  llvm::Value *n64(int64_t n) { return b.getInt64(n); }
  llvm::Value *plus(llvm::Value *v, int64_t n) {
    return b.CreateAdd(v, n32(n));
  }
  /// i64 of an i32 that is not negative.
  llvm::Value *wide(llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); }
  llvm::Value *narrowed(llvm::Value *v) {
    return b.CreateTrunc(v, b.getInt32Ty());
  }
  llvm::Value *narrowed(mlir::Value v) { return narrowed(scalar(v)); }
  llvm::Value *scalar(mlir::Value v) { return lowering.scalar(v); }
  /// Of i32: how many times `by` goes into x, rounded up.
  llvm::Value *ceil(llvm::Value *x, unsigned by) {
    return b.CreateUDiv(plus(x, by - 1), n32(by));
  }
  llvm::Value *least(llvm::Value *x, llvm::Value *y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  }
  llvm::Value *f32(double n) {
    return llvm::ConstantFP::get(b.getFloatTy(), n);
  }
  llvm::Value *floatCast(llvm::Value *v, mlir::Type from, mlir::Type to) {
    return lowering.floatCast(v, from, to);
  }
  /// f32 of bf16.
  llvm::Value *unpack(llvm::Value *v) { return lowering.unpack(v); }
  static uint64_t knownMultiple(mlir::Value index) {
    return GpuLowering::knownMultiple(index);
  }

  //===-- Memory ----------------------------------------------------------===//
  mlir::FailureOr<BufferRef> buffer(mlir::Value v) {
    return lowering.buffer(v);
  }
  llvm::Value *address(const BufferRef &ref, llvm::Value *offset) {
    return lowering.address(ref, offset);
  }
  template <typename T> T *tag(T *access, const BufferRef &ref) {
    return lowering.tag(access, ref);
  }
  llvm::Value *sharedArray(llvm::Type *element, uint64_t count,
                           const llvm::Twine &suffix) {
    return lowering.sharedArray(element, count, suffix);
  }
  llvm::Value *launchedShared() { return lowering.launchedShared(); }
  llvm::SmallVector<llvm::Value *> tmaDescriptors() {
    return lowering.tmaDescriptors();
  }
  /// The pointer of an address in shared memory, i32.
  llvm::Value *sharedPointer(llvm::Value *address) {
    return b.CreateIntToPtr(address, llvm::PointerType::get(b.getContext(), 3));
  }
  // Reads of 16 bytes that start anywhere (UnalignedAccess.cpp).
  llvm::Value *skewOf(const BufferRef &ref, llvm::Value *offset) {
    return lowering.skewOf(ref, offset);
  }
  llvm::SmallVector<llvm::Value *, 8>
  fetchAround(const BufferRef &ref, llvm::Value *offset, llvm::Value *both) {
    return lowering.fetchAround(ref, offset, both);
  }
  llvm::Value *pickFrom(const BufferRef &ref,
                        llvm::ArrayRef<llvm::Value *> words, llvm::Value *skew,
                        llvm::Type *type) {
    return lowering.pickFrom(ref, words, skew, type);
  }

  //===-- Control ---------------------------------------------------------===//
  void when(llvm::Value *condition, llvm::function_ref<void()> body) {
    lowering.when(condition, body);
  }
  llvm::BasicBlock *newBlock(const char *name) {
    return lowering.newBlock(name);
  }
  /// Waits for all threads of the program.
  void barrier() { lowering.barrier(); }
  /// Waits for all threads of the cluster.
  void clusterBarrier() { lowering.clusterBarrier(); }
  /// Waits for all threads of the warp.
  void meetWarp() {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {n32(-1)});
  }
  /// Of a warp, 32-bit: what the lane at that distance (xor) has.
  llvm::Value *shuffle(llvm::Value *value, unsigned distance) {
    return lowering.shuffle(value, distance);
  }

  //===-- The op's regions and tiles --------------------------------------===//
  mlir::FailureOr<llvm::Value *> runRegion(tile::MatmulOp op,
                                           llvm::Value *value,
                                           llvm::ArrayRef<llvm::Value *> outer,
                                           llvm::Value *row,
                                           llvm::Value *column) {
    return lowering.runRegion(op, value, outer, row, column);
  }
  mlir::LogicalResult scoresOf(tile::AttentionOp op,
                               llvm::MutableArrayRef<llvm::Value *> run,
                               llvm::Value *batch, llvm::Value *head,
                               llvm::Value *row, llvm::Value *key) {
    return lowering.scores(op, run, batch, head, row, key);
  }
  /// A region's block for these arguments; its values are then the operands of
  /// its terminator.
  mlir::LogicalResult runBlock(mlir::Block &block,
                               llvm::ArrayRef<llvm::Value *> arguments) {
    for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
      lowering.set(argument, {value});
    return lowering.block(block);
  }
  ImplicitGemmIndex implicitGemmIndex(tile::MatmulOp op) {
    return lowering.implicitGemmIndex(op);
  }
  mlir::LogicalResult groupedTiles(tile::MatmulOp op, unsigned tileColumns,
                                   std::optional<GroupedTileScheduler> &tiles) {
    return lowering.groupedTiles(op, tileColumns, tiles);
  }

  GpuLowering &lowering;
  llvm::IRBuilder<> &b;
  GpuEntry &shape; ///< what a launch needs to know
  llvm::Function *fn;
  llvm::Value *programId, *threadOfBlock; // i64
};

} // namespace knapper::lower
