// A matmul by FMAs: the teams of a CTA and the CTAs of a cluster that share a
// depth add up their sums, and the region gets the results.
#include "codegen/lower/gpu/nvidia/simt/SimtMatmul.h"

using namespace mlir;

namespace knapper::lower {

void SimtMatmulRecipe::storeRow(unsigned i,
                                llvm::ArrayRef<llvm::Value *> values) {
  unsigned run = op.run();
  llvm::Value *row =
      b.CreateAdd(b.CreateAdd(block.row, ty), n32(i % 4 + i / 4 * (rows / 2)));
  when(b.CreateICmpSLT(row, m32), [&] {
    for (unsigned j = 0; j < threadColumns; j += run) {
      llvm::Value *column = b.CreateAdd(b.CreateAdd(block.column, tx),
                                        n32(j % 4 + j / 4 * (columns / 2)));
      when(b.CreateICmpSLT(column, columnsEnd), [&] {
        llvm::Value *value = values[j];
        if (run > 1) {
          value = llvm::PoisonValue::get(
              llvm::FixedVectorType::get(b.getFloatTy(), run));
          for (unsigned lane = 0; lane < run; ++lane)
            value = b.CreateInsertElement(value, values[j + lane], lane);
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

// [team but for the one that adds][sum][thread of a team]
void SimtMatmulRecipe::addSlices(
    unsigned adder,
    llvm::function_ref<void(unsigned, llvm::ArrayRef<llvm::Value *>)> end) {
  unsigned own = threadRows * threadColumns / slices;
  llvm::Value *adds = b.CreateICmpEQ(slice, n32(adder));
  // Where the team's sums go: the adder's place is the last one's.
  llvm::Value *place =
      b.CreateSelect(b.CreateICmpEQ(slice, n32(slices - 1)), n32(adder), slice);
  auto at = [&](llvm::Value *place, unsigned sum) {
    llvm::Value *line = b.CreateAdd(b.CreateMul(place, n32(own)), n32(sum));
    return b.CreateInBoundsGEP(
        b.getFloatTy(), shared,
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
    for (unsigned i = adder * threadRows / slices;
         i < (adder + 1) * threadRows / slices; ++i)
      end(i, rowOf(i));
  });
}

// [sum][thread of a team], behind the sums of the teams
llvm::Value *SimtMatmulRecipe::splitAt(unsigned i) {
  return b.CreateInBoundsGEP(b.getFloatTy(), shared,
                             plus(inTeam, sliceFloats() + i * team));
}

void SimtMatmulRecipe::addSplits() {
  clusterBarrier();
  unsigned split = config.splitK;
  for (unsigned i = 0; i < threadRows; ++i) {
    llvm::Value *adds =
        b.CreateAnd(b.CreateICmpEQ(rank, n32(i % split)),
                    b.CreateICmpEQ(slice, n32(i / split % slices)));
    when(adds, [&] {
      Carried row;
      for (unsigned j = 0; j < threadColumns; ++j) {
        llvm::Value *sum = nullptr;
        for (unsigned peer = 0; peer < split; ++peer) {
          llvm::Value *at =
              b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {},
                                {splitAt(i * threadColumns + j), n32(peer)});
          llvm::Value *other =
              b.CreateAlignedLoad(b.getFloatTy(), at, llvm::Align(4));
          sum = sum ? b.CreateFAdd(sum, other) : other;
        }
        row.push_back(sum);
      }
      storeRow(i, row);
    });
  }
  clusterBarrier(); // others have read what this CTA has
}

void SimtMatmulRecipe::storeResults() {
  m32 = narrowed(rowsEnd);
  columnsEnd = narrowed(n);
  auto end = [&](unsigned i, llvm::ArrayRef<llvm::Value *> row) {
    if (config.splitK == 1)
      return storeRow(i, row);
    for (auto [j, sum] : llvm::enumerate(row))
      b.CreateAlignedStore(sum, splitAt(i * threadColumns + j), llvm::Align(4));
  };
  if (slices == 1)
    for (unsigned i = 0; i < threadRows; ++i)
      end(i, rowOf(i));
  for (unsigned adder = 0; slices > 1 && adder < slices; ++adder) {
    addSlices(adder, end);
    if (adder + 1 < slices)
      barrier();
  }
  if (config.splitK > 1)
    addSplits();
}

} // namespace knapper::lower
