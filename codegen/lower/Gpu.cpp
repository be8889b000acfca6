// Layout of tiles, functions and reductions for GPUs.
#include "codegen/lower/Gpu.h"

#include "codegen/lower/Lower.h"
#include "codegen/lower/math/Math.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

static constexpr unsigned kWarp = 32;
static constexpr unsigned kGlobalMemory = 1, kSharedMemory = 3;

//===-- Layout ------------------------------------------------------------===//

LogicalResult GpuEmitter::layout(tile::FuncOp func) {
  unsigned bytes = 0;
  unsigned maxThreads = target.vectorBytes / 16;
  SmallVector<int64_t> sizes;
  Operation *odd = nullptr;
  func.walk([&](Operation *op) {
    Value memory;
    if (isa<tile::LoadOp, tile::LoadStridedOp, tile::GatherOp>(op))
      memory = op->getResult(0);
    else if (isa<tile::StoreOp, tile::ScatterOp>(op))
      memory = op->getOperand(0);
    if (memory)
      if (auto type = dyn_cast<VectorType>(memory.getType())) {
        unsigned bits = type.getElementTypeBitWidth();
        bytes = std::max(bytes, std::max(bits, 8u) / 8);
      }
    for (Type result : op->getResultTypes())
      if (auto type = dyn_cast<VectorType>(result)) {
        if (type.getRank() != 1)
          odd = op;
        else if (!llvm::is_contained(sizes, type.getDimSize(0)))
          sizes.push_back(type.getDimSize(0));
      }
  });
  if (odd)
    return odd->emitOpError("has no lowering for GPUs: tiles have rank 1");
  width = bytes ? 16 / bytes : 4;
  // Less than 16 bytes an access, where tiles are short.
  for (int64_t size : sizes)
    while (width > 1 && size % (int64_t(kWarp) * width))
      width /= 2;
  threads = maxThreads;
  for (int64_t size : sizes)
    while (threads > kWarp && size % (int64_t(threads) * width))
      threads /= 2;
  for (int64_t size : sizes)
    if (size % (int64_t(threads) * width))
      return func.emitOpError("has a tile of ")
             << size << " elements, which does not spread over threads with "
             << width << " elements each: take a multiple of " << kWarp * width;
  return success();
}

llvm::SmallVector<llvm::Type *, 1> GpuEmitter::partTypes(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector) {
    llvm::Type *scalar = scalarType(type);
    return scalar ? llvm::SmallVector<llvm::Type *, 1>{scalar}
                  : llvm::SmallVector<llvm::Type *, 1>{};
  }
  if (vector.getRank() != 1 || !scalarType(vector.getElementType()))
    return {};
  return llvm::SmallVector<llvm::Type *, 1>(
      vector.getDimSize(0) / (threads * width),
      vectorType(vector.getElementType(), width));
}

llvm::Value *GpuEmitter::firstElement(unsigned part) {
  return b.CreateAdd(b.CreateMul(thread, b.getInt64(width)),
                     b.getInt64(uint64_t(part) * threads * width));
}

llvm::Value *GpuEmitter::elements(unsigned part) {
  return b.CreateAdd(splat(firstElement(part), width),
                     step(width, b.getInt64Ty()));
}

LogicalResult GpuEmitter::constantTile(Value result, DenseElementsAttr value) {
  Parts p;
  if (!value.isSplat()) {
    // Lane numbers are computed, other constants would have to lie in memory.
    bool counts = isa<IntegerType, IndexType>(value.getElementType());
    if (counts)
      for (auto [i, number] : llvm::enumerate(value.getValues<APInt>()))
        counts &= number == i;
    if (!counts)
      return emitError(result.getLoc(), "a constant tile on a GPU has one "
                                        "value or counts from 0");
    for (auto [i, type] : llvm::enumerate(partTypes(result.getType())))
      p.push_back(b.CreateZExtOrTrunc(elements(i), type));
    set(result, p);
    return success();
  }
  for (llvm::Type *type : partTypes(result.getType()))
    p.push_back(splatLike(
        constant(value.getElementType(), value.getSplatValue<Attribute>()),
        type));
  set(result, p);
  return success();
}

//===-- Function ----------------------------------------------------------===//

LogicalResult GpuEmitter::function(tile::FuncOp func) {
  if (failed(layout(func)))
    return failure();
  llvm::LLVMContext &c = module.getContext();
  llvm::Type *global = llvm::PointerType::get(c, kGlobalMemory);
  unsigned count = func.getNumBuffers();
  SmallVector<llvm::Type *> types(count, global);
  types.append(func.getNumSymbols(), b.getInt64Ty());
  types.push_back(global);
  fn = llvm::Function::Create(
      llvm::FunctionType::get(b.getVoidTy(), types, false),
      llvm::Function::ExternalLinkage, func.getName(), module);
  fn->setCallingConv(llvm::CallingConv::PTX_Kernel);
  fn->addFnAttr("nvvm.reqntid", std::to_string(threads));

  entry = newBlock("entry");
  b.SetInsertPoint(entry);
  aliasScopes(func);
  SmallVector<bool> shared(count, false);
  for (unsigned i = 0; i < count; ++i)
    if (auto other = func.getMayAlias(i))
      shared[i] = shared[*other] = true;
  for (unsigned i = 0; i < count; ++i) {
    buffers[func.getBuffer(i)].pointer = fn->getArg(i);
    if (!shared[i])
      fn->addParamAttr(i, llvm::Attribute::NoAlias);
    if (!written[i])
      fn->addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  for (unsigned i = 0; i < func.getNumSymbols(); ++i)
    set(func.getKernelSymbol(i), {fn->getArg(count + i)});
  status = fn->getArg(types.size() - 1);
  auto special = [&](llvm::Intrinsic::ID id) {
    return b.CreateZExt(b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>()),
                        b.getInt64Ty());
  };
  thread = special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  programId = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  if (failed(block(func.getBody().front())))
    return failure();
  b.CreateRetVoid();
  return success();
}

LogicalResult GpuEmitter::tileOp(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](tile::LoadOp op) { return load(op); })
      .Case([&](tile::StoreOp op) { return store(op); })
      .Case([&](tile::GatherOp op) {
        return gather(op.getBuffer(), op.getResult(),
                      Parts(parts(op.getOffsets())), op.getValid(),
                      op.getMask(), op.getPad());
      })
      .Case([&](tile::LoadStridedOp op) {
        Parts offsets;
        for (unsigned p = 0, n = partTypes(op.getType()).size(); p < n; ++p)
          offsets.push_back(b.CreateAdd(
              splat(scalar(op.getOffset()), width),
              b.CreateMul(elements(p), splat(scalar(op.getStride()), width))));
        return gather(op.getBuffer(), op.getResult(), offsets, op.getValid(),
                      Value(), op.getPad());
      })
      .Case([&](tile::ScatterOp op) { return scatter(op); })
      .Case([&](tile::PrefetchOp) { return success(); })
      .Case([&](tile::SetStatusOp op) {
        when(scalar(op.getCondition()), [&] {
          b.CreateAlignedStore(b.getInt32(op.getCode()), status,
                               llvm::Align(4));
        });
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no lowering for GPUs");
      });
}

LogicalResult GpuEmitter::vectorOp(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](vector::BroadcastOp op) -> LogicalResult {
        if (isa<VectorType>(op.getSourceType()))
          return op.emitOpError("has no lowering for GPUs but from scalars");
        Parts p;
        for (llvm::Type *type : partTypes(op.getType()))
          p.push_back(splatLike(scalar(op.getSource()), type));
        set(op.getResult(), p);
        return success();
      })
      .Case([&](vector::StepOp op) {
        Parts p;
        for (unsigned i = 0, n = partTypes(op.getType()).size(); i < n; ++i)
          p.push_back(elements(i));
        set(op.getResult(), p);
        return success();
      })
      .Case([&](vector::CreateMaskOp op) {
        Parts p;
        for (unsigned i = 0, n = partTypes(op.getType()).size(); i < n; ++i)
          p.push_back(b.CreateICmpSLT(elements(i),
                                      splat(scalar(op.getOperand(0)), width)));
        set(op.getResult(), p);
        return success();
      })
      .Case([&](vector::ReductionOp op) { return reduction(op); })
      .Case([&](vector::FMAOp op) {
        Parts p;
        for (auto [x, y, z] : llvm::zip(parts(op.getLhs()), parts(op.getRhs()),
                                        parts(op.getAcc())))
          p.push_back(b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()},
                                        {x, y, z}));
        set(op.getResult(), p);
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no lowering for GPUs");
      });
}

//===-- Reductions --------------------------------------------------------===//

void GpuEmitter::barrier() {
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {},
                    {b.getInt32(0)});
}

// In the thread, then between the threads of a warp by shuffles, then between
// warps through shared memory; every thread gets the result.
LogicalResult GpuEmitter::reduction(vector::ReductionOp op) {
  if (isOrdered(op))
    return op.emitOpError("is ordered; a GPU needs fastmath<reassoc>");
  llvm::Value *value = combineAll(op, wideParts(op));
  llvm::Type *type = value->getType();
  unsigned bits = type->getPrimitiveSizeInBits();
  if (bits > 32)
    return op.emitOpError("of 64-bit elements has no lowering for GPUs");
  // Words travel as 32 bits.
  auto toWord = [&](llvm::Value *v) {
    return type->isIntegerTy() ? b.CreateZExt(v, b.getInt32Ty())
                               : b.CreateBitCast(v, b.getInt32Ty());
  };
  auto fromWord = [&](llvm::Value *v) {
    return type->isIntegerTy() ? b.CreateTrunc(v, type)
                               : b.CreateBitCast(v, type);
  };
  for (unsigned distance = kWarp / 2; distance; distance /= 2) {
    llvm::Value *other =
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                          {b.getInt32(~0u), toWord(value), b.getInt32(distance),
                           b.getInt32(kWarp - 1)});
    value = combine(op, value, fromWord(other));
  }
  unsigned warps = threads / kWarp;
  if (warps > 1) {
    if (!exchange) {
      auto *array = llvm::ArrayType::get(b.getInt32Ty(), kWarp);
      exchange = new llvm::GlobalVariable(
          module, array, false, llvm::GlobalValue::InternalLinkage,
          llvm::UndefValue::get(array), fn->getName() + "_exchange", nullptr,
          llvm::GlobalValue::NotThreadLocal, kSharedMemory);
      exchange->setAlignment(llvm::Align(16));
    }
    auto slot = [&](llvm::Value *warp) {
      return b.CreateInBoundsGEP(b.getInt32Ty(), exchange, warp);
    };
    llvm::Value *lane = b.CreateAnd(thread, b.getInt64(kWarp - 1));
    barrier(); // an earlier reduction has been read
    when(b.CreateICmpEQ(lane, b.getInt64(0)), [&] {
      b.CreateAlignedStore(toWord(value),
                           slot(b.CreateLShr(thread, b.getInt64(5))),
                           llvm::Align(4));
    });
    barrier();
    llvm::Value *words =
        b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt32Ty(), warps),
                            exchange, llvm::Align(16));
    value = nullptr;
    for (unsigned warp = 0; warp < warps; ++warp) {
      llvm::Value *word = fromWord(b.CreateExtractElement(words, warp));
      value = value ? combine(op, value, word) : word;
    }
  }
  finishReduction(op, value);
  return success();
}

} // namespace knapper::lower

mlir::FailureOr<unsigned> knapper::lowerToGpu(tile::FuncOp func,
                                              const TargetDesc &target,
                                              llvm::Module &module) {
  expandMath(func, /*spread=*/true);
  lower::GpuEmitter emitter(target, module);
  if (failed(emitter.function(func)))
    return failure();
  return emitter.threadsPerBlock();
}
