// A matmul by mma.sync: how a stage is filled. Both operands come in accesses
// of 16 bytes a thread: by cp.async where every access starts at a multiple of
// 16 bytes, else through registers.
#include "codegen/lower/gpu/nvidia/sm80/MmaSyncRecipe.h"

using namespace mlir;

namespace knapper::lower {

using namespace mma_sync;

llvm::Value *MmaSyncRecipe::swizzle(llvm::Value *line, unsigned side) {
  // Lines by depth of f32 are read a word a thread, four lines at a time.
  return s.transposed[side] && tf32 ? b.CreateShl(b.CreateAnd(line, n32(3)), 1)
                                    : b.CreateAnd(line, n32(7));
}

void MmaSyncRecipe::placeAccesses() {
  llvm::Value *chunk = b.CreateAnd(tid, n32(kChunks - 1));
  line = b.CreateLShr(tid, 3);
  inLine = b.CreateMul(chunk, n32(s.lanes()));
  // From one access of a thread to the next, whole rounds of the swizzle.
  for (unsigned side = 0; side < 2; ++side)
    chunkAt[side] =
        b.CreateAdd(b.CreateMul(line, n32(kRowBytes)),
                    b.CreateShl(b.CreateXor(chunk, swizzle(line, side)), 4));
  sides[0] = makeSide(0, buffers[0], op.getAOffset(),
                      s.transposed[0] ? op.getAK() : op.getARow(),
                      op.getAOuter(), m, block.row);
  sides[1] = makeSide(1, buffers[1], op.getBOffset(),
                      s.transposed[1] ? op.getBK() : op.getBColumn(),
                      op.getBOuter(), n, block.column);
}

MmaSyncOperand MmaSyncRecipe::makeSide(unsigned number, const BufferRef &ref,
                                       Value offset, Value stride,
                                       OperandRange outer, llvm::Value *limit,
                                       llvm::Value *from) {
  MmaSyncOperand side{ref, scalar(stride), limit, from, scalar(offset), nullptr,
                      {}};
  for (auto [outerStride, index] : llvm::zip(outer, block.outer))
    side.start =
        b.CreateAdd(side.start, b.CreateMul(scalar(outerStride), wide(index)));
  side.start = b.CreateAdd(side.start, wide(inLine));
  if (s.transposed[number])
    side.start = b.CreateAdd(
        side.start,
        b.CreateAdd(wide(from), b.CreateMul(wide(line), side.pitch)));
  if (!s.copied[number]) {
    llvm::Value *first = side.start;
    if (!s.transposed[number])
      first = b.CreateAdd(
          first, b.CreateMul(wide(b.CreateAdd(from, line)), side.pitch));
    side.skew = skewOf(ref, first);
  }
  for (unsigned i = 0; i < s.extent(number) / s.lines(); ++i) {
    if (s.transposed[number]) {
      side.lines.push_back(
          b.CreateAdd(b.CreateMul(side.pitch, n64(depthOf(i))), n64(boxOf(i))));
      continue;
    }
    // What is past the last row is read as that: it becomes nothing's result.
    llvm::Value *row = b.CreateAdd(from, plus(line, i * s.lines()));
    if (s.copied[number])
      row = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row,
                                    b.CreateSub(limit, n32(1)));
    side.lines.push_back(b.CreateMul(wide(row), side.pitch));
  }
  return side;
}

llvm::Value *MmaSyncRecipe::bytesOf(llvm::Value *elements) {
  llvm::Value *some =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, elements, n32(0));
  return b.CreateMul(
      b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, some, n32(s.lanes())),
      n32(s.elementBytes));
}

llvm::Value *MmaSyncRecipe::maskOf(llvm::Value *left) {
  llvm::Value *mask = llvm::PoisonValue::get(words);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned first = i * 4 / s.elementBytes;
    llvm::Value *word = b.CreateSelect(b.CreateICmpSGT(left, n32(first)),
                                       n32(tf32 ? -1 : 0xffff), n32(0));
    if (!tf32)
      word =
          b.CreateSelect(b.CreateICmpSGT(left, n32(first + 1)), n32(-1), word);
    mask = b.CreateInsertElement(mask, word, i);
  }
  return mask;
}

llvm::SmallVector<InFlight> MmaSyncRecipe::begin(llvm::Value *stage,
                                                 llvm::Value *depth) {
  llvm::SmallVector<InFlight> coming;
  for (unsigned number = 0; number < 2; ++number)
    beginSide(number, stage, depth, coming);
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group,
                    llvm::ArrayRef<llvm::Value *>());
  return coming;
}

void MmaSyncRecipe::beginSide(unsigned number, llvm::Value *stage,
                              llvm::Value *depth,
                              llvm::SmallVectorImpl<InFlight> &coming) {
  const MmaSyncOperand &side = sides[number];
  bool transposed = s.transposed[number];
  llvm::Value *first =
      transposed ? b.CreateMul(wide(depth), side.pitch) : wide(depth);
  first = b.CreateAdd(side.start, first);
  llvm::Value *to = b.CreateAdd(stage, plus(chunkAt[number], s.sideAt(number)));
  llvm::Value *left =
      b.CreateSub(k, b.CreateAdd(depth, transposed ? line : inLine));
  for (auto [i, apart] : llvm::enumerate(side.lines)) {
    unsigned at = i * s.lines() * kRowBytes;
    llvm::Value *from = b.CreateAdd(first, apart);
    // Of the access: elements that there are, and whether there is a line.
    llvm::Value *elements = left, *inside;
    if (transposed) {
      inside = b.CreateICmpSGT(left, n32(depthOf(i)));
      elements = b.CreateSub(side.limit,
                             b.CreateAdd(side.from, plus(inLine, boxOf(i))));
    } else {
      inside = b.CreateICmpSLT(
          b.CreateAdd(side.from, plus(line, i * s.lines())), side.limit);
    }
    if (s.copied[number]) {
      llvm::Value *bytes = bytesOf(elements);
      if (transposed)
        bytes = b.CreateSelect(inside, bytes, n32(0));
      llvm::Value *shared = sharedPointer(plus(to, at));
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s,
                        {}, {shared, address(side.buffer, from), bytes});
      continue;
    }
    llvm::Value *mask =
        transposed
            ? b.CreateSelect(inside, llvm::Constant::getAllOnesValue(words),
                             llvm::Constant::getNullValue(words))
            : maskOf(elements);
    inside = b.CreateAnd(inside, b.CreateICmpSGT(elements, n32(0)));
    llvm::Value *before =
        b.CreateUDiv(side.skew, n32(s.elementBytes)); // elements
    llvm::Value *both = b.CreateAnd(
        b.CreateAnd(inside, b.CreateICmpNE(before, n32(0))),
        b.CreateICmpSGT(b.CreateAdd(before, elements), n32(s.lanes())));
    from = b.CreateSelect(inside, from, n64(0));
    coming.push_back({fetchAround(side.buffer, from, both), mask, number, at});
  }
}

void MmaSyncRecipe::finish(llvm::Value *stage,
                           llvm::ArrayRef<InFlight> coming) {
  for (const InFlight &c : coming) {
    const MmaSyncOperand &side = sides[c.side];
    llvm::Value *value = pickFrom(side.buffer, c.around, side.skew, words);
    llvm::Value *to =
        b.CreateAdd(stage, plus(chunkAt[c.side], s.sideAt(c.side) + c.at));
    b.CreateAlignedStore(b.CreateAnd(value, c.mask), sharedPointer(to),
                         llvm::Align(kAccess));
  }
}

} // namespace knapper::lower
