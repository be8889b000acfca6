// A loop whose values go from round to round.
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace knapper::lower {

using Carried = llvm::SmallVector<llvm::Value *, 0>;

/// while (more(state)) state = body(state), its test at the end, behind a
/// guard; returns the state after it.
template <typename More, typename Body>
Carried carriedLoop(llvm::IRBuilder<> &b, const char *name,
                    const Carried &state, More more, Body body) {
  llvm::Function *fn = b.GetInsertBlock()->getParent();
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *loop = llvm::BasicBlock::Create(b.getContext(), name, fn);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "after", fn);
  b.CreateCondBr(more(state), loop, after);
  b.SetInsertPoint(loop);
  Carried carried;
  for (llvm::Value *value : state) {
    llvm::PHINode *phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    carried.push_back(phi);
  }
  Carried next = body(carried);
  llvm::BasicBlock *latch = b.GetInsertBlock();
  for (auto [phi, value] : llvm::zip(carried, next))
    llvm::cast<llvm::PHINode>(phi)->addIncoming(value, latch);
  b.CreateCondBr(more(next), loop, after);
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

} // namespace knapper::lower
