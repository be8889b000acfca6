// Walks a tile function and emits LLVM IR for it.
//
// A tile is kept as its *parts*: LLVM values that together hold the lanes in
// order. A scalar or a vector whose lane count is a power of two is one part.
// Other lane counts are cut into pieces of the target's f32 width and then
// powers of two (48 lanes on AVX-512: 16 + 16 + 16), because LLVM would widen
// them to the next power of two and compute the difference. Rank 2 is its rows,
// one after the other. Elementwise operations work part by part.
#pragma once

#include "codegen/TargetDesc.h"
#include "ir/tile/TileDialect.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace knapper::lower {

using Parts = llvm::SmallVector<llvm::Value *, 1>;

/// A buffer's address and the alias metadata of accesses through it.
struct BufferRef {
  llvm::Value *pointer = nullptr;
  llvm::Type *memory = nullptr; // what one element is in memory
  unsigned bytes = 0;           // of one element
  llvm::MDNode *aliasScope = nullptr;
  llvm::MDNode *noAlias = nullptr;
};

class Emitter {
public:
  Emitter(const TargetDesc &target, llvm::Module &module)
      : target(target), module(module), b(module.getContext()) {}

  mlir::LogicalResult function(tile::FuncOp func);

private:
  //===-- Values (Emitter.cpp) --------------------------------------------===//
  llvm::Type *scalarType(mlir::Type type);
  llvm::Type *vectorType(mlir::Type element, unsigned lanes);
  /// Lane counts of the parts of a vector of rank 1.
  llvm::SmallVector<unsigned, 4> partLanes(unsigned lanes);
  /// Types of the parts of a scalar or vector.
  llvm::SmallVector<llvm::Type *, 1> partTypes(mlir::Type type);
  Parts &parts(mlir::Value value) { return values[value]; }
  llvm::Value *scalar(mlir::Value value) { return values[value].front(); }
  void set(mlir::Value value, Parts p) { values[value] = std::move(p); }
  llvm::Value *join(llvm::ArrayRef<llvm::Value *> pieces);
  llvm::Value *joined(mlir::Value value) { return join(parts(value)); }
  Parts split(llvm::Value *whole, unsigned lanes);
  llvm::Value *splat(llvm::Value *value, unsigned lanes);
  llvm::Value *splatLike(llvm::Value *value, llvm::Type *type);
  llvm::Constant *constant(mlir::Type element, mlir::Attribute value);
  llvm::Value *step(unsigned lanes, llvm::Type *element);

  //===-- Control flow (Control.cpp) --------------------------------------===//
  mlir::LogicalResult block(mlir::Block &block);
  mlir::LogicalResult operation(mlir::Operation &op);
  mlir::LogicalResult forLoop(mlir::scf::ForOp op);
  mlir::LogicalResult ifElse(mlir::scf::IfOp op);
  mlir::LogicalResult whileLoop(mlir::scf::WhileOp op);
  mlir::LogicalResult indexSwitch(mlir::scf::IndexSwitchOp op);
  llvm::BasicBlock *newBlock(const char *name);
  Parts phis(mlir::Type type, const char *name);
  void addIncoming(const Parts &phis, const Parts &values,
                   llvm::BasicBlock *from);

  //===-- Elementwise (Elementwise.cpp, Convert.cpp, Divide.cpp) ----------===//
  /// One part of an elementwise operation, or null if the op is not one.
  llvm::Value *elementwise(mlir::Operation *op,
                           llvm::ArrayRef<llvm::Value *> operands);
  llvm::Value *integer(mlir::Operation *op,
                       llvm::ArrayRef<llvm::Value *> operands);
  llvm::Value *floating(mlir::Operation *op,
                        llvm::ArrayRef<llvm::Value *> operands);
  /// Products and sums with their upper half as a second result.
  mlir::LogicalResult extended(mlir::Operation &op);
  llvm::Value *convert(mlir::Operation *op, llvm::Value *operand);
  llvm::Value *widen(llvm::Value *value, mlir::Type from); // to f32
  llvm::Value *narrow(llvm::Value *value, mlir::Type to);  // from f32
  llvm::Value *floatCast(llvm::Value *value, mlir::Type from, mlir::Type to);
  llvm::Value *floatToInt(llvm::Value *value, mlir::Type to, bool isSigned);
  llvm::Value *divide(llvm::Value *n, llvm::Value *d, bool isSigned,
                      bool remainder);

  //===-- Vectors (Vector.cpp) --------------------------------------------===//
  mlir::LogicalResult vectorOp(mlir::Operation &op);
  mlir::LogicalResult reduction(mlir::vector::ReductionOp op);

  //===-- Memory (Memory.cpp) ---------------------------------------------===//
  mlir::FailureOr<BufferRef> buffer(mlir::Value value);
  mlir::LogicalResult load(tile::LoadOp op);
  mlir::LogicalResult store(tile::StoreOp op);
  mlir::LogicalResult gather(mlir::Operation *op, mlir::Value bufferValue,
                             mlir::Value result, llvm::Value *offsets,
                             mlir::Value valid, mlir::Value mask,
                             mlir::Value pad);
  mlir::LogicalResult scatter(tile::ScatterOp op);
  mlir::LogicalResult prefetch(tile::PrefetchOp op);
  mlir::LogicalResult setStatus(tile::SetStatusOp op);
  llvm::Value *address(const BufferRef &ref, llvm::Value *offset);
  llvm::Value *firstLanes(llvm::Value *valid, unsigned lanes, unsigned bytes);
  llvm::Value *loadPart(const BufferRef &ref, llvm::Value *offset,
                        llvm::Type *type, llvm::Align align, llvm::Value *valid,
                        llvm::Value *pad);
  void storePart(const BufferRef &ref, llvm::Value *offset, llvm::Value *value,
                 llvm::Align align, llvm::Value *valid, bool nontemporal);
  llvm::Value *edgeBuffer(uint64_t bytes);
  template <typename T> T *tag(T *access, const BufferRef &ref) {
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, ref.aliasScope);
    access->setMetadata(llvm::LLVMContext::MD_noalias, ref.noAlias);
    return access;
  }
  llvm::Value *fromMemory(llvm::Value *value, const BufferRef &ref);
  llvm::Value *toMemory(llvm::Value *value, const BufferRef &ref);
  void aliasScopes(tile::FuncOp func);

  //===-- Matrix product (Mainloop.cpp) -----------------------------------===//
  mlir::LogicalResult mainloop(tile::MainloopOp op);

  const TargetDesc &target;
  llvm::Module &module;
  llvm::IRBuilder<> b;
  llvm::DenseMap<mlir::Value, Parts> values;
  llvm::DenseMap<mlir::Value, BufferRef> buffers;
  llvm::Function *fn = nullptr;
  llvm::BasicBlock *entry = nullptr;
  llvm::Value *context = nullptr;   // KernelContext *
  llvm::Value *programId = nullptr; // i64
  llvm::Value *scratchBase = nullptr;
  llvm::Value *edge = nullptr; // stack buffer of ragged edges
  uint64_t edgeBytes = 0;
  BufferRef scratchRef;
  bool nontemporalUsed = false;
};

} // namespace knapper::lower
