// Accesses to global memory on GPUs.
#include "codegen/lower/Gpu.h"

using namespace mlir;

namespace knapper::lower {

// Buffers are 16-byte aligned, so what divides the offset divides the address.
static llvm::Align accessAlign(std::optional<int64_t> given, unsigned bytes,
                               uint64_t multiple, unsigned width) {
  uint64_t known = std::min<uint64_t>(16, multiple * bytes);
  return partAlign(std::max<int64_t>(given.value_or(bytes), known), bytes,
                   width);
}

void GpuEmitter::when(llvm::Value *condition, llvm::function_ref<void()> body) {
  llvm::BasicBlock *then = newBlock("when");
  llvm::BasicBlock *after = newBlock("after");
  b.CreateCondBr(condition, then, after);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

llvm::Value *GpuEmitter::when(llvm::Value *condition, llvm::Value *otherwise,
                              llvm::function_ref<llvm::Value *()> body) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::Value *value = nullptr;
  llvm::BasicBlock *end = nullptr;
  when(condition, [&] {
    value = body();
    end = b.GetInsertBlock();
  });
  llvm::PHINode *phi = b.CreatePHI(otherwise->getType(), 2);
  phi->addIncoming(value, end);
  phi->addIncoming(otherwise, before);
  return phi;
}

LogicalResult GpuEmitter::load(tile::LoadOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  bool truth = op.getBuffer().getType().getElementType().isInteger(1);
  auto types = partTypes(op.getType());
  bool isTile = isa<VectorType>(op.getType());
  llvm::Align align =
      accessAlign(op.getAlignment(), ref->bytes, knownMultiple(op.getOffset()),
                  isTile ? width : 0);
  llvm::Value *pad = op.getPad() ? toMemory(scalar(op.getPad()), *ref)
                                 : llvm::Constant::getNullValue(ref->memory);
  Parts result;
  for (auto [p, partType] : llvm::enumerate(types)) {
    llvm::Type *type = truth ? withElement(partType, ref->memory) : partType;
    llvm::Value *first = isTile ? firstElement(p) : b.getInt64(0);
    llvm::Value *pointer =
        address(*ref, b.CreateAdd(scalar(op.getOffset()), first));
    auto whole = [&]() -> llvm::Value * {
      return tag(b.CreateAlignedLoad(type, pointer, align), *ref);
    };
    llvm::Value *value = nullptr;
    if (!op.getValid()) {
      value = whole();
    } else {
      llvm::Value *left = b.CreateSub(scalar(op.getValid()), first);
      llvm::Value *padding = splatLike(pad, type);
      value = when(b.CreateICmpSGE(left, b.getInt64(width)), padding, whole);
      // The run that the edge cuts.
      llvm::Value *cut = b.CreateAnd(b.CreateICmpSGT(left, b.getInt64(0)),
                                     b.CreateICmpSLT(left, b.getInt64(width)));
      value = when(cut, value, [&] {
        llvm::Value *lanes = padding;
        for (unsigned j = 0; j < width; ++j) {
          llvm::Value *lane = when(
              b.CreateICmpSGT(left, b.getInt64(j)), pad,
              [&]() -> llvm::Value * {
                return tag(b.CreateAlignedLoad(ref->memory,
                                               b.CreateConstInBoundsGEP1_64(
                                                   ref->memory, pointer, j),
                                               llvm::Align(ref->bytes)),
                           *ref);
              });
          lanes = b.CreateInsertElement(lanes, lane, j);
        }
        return lanes;
      });
    }
    result.push_back(truth ? fromMemory(value) : value);
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult GpuEmitter::store(tile::StoreOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  bool isTile = isa<VectorType>(op.getValue().getType());
  llvm::Align align =
      accessAlign(op.getAlignment(), ref->bytes, knownMultiple(op.getOffset()),
                  isTile ? width : 0);
  if (!isTile) {
    // Every thread holds the scalar; one writes it.
    when(b.CreateICmpEQ(thread, b.getInt64(0)), [&] {
      tag(b.CreateAlignedStore(toMemory(scalar(op.getValue()), *ref),
                               address(*ref, scalar(op.getOffset())), align),
          *ref);
    });
    return success();
  }
  for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue())))) {
    llvm::Value *value = toMemory(part, *ref);
    llvm::Value *first = firstElement(p);
    llvm::Value *pointer =
        address(*ref, b.CreateAdd(scalar(op.getOffset()), first));
    auto whole = [&] {
      tag(b.CreateAlignedStore(value, pointer, align), *ref);
    };
    if (!op.getValid()) {
      whole();
      continue;
    }
    llvm::Value *left = b.CreateSub(scalar(op.getValid()), first);
    when(b.CreateICmpSGE(left, b.getInt64(width)), whole);
    llvm::Value *cut = b.CreateAnd(b.CreateICmpSGT(left, b.getInt64(0)),
                                   b.CreateICmpSLT(left, b.getInt64(width)));
    when(cut, [&] {
      for (unsigned j = 0; j < width; ++j)
        when(b.CreateICmpSGT(left, b.getInt64(j)), [&] {
          tag(b.CreateAlignedStore(
                  b.CreateExtractElement(value, j),
                  b.CreateConstInBoundsGEP1_64(ref->memory, pointer, j),
                  llvm::Align(ref->bytes)),
              *ref);
        });
    });
  }
  return success();
}

LogicalResult GpuEmitter::gather(Value bufferValue, Value result,
                                 llvm::ArrayRef<llvm::Value *> offsets,
                                 Value valid, Value mask, Value pad) {
  auto ref = buffer(bufferValue);
  if (failed(ref))
    return failure();
  bool truth = getElementTypeOrSelf(result.getType()).isInteger(1);
  llvm::Value *padding = pad ? toMemory(scalar(pad), *ref)
                             : llvm::Constant::getNullValue(ref->memory);
  Parts values;
  for (auto [p, lanes] : llvm::enumerate(offsets)) {
    llvm::Value *take = mask ? parts(mask)[p] : nullptr;
    if (valid) {
      llvm::Value *inside =
          b.CreateICmpSLT(elements(p), splat(scalar(valid), width));
      take = take ? b.CreateAnd(take, inside) : inside;
    }
    llvm::Value *value =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(ref->memory, width));
    for (unsigned j = 0; j < width; ++j) {
      auto read = [&]() -> llvm::Value * {
        return tag(
            b.CreateAlignedLoad(ref->memory,
                                address(*ref, b.CreateExtractElement(lanes, j)),
                                llvm::Align(ref->bytes)),
            *ref);
      };
      llvm::Value *lane =
          take ? when(b.CreateExtractElement(take, j), padding, read) : read();
      value = b.CreateInsertElement(value, lane, j);
    }
    values.push_back(truth ? fromMemory(value) : value);
  }
  set(result, values);
  return success();
}

// Of threads with equal offsets any may come last: the order of lanes is not
// kept across threads.
LogicalResult GpuEmitter::scatter(tile::ScatterOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  Parts offsets = parts(op.getOffsets());
  for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue())))) {
    llvm::Value *value = toMemory(part, *ref);
    llvm::Value *take = op.getMask() ? parts(op.getMask())[p] : nullptr;
    if (op.getValid()) {
      llvm::Value *inside =
          b.CreateICmpSLT(elements(p), splat(scalar(op.getValid()), width));
      take = take ? b.CreateAnd(take, inside) : inside;
    }
    for (unsigned j = 0; j < width; ++j) {
      auto write = [&, p = p] {
        tag(b.CreateAlignedStore(
                b.CreateExtractElement(value, j),
                address(*ref, b.CreateExtractElement(offsets[p], j)),
                llvm::Align(ref->bytes)),
            *ref);
      };
      if (take)
        when(b.CreateExtractElement(take, j), write);
      else
        write();
    }
  }
  return success();
}

} // namespace knapper::lower
