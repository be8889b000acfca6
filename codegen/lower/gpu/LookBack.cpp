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

// One warp reads all words of a line that it waits for at once: those of the
// programs of its group, some a lane, and what all groups before make, which
// the last program of the group before has left. Of a tile the warps take the
// lanes' lines in turns.
LogicalResult GpuLowering::lookBack(tile::LookBackOp op) {
  if (programs > 1 || threads < kWarp)
    return op.emitOpError("takes programs that are blocks");
  auto state = buffer(op.getState());
  if (failed(state))
    return failure();
  constexpr unsigned group = tile::LookBackOp::kGroup, each = group / kWarp;
  vector::CombiningKind kind = op.getKind();
  Parts values = parts(op.getValue());
  bool isTile = isa<VectorType>(op.getValue().getType());
  if (isTile && (width > 1 || values.size() > 1))
    return op.emitOpError("takes tiles of an element a thread");
  uint64_t lines = isTile ? *op.getLanes() : 1;
  llvm::Value *own =
      isTile ? b.CreateExtractElement(values[0], uint64_t(0)) : values[0];
  llvm::Type *type = own->getType();
  FlaggedWords words{b, type,
                     module.getContext().getOrInsertSyncScopeID("device")};
  llvm::Value *number = scalar(op.getNumber()), *count = scalar(op.getCount());
  // Words of a line: of its programs and their groups.
  llvm::Value *ofLine = b.CreateAdd(
      count, b.CreateAdd(b.CreateLShr(count, uint64_t(llvm::Log2_32(group))),
                         b.getInt64(1)));
  auto place = [&](llvm::Value *line, llvm::Value *index) {
    index = b.CreateAdd(index, b.CreateMul(line, ofLine));
    return address(*state,
                   b.CreateAdd(scalar(op.getOffset()),
                               b.CreateMul(index, b.getInt64(words.count))));
  };
  auto join = [&](llvm::Value *x, llvm::Value *y) {
    return combine(kind, arith::FastMathFlags::none, x, y);
  };
  llvm::Value *shared =
      sharedArray(type, lines, "_before" + llvm::Twine(exchanges++));
  llvm::Align align(words.bits / 8);
  auto slot = [&](llvm::Value *line) {
    return b.CreateInBoundsGEP(type, shared, line);
  };
  // Nobody waits for what is published only behind a wait of its own.
  when(b.CreateICmpULT(thread, b.getInt64(lines)), [&] {
    words.publish(place(thread, number), own);
    if (isTile)
      b.CreateAlignedStore(own, slot(thread), align);
  });
  if (isTile)
    barrier();
  llvm::Value *lane = b.CreateAnd(thread, b.getInt64(kWarp - 1));
  llvm::Value *isFirst = b.CreateICmpEQ(lane, b.getInt64(0));
  auto look = [&](llvm::Value *line) {
    llvm::Value *ownOfLine =
        isTile ? b.CreateAlignedLoad(type, slot(line), align) : own;
    llvm::Value *inGroup = b.CreateAnd(number, b.getInt64(group - 1));
    llvm::Value *begin = b.CreateSub(number, inGroup);
    llvm::Value *groupNumber =
        b.CreateLShr(number, uint64_t(llvm::Log2_32(group)));
    llvm::Value *isFirstGroup = b.CreateICmpEQ(groupNumber, b.getInt64(0));
    llvm::Value *none = neutral(kind, type);
    auto placeOfGroup = [&](llvm::Value *index) {
      return place(line, b.CreateAdd(count, index));
    };
    SmallVector<llvm::Value *> counts, from;
    for (unsigned i = 0; i < each; ++i) {
      llvm::Value *k =
          b.CreateAdd(b.CreateMul(lane, b.getInt64(each)), b.getInt64(i));
      counts.push_back(b.CreateICmpULT(k, inGroup));
      // Of others its own, which is there.
      from.push_back(place(
          line, b.CreateAdd(begin, b.CreateBinaryIntrinsic(
                                       llvm::Intrinsic::umin, k, inGroup))));
    }
    llvm::Value *fromGroup = placeOfGroup(groupNumber);
    llvm::BasicBlock *wait = newBlock("wait"), *there = newBlock("there");
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
      llvm::Value *one =
          b.CreateSelect(counts[i], words.valueOf(read[i]), none);
      before = before ? join(before, one) : one;
    }
    for (unsigned distance = kWarp / 2; distance; distance /= 2)
      before = join(before, shuffle(before, distance));
    before = join(b.CreateSelect(isFirstGroup, none, words.valueOf(readGroup)),
                  before);
    when(isFirst, [&] {
      when(b.CreateICmpEQ(inGroup, b.getInt64(group - 1)), [&] {
        words.publish(placeOfGroup(b.CreateAdd(groupNumber, b.getInt64(1))),
                      join(before, ownOfLine));
      });
      b.CreateAlignedStore(before, slot(line), align);
    });
  };
  llvm::Value *warp = b.CreateLShr(thread, uint64_t(llvm::Log2_32(kWarp)));
  if (isTile)
    carriedLoop(
        b, "line", {warp},
        [&](const Carried &c) {
          return b.CreateICmpULT(c[0], b.getInt64(lines));
        },
        [&](const Carried &c) -> Carried {
          look(c[0]);
          return {b.CreateAdd(c[0], b.getInt64(threads / kWarp))};
        });
  else
    when(b.CreateICmpEQ(warp, b.getInt64(0)), [&] { look(b.getInt64(0)); });
  barrier();
  if (!isTile) {
    set(op.getBefore(), {b.CreateAlignedLoad(type, shared, align)});
    return success();
  }
  llvm::Value *mine = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, thread,
                                              b.getInt64(lines - 1));
  set(op.getBefore(),
      {b.CreateInsertElement(llvm::PoisonValue::get(values[0]->getType()),
                             b.CreateAlignedLoad(type, slot(mine), align),
                             uint64_t(0))});
  return success();
}

} // namespace knapper::lower
