// Functions for GPUs, and the operations that need no more than their tiles'
// layout (TileLayout.cpp).
#include "codegen/lower/gpu/GpuLowering.h"

#include "codegen/lower/common/Lower.h"
#include "codegen/math/Math.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

static constexpr unsigned kGlobalMemory = 1;

//===-- Tiles -------------------------------------------------------------===//

llvm::SmallVector<llvm::Type *, 1> GpuLowering::partTypes(Type type) {
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

llvm::Value *GpuLowering::firstElement(unsigned part) {
  return b.CreateAdd(b.CreateMul(thread, b.getInt64(width)),
                     b.getInt64(uint64_t(part) * threads * width));
}

llvm::Value *GpuLowering::elements(unsigned part) {
  return b.CreateAdd(splat(firstElement(part), width),
                     step(width, b.getInt64Ty()));
}

void GpuLowering::laneGroups(tile::LaneGroupsOp op) {
  hasGroups = true;
  Parts p;
  for (unsigned i = 0, n = partTypes(op.getType()).size(); i < n; ++i) {
    // A thread's access is one group: what is computed of its number stays a
    // scalar.
    if (op.getSize() == width)
      p.push_back(
          splat(b.CreateAdd(thread, b.getInt64(uint64_t(i) * threads)), width));
    else
      p.push_back(
          b.CreateUDiv(elements(i), splat(b.getInt64(op.getSize()), width)));
  }
  set(op.getResult(), p);
}

llvm::Value *GpuLowering::unpack(llvm::Value *halves) {
  unsigned lanes = laneCount(halves->getType());
  llvm::Type *words = llvm::FixedVectorType::get(b.getInt32Ty(), lanes / 2);
  llvm::Value *pairs = b.CreateBitCast(halves, words);
  llvm::Value *result =
      llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getFloatTy(), lanes));
  for (unsigned i = 0; i < lanes / 2; ++i) {
    llvm::Value *word = b.CreateExtractElement(pairs, i);
    if (packed) {
      // Opaque and never twice the same, so that no pass keeps the f32.
      auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getInt32Ty()},
                                           /*isVarArg=*/false);
      std::string text = "mov.b32 $0, $1; // " + std::to_string(unpacked++);
      llvm::CallInst *same =
          b.CreateCall(llvm::InlineAsm::get(type, text, "=r,r",
                                            /*hasSideEffects=*/false),
                       word);
      same->setDoesNotAccessMemory();
      same->setDoesNotThrow();
      word = same;
    }
    auto element = [&](llvm::Value *bits, unsigned lane) {
      result = b.CreateInsertElement(
          result, b.CreateBitCast(bits, b.getFloatTy()), lane);
    };
    element(b.CreateShl(word, 16), 2 * i);
    element(b.CreateAnd(word, b.getInt32(0xffff0000)), 2 * i + 1);
  }
  return result;
}

/// Whether an f32 `op` may be an instruction that is a few ulp off.
template <typename Op> static bool isApproximate(Op op) {
  return op && getElementTypeOrSelf(op.getType()).isF32() &&
         bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn);
}

llvm::Value *GpuLowering::special(Operation *op,
                                  llvm::ArrayRef<llvm::Value *> v) {
  if (isa<arith::ExtFOp>(op) &&
      getElementTypeOrSelf(op->getOperand(0).getType()).isBF16() &&
      getElementTypeOrSelf(op->getResult(0).getType()).isF32() &&
      laneCount(v[0]->getType()) % 2 == 0)
    return unpack(v[0]);
  if (isa<arith::TruncFOp>(op) &&
      getElementTypeOrSelf(op->getOperand(0).getType()).isF32() &&
      getElementTypeOrSelf(op->getResult(0).getType()).isBF16()) {
    llvm::Type *type = withElement(v[0]->getType(), b.getBFloatTy());
    return b.CreateBitCast(b.CreateFPTrunc(v[0], type),
                           withElement(type, b.getInt16Ty()));
  }
  if (isa<math::Exp2Op>(op) &&
      getElementTypeOrSelf(op->getResult(0).getType()).isF32())
    return exp2(v[0]);
  if (auto root = dyn_cast<math::RsqrtOp>(op); isApproximate(root))
    return eachElement(v[0], llvm::Intrinsic::nvvm_rsqrt_approx_f);
  if (auto root = dyn_cast<math::SqrtOp>(op); isApproximate(root))
    return eachElement(v[0], llvm::Intrinsic::nvvm_sqrt_approx_f);
  if (auto divide = dyn_cast<arith::DivFOp>(op); isApproximate(divide))
    return b.CreateFMul(
        v[0], eachElement(v[1], llvm::Intrinsic::nvvm_rcp_approx_ftz_f));
  return nullptr;
}

llvm::Value *GpuLowering::eachElement(llvm::Value *value,
                                      llvm::Intrinsic::ID intrinsic) {
  auto one = [&](llvm::Value *x) -> llvm::Value * {
    if (intrinsic == llvm::Intrinsic::nvvm_ex2_approx_ftz)
      return b.CreateIntrinsic(intrinsic, {x->getType()}, {x});
    return b.CreateIntrinsic(intrinsic, llvm::ArrayRef<llvm::Type *>(), {x});
  };
  auto *type = dyn_cast<llvm::FixedVectorType>(value->getType());
  if (!type)
    return one(value);
  llvm::Value *result = llvm::PoisonValue::get(type);
  for (unsigned i = 0; i < type->getNumElements(); ++i)
    result =
        b.CreateInsertElement(result, one(b.CreateExtractElement(value, i)), i);
  return result;
}

llvm::Value *GpuLowering::exp2(llvm::Value *x) {
  return eachElement(x, llvm::Intrinsic::nvvm_ex2_approx_ftz);
}

LogicalResult GpuLowering::constantTile(Value result, DenseElementsAttr value) {
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
    // Of a tile that is the whole row in 32 bits, if they suffice: LLVM then
    // sees which are below a constant (it looks no deeper than six values).
    bool row = isa<tile::FuncOp>(result.getDefiningOp()->getParentOp());
    llvm::Value *own =
        b.CreateMul(b.CreateTrunc(thread, b.getInt32Ty()), b.getInt32(width));
    for (auto [i, type] : llvm::enumerate(partTypes(result.getType()))) {
      if (!rotation && (!row || !type->getScalarType()->isIntegerTy(32))) {
        p.push_back(b.CreateZExtOrTrunc(elements(i), type));
        continue;
      }
      if (rotation) {
        // Of lanes: sums that LLVM sees are not negative. What stands before
        // the row counts as far behind its end.
        llvm::Value *lane =
            b.CreateOr(own, b.CreateXor(rotation, b.getInt32(width - 1)));
        SmallVector<llvm::Constant *> numbers;
        for (unsigned j = 0; j < width; ++j)
          numbers.push_back(
              b.getInt32(uint32_t(i) * threads * width + j + 1 - width));
        llvm::Value *number =
            b.CreateAdd(splat(lane, width), llvm::ConstantVector::get(numbers));
        // What is below the row's end is then known of whole parts.
        int64_t end = int64_t(i + 1) * threads * width;
        if (i != 0 && end <= rotatedValid)
          number = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number,
                                           splat(b.getInt32(end - 1), width));
        if (i == 0)
          number = b.CreateAnd(number, splat(b.getInt32(0x7fffffff), width));
        p.push_back(b.CreateZExtOrTrunc(number, type));
        continue;
      }
      llvm::Value *first =
          b.CreateAdd(own, b.getInt32(uint32_t(i) * threads * width));
      p.push_back(
          b.CreateAdd(splat(first, width), step(width, b.getInt32Ty())));
    }
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

LogicalResult GpuLowering::function(tile::FuncOp func) {
  if (failed(layout(func)))
    return failure();
  if (!shape.threads)
    shape = {threads * programs, programs, 0};
  llvm::LLVMContext &c = module.getContext();
  llvm::Type *global = llvm::PointerType::get(c, kGlobalMemory);
  unsigned count = func.getNumBuffers();
  SmallVector<llvm::Type *> types(count, global);
  types.append(func.getNumSymbols(), b.getInt64Ty());
  types.push_back(global);
  types.push_back(b.getInt64Ty());
  unsigned firstMap = types.size();
  types.append(maps, llvm::PointerType::get(c, 0));
  fn = llvm::Function::Create(
      llvm::FunctionType::get(b.getVoidTy(), types, false),
      llvm::Function::ExternalLinkage, func.getName(), module);
  fn->setCallingConv(llvm::CallingConv::PTX_Kernel);
  fn->addFnAttr("nvvm.reqntid", std::to_string(shape.threads));
  // Without it the assembler aims at more CTAs and spills words, and ignores
  // that warpgroups exchange registers.
  if (unsigned ctas = ctasPerSm ? ctasPerSm : shape.ctasPerSm)
    fn->addFnAttr("nvvm.minctasm", std::to_string(ctas));
  if (cluster > 1)
    fn->addFnAttr("nvvm.cluster_dim", std::to_string(cluster) + ",1,1");
  // 2^x without care for denormal results takes one instruction instead of
  // four, and 16 bits do not tell. (What is said of f32 the back end does to
  // f16 too, whose denormal numbers are results like others.)
  bool hasHalf = llvm::any_of(llvm::seq<unsigned>(count), [&](unsigned i) {
    return cast<tile::BufferType>(func.getBuffer(i).getType())
        .getElementType()
        .isF16();
  });
  flushes = width == 8 && !hasHalf;
  if (flushes && !func.getOps<tile::Exp2Op>().empty())
    fn->addFnAttr("denormal-fp-math-f32", "preserve-sign");
  auto *mapBytes = llvm::ArrayType::get(b.getInt8Ty(), 128);
  for (unsigned i = firstMap; i < firstMap + maps; ++i)
    fn->addParamAttrs(i, llvm::AttrBuilder(c)
                             .addByValAttr(mapBytes)
                             .addAlignmentAttr(llvm::Align(64))
                             .addAttribute("nvvm.grid_constant"));

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
  status = fn->getArg(firstMap - 2);
  auto special = [&](llvm::Intrinsic::ID id) {
    return b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Value *>());
  };
  llvm::CallInst *number = special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  // What is below the end of a row is then known of whole parts. (Of loops and
  // matmuls it is kept back: their addresses would become other sums.)
  bool straight = llvm::none_of(func.getBody().front(), [](Operation &op) {
    return op.getNumRegions() > 0;
  });
  if (straight && (threads > 1 || programs > 1))
    number->addRangeRetAttr(llvm::ConstantRange(
        llvm::APInt(32, 0), llvm::APInt(32, shape.threads)));
  threadOfBlock = b.CreateZExt(number, b.getInt64Ty());
  thread = threads == 1 ? b.getInt64(0) : threadOfBlock;
  programId = b.CreateZExt(special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x),
                           b.getInt64Ty());
  llvm::BasicBlock *exit = nullptr;
  if (programs > 1 && threads == 1) {
    group = threadOfBlock;
    // Of a grid that 32 bits count, so that divisions are of 32 bits too.
    bool isSmall =
        wanted.grid && wanted.grid <= std::numeric_limits<int32_t>::max();
    llvm::Type *type = isSmall ? b.getInt32Ty() : b.getInt64Ty();
    llvm::Value *first =
        b.CreateMul(b.CreateTrunc(programId, type),
                    llvm::ConstantInt::get(type, programs), "", true, true);
    programId = b.CreateZExt(
        b.CreateAdd(first, b.CreateTrunc(group, type), "", true, true),
        b.getInt64Ty());
  } else if (programs > 1) {
    group = b.CreateLShr(thread, b.getInt64(llvm::Log2_32(threads)));
    thread = b.CreateAnd(thread, b.getInt64(threads - 1));
    programId =
        b.CreateAdd(b.CreateMul(programId, b.getInt64(programs)), group);
  }
  // (Of clusters there are whole ones.)
  if (programs > 1 && cluster == 1) {
    exit = newBlock("exit");
    llvm::BasicBlock *work = newBlock("work");
    b.CreateCondBr(b.CreateICmpSLT(programId, fn->getArg(firstMap - 1)), work,
                   exit);
    b.SetInsertPoint(work);
  }
  if (failed(rotateRow(func)) || failed(block(func.getBody().front())))
    return failure();
  // A block's shared memory stays until the others have read it.
  if (wanted.clusterSize && cluster > 1)
    clusterBarrier();
  b.CreateRetVoid();
  if (exit) {
    b.SetInsertPoint(exit);
    b.CreateRetVoid();
  }
  return success();
}

LogicalResult GpuLowering::tileOp(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](tile::LoadOp op) { return load(op); })
      .Case([&](tile::StoreOp op) { return store(op); })
      .Case([&](tile::GatherOp op) {
        return gather(op.getBuffer(), op.getResult(),
                      Parts(parts(op.getOffsets())), op.getValid(),
                      op.getMask(), op.getPad(), op.getRun().value_or(1));
      })
      .Case([&](tile::LaneGroupsOp op) {
        laneGroups(op);
        return success();
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
      .Case([&](tile::LoadRowsOp op) { return loadRows(op); })
      .Case([&](tile::StoreRowsOp op) { return storeRows(op); })
      .Case([&](tile::TransposeOp op) { return transpose(op); })
      .Case([&](tile::PrefetchOp) { return success(); })
      .Case([&](tile::Exp2Op op) {
        Parts p;
        llvm::FastMathFlags fast;
        fast.setApproxFunc();
        // By the generic intrinsic: rows that fill the registers spill by the
        // target's own, which goes element by element.
        for (llvm::Value *part : Parts(parts(op.getInput()))) {
          if (width == 8 && !flushes) {
            p.push_back(exp2(part));
            continue;
          }
          auto *power = b.CreateUnaryIntrinsic(llvm::Intrinsic::exp2, part);
          cast<llvm::Instruction>(power)->setFastMathFlags(fast);
          p.push_back(power);
        }
        set(op.getResult(), p);
        return success();
      })
      .Case([&](tile::CombineOp op) { return combineTiles(op); })
      .Case([&](tile::ScanOp op) { return scan(op); })
      .Case([&](tile::ScanRowsOp op) { return scanRows(op); })
      .Case([&](tile::ClusterScanOp op) { return clusterScan(op); })
      .Case([&](tile::SharedOp op) { return sharedBuffer(op); })
      .Case([&](tile::BarrierOp) {
        barrier();
        return success();
      })
      .Case([&](tile::AppendOp op) {
        appendLanes(op);
        return success();
      })
      .Case([&](tile::RankOp op) {
        rank(op);
        return success();
      })
      .Case([&](tile::ClusterCollectOp op) { return clusterCollect(op); })
      .Case([&](tile::AtomicOp op) { return atomic(op); })
      .Case([&](tile::TicketOp op) { return ticket(op); })
      .Case([&](tile::LookBackOp op) { return lookBack(op); })
      .Case([&](tile::RadixPassOp op) { return radixPass(op); })
      .Case([&](tile::MatmulOp op) { return matmul(op); })
      .Case([&](tile::AttentionOp op) { return attention(op); })
      .Case([&](tile::PagedAttentionOp op) { return pagedAttention(op); })
      .Case([&](tile::PackedMatmulOp op) { return packedMatmul(op); })
      .Case([&](tile::RecurrenceOp op) { return recurrence(op); })
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

LogicalResult GpuLowering::vectorOp(Operation &op) {
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

} // namespace knapper::lower

mlir::FailureOr<knapper::GpuEntry> knapper::lowerToGpu(tile::FuncOp func,
                                                       const TargetDesc &target,
                                                       llvm::Module &module) {
  expandMath(func, /*spread=*/true);
  lower::GpuLowering emitter(target, module);
  if (failed(emitter.function(func)))
    return failure();
  return emitter.launch();
}
