// Products on GPUs: loops with carried values, and in which order blocks of the
// result are taken.
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace knapper::lower {

using Carried = llvm::SmallVector<llvm::Value *, 0>;

/// for (i = from; i < to; i += step) state = body(i, state), signed; i, from,
/// to and step of one type. The test stands at the end, behind a guard.
template <typename Body>
Carried carriedFor(llvm::IRBuilder<> &b, const char *name, llvm::Value *from,
                   llvm::Value *to, llvm::Value *step, Carried state,
                   Body body) {
  llvm::Function *fn = b.GetInsertBlock()->getParent();
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *loop = llvm::BasicBlock::Create(b.getContext(), name, fn);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "after", fn);
  b.CreateCondBr(b.CreateICmpSLT(from, to), loop, after);
  b.SetInsertPoint(loop);
  llvm::PHINode *i = b.CreatePHI(from->getType(), 2);
  i->addIncoming(from, before);
  Carried carried;
  for (llvm::Value *value : state) {
    llvm::PHINode *phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    carried.push_back(phi);
  }
  Carried next = body(i, carried);
  llvm::Value *nextI = b.CreateNSWAdd(i, step);
  llvm::BasicBlock *latch = b.GetInsertBlock();
  i->addIncoming(nextI, latch);
  for (auto [phi, value] : llvm::zip(carried, next))
    llvm::cast<llvm::PHINode>(phi)->addIncoming(value, latch);
  b.CreateCondBr(b.CreateICmpSLT(nextI, to), loop, after);
  b.SetInsertPoint(after);
  Carried result;
  for (auto [start, end] : llvm::zip(state, next)) {
    llvm::PHINode *phi = b.CreatePHI(start->getType(), 2);
    phi->addIncoming(start, before);
    phi->addIncoming(end, latch);
    result.push_back(phi);
  }
  return result;
}

/// Where a block of the result lies: first row and column. All i32.
struct BlockAt {
  llvm::SmallVector<llvm::Value *> outer;
  llvm::Value *row, *column;
};

/// Programs to blocks: matrix by matrix (`outer` sizes, row-major), groups of
/// `group` block rows, column by column within a group. So what runs at one
/// time reads few rows and columns of the operands.
class BlockOrder {
public:
  /// `blockRows`, `blockColumns`: how many blocks of rows x columns there are.
  BlockOrder(llvm::IRBuilder<> &b, llvm::Value *blockRows,
             llvm::Value *blockColumns, llvm::ArrayRef<llvm::Value *> outer,
             unsigned rows, unsigned columns, unsigned group)
      : b(b), blockRows(blockRows), blockColumns(blockColumns),
        outer(outer.begin(), outer.end()), rows(rows), columns(columns),
        group(group) {
    all = b.CreateMul(blockRows, blockColumns);
    for (llvm::Value *size : outer)
      all = b.CreateMul(all, size);
  }
  llvm::Value *programs() const { return all; }
  BlockAt at(llvm::Value *program) const;

private:
  llvm::IRBuilder<> &b;
  llvm::Value *blockRows, *blockColumns, *all;
  llvm::SmallVector<llvm::Value *> outer;
  unsigned rows, columns, group;
};

} // namespace knapper::lower
