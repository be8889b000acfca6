// Scans and lists in shared memory: what the threads of a CTA do together
// beside reductions.
//
// A thread combines its own lanes of a part in order. A warp combines its
// threads by shuffles and writes one word a part to shared memory. Every warp
// scans those words for itself, so one barrier is enough. The order is fixed,
// so every run gives the same bits.
#include "codegen/lower/gpu/GpuLowering.h"
#include "ir/config/DeviceLimits.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

static constexpr unsigned kWarp = 32;

llvm::Constant *GpuLowering::neutral(vector::CombiningKind kind,
                                     llvm::Type *type) {
  using K = vector::CombiningKind;
  unsigned bits = type->getPrimitiveSizeInBits();
  auto number = [&](const llvm::APInt &n) {
    return llvm::ConstantInt::get(type->getContext(), n);
  };
  switch (kind) {
  case K::MUL:
    return type->isFloatingPointTy() ? llvm::ConstantFP::get(type, 1)
                                     : llvm::ConstantInt::get(type, 1);
  case K::MAXIMUMF:
    return llvm::ConstantFP::getInfinity(type, /*Negative=*/true);
  case K::MINIMUMF:
    return llvm::ConstantFP::getInfinity(type);
  case K::MAXSI:
    return number(llvm::APInt::getSignedMinValue(bits));
  case K::MINSI:
    return number(llvm::APInt::getSignedMaxValue(bits));
  case K::MINUI:
    return number(llvm::APInt::getMaxValue(bits));
  default: // sums, the largest without sign
    return llvm::Constant::getNullValue(type);
  }
}

namespace {

/// The lanes of a warp in the order of a scan.
struct WarpOrder {
  llvm::IRBuilder<> &b;
  llvm::Value *lane; // i32
  bool reverse;
  unsigned lanes = kWarp; // scanned together, neighbours

  llvm::Value *position() {
    llvm::Value *own = b.CreateAnd(lane, b.getInt32(lanes - 1));
    return reverse ? b.CreateSub(b.getInt32(lanes - 1), own) : own;
  }
  llvm::Intrinsic::ID shift() const {
    return reverse ? llvm::Intrinsic::nvvm_shfl_sync_down_i32
                   : llvm::Intrinsic::nvvm_shfl_sync_up_i32;
  }
  unsigned bound() const { return reverse ? kWarp - 1 : 0; }
};

} // namespace

llvm::Value *GpuLowering::warpScan(vector::CombiningKind kind,
                                   llvm::Value *value, llvm::Value *lane,
                                   bool reverse, unsigned lanes) {
  WarpOrder order{b, lane, reverse, lanes};
  llvm::Value *position = order.position();
  for (unsigned d = 1; d < lanes; d *= 2) {
    llvm::Value *other =
        shuffleBy(order.shift(), value, b.getInt32(d), order.bound());
    value = b.CreateSelect(
        b.CreateICmpUGE(position, b.getInt32(d)),
        combine(kind, arith::FastMathFlags::none, other, value), value);
  }
  return value;
}

llvm::Value *GpuLowering::warpShift(vector::CombiningKind kind,
                                    llvm::Value *value, llvm::Value *lane,
                                    bool reverse, unsigned lanes) {
  WarpOrder order{b, lane, reverse, lanes};
  llvm::Value *other =
      shuffleBy(order.shift(), value, b.getInt32(1), order.bound());
  return b.CreateSelect(b.CreateICmpEQ(order.position(), b.getInt32(0)),
                        neutral(kind, value->getType()), other);
}

llvm::Value *GpuLowering::scanLanes(vector::CombiningKind kind,
                                    llvm::Value *part, llvm::Value *before,
                                    bool exclusive, bool reverse,
                                    unsigned columns) {
  llvm::Value *result = llvm::PoisonValue::get(part->getType()), *run = before;
  for (unsigned i = 0; i < width; ++i) {
    if (columns < width && i % columns == 0)
      run = neutral(kind, part->getType()->getScalarType());
    unsigned j = reverse ? width - 1 - i : i;
    llvm::Value *next = combine(kind, arith::FastMathFlags::none, run,
                                b.CreateExtractElement(part, j));
    result = b.CreateInsertElement(result, exclusive ? run : next, j);
    run = next;
  }
  return result;
}

llvm::Value *GpuLowering::foldLanes(vector::CombiningKind kind,
                                    llvm::Value *part, bool reverse) {
  llvm::Value *all = nullptr;
  for (unsigned i = 0; i < width; ++i) {
    llvm::Value *one =
        b.CreateExtractElement(part, reverse ? width - 1 - i : i);
    all = all ? combine(kind, arith::FastMathFlags::none, all, one) : one;
  }
  return all;
}

LogicalResult GpuLowering::scan(tile::ScanOp op) {
  vector::CombiningKind kind = op.getKind();
  bool reverse = op.getReverse();
  auto join = [&](llvm::Value *x, llvm::Value *y) {
    return combine(kind, arith::FastMathFlags::none, x, y);
  };
  Parts tile = parts(op.getTile());
  llvm::Type *type = tile.front()->getType()->getScalarType();
  unsigned count = tile.size(), warps = threads / kWarp;
  auto partAt = [&](unsigned i) { return reverse ? count - 1 - i : i; };
  llvm::Value *lane =
      b.CreateTrunc(b.CreateAnd(thread, b.getInt64(kWarp - 1)), b.getInt32Ty());
  // In the scan's order: what each part's warp has up to this thread.
  SmallVector<llvm::Value *> upTo, before;
  for (unsigned i = 0; i < count; ++i) {
    upTo.push_back(warpScan(kind, foldLanes(kind, tile[partAt(i)], reverse),
                            lane, reverse, kWarp));
    before.push_back(warpShift(kind, upTo[i], lane, reverse, kWarp));
  }
  llvm::Value *all = op.getInit() ? scalar(op.getInit()) : neutral(kind, type);
  unsigned last = reverse ? 0 : kWarp - 1; // lane with a warp's total
  auto laneOf = [&](llvm::Value *value, llvm::Value *from) {
    return shuffleBy(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, value, from,
                     kWarp - 1);
  };
  if (warps == 1) {
    for (unsigned i = 0; i < count; ++i) {
      before[i] = join(all, before[i]);
      all = join(all, laneOf(upTo[i], b.getInt32(last)));
    }
  } else {
    llvm::Value *exchange = sharedArray(type, uint64_t(count) * warps,
                                        "_scan" + llvm::Twine(exchanges++));
    llvm::Align align(type->getPrimitiveSizeInBits() / 8);
    auto place = [&](llvm::Value *i) {
      return b.CreateInBoundsGEP(type, exchange, i);
    };
    llvm::Value *warp =
        b.CreateTrunc(b.CreateLShr(thread, b.getInt64(5)), b.getInt32Ty());
    if (reverse)
      warp = b.CreateSub(b.getInt32(warps - 1), warp);
    auto number = [&](unsigned i) {
      return b.CreateAdd(warp, b.getInt32(i * warps));
    };
    // Others may still read the words of the run before.
    if (!isa<tile::FuncOp>(op->getParentOp()))
      barrier();
    when(b.CreateICmpEQ(lane, b.getInt32(last)), [&] {
      for (unsigned i = 0; i < count; ++i)
        b.CreateAlignedStore(upTo[i], place(number(i)), align);
    });
    barrier();
    // A lane takes `each` neighbouring words.
    unsigned words = count * warps, each = llvm::divideCeil(words, kWarp);
    llvm::Value *own = nullptr, *none = neutral(kind, type);
    for (unsigned i = 0; i < each; ++i) {
      llvm::Value *at =
          b.CreateAdd(b.CreateMul(lane, b.getInt32(each)), b.getInt32(i));
      llvm::Value *word = nullptr;
      auto read = [&]() -> llvm::Value * {
        return b.CreateAlignedLoad(type, place(at), align);
      };
      if (each * kWarp == words)
        word = read();
      else
        word = when(b.CreateICmpULT(at, b.getInt32(words)), none, read);
      own = own ? join(own, word) : word;
    }
    llvm::Value *through = warpScan(kind, own, lane, /*reverse=*/false, kWarp);
    llvm::Value *ahead =
        warpShift(kind, through, lane, /*reverse=*/false, kWarp);
    for (unsigned i = 0; i < count; ++i) {
      llvm::Value *n = number(i);
      llvm::Value *group = b.CreateUDiv(n, b.getInt32(each));
      llvm::Value *base = join(all, laneOf(ahead, group));
      llvm::Value *first = b.CreateMul(group, b.getInt32(each));
      for (unsigned j = 0; j + 1 < each; ++j) {
        llvm::Value *at = b.CreateAdd(first, b.getInt32(j));
        llvm::Value *word = b.CreateAlignedLoad(type, place(at), align);
        base = b.CreateSelect(b.CreateICmpULT(at, n), join(base, word), base);
      }
      before[i] = join(base, before[i]);
    }
    all = join(all, laneOf(through, b.getInt32(kWarp - 1)));
  }
  // Of many elements the registers keep the narrow ones, widened once more.
  constexpr unsigned many = 32;
  auto wide = op.getTile().getDefiningOp<arith::ExtFOp>();
  bool again = wide && count * width >= many && width % 2 == 0 &&
               getElementTypeOrSelf(wide.getIn().getType()).isBF16();
  Parts result(count);
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *part = tile[partAt(i)];
    if (again) {
      bool kept = std::exchange(packed, true);
      part = unpack(parts(wide.getIn())[partAt(i)]);
      packed = kept;
    }
    result[partAt(i)] =
        scanLanes(kind, part, before[i], op.getExclusive(), reverse, width);
  }
  set(op.getResult(), std::move(result));
  set(op.getTotal(), {all});
  return success();
}

LogicalResult GpuLowering::scanRows(tile::ScanRowsOp op) {
  vector::CombiningKind kind = op.getKind();
  bool reverse = op.getReverse();
  unsigned columns = op.getColumns(),
           lanes = std::max(1u, columns / width); // threads of a row
  if (lanes > kWarp)
    return op.emitOpError("has rows of ")
           << columns << " lanes, a warp has " << kWarp * width;
  llvm::Value *lane =
      b.CreateTrunc(b.CreateAnd(thread, b.getInt64(kWarp - 1)), b.getInt32Ty());
  Parts result;
  for (llvm::Value *part : Parts(parts(op.getTile()))) {
    llvm::Value *before = neutral(kind, part->getType()->getScalarType());
    if (lanes > 1) {
      llvm::Value *upTo =
          warpScan(kind, foldLanes(kind, part, reverse), lane, reverse, lanes);
      before = warpShift(kind, upTo, lane, reverse, lanes);
    }
    result.push_back(scanLanes(kind, part, before, op.getExclusive(), reverse,
                               std::min(columns, width)));
  }
  set(op.getResult(), std::move(result));
  return success();
}

LogicalResult GpuLowering::clusterScan(tile::ClusterScanOp op) {
  vector::CombiningKind kind = op.getKind();
  if (programs > 1)
    return op.emitOpError("takes programs that are blocks");
  Parts own = parts(op.getValue());
  bool isTile = isa<VectorType>(op.getValue().getType());
  llvm::Type *type = own.front()->getType();
  llvm::Align align(
      llvm::PowerOf2Ceil(type->getPrimitiveSizeInBits().getFixedValue() / 8));
  llvm::Value *memory =
      sharedArray(type, isTile ? uint64_t(own.size()) * threads : 1,
                  "_cluster" + llvm::Twine(exchanges++));
  cast<llvm::GlobalVariable>(memory)->setAlignment(
      std::max(align, llvm::Align(16)));
  auto place = [&](unsigned part) -> llvm::Value * {
    if (!isTile)
      return memory;
    return b.CreateInBoundsGEP(
        type, memory,
        b.CreateAdd(b.getInt64(uint64_t(part) * threads), thread));
  };
  if (!isa<tile::FuncOp>(op->getParentOp()))
    clusterBarrier();
  for (unsigned part = 0; part < own.size(); ++part) {
    if (isTile)
      b.CreateAlignedStore(own[part], place(part), align);
    else
      when(b.CreateICmpEQ(thread, b.getInt64(0)),
           [&] { b.CreateAlignedStore(own[part], place(part), align); });
  }
  clusterBarrier();
  llvm::Value *rank =
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank,
                        llvm::ArrayRef<llvm::Value *>());
  Parts result;
  for (unsigned part = 0; part < own.size(); ++part) {
    llvm::Constant *none = neutral(kind, type->getScalarType());
    llvm::Value *before = isTile
                              ? llvm::ConstantVector::getSplat(
                                    llvm::ElementCount::getFixed(width), none)
                              : none;
    for (unsigned i = 0; i < cluster; ++i) {
      unsigned block = op.getReverse() ? cluster - 1 - i : i;
      llvm::Value *from =
          b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {},
                            {place(part), b.getInt32(block)});
      llvm::Value *one = b.CreateAlignedLoad(type, from, align);
      llvm::Value *earlier = op.getReverse()
                                 ? b.CreateICmpUGT(b.getInt32(block), rank)
                                 : b.CreateICmpULT(b.getInt32(block), rank);
      before = b.CreateSelect(
          earlier, combine(kind, arith::FastMathFlags::none, before, one),
          before);
    }
    result.push_back(before);
  }
  set(op.getBefore(), std::move(result));
  return success();
}

//===-- Lists -------------------------------------------------------------===//

LogicalResult GpuLowering::sharedBuffer(tile::SharedOp op) {
  tile::BufferType type = op.getBuffer().getType();
  BufferRef ref;
  ref.memory = scalarType(type.getElementType());
  if (ref.memory->isIntegerTy(1))
    ref.memory = b.getInt8Ty();
  ref.bytes = type.getElementBytes();
  listBytes += op.getCount() * ref.bytes * programs;
  if (listBytes > uint64_t(config::kStaticSharedBytes))
    return op.emitOpError("and those before it take ")
           << listBytes << " bytes of shared memory, which has "
           << config::kStaticSharedBytes;
  ref.pointer = sharedArray(ref.memory, op.getCount() * programs,
                            "_list" + llvm::Twine(exchanges++));
  if (group)
    ref.pointer = address(ref, b.CreateMul(group, b.getInt64(op.getCount())));
  buffers[op.getBuffer()] = ref;
  return success();
}

void GpuLowering::appendLanes(tile::AppendOp op) {
  BufferRef counter = buffers[op.getCounter()];
  llvm::SyncScope::ID block =
      module.getContext().getOrInsertSyncScopeID("block");
  for (auto [p, mask] : llvm::enumerate(Parts(parts(op.getMask()))))
    // Most threads have none to add.
    when(b.CreateOrReduce(mask), [&, p = p, mask = mask] {
      for (unsigned j = 0; j < width; ++j)
        when(b.CreateExtractElement(mask, j), [&] {
          llvm::Value *slot = b.CreateAtomicRMW(
              llvm::AtomicRMWInst::Add, counter.pointer, b.getInt32(1),
              llvm::Align(4), llvm::AtomicOrdering::Monotonic, block);
          when(b.CreateICmpULT(slot, b.getInt32(op.getLimit())), [&] {
            for (auto [value, list] :
                 llvm::zip(op.getValues(), op.getLists())) {
              BufferRef ref = buffers[list];
              b.CreateAlignedStore(
                  b.CreateExtractElement(toMemory(parts(value)[p], ref), j),
                  address(ref, b.CreateZExt(slot, b.getInt64Ty())),
                  llvm::Align(ref.bytes));
            }
          });
        });
    });
}

} // namespace knapper::lower
