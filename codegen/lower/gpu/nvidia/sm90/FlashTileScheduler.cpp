// The programs of a section (those of the heads that are walked together) go to
// the blocks iteration by iteration, longest rows first, every other iteration
// from the last block on, and so do sections: all get equally much. Without
// causality all rows are alike, and all programs one section.
#include "codegen/lower/gpu/nvidia/sm90/FlashTileScheduler.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace knapper::lower {

FlashTileScheduler::FlashTileScheduler(llvm::IRBuilder<> &b, Shape shape,
                                       Counts counts)
    : b(b), shape(shape), counts(counts) {
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto special = [&](llvm::Intrinsic::ID id) {
    return b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>());
  };
  self = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  blocks = special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  allHeads = b.CreateMul(counts.batch, counts.heads);
  shares = b.CreateUDiv(counts.heads, counts.keyHeads);
  rowBlocks = b.CreateUDiv(b.CreateAdd(counts.queries, n32(shape.rows - 1)),
                           n32(shape.rows));
  llvm::Value *programs = b.CreateMul(allHeads, rowBlocks);
  together = n32(1);
  if (shape.group) {
    llvm::Value *bytes = b.CreateMul(b.CreateZExt(counts.keys, b.getInt64Ty()),
                                     b.getInt64(4 * shape.width));
    together = b.CreateTrunc(
        b.CreateUDiv(b.getInt64(uint64_t(shape.group) << 20), bytes),
        b.getInt32Ty());
    together = b.CreateMul(most(together, n32(1)), shares);
  }
  section = b.CreateMul(together, rowBlocks);
  if (!counts.causal) {
    rounds = shareOf(programs, n32(0));
    return;
  }
  even = shareOf(section, n32(0));
  twoSections = b.CreateAdd(even, shareOf(section, n32(1)));
  llvm::Value *whole = b.CreateUDiv(programs, section);
  llvm::Value *odd = b.CreateAnd(whole, 1);
  llvm::Value *rest = b.CreateSub(programs, b.CreateMul(whole, section));
  rounds = b.CreateAdd(b.CreateMul(b.CreateLShr(whole, 1), twoSections),
                       b.CreateMul(odd, even));
  rounds = b.CreateAdd(rounds, shareOf(rest, odd));
}

llvm::Value *FlashTileScheduler::placeIn(llvm::Value *iteration) const {
  llvm::Value *back = b.CreateICmpNE(b.CreateAnd(iteration, 1), b.getInt32(0));
  return b.CreateSelect(
      back, b.CreateSub(b.CreateSub(blocks, b.getInt32(1)), self), self);
}

/// How many of `count` programs are this block's, from iteration `first` on.
llvm::Value *FlashTileScheduler::shareOf(llvm::Value *count,
                                         llvm::Value *first) const {
  llvm::Value *iterations = b.CreateUDiv(count, blocks);
  llvm::Value *rest = b.CreateSub(count, b.CreateMul(iterations, blocks));
  llvm::Value *place =
      counts.causal ? placeIn(b.CreateAdd(iterations, first)) : self;
  return b.CreateAdd(
      iterations, b.CreateZExt(b.CreateICmpULT(place, rest), b.getInt32Ty()));
}

/// This block's program in a round.
llvm::Value *FlashTileScheduler::programAt(llvm::Value *round) const {
  if (!counts.causal)
    return b.CreateAdd(b.CreateMul(round, blocks), self);
  llvm::Value *pair = b.CreateUDiv(round, twoSections);
  llvm::Value *iteration = b.CreateSub(round, b.CreateMul(pair, twoSections));
  llvm::Value *second = b.CreateICmpUGE(iteration, even);
  iteration = b.CreateSelect(second, b.CreateSub(iteration, even), iteration);
  llvm::Value *parity = b.CreateZExt(second, b.getInt32Ty());
  llvm::Value *number = b.CreateAdd(b.CreateShl(pair, 1), parity);
  return b.CreateAdd(b.CreateMul(number, section),
                     b.CreateAdd(b.CreateMul(iteration, blocks),
                                 placeIn(b.CreateAdd(iteration, parity))));
}

FlashTile FlashTileScheduler::rows(llvm::Value *program) const {
  llvm::Value *number = b.CreateUDiv(program, section);
  llvm::Value *inside = b.CreateSub(program, b.CreateMul(number, section));
  llvm::Value *firstHead = b.CreateMul(number, together);
  llvm::Value *here = least(together, b.CreateSub(allHeads, firstHead));
  llvm::Value *row = b.CreateUDiv(inside, here);
  llvm::Value *head =
      b.CreateAdd(firstHead, b.CreateSub(inside, b.CreateMul(row, here)));
  if (counts.causal)
    row = b.CreateSub(b.CreateSub(rowBlocks, b.getInt32(1)), row);
  FlashTile rows;
  rows.first = b.CreateMul(row, b.getInt32(shape.rows));
  rows.batch = b.CreateUDiv(head, counts.heads);
  rows.head = b.CreateSub(head, b.CreateMul(rows.batch, counts.heads));
  rows.keyHead = b.CreateUDiv(rows.head, shares);
  return rows;
}

void FlashTileScheduler::setBlocks(FlashTile &rows, llvm::Value *skips,
                                   bool someWhole) const {
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  llvm::Value *end = counts.keys;
  if (counts.causal)
    end = b.CreateSelect(
        skips,
        least(end, b.CreateAdd(b.CreateAdd(rows.first, counts.causal),
                               n32(shape.rows - 1))),
        end);
  rows.blocks =
      most(b.CreateSDiv(b.CreateAdd(end, n32(shape.keys - 1)), n32(shape.keys)),
           n32(1));
  // Behind the first block there is one.
  if (auto *keys = llvm::dyn_cast<llvm::ConstantInt>(counts.keys);
      keys && !counts.causal &&
      llvm::divideCeil(keys->getZExtValue(), shape.keys) == 2)
    rows.blocks = opaqueLoopEnd(b, rows.blocks);
  llvm::Value *last = b.CreateSub(rows.blocks, n32(1));
  if (!someWhole) {
    rows.whole = n32(0);
    return;
  }
  rows.whole = last;
  if (counts.causal)
    rows.whole =
        least(most(least(b.CreateSDiv(b.CreateAdd(rows.first, counts.causal),
                                      n32(shape.keys)),
                         b.CreateUDiv(counts.keys, n32(shape.keys))),
                   n32(0)),
              last);
}

} // namespace knapper::lower
