// Matmuls by warps, for GPUs from sm_80 on: blocks copied by cp.async
// into a ring of stages, ldmatrix, mma.sync. f16 and bf16; f32 where `tf32`
// says that its operands may be tf32.
//
//   shared memory: [block of A, block of B] x stages
//                  16 rows of f32 a warp, where the ring was, at the end
//
// A stage is 128 bytes deep. A side whose depth is contiguous lies as a line of
// 128 bytes a row (column); else as boxes of 128 bytes of them, a line a depth.
// The 16 bytes that are number c of a line lie at number c ^ s, s by the line's
// last bits, so that what a warp reads together is in different banks.
//
// A side that is not `copied` lies where cp.async does not reach: its threads
// read by 16-byte accesses around, while the MMAs of the stage before run,
// shift, and write.
//
// Thread t has of an MMA of 16 rows by 8 columns in sum i row t/4 + 8*(i/2),
// column 2*(t%4) + i%2. At the end the rows go through shared memory, so that a
// thread gets runs of columns and a warp whole rows.
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "codegen/lower/gpu/nvidia/sm80/MmaSyncRecipe.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper::lower {

using namespace mma_sync;

LogicalResult MmaSyncRecipe::check() {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  buffers[0] = *aBuffer;
  buffers[1] = *bBuffer;
  s = MmaSyncShape(config, aBuffer->bytes);
  if (op.getB().getType().getElementType() != element ||
      !(element.isF16() || element.isBF16() || tf32) || !s.fit() ||
      op.run() > 8)
    return op.emitOpError(
        "has a shape or element types that this algorithm cannot "
        "do");
  Value along[] = {s.transposed[0] ? op.getARow() : op.getAK(),
                   s.transposed[1] ? op.getBColumn() : op.getBK()};
  if (!llvm::all_of(along, [](Value v) { return matchPattern(v, m_One()); }))
    return op.emitOpError("has lines that are not contiguous");
  return success();
}

void MmaSyncRecipe::place() {
  words = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
  base = launchedShared();
  m = narrowed(op.getM());
  n = narrowed(op.getN());
  k = narrowed(op.getK());
  llvm::SmallVector<llvm::Value *> outerSizes;
  for (Value size : op.getOuter())
    outerSizes.push_back(narrowed(size));
  llvm::Value *down = ceil(m, s.rows), *across = ceil(n, s.columns);
  TileScheduler order(b, down, across, outerSizes, s.rows, s.columns,
                      config.rasterGroup);
  block = order.at(b.CreateTrunc(programId, b.getInt32Ty()));
  tid = b.CreateTrunc(threadOfBlock, b.getInt32Ty());
  lane = b.CreateAnd(tid, n32(kWarp - 1));
  warp = b.CreateLShr(tid, 5);
  warpRow = b.CreateUDiv(warp, n32(s.warpColumns()));
  warpColumn = b.CreateSub(warp, b.CreateMul(warpRow, n32(s.warpColumns())));
}

LogicalResult MmaSyncRecipe::emit() {
  if (failed(check()))
    return failure();
  shape.sharedBytes = s.bytes();
  place();
  placeAccesses();
  tiles[0] = s.ownRows() / kFragment;
  tiles[1] = s.ownColumns() / kFragment;
  own[0] = b.CreateMul(warpRow, n32(s.ownRows()));
  own[1] = b.CreateMul(warpColumn, n32(s.ownColumns()));
  last = b.CreateAnd(lane, n32(7));
  quad = b.CreateAnd(lane, n32(3));
  eighth = b.CreateLShr(lane, 2);
  Carried state = mainloop();
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_all,
                    llvm::ArrayRef<llvm::Value *>());
  barrier(); // all have read the ring
  storeResults(state);
  return status;
}

llvm::Value *MmaSyncRecipe::stageAt(llvm::Value *number) {
  return b.CreateAdd(base, b.CreateMul(number, n32(s.stageBytes())));
}

llvm::Value *MmaSyncRecipe::advance(llvm::Value *number) {
  llvm::Value *next = plus(number, 1);
  return b.CreateSelect(b.CreateICmpEQ(next, n32(s.stages)), n32(0), next);
}

Carried MmaSyncRecipe::mainloop() {
  for (unsigned stage = 0; stage + 1 < s.stages; ++stage) {
    llvm::Value *to = stageAt(n32(stage));
    finish(to, begin(to, n32(stage * s.depth())));
  }
  Carried state{n32(0), n32(s.stages - 1)};
  state.append(2 * tiles[0] * tiles[1] * 4,
               llvm::ConstantFP::get(b.getFloatTy(), 0));
  return carriedFor(
      b, "steps", n32(0), ceil(k, s.depth()), n32(1), std::move(state),
      [&](llvm::Value *step, const Carried &now) -> Carried {
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {},
                          {n32(s.stages - 2)});
        // The stage is there, and the one before it has been read by all.
        barrier();
        llvm::Value *to = stageAt(now[1]);
        llvm::SmallVector<InFlight> coming =
            begin(to, b.CreateMul(plus(step, s.stages - 1), n32(s.depth())));
        Carried next(now);
        multiply(stageAt(now[0]), llvm::MutableArrayRef(next).drop_front(2));
        finish(to, coming);
        next[0] = advance(now[0]);
        next[1] = advance(now[1]);
        return next;
      });
}

llvm::Value *MmaSyncRecipe::areaAt(llvm::Value *row, llvm::Value *column) {
  return sharedPointer(b.CreateAdd(
      area,
      b.CreateShl(b.CreateAdd(b.CreateMul(row, n32(s.resultPitch())), column),
                  2)));
}

void MmaSyncRecipe::storeResults(const Carried &state) {
  area = b.CreateAdd(base,
                     b.CreateMul(warp, n32(kFragment * s.resultPitch() * 4)));
  auto *pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
  for (unsigned i = 0; i < tiles[0]; ++i) {
    if (i)
      meetWarp();
    for (unsigned j = 0; j < 2 * tiles[1]; ++j)
      for (unsigned half = 0; half < 2; ++half) {
        const auto *sum = &state[2 + (i * 2 * tiles[1] + j) * 4 + 2 * half];
        llvm::Value *two = llvm::PoisonValue::get(pair);
        two = b.CreateInsertElement(two, sum[0], uint64_t(0));
        two = b.CreateInsertElement(two, sum[1], 1);
        b.CreateAlignedStore(
            two,
            areaAt(plus(eighth, 8 * half), plus(b.CreateShl(quad, 1), 8 * j)),
            llvm::Align(8));
      }
    meetWarp();
    storeRuns(i);
  }
}

void MmaSyncRecipe::storeRuns(unsigned tile) {
  unsigned run = op.run(), runs = s.ownColumns() / run;
  carriedFor(
      b, "runs", n32(0), n32(kFragment * runs / kWarp), n32(1), {},
      [&](llvm::Value *round, const Carried &) -> Carried {
        llvm::Value *number = b.CreateAdd(b.CreateMul(round, n32(kWarp)), lane);
        llvm::Value *inRow = b.CreateUDiv(number, n32(runs));
        llvm::Value *inColumn = b.CreateMul(
            b.CreateSub(number, b.CreateMul(inRow, n32(runs))), n32(run));
        llvm::Value *row = b.CreateAdd(b.CreateAdd(block.row, own[0]),
                                       plus(inRow, tile * kFragment));
        llvm::Value *column =
            b.CreateAdd(b.CreateAdd(block.column, own[1]), inColumn);
        when(b.CreateAnd(b.CreateICmpSLT(row, m), b.CreateICmpSLT(column, n)),
             [&] {
               llvm::Type *type =
                   run > 1 ? llvm::FixedVectorType::get(b.getFloatTy(), run)
                           : b.getFloatTy();
               llvm::Value *value =
                   b.CreateAlignedLoad(type, areaAt(inRow, inColumn),
                                       llvm::Align(std::min(16u, 4 * run)));
               if (failed(runRegion(op, value, block.outer, row, column)))
                 status = failure();
             });
        return {};
      });
}

LogicalResult mmaSyncMatmul(GpuLowering &lowering, tile::MatmulOp op) {
  return MmaSyncRecipe(lowering, op).emit();
}

} // namespace knapper::lower
