// Parts, constants and functions for CPUs.
#include "codegen/lower/cpu/CpuLowering.h"
#include "ir/tile/ByteOps.h"

#include "codegen/lower/common/Lower.h"
#include "codegen/math/Math.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicsX86.h"

using namespace mlir;

namespace knapper::lower {

llvm::SmallVector<unsigned, 4> CpuLowering::partLanes(unsigned lanes) {
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

llvm::SmallVector<llvm::Type *, 1> CpuLowering::partTypes(Type type) {
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

llvm::Value *CpuLowering::join(llvm::ArrayRef<llvm::Value *> pieces) {
  llvm::Value *whole = pieces.front();
  unsigned lanes = pieces.size() == 1 ? 0 : laneCount(whole->getType());
  for (llvm::Value *piece : pieces.drop_front()) {
    unsigned more = laneCount(piece->getType());
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

Parts CpuLowering::split(llvm::Value *whole, unsigned lanes) {
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

LogicalResult CpuLowering::constantTile(Value result, DenseElementsAttr value) {
  Parts p;
  Type element = value.getElementType();
  size_t next = 0;
  auto all = value.getValues<Attribute>();
  for (llvm::Type *type : partTypes(result.getType())) {
    llvm::SmallVector<llvm::Constant *> elements;
    if (value.isSplat())
      elements.assign(laneCount(type),
                      constant(element, value.getSplatValue<Attribute>()));
    else
      for (unsigned i = 0; i < laneCount(type); ++i)
        elements.push_back(constant(element, all[next++]));
    p.push_back(llvm::ConstantVector::get(elements));
  }
  set(result, p);
  return success();
}

LogicalResult CpuLowering::tileOp(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](tile::LoadOp op) { return load(op); })
      .Case([&](tile::StoreOp op) { return store(op); })
      .Case([&](tile::GatherOp op) {
        return gather(op, op.getBuffer(), op.getResult(),
                      joined(op.getOffsets()), op.getValid(), op.getMask(),
                      op.getPad());
      })
      .Case([&](tile::LoadStridedOp op) {
        if (isReversedRun(op))
          return loadReversed(op);
        if (isInterleaved(op))
          return loadInterleaved(op);
        unsigned lanes = cast<VectorType>(op.getType()).getDimSize(0);
        llvm::Value *offsets =
            b.CreateAdd(splat(scalar(op.getOffset()), lanes),
                        b.CreateMul(step(lanes, b.getInt64Ty()),
                                    splat(scalar(op.getStride()), lanes)));
        return gather(op, op.getBuffer(), op.getResult(), offsets,
                      op.getValid(), Value(), op.getPad());
      })
      .Case([&](tile::ScatterOp op) { return scatter(op); })
      .Case([&](tile::LoadRowsOp op) { return loadRows(op); })
      .Case([&](tile::TransposeOp op) { return transpose(op); })
      .Case([&](tile::PageOffsetOp op) { return pageOffset(op); })
      .Case([&](tile::LookupOp op) {
        lookup(op);
        return success();
      })
      .Case([&](tile::ScaleByPowerOp op) {
        scaleByPower(op);
        return success();
      })
      .Case([&](tile::AddByteProductsOp op) {
        byteDots(op);
        return success();
      })
      .Case([&](tile::PrefetchOp op) { return prefetch(op); })
      .Case([&](tile::SetStatusOp op) { return setStatus(op); })
      .Case([&](tile::ScratchOp op) {
        BufferRef ref = scratchRef;
        ref.memory = scalarType(op.getType().getElementType());
        if (ref.memory->isIntegerTy(1))
          ref.memory = b.getInt8Ty();
        ref.bytes = op.getType().getElementBytes();
        ref.pointer = b.CreateInBoundsGEP(b.getInt8Ty(), scratchBase,
                                          scalar(op.getBytes()));
        buffers[op.getResult()] = ref;
        return success();
      })
      .Case([&](tile::MainloopOp op) { return mainloop(op); })
      .Case([&](tile::BlockOp op) { return blockMatmul(op); })
      .Case([&](tile::OtherKeyOp op) { return otherKey(op); })
      .Default([](Operation *op) {
        return op->emitOpError("has no lowering for CPUs");
      });
}

LogicalResult CpuLowering::otherKey(tile::OtherKeyOp op) {
  llvm::IRBuilder<> atEntry(entry, entry->begin());
  auto *last = atEntry.CreateAlloca(b.getInt64Ty(), nullptr, "key");
  atEntry.CreateStore(b.getInt64(-1), last);
  llvm::Value *key = scalar(op.getKey());
  set(op.getResult(),
      {b.CreateICmpNE(b.CreateLoad(b.getInt64Ty(), last), key)});
  b.CreateStore(key, last);
  return success();
}

LogicalResult CpuLowering::function(tile::FuncOp func) {
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
  finishTiles();
  b.CreateRetVoid();
  return success();
}

} // namespace knapper::lower

mlir::LogicalResult knapper::lowerToCpu(tile::FuncOp func,
                                        const TargetDesc &target,
                                        llvm::Module &module) {
  expandMath(func, /*spread=*/false);
  return lower::CpuLowering(target, module).function(func);
}
