// Matmuls by FMAs of f32, for any GPU, any layout and any of
// f32, f16, bf16: exact as f32 is.
//
// Blocks of A and B, 16 deep, go through two buffers of shared memory, as
// [depth][row or column]: while one is multiplied the next is on its way in
// registers. A thread has 8 rows by 8 columns, as four pieces of 4 x 4:
//
//   rows  4*ty .. +3 and rows/2 + 4*ty .. +3, columns likewise by tx
//
// so that a warp's reads of shared memory are broadcasts or runs.
//
// With `slices`, so many teams of threads have the same block and a part of
// each step's depth: more warps than the block alone would have, where blocks
// are few. At the end each team sums up some rows.
#include "codegen/lower/gpu/nvidia/simt/SimtMatmul.h"
#include "codegen/lower/gpu/nvidia/common/Recipes.h"

using namespace mlir;

namespace knapper::lower {

LogicalResult SimtMatmulRecipe::check() {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  buffers[0] = *aBuffer;
  buffers[1] = *bBuffer;
  if (rows % 64 || columns % 64 || rows * columns > 128 * 128 ||
      (slices != 1 && slices != 2 && slices != 4) ||
      (slices > 1 && rows * columns > 128 * 64) || config.tileK != kSimtDepth ||
      4 % op.run())
    return op.emitOpError("has a shape that this algorithm cannot do");
  return success();
}

LogicalResult SimtMatmulRecipe::place() {
  m = scalar(op.getM());
  n = scalar(op.getN());
  k = scalar(op.getK());
  for (Value size : op.getOuter())
    outerSizes.push_back(narrowed(scalar(size)));
  llvm::Value *down = ceil64(m, rows), *across = ceil64(n, columns);
  TileScheduler order(b, down, across, outerSizes, rows, columns,
                      config.rasterGroup);
  if (op.getEnds() && failed(groupedTiles(op, columns, groups)))
    return failure();
  rowsEnd = m;
  if (groups)
    placeInGroup();
  else
    block = order.at(narrowed(programId));
  return success();
}

void SimtMatmulRecipe::placeInGroup() {
  llvm::Value *program = narrowed(programId);
  Carried state = groups->seek(groups->start(), program);
  block = groups->at(state, program);
  if (outerSizes.empty())
    block.outer.clear();
  group = groups->rows(state);
  // There are as many programs as there can be tiles: others have no rows.
  llvm::Value *past = groups->isPast(state);
  rowsEnd = b.CreateSelect(past, n64(0), wide(group->end));
  for (llvm::Value **index : {&block.row, &block.column})
    *index = b.CreateSelect(past, n32(0), *index);
  for (llvm::Value *&index : block.outer)
    index = b.CreateSelect(past, n32(0), index);
  k = b.CreateSelect(past, n64(0), k);
}

void SimtMatmulRecipe::placeThread() {
  unsigned across = columns / 8;
  slice = n32(0);
  inTeam = tid;
  if (slices > 1) {
    slice = b.CreateUDiv(tid, n32(team));
    inTeam = b.CreateURem(tid, n32(team));
  }
  tx = b.CreateMul(b.CreateURem(inTeam, n32(across)), n32(4));
  ty = b.CreateMul(b.CreateUDiv(inTeam, n32(across)), n32(4));
  sliceDepth = b.CreateMul(slice, n32(kSimtDepth / slices));
}

llvm::SmallVector<llvm::Value *, 8>
SimtMatmulRecipe::fetch(const SimtOperand &o, llvm::Value *which,
                        unsigned depth, llvm::Value *first) {
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  llvm::SmallVector<llvm::Value *, 8> values;
  for (unsigned half = 0; half < 2; ++half) {
    llvm::Value *piece = b.CreateAlignedLoad(
        four,
        sharedAt(o, which, b.CreateAdd(sliceDepth, n32(depth)),
                 b.CreateAdd(first, n32(half * o.block / 2))),
        llvm::Align(16));
    for (unsigned i = 0; i < 4; ++i)
      values.push_back(b.CreateExtractElement(piece, i));
  }
  return values;
}

Carried SimtMatmulRecipe::mainloop() {
  // Without depth the operands have no first element either.
  when(b.CreateICmpSGT(k, n64(0)), [&] {
    for (const SimtOperand &side : sides) {
      Carried values;
      read(side, n64(0), values);
      write(side, n32(0), values);
    }
  });
  barrier();
  Carried none(64, llvm::ConstantFP::get(b.getFloatTy(), 0));
  llvm::Value *steps = ceil64(k, kSimtDepth);
  return carriedFor(
      b, "depth", n32(0), steps, n32(1), std::move(none),
      [&](llvm::Value *step, const Carried &state) -> Carried {
        Carried next(state);
        llvm::Value *which = b.CreateAnd(step, 1);
        llvm::Value *depth =
            b.CreateMul(wide(b.CreateAdd(step, n32(1))), n64(kSimtDepth));
        Carried coming[2];
        for (unsigned side = 0; side < 2; ++side)
          read(sides[side], depth, coming[side]);
        for (unsigned d = 0; d < kSimtDepth / slices; ++d) {
          auto as = fetch(sides[0], which, d, ty);
          auto bs = fetch(sides[1], which, d, tx);
          for (unsigned i = 0; i < 8; ++i)
            for (unsigned j = 0; j < 8; ++j) {
              llvm::Value *&sum = next[8 * i + j];
              sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()},
                                      {as[i], bs[j], sum});
            }
        }
        // All have read the other buffer one step ago.
        llvm::Value *other = b.CreateXor(which, 1);
        for (unsigned side = 0; side < 2; ++side)
          write(sides[side], other, coming[side]);
        barrier();
        return next;
      });
}

LogicalResult SimtMatmulRecipe::emit() {
  if (failed(check()) || failed(place()))
    return failure();
  takeOperands();
  limitRegisters();
  tid = narrowed(threadOfBlock);
  placeWindowRows();
  placeThread();
  sums = mainloop();
  storeResults();
  return status;
}

LogicalResult simtMatmul(GpuLowering &lowering, tile::MatmulOp op) {
  return SimtMatmulRecipe(lowering, op).emit();
}

} // namespace knapper::lower
