// Accesses to memory on CPUs: ragged edges, gathers and scatters.
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include <numeric>

using namespace mlir;

namespace knapper::lower {

//===-- Runs of elements --------------------------------------------------===//

// LLVM loads a constant mask into its register at every use.
llvm::Value *CpuLowering::keptInRegister(llvm::Value *number) {
  llvm::Value *&kept = numbersKept[number];
  if (!kept) {
    llvm::IRBuilder<> atEntry(entry, entry->begin());
    auto *type = llvm::FunctionType::get(number->getType(), {number->getType()},
                                         /*isVarArg=*/false);
    kept = atEntry.CreateCall(
        type, llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false),
        {number});
  }
  return kept;
}

llvm::Value *CpuLowering::firstLanes(llvm::Value *valid, unsigned lanes,
                                     unsigned bytes) {
  constexpr unsigned few = 8;
  if (auto *number = llvm::dyn_cast<llvm::ConstantInt>(valid);
      number && target.maskedAccess && lanes <= few &&
      number->getSExtValue() > 1 && number->getSExtValue() < lanes)
    valid = keptInRegister(valid);
  llvm::Value *count = b.CreateBinaryIntrinsic(
      llvm::Intrinsic::smin,
      b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, valid, b.getInt64(0)),
      b.getInt64(lanes));
  // Compare at the width of the elements, so that the mask needs no widening.
  llvm::Type *type = bytes == 8 ? b.getInt64Ty() : b.getInt32Ty();
  if (target.maskedAccess && bytes < 4 && lanes <= 64)
    type = b.getIntNTy(bytes * 8);
  return b.CreateICmpULT(step(lanes, type),
                         splat(b.CreateTrunc(count, type), lanes));
}

/// How many lanes to move for the first `valid` of a part: a narrower register
/// crosses fewer lines, and needs no mask where it is full. 0: all.
static unsigned narrowLanes(llvm::Value *valid, unsigned lanes,
                            unsigned bytes) {
  auto *number = llvm::dyn_cast<llvm::ConstantInt>(valid);
  if (!number || number->getSExtValue() <= 0 || number->getSExtValue() >= lanes)
    return 0;
  constexpr unsigned leastBytes = 16;
  unsigned width = std::max<unsigned>(
      llvm::PowerOf2Ceil(number->getZExtValue()), leastBytes / bytes);
  return width < lanes ? width : 0;
}

llvm::Value *CpuLowering::edgeBuffer(uint64_t bytes) {
  if (edgeBytes < bytes) {
    llvm::IRBuilder<> atEntry(entry, entry->begin());
    edge = atEntry.CreateAlloca(
        llvm::ArrayType::get(atEntry.getInt8Ty(), bytes), nullptr, "edge");
    cast<llvm::AllocaInst>(edge)->setAlignment(llvm::Align(64));
    edgeBytes = bytes;
  }
  return edge;
}

// for (i = 0; i < count; ++i) body(i), with count known to be positive or not.
template <typename Body>
static void countedLoop(llvm::IRBuilder<> &b, llvm::Function *fn,
                        llvm::Value *count, Body body) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *loop = llvm::BasicBlock::Create(b.getContext(), "edge", fn);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "edge.end", fn);
  b.CreateCondBr(b.CreateICmpSGT(count, b.getInt64(0)), loop, after);
  b.SetInsertPoint(loop);
  llvm::PHINode *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), before);
  body(i);
  llvm::Value *next = b.CreateNSWAdd(i, b.getInt64(1));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, count), loop, after);
  b.SetInsertPoint(after);
}

llvm::Value *CpuLowering::loadPart(const BufferRef &ref, llvm::Value *offset,
                                   llvm::Type *type, llvm::Align align,
                                   llvm::Value *valid, llvm::Value *pad) {
  llvm::Value *pointer = address(ref, offset);
  if (!valid)
    return tag(b.CreateAlignedLoad(type, pointer, align), ref);
  unsigned lanes = cast<llvm::FixedVectorType>(type)->getNumElements();
  llvm::Value *padding = pad ? splat(toMemory(pad, ref), lanes)
                             : llvm::Constant::getNullValue(type);
  if (unsigned narrow = narrowLanes(valid, lanes, ref.bytes)) {
    bool isFull = llvm::cast<llvm::ConstantInt>(valid)->equalsInt(narrow);
    auto *narrowType = llvm::FixedVectorType::get(ref.memory, narrow);
    llvm::Value *part =
        loadPart(ref, offset, narrowType, align, isFull ? nullptr : valid, pad);
    llvm::Value *rest = pad ? splat(toMemory(pad, ref), narrow)
                            : llvm::Constant::getNullValue(narrowType);
    llvm::SmallVector<int> order(lanes, narrow);
    std::iota(order.begin(), order.begin() + narrow, 0);
    return b.CreateShuffleVector(part, rest, order);
  }
  if (target.maskedAccess || ref.bytes >= 4)
    return tag(b.CreateMaskedLoad(type, pointer, align,
                                  firstLanes(valid, lanes, ref.bytes), padding),
               ref);
  // No masks for small elements: whole runs at once, others one by one.
  llvm::Value *memory = edgeBuffer(lanes * ref.bytes);
  llvm::BasicBlock *whole = newBlock("whole");
  llvm::BasicBlock *ragged = newBlock("ragged");
  llvm::BasicBlock *after = newBlock("loaded");
  b.CreateCondBr(b.CreateICmpSGE(valid, b.getInt64(lanes)), whole, ragged);
  b.SetInsertPoint(whole);
  llvm::Value *fast = tag(b.CreateAlignedLoad(type, pointer, align), ref);
  b.CreateBr(after);
  b.SetInsertPoint(ragged);
  b.CreateAlignedStore(padding, memory, llvm::Align(64));
  countedLoop(b, fn, valid, [&](llvm::Value *i) {
    llvm::Value *element =
        tag(b.CreateAlignedLoad(ref.memory, b.CreateGEP(ref.memory, pointer, i),
                                llvm::Align(ref.bytes)),
            ref);
    b.CreateAlignedStore(element, b.CreateGEP(ref.memory, memory, i),
                         llvm::Align(ref.bytes));
  });
  llvm::Value *slow = b.CreateAlignedLoad(type, memory, llvm::Align(64));
  llvm::BasicBlock *slowEnd = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode *phi = b.CreatePHI(type, 2);
  phi->addIncoming(fast, whole);
  phi->addIncoming(slow, slowEnd);
  return phi;
}

void CpuLowering::storePart(const BufferRef &ref, llvm::Value *offset,
                            llvm::Value *value, llvm::Align align,
                            llvm::Value *valid, bool nontemporal) {
  llvm::Value *pointer = address(ref, offset);
  auto plainStore = [&](llvm::Align align) {
    return tag(b.CreateAlignedStore(value, pointer, align), ref);
  };
  auto wholeStore = [&] {
    uint64_t bytes = module.getDataLayout().getTypeStoreSize(value->getType());
    if (!nontemporal || bytes < 16) {
      plainStore(align);
      return;
    }
    auto streamed = [&](llvm::Value *part, uint64_t at, llvm::Align align) {
      tag(b.CreateAlignedStore(
              part, b.CreateConstGEP1_64(b.getInt8Ty(), pointer, at), align),
          ref)
          ->setMetadata(
              llvm::LLVMContext::MD_nontemporal,
              llvm::MDNode::get(module.getContext(),
                                llvm::ConstantAsMetadata::get(b.getInt32(1))));
    };
    nontemporalUsed = true;
    llvm::Align needed(std::min<uint64_t>(bytes, target.vectorBytes));
    if (align >= needed)
      return streamed(value, 0, align);
    // LLVM takes an unaligned non-temporal store apart into scalars, so the
    // address is looked at where its alignment is not known. Buffers of common
    // allocators are aligned by 16: pieces of that size still leave the caches
    // alone, the processor combines neighbouring ones.
    llvm::BasicBlock *after = newBlock("stored");
    auto ifAligned = [&](llvm::Align by, llvm::function_ref<void()> then) {
      llvm::BasicBlock *aligned = newBlock("aligned");
      llvm::BasicBlock *unaligned = newBlock("unaligned");
      llvm::Value *low = b.CreateAnd(b.CreatePtrToInt(pointer, b.getInt64Ty()),
                                     b.getInt64(by.value() - 1));
      b.CreateCondBr(b.CreateICmpEQ(low, b.getInt64(0)), aligned, unaligned);
      b.SetInsertPoint(aligned);
      then();
      b.CreateBr(after);
      b.SetInsertPoint(unaligned);
    };
    ifAligned(needed, [&] { streamed(value, 0, needed); });
    constexpr unsigned pieceBytes = 16;
    unsigned pieceLanes = pieceBytes / ref.bytes;
    if (needed.value() > pieceBytes && bytes % pieceBytes == 0)
      ifAligned(llvm::Align(pieceBytes), [&] {
        for (unsigned at = 0; at < bytes; at += pieceBytes) {
          auto lanes = llvm::to_vector(
              llvm::seq<int>(at / ref.bytes, at / ref.bytes + pieceLanes));
          streamed(b.CreateShuffleVector(value, lanes), at,
                   llvm::Align(pieceBytes));
        }
      });
    plainStore(align);
    b.CreateBr(after);
    b.SetInsertPoint(after);
  };
  if (!valid)
    return wholeStore();
  unsigned lanes =
      cast<llvm::FixedVectorType>(value->getType())->getNumElements();
  if (unsigned narrow = narrowLanes(valid, lanes, ref.bytes)) {
    bool isFull = llvm::cast<llvm::ConstantInt>(valid)->equalsInt(narrow);
    value = b.CreateShuffleVector(value,
                                  llvm::to_vector(llvm::seq<int>(0, narrow)));
    return storePart(ref, offset, value, align, isFull ? nullptr : valid,
                     /*nontemporal=*/false);
  }
  auto maskedStore = [&] {
    tag(b.CreateMaskedStore(value, pointer, align,
                            firstLanes(valid, lanes, ref.bytes)),
        ref);
  };
  if (target.maskedAccess)
    return maskedStore();
  llvm::BasicBlock *whole = newBlock("whole");
  llvm::BasicBlock *ragged = newBlock("ragged");
  llvm::BasicBlock *after = newBlock("stored");
  b.CreateCondBr(b.CreateICmpSGE(valid, b.getInt64(lanes)), whole, ragged);
  b.SetInsertPoint(whole);
  wholeStore();
  b.CreateBr(after);
  b.SetInsertPoint(ragged);
  if (ref.bytes >= 4) {
    maskedStore();
  } else {
    llvm::Value *memory = edgeBuffer(lanes * ref.bytes);
    b.CreateAlignedStore(value, memory, llvm::Align(64));
    countedLoop(b, fn, valid, [&](llvm::Value *i) {
      llvm::Value *element =
          b.CreateAlignedLoad(ref.memory, b.CreateGEP(ref.memory, memory, i),
                              llvm::Align(ref.bytes));
      tag(b.CreateAlignedStore(element, b.CreateGEP(ref.memory, pointer, i),
                               llvm::Align(ref.bytes)),
          ref);
    });
  }
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

LogicalResult CpuLowering::load(tile::LoadOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  Parts result;
  unsigned lane = 0;
  bool truth = op.getBuffer().getType().getElementType().isInteger(1);
  for (llvm::Type *type : partTypes(op.getType())) {
    llvm::Value *first = b.getInt64(lane);
    llvm::Value *part = loadPart(
        *ref, b.CreateAdd(scalar(op.getOffset()), first),
        truth ? withElement(type, ref->memory) : type,
        partAlign(op.getAlignment(), ref->bytes, lane),
        op.getValid() ? b.CreateSub(scalar(op.getValid()), first) : nullptr,
        op.getPad() ? scalar(op.getPad()) : nullptr);
    result.push_back(truth ? fromMemory(part) : part);
    lane += laneCount(type);
  }
  set(op.getResult(), result);
  return success();
}

bool CpuLowering::isReversedRun(tile::LoadStridedOp op) {
  if (getConstantIntValue(op.getStride()) != -1)
    return false;
  return !op.getValid() || (target.maskedAccess &&
                            op.getBuffer().getType().getElementBytes() >= 4);
}

LogicalResult CpuLowering::loadReversed(tile::LoadStridedOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  Parts result;
  unsigned lane = 0;
  bool truth = op.getBuffer().getType().getElementType().isInteger(1);
  for (llvm::Type *type : partTypes(op.getType())) {
    unsigned lanes = laneCount(type);
    llvm::Type *stored = truth ? withElement(type, ref->memory) : type;
    llvm::Value *first =
        b.CreateSub(scalar(op.getOffset()), b.getInt64(lane + lanes - 1));
    llvm::Align align(ref->bytes);
    llvm::SmallVector<int> order(lanes);
    std::iota(order.rbegin(), order.rend(), 0);
    auto reversed = [&](llvm::Value *part) {
      return lanes == 1 ? part : b.CreateShuffleVector(part, order);
    };
    llvm::Value *part = nullptr;
    if (op.getValid()) {
      llvm::Value *take =
          firstLanes(b.CreateSub(scalar(op.getValid()), b.getInt64(lane)),
                     lanes, ref->bytes);
      llvm::Value *padding =
          op.getPad() ? splat(toMemory(scalar(op.getPad()), *ref), lanes)
                      : llvm::Constant::getNullValue(stored);
      // The run may begin in front of the buffer, where no lane is read.
      part = tag(b.CreateMaskedLoad(
                     stored, b.CreateGEP(ref->memory, ref->pointer, first),
                     align, reversed(take), padding),
                 *ref);
    } else {
      part = loadPart(*ref, first, stored, align, nullptr, nullptr);
    }
    part = reversed(part);
    result.push_back(truth ? fromMemory(part) : part);
    lane += lanes;
  }
  set(op.getResult(), result);
  return success();
}

bool CpuLowering::isInterleaved(tile::LoadStridedOp op) {
  constexpr int64_t least = 2, most = 4, fewestLanes = 4;
  std::optional<int64_t> stride = getConstantIntValue(op.getStride());
  return stride && *stride >= least && *stride <= most &&
         laneCount(partTypes(op.getType()).front()) >= fewestLanes &&
         (!op.getValid() || target.maskedAccess ||
          op.getBuffer().getType().getElementBytes() >= 4);
}

LogicalResult CpuLowering::loadInterleaved(tile::LoadStridedOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  auto stride = static_cast<int>(*getConstantIntValue(op.getStride()));
  bool truth = op.getBuffer().getType().getElementType().isInteger(1);
  llvm::Value *pad = op.getPad() ? scalar(op.getPad()) : nullptr;
  Parts result;
  int lane = 0;
  for (llvm::Type *type : partTypes(op.getType())) {
    auto lanes = static_cast<int>(laneCount(type));
    llvm::Type *stored = truth ? withElement(type, ref->memory) : type;
    // Elements from the part's first lane to its last valid one.
    llvm::Value *count = nullptr;
    if (op.getValid())
      count = b.CreateAdd(
          b.CreateMul(b.CreateSub(scalar(op.getValid()), b.getInt64(lane + 1)),
                      b.getInt64(stride)),
          b.getInt64(1));
    llvm::Value *part = llvm::PoisonValue::get(stored);
    for (int run = 0; run < stride; ++run) {
      // The last one ends with the last lane: nothing behind it is read.
      int begin = run + 1 < stride ? run * lanes : (lanes - 1) * (stride - 1);
      llvm::Value *loaded = loadPart(
          *ref,
          b.CreateAdd(scalar(op.getOffset()),
                      b.getInt64(lane * stride + begin)),
          stored, llvm::Align(ref->bytes),
          count ? b.CreateSub(count, b.getInt64(begin)) : nullptr, pad);
      llvm::SmallVector<int> order(lanes);
      for (int i = 0; i < lanes; ++i)
        order[i] = i * stride / lanes == run ? lanes + i * stride - begin : i;
      part = b.CreateShuffleVector(part, loaded, order);
    }
    result.push_back(truth ? fromMemory(part) : part);
    lane += lanes;
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult CpuLowering::store(tile::StoreOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  unsigned lane = 0;
  Parts stored;
  for (llvm::Value *part : parts(op.getValue())) {
    auto found = registersOf.find(part);
    if (found == registersOf.end() || op.getValid() || op.getNontemporal())
      stored.push_back(part);
    else
      stored.append(found->second);
  }
  for (llvm::Value *part : stored) {
    llvm::Value *first = b.getInt64(lane);
    storePart(
        *ref, b.CreateAdd(scalar(op.getOffset()), first), toMemory(part, *ref),
        partAlign(op.getAlignment(), ref->bytes, lane),
        op.getValid() ? b.CreateSub(scalar(op.getValid()), first) : nullptr,
        op.getNontemporal());
    lane += laneCount(part->getType());
  }
  return success();
}

//===-- One offset a lane -------------------------------------------------===//

/// One lane of a vector of offsets. Sums and products of what all lanes share
/// and of constants are scalars that an address can take in.
static llvm::Value *laneOf(llvm::IRBuilderBase &b, llvm::Value *vector,
                           unsigned lane) {
  if (llvm::Value *shared = llvm::getSplatValue(vector))
    return shared;
  if (auto *constant = dyn_cast<llvm::Constant>(vector))
    if (llvm::Constant *element = constant->getAggregateElement(lane))
      return element;
  auto *sum = dyn_cast<llvm::BinaryOperator>(vector);
  if (!sum || (sum->getOpcode() != llvm::Instruction::Add &&
               sum->getOpcode() != llvm::Instruction::Mul))
    return b.CreateExtractElement(vector, lane);
  llvm::Value *left = laneOf(b, sum->getOperand(0), lane);
  llvm::Value *right = laneOf(b, sum->getOperand(1), lane);
  return b.CreateBinOp(sum->getOpcode(), left, right);
}

/// From one lane to the next, where that is a number.
static std::optional<int64_t> laneStep(llvm::Value *vector) {
  if (llvm::getSplatValue(vector))
    return 0;
  if (auto *numbers = dyn_cast<llvm::ConstantDataVector>(vector)) {
    auto number = [&](unsigned i) {
      return static_cast<int64_t>(numbers->getElementAsInteger(i));
    };
    int64_t step = number(1) - number(0);
    for (unsigned i = 1; i + 1 < numbers->getNumElements(); ++i)
      if (number(i + 1) - number(i) != step)
        return std::nullopt;
    return step;
  }
  auto *sum = dyn_cast<llvm::BinaryOperator>(vector);
  if (!sum || sum->getOpcode() != llvm::Instruction::Add)
    return std::nullopt;
  std::optional<int64_t> left = laneStep(sum->getOperand(0)),
                         right = laneStep(sum->getOperand(1));
  return left && right ? std::optional(*left + *right) : std::nullopt;
}

LogicalResult CpuLowering::gather(Operation *op, Value bufferValue,
                                  Value result, llvm::Value *offsets,
                                  Value valid, Value mask, Value pad) {
  auto ref = buffer(bufferValue);
  if (failed(ref))
    return failure();
  unsigned lanes = cast<VectorType>(result.getType()).getDimSize(0);
  llvm::Type *type = llvm::FixedVectorType::get(ref->memory, lanes);
  llvm::Value *take = mask ? joined(mask) : nullptr;
  if (valid) {
    llvm::Value *first = firstLanes(scalar(valid), lanes, ref->bytes);
    take = take ? b.CreateAnd(take, first) : first;
  }
  llvm::Value *padding = pad ? splat(toMemory(scalar(pad), *ref), lanes)
                             : llvm::Constant::getNullValue(type);
  llvm::Align align(ref->bytes);
  llvm::Value *value = nullptr, *pointers = nullptr;
  // A run of which some is read.
  bool isRun =
      take && target.maskedAccess && lanes > 1 && laneStep(offsets) == 1;
  // Offsets of lanes left out may be anything.
  if (!isRun && (take || ref->bytes < 4))
    pointers = b.CreateGEP(ref->memory, ref->pointer, offsets);
  if (isRun) {
    llvm::Value *first =
        b.CreateGEP(ref->memory, ref->pointer, laneOf(b, offsets, 0));
    value = tag(b.CreateMaskedLoad(type, first, align, take, padding), *ref);
  } else if (!pointers) {
    // A load each takes two thirds of the instruction's time.
    value = llvm::PoisonValue::get(type);
    for (unsigned i = 0; i < lanes; ++i) {
      llvm::Value *at =
          b.CreateGEP(ref->memory, ref->pointer, laneOf(b, offsets, i));
      value = b.CreateInsertElement(
          value, tag(b.CreateAlignedLoad(ref->memory, at, align), *ref), i);
    }
  } else if (target.maskedAccess && ref->bytes >= 4) {
    value = tag(b.CreateMaskedGather(type, pointers, align, take,
                                     take ? padding : nullptr),
                *ref);
  } else {
    // Lanes left out read the context, which is always there, without a branch.
    if (take)
      pointers = b.CreateSelect(take, pointers, splat(context, lanes));
    value = llvm::PoisonValue::get(type);
    for (unsigned i = 0; i < lanes; ++i) {
      auto *element =
          b.CreateAlignedLoad(ref->memory, b.CreateExtractElement(pointers, i),
                              take ? llvm::Align(1) : align);
      if (!take)
        tag(element, *ref);
      value = b.CreateInsertElement(value, element, i);
    }
    if (take)
      value = b.CreateSelect(take, value, padding);
  }
  if (getElementTypeOrSelf(result.getType()).isInteger(1))
    value = fromMemory(value);
  set(result, split(value, lanes));
  return success();
}

/// Whether two of the offsets are known to follow one another.
static bool haveNeighbours(llvm::ArrayRef<llvm::Value *> offsets) {
  llvm::DenseSet<std::pair<llvm::Value *, int64_t>> seen;
  for (llvm::Value *offset : offsets) {
    int64_t distance = 0;
    for (auto *sum = dyn_cast<llvm::BinaryOperator>(offset);
         sum && sum->getOpcode() == llvm::Instruction::Add;
         sum = dyn_cast<llvm::BinaryOperator>(offset)) {
      auto *number = dyn_cast<llvm::ConstantInt>(sum->getOperand(1));
      if (!number)
        break;
      distance += number->getSExtValue();
      offset = sum->getOperand(0);
    }
    if (auto *number = dyn_cast<llvm::ConstantInt>(offset)) {
      distance += number->getSExtValue();
      offset = nullptr;
    }
    seen.insert({offset, distance});
  }
  return llvm::any_of(seen, [&](const auto &each) {
    return seen.contains({each.first, each.second + 1});
  });
}

LogicalResult CpuLowering::scatter(tile::ScatterOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  llvm::Value *value = toMemory(joined(op.getValue()), *ref);
  unsigned lanes = laneCount(value->getType());
  llvm::Value *take = op.getMask() ? joined(op.getMask()) : nullptr;
  if (op.getValid()) {
    llvm::Value *first = firstLanes(scalar(op.getValid()), lanes, ref->bytes);
    take = take ? b.CreateAnd(take, first) : first;
  }
  if (!take) {
    // Faster than the instruction, which takes three or four cycles an element.
    llvm::SmallVector<llvm::Value *> offsets;
    for (llvm::Value *part : Parts(parts(op.getOffsets())))
      for (unsigned i = 0; i < laneCount(part->getType()); ++i)
        offsets.push_back(laneOf(b, part, i));
    // LLVM compares each store with all others, to merge what lies side by
    // side; volatile ones it leaves as they are. In exchange they stay in
    // order, and no load of a later step moves above them: of few stores the
    // comparison costs less.
    constexpr size_t manyStores = 64;
    bool keep = offsets.size() >= manyStores && !haveNeighbours(offsets);
    for (auto [lane, offset] : llvm::enumerate(offsets)) {
      llvm::Value *to = b.CreateGEP(ref->memory, ref->pointer, offset);
      tag(b.CreateAlignedStore(b.CreateExtractElement(value, lane), to,
                               llvm::Align(ref->bytes), /*isVolatile=*/keep),
          *ref);
    }
    return success();
  }
  llvm::Value *pointers =
      b.CreateGEP(ref->memory, ref->pointer, joined(op.getOffsets()));
  tag(b.CreateMaskedScatter(value, pointers, llvm::Align(ref->bytes), take),
      *ref);
  return success();
}

//===-- Prefetch and status -----------------------------------------------===//

LogicalResult CpuLowering::pageOffset(tile::PageOffsetOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  llvm::Value *pointer =
      b.CreateGEP(ref->memory, ref->pointer, scalar(op.getOffset()));
  constexpr uint64_t withinPage = 4095;
  set(op.getResult(),
      {b.CreateAnd(b.CreatePtrToInt(pointer, b.getInt64Ty()), withinPage)});
  return success();
}

LogicalResult CpuLowering::prefetch(tile::PrefetchOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  llvm::Value *pointer =
      b.CreateGEP(ref->memory, ref->pointer, scalar(op.getOffset()));
  b.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {pointer->getType()},
      {pointer, b.getInt32(0), b.getInt32(op.getLocality()), b.getInt32(1)});
  return success();
}

LogicalResult CpuLowering::setStatus(tile::SetStatusOp op) {
  llvm::BasicBlock *report = newBlock("report");
  llvm::BasicBlock *after = newBlock("reported");
  b.CreateCondBr(scalar(op.getCondition()), report, after);
  b.SetInsertPoint(report);
  llvm::Value *status = b.CreateAlignedLoad(
      context->getType(),
      b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), context, 1), llvm::Align(8));
  b.CreateAlignedStore(b.getInt32(op.getCode()), status, llvm::Align(4));
  b.CreateBr(after);
  b.SetInsertPoint(after);
  return success();
}

} // namespace knapper::lower
