// Walks a tile function and emits LLVM IR for it: what all targets share.
//
// A tile is kept as its *parts*: LLVM values, the same number for every tile of
// one shape, that together hold what the target's unit of execution (a core, a
// thread) has of it. Elementwise operations work part by part, so they, control
// flow and constants are the same on every target. What a part is, and how
// memory and reductions are reached, is CpuLowering's and GpuLowering's.
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

class TileLowering {
public:
  TileLowering(const TargetDesc &target, llvm::Module &module)
      : target(target), module(module), b(module.getContext()) {}
  virtual ~TileLowering() = default;

  /// Emits the whole function.
  virtual mlir::LogicalResult function(tile::FuncOp func) = 0;

protected:
  //===-- The target's share ----------------------------------------------===//
  /// Types of the parts of a scalar or vector; empty: no such values here.
  virtual llvm::SmallVector<llvm::Type *, 1> partTypes(mlir::Type type) = 0;
  /// Operations of the tile dialect, but for those below.
  virtual mlir::LogicalResult tileOp(mlir::Operation &op) = 0;
  virtual mlir::LogicalResult vectorOp(mlir::Operation &op) = 0;
  virtual mlir::LogicalResult constantTile(mlir::Value result,
                                           mlir::DenseElementsAttr value) = 0;
  /// An instruction sequence of the target for an elementwise operation; null
  /// to take the common one.
  virtual llvm::Value *special(mlir::Operation *op,
                               llvm::ArrayRef<llvm::Value *> operands) {
    return nullptr;
  }

  /// Another way for a loop that only copies, where that pays: emits the test
  /// and the copy. Returns the block that ends the copy, still open, with the
  /// insertion point where the loop belongs; null: there is only the loop.
  virtual mlir::FailureOr<llvm::BasicBlock *>
  copiedAtOnce(mlir::scf::ForOp loop) {
    return nullptr;
  }

  //===-- Values (TileLowering.cpp) ---------------------------------------===//
  llvm::Type *scalarType(mlir::Type type);
  llvm::Type *vectorType(mlir::Type element, unsigned lanes);
  Parts &parts(mlir::Value value) { return values[value]; }
  llvm::Value *scalar(mlir::Value value) { return values[value].front(); }
  void set(mlir::Value value, Parts p) { values[value] = std::move(p); }
  llvm::Value *splat(llvm::Value *value, unsigned lanes);
  llvm::Value *splatLike(llvm::Value *value, llvm::Type *type);
  llvm::Constant *constant(mlir::Type element, mlir::Attribute value);
  llvm::Value *step(unsigned lanes, llvm::Type *element);

  //===-- Control flow (ScfLowering.cpp) ----------------------------------===//
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

  //===-- Elementwise (also Convert.cpp, IntegerDivide.cpp) ---------------===//
  /// One part of an elementwise operation, or null if the op is not one.
  llvm::Value *elementwise(mlir::Operation *op,
                           llvm::ArrayRef<llvm::Value *> operands);
  /// One part of an operation on indices whose operands have one value in all
  /// lanes of it, or of a select whose condition has: computed once. Null: it is
  /// neither.
  llvm::Value *ofSharedLanes(mlir::Operation *op,
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

  //===-- Reductions (ReduceLowering.cpp) ---------------------------------===//
  /// Two values of the reduction's kind made one, lane by lane. f16 and bf16
  /// have been widened.
  llvm::Value *combine(mlir::vector::CombiningKind kind,
                       mlir::arith::FastMathFlags fastmath, llvm::Value *x,
                       llvm::Value *y);
  llvm::Value *combine(mlir::vector::ReductionOp op, llvm::Value *x,
                       llvm::Value *y);
  /// All lanes of all parts made one, in an order of the emitter's choice.
  llvm::Value *combineAll(mlir::vector::ReductionOp op,
                          llvm::ArrayRef<llvm::Value *> parts);
  /// Whether lanes have to be taken one after the other.
  bool isOrdered(mlir::vector::ReductionOp op);
  /// The operand's parts, f16 and bf16 widened.
  Parts wideParts(mlir::vector::ReductionOp op);
  /// Adds the accumulator, narrows, and makes it the result.
  void finishReduction(mlir::vector::ReductionOp op, llvm::Value *result);

  //===-- Buffers (Buffers.cpp) -------------------------------------------===//
  mlir::FailureOr<BufferRef> buffer(mlir::Value value);
  llvm::Value *address(const BufferRef &ref, llvm::Value *offset);
  /// A power of two, at most 64, that divides the index whatever the program.
  static uint64_t knownMultiple(mlir::Value index, unsigned depth = 0);
  /// Attaches the alias facts of a buffer to an access.
  template <typename T> T *tag(T *access, const BufferRef &ref) {
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, ref.aliasScope);
    access->setMetadata(llvm::LLVMContext::MD_noalias, ref.noAlias);
    return access;
  }
  llvm::Value *fromMemory(llvm::Value *value);
  llvm::Value *toMemory(llvm::Value *value, const BufferRef &ref);
  void aliasScopes(tile::FuncOp func);

  const TargetDesc &target;
  llvm::Module &module;
  llvm::IRBuilder<> b;
  llvm::DenseMap<mlir::Value, Parts> values;
  llvm::DenseMap<mlir::Value, BufferRef> buffers;
  /// The function numbers groups of lanes (tile.lane_groups).
  bool hasGroups = false;
  llvm::Function *fn = nullptr;
  llvm::BasicBlock *entry = nullptr;
  llvm::Value *programId = nullptr; // i64
  BufferRef scratchRef;             // alias metadata of scratch memory
  llvm::SmallVector<bool> written;  // buffers that the function writes
};

/// `type` with other elements: a scalar, or a vector of as many lanes.
inline llvm::Type *withElement(llvm::Type *like, llvm::Type *element) {
  if (auto vector = llvm::dyn_cast<llvm::FixedVectorType>(like))
    return llvm::FixedVectorType::get(element, vector->getNumElements());
  return element;
}

/// Lanes of a vector; 1 for a scalar.
inline unsigned laneCount(llvm::Type *type) {
  auto vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? vector->getNumElements() : 1;
}

/// The alignment of the part that starts at `lane` of an access.
inline llvm::Align partAlign(std::optional<int64_t> given, unsigned bytes,
                             unsigned lane) {
  llvm::Align align(std::max<uint64_t>(given.value_or(bytes), bytes));
  return llvm::commonAlignment(align, uint64_t(lane) * bytes);
}

} // namespace knapper::lower
