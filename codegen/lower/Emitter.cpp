// Types, constants and the parts of tiles.
#include "codegen/lower/Emitter.h"

#include "codegen/lower/Lower.h"
#include "codegen/lower/math/Math.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicsX86.h"

using namespace mlir;

namespace knapper::lower {

// bf16 is kept as its bits: LLVM has no conversions without libcalls for it.
llvm::Type *Emitter::scalarType(Type type) {
  llvm::LLVMContext &c = module.getContext();
  if (type.isF32())
    return llvm::Type::getFloatTy(c);
  if (type.isF64())
    return llvm::Type::getDoubleTy(c);
  if (type.isF16())
    return llvm::Type::getHalfTy(c);
  if (type.isBF16())
    return llvm::Type::getInt16Ty(c);
  if (type.isIndex())
    return llvm::Type::getInt64Ty(c);
  if (auto integer = dyn_cast<IntegerType>(type))
    return llvm::Type::getIntNTy(c, integer.getWidth());
  return nullptr;
}

llvm::Type *Emitter::vectorType(Type element, unsigned lanes) {
  return llvm::FixedVectorType::get(scalarType(element), lanes);
}

llvm::SmallVector<unsigned, 4> Emitter::partLanes(unsigned lanes) {
  if (llvm::isPowerOf2_32(lanes))
    return {lanes};
  llvm::SmallVector<unsigned, 4> result;
  unsigned piece = target.lanes(DType::f32);
  while (lanes) {
    while (piece > lanes)
      piece /= 2;
    result.push_back(piece);
    lanes -= piece;
  }
  return result;
}

llvm::SmallVector<llvm::Type *, 1> Emitter::partTypes(Type type) {
  llvm::SmallVector<llvm::Type *, 1> result;
  if (auto vector = dyn_cast<VectorType>(type)) {
    if (!scalarType(vector.getElementType()) || vector.isScalable() ||
        vector.getRank() < 1 || vector.getRank() > 2)
      return result;
    int64_t rows = vector.getRank() == 2 ? vector.getDimSize(0) : 1;
    for (int64_t row = 0; row < rows; ++row)
      for (unsigned lanes : partLanes(vector.getShape().back()))
        result.push_back(vectorType(vector.getElementType(), lanes));
  } else if (llvm::Type *scalar = scalarType(type)) {
    result.push_back(scalar);
  }
  return result;
}

static unsigned lanesOf(llvm::Value *value) {
  return cast<llvm::FixedVectorType>(value->getType())->getNumElements();
}

llvm::Value *Emitter::join(llvm::ArrayRef<llvm::Value *> pieces) {
  llvm::Value *whole = pieces.front();
  unsigned lanes = pieces.size() == 1 ? 0 : lanesOf(whole);
  for (llvm::Value *piece : pieces.drop_front()) {
    unsigned more = lanesOf(piece);
    llvm::SmallVector<int> mask;
    if (more == lanes) {
      for (unsigned i = 0; i < lanes + more; ++i)
        mask.push_back(i);
      whole = b.CreateShuffleVector(whole, piece, mask);
    } else {
      for (unsigned i = 0; i < lanes; ++i)
        mask.push_back(i < more ? int(i) : -1);
      llvm::Value *wide = b.CreateShuffleVector(piece, mask);
      mask.clear();
      for (unsigned i = 0; i < lanes + more; ++i)
        mask.push_back(i); // lane lanes + j is lane j of the widened piece
      whole = b.CreateShuffleVector(whole, wide, mask);
    }
    lanes += more;
  }
  return whole;
}

Parts Emitter::split(llvm::Value *whole, unsigned lanes) {
  llvm::SmallVector<unsigned, 4> pieces = partLanes(lanes);
  if (pieces.size() == 1)
    return {whole};
  Parts result;
  int start = 0;
  for (unsigned piece : pieces) {
    llvm::SmallVector<int> mask;
    for (unsigned i = 0; i < piece; ++i)
      mask.push_back(start + i);
    result.push_back(b.CreateShuffleVector(whole, mask));
    start += piece;
  }
  return result;
}

llvm::Value *Emitter::splat(llvm::Value *value, unsigned lanes) {
  return b.CreateVectorSplat(lanes, value);
}

llvm::Value *Emitter::splatLike(llvm::Value *value, llvm::Type *type) {
  if (auto vector = dyn_cast<llvm::FixedVectorType>(type))
    return splat(value, vector->getNumElements());
  return value;
}

llvm::Constant *Emitter::constant(Type element, Attribute value) {
  llvm::Type *type = scalarType(element);
  if (auto attr = dyn_cast<IntegerAttr>(value))
    return llvm::ConstantInt::get(
        type, attr.getValue().sextOrTrunc(type->getIntegerBitWidth()));
  llvm::APFloat number = cast<FloatAttr>(value).getValue();
  if (element.isBF16())
    return llvm::ConstantInt::get(type, number.bitcastToAPInt());
  return llvm::ConstantFP::get(type, number);
}

llvm::Value *Emitter::step(unsigned lanes, llvm::Type *element) {
  llvm::SmallVector<llvm::Constant *> numbers;
  for (unsigned i = 0; i < lanes; ++i)
    numbers.push_back(llvm::ConstantInt::get(element, i));
  return llvm::ConstantVector::get(numbers);
}

LogicalResult Emitter::function(tile::FuncOp func) {
  llvm::LLVMContext &c = module.getContext();
  llvm::Type *ptr = llvm::PointerType::get(c, 0);
  llvm::Type *i64 = b.getInt64Ty();
  auto *type =
      llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, ptr, i64, i64}, false);
  fn = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                              func.getName(), module);
  fn->setVisibility(llvm::GlobalValue::HiddenVisibility);
  fn->setDSOLocal(true);
  for (unsigned i = 0; i < 3; ++i)
    for (llvm::Attribute::AttrKind kind :
         {llvm::Attribute::NoAlias, llvm::Attribute::NoUndef,
          llvm::Attribute::ReadOnly})
      fn->addParamAttr(i, kind);

  entry = newBlock("entry");
  llvm::BasicBlock *programs = newBlock("programs");
  llvm::BasicBlock *exit = llvm::BasicBlock::Create(c, "exit");
  b.SetInsertPoint(entry);
  llvm::MDNode *none = llvm::MDNode::get(c, {});
  auto constantLoad = [&](llvm::Type *type, llvm::Value *table,
                          unsigned index) {
    auto *load = b.CreateAlignedLoad(
        type, b.CreateConstInBoundsGEP1_64(i64, table, index), llvm::Align(8));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, none);
    load->setMetadata(llvm::LLVMContext::MD_noundef, none);
    return load;
  };
  context = fn->getArg(2);
  aliasScopes(func);
  for (unsigned i = 0; i < func.getNumBuffers(); ++i)
    buffers[func.getBuffer(i)].pointer = constantLoad(ptr, fn->getArg(0), i);
  for (unsigned i = 0; i < func.getNumSymbols(); ++i)
    set(func.getKernelSymbol(i), {constantLoad(i64, fn->getArg(1), i)});
  scratchBase = constantLoad(ptr, context, 0);
  llvm::Value *begin = fn->getArg(3), *end = fn->getArg(4);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), programs, exit);

  b.SetInsertPoint(programs);
  llvm::PHINode *id = b.CreatePHI(i64, 2, "program");
  programId = id;
  id->addIncoming(begin, entry);
  if (failed(block(func.getBody().front())))
    return failure();
  llvm::Value *next = b.CreateNSWAdd(id, b.getInt64(1));
  id->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), programs, exit);

  exit->insertInto(fn);
  b.SetInsertPoint(exit);
  if (nontemporalUsed) // others read the outputs after this call returns
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence,
                      llvm::ArrayRef<llvm::Value *>());
  b.CreateRetVoid();
  return success();
}

} // namespace knapper::lower

mlir::LogicalResult knapper::lowerToCpu(tile::FuncOp func,
                                        const TargetDesc &target,
                                        llvm::Module &module) {
  expandMath(func);
  return lower::Emitter(target, module).function(func);
}
