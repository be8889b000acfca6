// Matmuls on GPUs: loops with carried values, and in which order blocks of the
// result are taken.
#pragma once

#include "codegen/lower/common/CarriedLoop.h"

#include "llvm/IR/InlineAsm.h"

namespace knapper::lower {

/// for (i = from; i < to; i += step) state = body(i, state), signed; i, from,
/// to and step of one type. The test stands at the end, behind a guard.
template <typename Body>
Carried carriedFor(llvm::IRBuilder<> &b, const char *name, llvm::Value *from,
                   llvm::Value *to, llvm::Value *step, Carried state,
                   Body body) {
  state.insert(state.begin(), from);
  Carried last = carriedLoop(
      b, name, state,
      [&](const Carried &now) { return b.CreateICmpSLT(now[0], to); },
      [&](const Carried &now) {
        Carried next = body(now[0], Carried(now.begin() + 1, now.end()));
        next.insert(next.begin(), b.CreateNSWAdd(now[0], step));
        return next;
      });
  return Carried(last.begin() + 1, last.end());
}

/// The end of a loop (i32 or i64) whose few iterations are known: LLVM would
/// unroll it, and what the code around it and its iterations have in registers
/// would be alive at once, and spill.
inline llvm::Value *opaqueLoopEnd(llvm::IRBuilder<> &b, llvm::Value *end) {
  bool wide = end->getType()->isIntegerTy(64);
  return b.CreateCall(
      llvm::InlineAsm::get(
          llvm::FunctionType::get(end->getType(), {end->getType()}, false),
          wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;", wide ? "=l,l" : "=r,r",
          /*hasSideEffects=*/false),
      {end});
}

/// Where a block of the result lies: first row and column. All i32.
struct TileCoord {
  llvm::SmallVector<llvm::Value *> outer;
  llvm::Value *row, *column;
};

/// Coordinates of a box: two, and the batch indices whose bits are set.
llvm::SmallVector<llvm::Value *> boxAt(llvm::Value *inner, llvm::Value *second,
                                       const TileCoord &block, int64_t batch);

/// Programs to blocks: matrix by matrix (`outer` sizes, row-major), groups of
/// `rasterGroup` block rows, column by column within a group. So what
/// runs at one time reads few rows and columns of the operands.
class TileScheduler {
public:
  /// `blockRows`, `blockColumns`: how many blocks of rows x columns there are.
  TileScheduler(llvm::IRBuilder<> &b, llvm::Value *blockRows,
                llvm::Value *blockColumns, llvm::ArrayRef<llvm::Value *> outer,
                unsigned rows, unsigned columns, unsigned rasterGroup)
      : b(b), blockRows(blockRows), blockColumns(blockColumns),
        outer(outer.begin(), outer.end()), rows(rows), columns(columns),
        rasterGroup(rasterGroup) {
    all = b.CreateMul(blockRows, blockColumns);
    for (llvm::Value *size : outer)
      all = b.CreateMul(all, size);
  }
  llvm::Value *programs() const { return all; }
  TileCoord at(llvm::Value *program) const;

private:
  llvm::IRBuilder<> &b;
  llvm::Value *blockRows, *blockColumns, *all;
  llvm::SmallVector<llvm::Value *> outer;
  unsigned rows, columns, rasterGroup;
};

} // namespace knapper::lower
