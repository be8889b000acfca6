// A matmul by FMAs: the teams of a CTA that share a depth add up their sums,
// and the region gets the results.
#include "codegen/lower/gpu/nvidia/simt/SimtMatmul.h"

using namespace mlir;

namespace knapper::lower {

void SimtMatmulRecipe::storeRow(unsigned i) {
  unsigned run = op.run();
  llvm::Value *row =
      b.CreateAdd(b.CreateAdd(block.row, ty), n32(i % 4 + i / 4 * (rows / 2)));
  when(b.CreateICmpSLT(row, m32), [&] {
    for (unsigned j = 0; j < 8; j += run) {
      llvm::Value *column = b.CreateAdd(b.CreateAdd(block.column, tx),
                                        n32(j % 4 + j / 4 * (columns / 2)));
      when(b.CreateICmpSLT(column, columnsEnd), [&] {
        llvm::Value *value = sums[8 * i + j];
        if (run > 1) {
          value = llvm::PoisonValue::get(
              llvm::FixedVectorType::get(b.getFloatTy(), run));
          for (unsigned lane = 0; lane < run; ++lane)
            value = b.CreateInsertElement(value, sums[8 * i + j + lane], lane);
        }
        if (group)
          value =
              b.CreateSelect(b.CreateICmpSLT(row, group->zeroFrom), value,
                             llvm::Constant::getNullValue(value->getType()));
        if (failed(runRegion(op, value, block.outer, row, column)))
          status = failure();
      });
    }
  });
}

void SimtMatmulRecipe::addSlices(unsigned adder, llvm::Value *others) {
  unsigned own = 64 / slices;
  llvm::Value *adds = b.CreateICmpEQ(slice, n32(adder));
  // Where the team's sums go: the adder's place is the last one's.
  llvm::Value *place =
      b.CreateSelect(b.CreateICmpEQ(slice, n32(slices - 1)), n32(adder), slice);
  auto at = [&](llvm::Value *place, unsigned sum) {
    llvm::Value *line = b.CreateAdd(b.CreateMul(place, n32(own)), n32(sum));
    return b.CreateInBoundsGEP(
        b.getFloatTy(), others,
        b.CreateAdd(b.CreateMul(line, n32(team)), inTeam));
  };
  when(b.CreateNot(adds), [&] {
    for (unsigned i = 0; i < own; ++i)
      b.CreateAlignedStore(sums[adder * own + i], at(place, i), llvm::Align(4));
  });
  barrier();
  when(adds, [&] {
    for (unsigned i = 0; i < own; ++i) {
      llvm::Value *&sum = sums[adder * own + i];
      for (unsigned other = 0; other + 1 < slices; ++other)
        sum = b.CreateFAdd(sum, b.CreateAlignedLoad(b.getFloatTy(),
                                                    at(n32(other), i),
                                                    llvm::Align(4)));
    }
    for (unsigned i = 0; i < 8 / slices; ++i)
      storeRow(adder * (8 / slices) + i);
  });
}

void SimtMatmulRecipe::storeResults() {
  m32 = narrowed(rowsEnd);
  columnsEnd = narrowed(n);
  if (slices == 1) {
    for (unsigned i = 0; i < 8; ++i)
      storeRow(i);
    return;
  }
  // [team but for the one that adds][sum][thread of a team]
  unsigned own = 64 / slices;
  llvm::Value *others =
      sharedArray(b.getFloatTy(), (slices - 1) * own * team, "_sums");
  for (unsigned adder = 0; adder < slices; ++adder) {
    addSlices(adder, others);
    if (adder + 1 < slices)
      barrier();
  }
}

} // namespace knapper::lower
