// Programs of a grid that wait for what those before them made, through words
// in global memory: the upper half of a word says that the lower half is there,
// so that one access brings both and nothing else has to be ordered.
#include "codegen/lower/gpu/GpuLowering.h"

#include "codegen/lower/common/CarriedLoop.h"

using namespace mlir;

namespace knapper::lower {

static constexpr unsigned kWarp = 32;

LogicalResult GpuLowering::ticket(tile::TicketOp op) {
  if (programs > 1 || threads < kWarp)
    return op.emitOpError("takes programs that are blocks");
  auto state = buffer(op.getState());
  if (failed(state))
    return failure();
  llvm::Value *number =
      sharedArray(b.getInt64Ty(), 1, "_ticket" + llvm::Twine(exchanges++));
  when(b.CreateICmpEQ(thread, b.getInt64(0)), [&] {
    llvm::Value *taken = b.CreateAtomicRMW(
        llvm::AtomicRMWInst::Add, address(*state, scalar(op.getOffset())),
        b.getInt64(1), llvm::Align(8), llvm::AtomicOrdering::Monotonic,
        module.getContext().getOrInsertSyncScopeID("device"));
    b.CreateAlignedStore(taken, number, llvm::Align(8));
  });
  barrier();
  set(op.getNumber(),
      {b.CreateAlignedLoad(b.getInt64Ty(), number, llvm::Align(8))});
  return success();
}

namespace {

/// Values as flagged words.
struct FlaggedWords {
  llvm::IRBuilder<> &b;
  llvm::Type *type; // of a value
  llvm::SyncScope::ID device;
  unsigned bits = type->getPrimitiveSizeInBits();
  unsigned count = bits > 32 ? 2 : 1; // words of a value

  void publish(llvm::Value *pointer, llvm::Value *value) {
    value =
        b.CreateZExt(b.CreateBitCast(value, b.getIntNTy(bits)), b.getInt64Ty());
    for (unsigned i = 0; i < count; ++i) {
      llvm::Value *half = b.CreateAnd(b.CreateLShr(value, uint64_t(32 * i)),
                                      b.getInt64(0xffffffff));
      auto *store = b.CreateAlignedStore(
          b.CreateOr(half, b.getInt64(uint64_t(1) << 32)),
          b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), pointer, i),
          llvm::Align(8));
      store->setAtomic(llvm::AtomicOrdering::Monotonic, device);
    }
  }
  llvm::SmallVector<llvm::Value *, 2> read(llvm::Value *pointer) {
    llvm::SmallVector<llvm::Value *, 2> words;
    for (unsigned i = 0; i < count; ++i) {
      auto *load = b.CreateAlignedLoad(
          b.getInt64Ty(),
          b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), pointer, i),
          llvm::Align(8));
      load->setAtomic(llvm::AtomicOrdering::Monotonic, device);
      words.push_back(load);
    }
    return words;
  }
  llvm::Value *isThere(llvm::ArrayRef<llvm::Value *> words) {
    llvm::Value *all = words.front();
    for (llvm::Value *word : words.drop_front())
      all = b.CreateAnd(all, word);
    return b.CreateICmpNE(b.CreateLShr(all, uint64_t(32)), b.getInt64(0));
  }
  llvm::Value *valueOf(llvm::ArrayRef<llvm::Value *> words) {
    llvm::Value *value = b.CreateAnd(words[0], b.getInt64(0xffffffff));
    if (count > 1)
      value = b.CreateOr(value, b.CreateShl(words[1], uint64_t(32)));
    return b.CreateBitCast(b.CreateTrunc(value, b.getIntNTy(bits)), type);
  }
};

} // namespace

/// One warp reads all words of a line that it waits for at once: those of the
/// programs of its group, some a lane, and what all groups before make, which
/// the last program of the group before has left. Of a tile the warps take the
/// lanes' lines in turns.
struct GpuLowering::LookBack {
  static constexpr unsigned group = tile::LookBackOp::kGroup,
                            each = group / kWarp;
  GpuLowering &lower;
  llvm::IRBuilder<> &b;
  tile::LookBackOp op;
  BufferRef state;
  bool isTile;
  uint64_t lines;
  llvm::Value *own; ///< what the thread's program makes
  llvm::Type *type;
  FlaggedWords words;
  llvm::Value *number, *count; ///< of the program, of all
  llvm::Value *ofLine;         ///< words: of its programs and their groups
  llvm::Value *shared = nullptr;
  llvm::Align align;

  LookBack(GpuLowering &lower, tile::LookBackOp op, const BufferRef &state)
      : lower(lower), b(lower.b), op(op), state(state),
        isTile(isa<VectorType>(op.getValue().getType())),
        lines(isTile ? *op.getLanes() : 1), own(firstOf(op.getValue())),
        type(own->getType()),
        words{b, type,
              lower.module.getContext().getOrInsertSyncScopeID("device")},
        number(lower.scalar(op.getNumber())),
        count(lower.scalar(op.getCount())),
        ofLine(b.CreateAdd(
            count,
            b.CreateAdd(b.CreateLShr(count, uint64_t(llvm::Log2_32(group))),
                        b.getInt64(1)))),
        align(words.bits / 8) {}

  llvm::Value *firstOf(Value value) {
    llvm::Value *part = lower.parts(value)[0];
    return isTile ? b.CreateExtractElement(part, uint64_t(0)) : part;
  }
  llvm::Value *place(llvm::Value *line, llvm::Value *index) {
    index = b.CreateAdd(index, b.CreateMul(line, ofLine));
    return lower.address(
        state, b.CreateAdd(lower.scalar(op.getOffset()),
                           b.CreateMul(index, b.getInt64(words.count))));
  }
  llvm::Value *placeOfGroup(llvm::Value *line, llvm::Value *index) {
    return place(line, b.CreateAdd(count, index));
  }
  llvm::Value *join(llvm::Value *x, llvm::Value *y) {
    return lower.combine(op.getKind(), arith::FastMathFlags::none, x, y);
  }
  llvm::Value *slot(llvm::Value *line) {
    return b.CreateInBoundsGEP(type, shared, line);
  }

  void publishOwn();
  llvm::Value *waitFor(llvm::Value *line, llvm::Value *inGroup,
                       llvm::Value *begin, llvm::Value *groupNumber);
  void look(llvm::Value *line);
  void lookAtLines();
  llvm::Value *before();

  llvm::Value *lane = nullptr, *isFirst = nullptr; ///< in the warp
};

/// Nobody waits for what is published only behind a wait of its own.
void GpuLowering::LookBack::publishOwn() {
  shared = lower.sharedArray(type, lines,
                             "_before" + llvm::Twine(lower.exchanges++));
  lower.when(b.CreateICmpULT(lower.thread, b.getInt64(lines)), [&] {
    words.publish(place(lower.thread, number), own);
    if (isTile)
      b.CreateAlignedStore(own, slot(lower.thread), align);
  });
  if (isTile)
    lower.barrier();
}

/// Waits until all that `line` needs is there: of the group that begins at
/// program `begin` the `inGroup` before this one. Returns what all programs
/// before make, in the warp's first lane.
llvm::Value *GpuLowering::LookBack::waitFor(llvm::Value *line,
                                            llvm::Value *inGroup,
                                            llvm::Value *begin,
                                            llvm::Value *groupNumber) {
  llvm::Value *isFirstGroup = b.CreateICmpEQ(groupNumber, b.getInt64(0));
  llvm::Value *none = neutral(op.getKind(), type);
  SmallVector<llvm::Value *> counts, from;
  for (unsigned i = 0; i < each; ++i) {
    llvm::Value *k =
        b.CreateAdd(b.CreateMul(lane, b.getInt64(each)), b.getInt64(i));
    counts.push_back(b.CreateICmpULT(k, inGroup));
    // Of others its own, which is there.
    from.push_back(place(
        line, b.CreateAdd(begin, b.CreateBinaryIntrinsic(llvm::Intrinsic::umin,
                                                         k, inGroup))));
  }
  llvm::Value *fromGroup = placeOfGroup(line, groupNumber);
  llvm::BasicBlock *wait = lower.newBlock("wait"),
                   *there = lower.newBlock("there");
  b.CreateBr(wait);
  b.SetInsertPoint(wait);
  SmallVector<SmallVector<llvm::Value *, 2>> read;
  for (llvm::Value *pointer : from)
    read.push_back(words.read(pointer));
  SmallVector<llvm::Value *, 2> readGroup = words.read(fromGroup);
  llvm::Value *all = b.CreateOr(isFirstGroup, words.isThere(readGroup));
  for (unsigned i = 0; i < each; ++i)
    all = b.CreateAnd(
        all, b.CreateOr(b.CreateNot(counts[i]), words.isThere(read[i])));
  b.CreateCondBr(all, there, wait);
  b.SetInsertPoint(there);
  llvm::Value *before = nullptr;
  for (unsigned i = 0; i < each; ++i) {
    llvm::Value *one = b.CreateSelect(counts[i], words.valueOf(read[i]), none);
    before = before ? join(before, one) : one;
  }
  for (unsigned distance = kWarp / 2; distance; distance /= 2)
    before = join(before, lower.shuffle(before, distance));
  return join(b.CreateSelect(isFirstGroup, none, words.valueOf(readGroup)),
              before);
}

void GpuLowering::LookBack::look(llvm::Value *line) {
  llvm::Value *ownOfLine =
      isTile ? b.CreateAlignedLoad(type, slot(line), align) : own;
  llvm::Value *inGroup = b.CreateAnd(number, b.getInt64(group - 1));
  llvm::Value *begin = b.CreateSub(number, inGroup);
  llvm::Value *groupNumber =
      b.CreateLShr(number, uint64_t(llvm::Log2_32(group)));
  llvm::Value *before = waitFor(line, inGroup, begin, groupNumber);
  lower.when(isFirst, [&] {
    lower.when(b.CreateICmpEQ(inGroup, b.getInt64(group - 1)), [&] {
      words.publish(placeOfGroup(line, b.CreateAdd(groupNumber, b.getInt64(1))),
                    join(before, ownOfLine));
    });
    b.CreateAlignedStore(before, slot(line), align);
  });
}

void GpuLowering::LookBack::lookAtLines() {
  lane = b.CreateAnd(lower.thread, b.getInt64(kWarp - 1));
  isFirst = b.CreateICmpEQ(lane, b.getInt64(0));
  llvm::Value *warp =
      b.CreateLShr(lower.thread, uint64_t(llvm::Log2_32(kWarp)));
  if (isTile)
    carriedLoop(
        b, "line", {warp},
        [&](const Carried &c) {
          return b.CreateICmpULT(c[0], b.getInt64(lines));
        },
        [&](const Carried &c) -> Carried {
          look(c[0]);
          return {b.CreateAdd(c[0], b.getInt64(lower.threads / kWarp))};
        });
  else
    lower.when(b.CreateICmpEQ(warp, b.getInt64(0)),
               [&] { look(b.getInt64(0)); });
  lower.barrier();
}

/// What all programs before make, of the thread's line.
llvm::Value *GpuLowering::LookBack::before() {
  if (!isTile)
    return b.CreateAlignedLoad(type, shared, align);
  llvm::Value *mine = b.CreateBinaryIntrinsic(
      llvm::Intrinsic::umin, lower.thread, b.getInt64(lines - 1));
  return b.CreateInsertElement(
      llvm::PoisonValue::get(lower.parts(op.getValue())[0]->getType()),
      b.CreateAlignedLoad(type, slot(mine), align), uint64_t(0));
}

LogicalResult GpuLowering::lookBack(tile::LookBackOp op) {
  if (programs > 1 || threads < kWarp)
    return op.emitOpError("takes programs that are blocks");
  auto state = buffer(op.getState());
  if (failed(state))
    return failure();
  if (isa<VectorType>(op.getValue().getType()) &&
      (width > 1 || parts(op.getValue()).size() > 1))
    return op.emitOpError("takes tiles of an element a thread");
  LookBack steps(*this, op, *state);
  steps.publishOwn();
  steps.lookAtLines();
  set(op.getBefore(), {steps.before()});
  return success();
}

} // namespace knapper::lower
