// Matmuls by FMAs of f32, for any GPU, any layout and any of
// f32, f16, bf16: exact as f32 is.
//
// Tiles of A and B, `tileK` deep, go through two buffers of shared memory, as
// [depth][row or column]: while one is multiplied the next is on its way in
// registers. A thread has 8 rows by 8 columns, as four pieces of 4 x 4:
//
//   rows  4*ty .. +3 and rows/2 + 4*ty .. +3, columns likewise by tx
//
// so that a warp's reads of shared memory are broadcasts or runs. Of a tile of
// fewer than 64 rows or columns it has 4 of them, one piece.
//
// With `sliceK`, so many teams of threads have the same tile and a part of
// each step's depth: more warps than the tile alone would have, where tiles
// are few. At the end each team sums up some rows. With `splitK`, the CTAs of a
// cluster have a part of the steps each; at the end each CTA sums up some rows,
// read from the others' shared memory in the order of their ranks.
#include "codegen/lower/gpu/nvidia/simt/SimtMatmul.h"
#include "codegen/lower/gpu/nvidia/common/Recipes.h"

using namespace mlir;

namespace knapper::lower {

/// Loops of at most so many steps are kept from being unrolled. (A
/// convolution's are not: its elements have places of their own, of which less
/// is alive in one piece.)
static constexpr unsigned kFewSteps = 4;

LogicalResult SimtMatmulRecipe::check() {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  buffers[0] = *aBuffer;
  buffers[1] = *bBuffer;
  auto isTile = [](unsigned size) {
    return llvm::isPowerOf2_32(size) && size >= 16 && size <= 128;
  };
  bool shares = slices == 1 || slices == 2 || slices == 4;
  unsigned split = config.splitK;
  bool splits = split == 1 || split == 2 || split == 4 || split == 8;
  if (!isTile(rows) || !isTile(columns) || !shares || !splits ||
      (slices * split > 1 && rows * columns > 128 * 64) ||
      (split > 1 && op.getEnds()) || !llvm::isPowerOf2_32(depth) ||
      depth < 16 || depth > 64 || depth % slices ||
      std::min(rows, columns) * depth % (4 * threadsOfBlock) ||
      threadsOfBlock % 32 || 4 % op.run())
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
    block = order.at(config.splitK > 1
                         ? b.CreateUDiv(narrowed(programId), n32(config.splitK))
                         : narrowed(programId));
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
  unsigned across = columns / threadColumns;
  slice = n32(0);
  inTeam = tid;
  if (slices > 1) {
    slice = b.CreateUDiv(tid, n32(team));
    inTeam = b.CreateURem(tid, n32(team));
  }
  tx = b.CreateMul(b.CreateURem(inTeam, n32(across)), n32(4));
  ty = b.CreateMul(b.CreateUDiv(inTeam, n32(across)), n32(4));
  sliceDepth = b.CreateMul(slice, n32(depth / slices));
}

llvm::SmallVector<llvm::Value *, 8>
SimtMatmulRecipe::fetch(const SimtOperand &o, llvm::Value *which,
                        unsigned depth, llvm::Value *first, unsigned own) {
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  llvm::SmallVector<llvm::Value *, 8> values;
  for (unsigned half = 0; half < own / 4; ++half) {
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
  llvm::Value *first = n32(0), *steps = ceil64(k, depth);
  if (config.splitK > 1) {
    rank =
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank,
                          llvm::ArrayRef<llvm::Value *>());
    auto part = [&](llvm::Value *number) {
      return b.CreateUDiv(b.CreateMul(steps, number), n32(config.splitK));
    };
    first = part(rank);
    steps = part(plus(rank, 1));
  }
  auto depthOf = [&](llvm::Value *step) {
    return b.CreateMul(wide(step), n64(depth));
  };
  // Without depth the operands have no first element either.
  when(b.CreateICmpSGT(k, n64(0)), [&] {
    for (const SimtOperand &side : sides) {
      Carried values;
      read(side, depthOf(first), values);
      write(side, b.CreateAnd(first, 1), values);
    }
  });
  barrier();
  Carried none(threadRows * threadColumns,
               llvm::ConstantFP::get(b.getFloatTy(), 0));
  if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(k);
      known && known->getZExtValue() <= kFewSteps * depth &&
      op.getWindow().empty())
    steps = opaqueLoopEnd(b, steps);
  return carriedFor(b, "depth", first, steps, n32(1), std::move(none),
                    [&](llvm::Value *step, const Carried &state) -> Carried {
                      Carried next(state);
                      llvm::Value *which = b.CreateAnd(step, 1);
                      Carried coming[2];
                      for (unsigned side = 0; side < 2; ++side)
                        read(sides[side], depthOf(plus(step, 1)), coming[side]);
                      for (unsigned d = 0; d < depth / slices; ++d) {
                        auto as = fetch(sides[0], which, d, ty, threadRows);
                        auto bs = fetch(sides[1], which, d, tx, threadColumns);
                        for (unsigned i = 0; i < threadRows; ++i)
                          for (unsigned j = 0; j < threadColumns; ++j) {
                            llvm::Value *&sum = next[threadColumns * i + j];
                            sum = b.CreateIntrinsic(llvm::Intrinsic::fma,
                                                    {b.getFloatTy()},
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
