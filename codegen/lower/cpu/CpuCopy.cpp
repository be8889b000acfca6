// Loops that only copy a run of memory.
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/IR/InlineAsm.h"

using namespace mlir;

namespace knapper::lower {

namespace {

bool isInvariant(Value value, scf::ForOp loop) {
  if (!loop.getRegion().isAncestor(value.getParentRegion()))
    return true;
  Operation *op = value.getDefiningOp();
  return op && isPure(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isInvariant(operand, loop);
         });
}

/// Whether the index is the induction variable and something invariant.
bool stepsWith(Value index, scf::ForOp loop) {
  if (index == loop.getInductionVar())
    return true;
  Operation *op = index.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::AddIOp>(op))
    for (unsigned side : {0, 1})
      if (stepsWith(op->getOperand(side), loop) &&
          isInvariant(op->getOperand(1 - side), loop))
        return true;
  return isa<arith::SubIOp>(op) && stepsWith(op->getOperand(0), loop) &&
         isInvariant(op->getOperand(1), loop);
}

/// What a loop copies if it does nothing else: tiles of its step, side by side.
struct Copied {
  tile::LoadOp load;
  tile::StoreOp store;
};
std::optional<Copied> copiedBy(scf::ForOp loop) {
  Copied copied;
  if (loop->getNumResults())
    return {};
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      if (copied.load || load.getValid())
        return {};
      copied.load = load;
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      if (copied.store || store.getValid() || store.getNontemporal())
        return {};
      copied.store = store;
    } else if (!isPure(&op)) {
      return {};
    }
  }
  if (!copied.load || !copied.store ||
      copied.store.getValue() != copied.load.getResult() ||
      !copied.load.getResult().hasOneUse() ||
      !stepsWith(copied.load.getOffset(), loop) ||
      !stepsWith(copied.store.getOffset(), loop))
    return {};
  auto tile = dyn_cast<VectorType>(copied.load.getType());
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  if (!tile || tile.getRank() != 1 || !step || *step != tile.getNumElements())
    return {};
  return copied;
}

} // namespace

// The processor's own copying reads no line that it is about to write whole: of
// 8 rows of 200 KB in its third-level cache a fifth of the time. It takes some
// dozens of cycles to begin. Only where all processors of the level have it.
FailureOr<llvm::BasicBlock *> CpuLowering::copiedAtOnce(scf::ForOp loop) {
  llvm::BasicBlock *none = nullptr;
  constexpr uint64_t least = 4096; // bytes
  constexpr unsigned levelWithFastStrings = 64;
  if (target.vectorBytes < levelWithFastStrings)
    return none;
  std::optional<Copied> copied = copiedBy(loop);
  if (!copied)
    return none;
  auto from = buffer(copied->load.getBuffer()),
       to = buffer(copied->store.getBuffer());
  if (failed(from) || failed(to) || from->bytes != to->bytes)
    return none;
  llvm::Value *lower = scalar(loop.getLowerBound()),
              *upper = scalar(loop.getUpperBound()),
              *step = scalar(loop.getStep());
  // Whole tiles, as the loop's are.
  llvm::Value *last = b.CreateSub(step, b.getInt64(1));
  llvm::Value *count = b.CreateAdd(b.CreateSub(upper, lower), last);
  count = b.CreateMul(b.CreateSDiv(count, step),
                      b.CreateMul(step, b.getInt64(from->bytes)));
  llvm::Value *isLong = b.CreateICmpSGE(count, b.getInt64(least));
  if (auto *known = dyn_cast<llvm::ConstantInt>(isLong);
      known && known->isZero())
    return none;
  llvm::BasicBlock *copy = newBlock("copy");
  llvm::BasicBlock *tiles = newBlock("tiles");
  b.CreateCondBr(isLong, copy, tiles);

  b.SetInsertPoint(copy);
  set(loop.getInductionVar(), {lower});
  for (Operation &op : loop.getBody()->without_terminator())
    if (isPure(&op) && failed(operation(op)))
      return failure();
  llvm::Value *target = address(*to, scalar(copied->store.getOffset())),
              *source = address(*from, scalar(copied->load.getOffset()));
  llvm::Type *pointer = target->getType();
  auto *registers = llvm::StructType::get(
      pointer, pointer, llvm::Type::getInt64Ty(module.getContext()));
  auto *type = llvm::FunctionType::get(
      registers, {pointer, pointer, b.getInt64Ty()}, /*isVarArg=*/false);
  b.CreateCall(type,
               llvm::InlineAsm::get(type, "rep movsb",
                                    "={di},={si},={cx},0,1,2,~{memory},"
                                    "~{dirflag},~{fpsr},~{flags}",
                                    /*hasSideEffects=*/true),
               {target, source, count});
  b.SetInsertPoint(tiles);
  return copy;
}

} // namespace knapper::lower
