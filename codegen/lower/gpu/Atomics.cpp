// Reductions of single elements in global memory: one instruction where there
// is one, for sums of f32 up to four neighbours in it; else the element is
// exchanged until nobody came between.
#include "codegen/lower/gpu/GpuLowering.h"

#include "llvm/IR/InlineAsm.h"

using namespace mlir;

namespace knapper::lower {

/// The instruction that reads, combines and writes integers of this many bits.
static std::optional<llvm::AtomicRMWInst::BinOp>
integerAtomic(vector::CombiningKind kind, unsigned bits) {
  using K = vector::CombiningKind;
  using I = llvm::AtomicRMWInst;
  if (bits != 32 && bits != 64)
    return std::nullopt;
  switch (kind) {
  case K::ADD:
    return I::Add;
  case K::MAXSI:
    return I::Max;
  case K::MINSI:
    return I::Min;
  case K::MAXUI:
    return I::UMax;
  case K::MINUI:
    return I::UMin;
  case K::AND:
    return I::And;
  case K::OR:
    return I::Or;
  default:
    return std::nullopt;
  }
}

/// Adds so many neighbours: f32 or f64.
void GpuLowering::addInMemory(llvm::Value *pointer,
                              llvm::ArrayRef<llvm::Value *> elements) {
  bool single = elements.front()->getType()->isFloatTy();
  size_t count = elements.size();
  std::string text = "red.global.add.", list, constraints = "l";
  for (size_t i = 0; i < count; ++i) {
    list += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += single ? ",f" : ",d";
  }
  if (count > 1)
    text += "v" + std::to_string(count) + ".";
  text += single ? "f32 [$0], " : "f64 [$0], ";
  text += count > 1 ? "{" + list + "};" : list + ";";
  SmallVector<llvm::Value *> operands{pointer};
  operands.append(elements.begin(), elements.end());
  SmallVector<llvm::Type *> types;
  for (llvm::Value *operand : operands)
    types.push_back(operand->getType());
  auto *type = llvm::FunctionType::get(b.getVoidTy(), types,
                                       /*isVarArg=*/false);
  b.CreateCall(llvm::InlineAsm::get(type, text, constraints + ",~{memory}",
                                    /*hasSideEffects=*/true),
               operands)
      ->setDoesNotThrow();
}

void GpuLowering::exchangeUntilAlone(vector::CombiningKind kind, Type element,
                                     llvm::Value *pointer, llvm::Value *value,
                                     llvm::SyncScope::ID device) {
  llvm::Type *type = value->getType();
  llvm::Type *bits = b.getIntNTy(type->getPrimitiveSizeInBits());
  llvm::Align align(type->getPrimitiveSizeInBits() / 8);
  bool half = element.isF16() || element.isBF16();
  auto *load = b.CreateAlignedLoad(bits, pointer, align);
  load->setAtomic(llvm::AtomicOrdering::Monotonic, device);
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *attempt = newBlock("attempt"), *differs = newBlock("write"),
                   *after = newBlock("after");
  b.CreateBr(attempt);
  b.SetInsertPoint(attempt);
  llvm::PHINode *seen = b.CreatePHI(bits, 2);
  seen->addIncoming(load, before);
  llvm::Value *x = b.CreateBitCast(seen, type), *y = value;
  if (half)
    x = widen(x, element), y = widen(y, element);
  llvm::Value *both = combine(kind, arith::FastMathFlags::none, x, y);
  if (half)
    both = narrow(both, element);
  both = b.CreateBitCast(both, bits);
  // A maximum most often finds a larger one.
  b.CreateCondBr(b.CreateICmpEQ(both, seen), after, differs);
  b.SetInsertPoint(differs);
  auto *exchange = b.CreateAtomicCmpXchg(
      pointer, seen, both, align, llvm::AtomicOrdering::Monotonic,
      llvm::AtomicOrdering::Monotonic, device);
  seen->addIncoming(b.CreateExtractValue(exchange, 0), b.GetInsertBlock());
  b.CreateCondBr(b.CreateExtractValue(exchange, 1), after, attempt);
  b.SetInsertPoint(after);
}

LogicalResult GpuLowering::atomic(tile::AtomicOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  using K = vector::CombiningKind;
  Type element = getElementTypeOrSelf(op.getValue().getType());
  bool isTile = isa<VectorType>(op.getValue().getType());
  K kind = op.getKind();
  bool adds = kind == K::ADD && (element.isF32() || element.isF64());
  llvm::SyncScope::ID device =
      module.getContext().getOrInsertSyncScopeID("device");
  // Neighbours that one instruction takes, as they are known to lie.
  unsigned lanes = isTile ? width : 1, run = 1;
  if (adds && element.isF32() && target.vectorAtomics)
    while (run < 4 && lanes % (run * 2) == 0 &&
           knownMultiple(op.getOffset()) % (run * 2) == 0)
      run *= 2;
  auto place = [&](llvm::Value *first, llvm::Value *value, unsigned lane) {
    llvm::Value *pointer = address(*ref, b.CreateAdd(first, b.getInt64(lane)));
    auto at = [&](unsigned i) {
      return isTile ? b.CreateExtractElement(value, lane + i) : value;
    };
    if (adds) {
      SmallVector<llvm::Value *> elements;
      for (unsigned i = 0; i < run; ++i)
        elements.push_back(at(i));
      addInMemory(pointer, elements);
    } else if (auto whole = integerAtomic(kind, ref->bytes * 8);
               whole && !isa<FloatType>(element)) {
      b.CreateAtomicRMW(*whole, pointer, at(0), llvm::Align(ref->bytes),
                        llvm::AtomicOrdering::Monotonic, device);
    } else {
      exchangeUntilAlone(kind, element, pointer, at(0), device);
    }
  };
  for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue())))) {
    llvm::Value *value = toMemory(part, *ref);
    llvm::Value *first = scalar(op.getOffset());
    if (!isTile) {
      // Every thread holds the scalar; one combines it.
      when(b.CreateICmpEQ(thread, b.getInt64(0)),
           [&] { place(first, value, 0); });
      continue;
    }
    first = b.CreateAdd(first, firstElement(p));
    for (unsigned lane = 0; lane < width; lane += run)
      place(first, value, lane);
  }
  return success();
}

} // namespace knapper::lower
