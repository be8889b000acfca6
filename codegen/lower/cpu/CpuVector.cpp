// The vector dialect on values of rank 1, and rank 2 as a list of rows.
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace knapper::lower {

static unsigned lanesOf(Type type) {
  return cast<VectorType>(type).getShape().back();
}
static bool isRank(Type type, int64_t rank) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() == rank;
}

// LLVM takes shuffles of several registers apart at length. Where every
// register of the result comes from two registers at most, as in
// transpositions, it is told so.
llvm::Value *CpuLowering::shuffleByRegister(llvm::Value *x, llvm::Value *y,
                                            llvm::ArrayRef<int> mask) {
  unsigned lanes = target.vectorBytes /
                   std::max(4u, x->getType()->getScalarSizeInBits() / 8);
  unsigned sourceLanes = laneCount(x->getType());
  if (mask.size() <= lanes || mask.size() % lanes || sourceLanes % lanes)
    return nullptr;
  auto source = [&](int lane) { return unsigned(lane) / lanes; };
  Parts pieces;
  for (size_t at = 0; at < mask.size(); at += lanes) {
    llvm::SmallVector<unsigned, 2> from;
    for (int lane : mask.slice(at, lanes))
      if (lane >= 0 && !llvm::is_contained(from, source(lane)))
        from.push_back(source(lane));
    if (from.empty() || from.size() > 2)
      return nullptr;
    auto piece = [&](unsigned number) {
      llvm::Value *whole = number * lanes < sourceLanes ? x : y;
      llvm::SmallVector<int> take;
      for (unsigned i = 0; i < lanes; ++i)
        take.push_back(number * lanes % sourceLanes + i);
      return b.CreateShuffleVector(whole, take);
    };
    llvm::SmallVector<int> within;
    for (int lane : mask.slice(at, lanes))
      within.push_back(
          lane < 0 ? -1
                   : int(lane % lanes + (source(lane) == from[0] ? 0 : lanes)));
    llvm::Value *first = piece(from[0]);
    llvm::Value *second = piece(from.back());
    pieces.push_back(b.CreateShuffleVector(first, second, within));
  }
  return join(pieces);
}

static LogicalResult noLowering(Operation *op) {
  return op->emitOpError("has no lowering from the tile level for these ranks");
}

LogicalResult CpuLowering::shuffle(Value result, llvm::Value *x, llvm::Value *y,
                                   llvm::ArrayRef<int> mask) {
  llvm::Value *whole = y ? shuffleByRegister(x, y, mask) : nullptr;
  if (!whole)
    whole =
        y ? b.CreateShuffleVector(x, y, mask) : b.CreateShuffleVector(x, mask);
  set(result, split(whole, lanesOf(result.getType())));
  return success();
}

llvm::Value *CpuLowering::position(OpFoldResult p) {
  if (auto attr = dyn_cast<Attribute>(p))
    return b.getInt64(cast<IntegerAttr>(attr).getInt());
  return scalar(cast<Value>(p));
}

LogicalResult CpuLowering::vectorOp(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](vector::ReductionOp op) { return reduction(op); })
      .Case<vector::BroadcastOp, vector::ExtractOp, vector::InsertOp,
            vector::ShuffleOp, vector::InterleaveOp, vector::DeinterleaveOp,
            vector::ExtractStridedSliceOp, vector::InsertStridedSliceOp,
            vector::StepOp, vector::CreateMaskOp, vector::ConstantMaskOp,
            vector::BitCastOp, vector::ShapeCastOp, vector::FromElementsOp,
            vector::ToElementsOp, vector::FMAOp>(
          [&](auto op) { return vectorOp(op); })
      .Default([&](Operation *op) {
        return op->emitOpError("has no lowering from the tile level");
      });
}

LogicalResult CpuLowering::vectorOp(vector::BroadcastOp op) {
  Type from = op.getSourceType();
  Parts source = parts(op.getSource()), result;
  if (!isa<VectorType>(from)) {
    for (llvm::Type *type : partTypes(op.getType()))
      result.push_back(splatLike(source[0], type));
  } else if (isRank(from, 1) && isRank(op.getType(), 2) &&
             lanesOf(from) == lanesOf(op.getType())) {
    for (int64_t i = 0; i < cast<VectorType>(op.getType()).getDimSize(0); ++i)
      result.append(source);
  } else if (isRank(from, 1) && isRank(op.getType(), 1) && lanesOf(from) == 1) {
    llvm::Value *one = b.CreateExtractElement(source[0], uint64_t(0));
    for (llvm::Type *type : partTypes(op.getType()))
      result.push_back(splatLike(one, type));
  } else if (from == op.getType()) {
    result = source;
  } else {
    return noLowering(op);
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::ExtractOp op) {
  VectorType from = op.getSourceVectorType();
  llvm::SmallVector<OpFoldResult> at = op.getMixedPosition();
  if (at.empty()) {
    set(op.getResult(), parts(op.getSource()));
    return success();
  }
  Parts source = parts(op.getSource());
  if (from.getRank() == 2) {
    auto row = dyn_cast<Attribute>(at[0]);
    if (!row)
      return op.emitOpError("takes a row by a static position only");
    unsigned pieces = source.size() / from.getDimSize(0);
    unsigned first = cast<IntegerAttr>(row).getInt() * pieces;
    source = Parts(source.begin() + first, source.begin() + first + pieces);
    if (at.size() == 1) {
      set(op.getResult(), source);
      return success();
    }
  }
  set(op.getResult(),
      {b.CreateExtractElement(join(source), position(at.back()))});
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::InsertOp op) {
  VectorType into = op.getDestVectorType();
  llvm::SmallVector<OpFoldResult> at = op.getMixedPosition();
  if (at.empty()) {
    set(op.getResult(), parts(op.getValueToStore()));
    return success();
  }
  Parts dest = parts(op.getDest());
  unsigned first = 0, pieces = dest.size();
  if (into.getRank() == 2) {
    auto row = dyn_cast<Attribute>(at[0]);
    if (!row)
      return op.emitOpError("takes a row by a static position only");
    pieces = dest.size() / into.getDimSize(0);
    first = cast<IntegerAttr>(row).getInt() * pieces;
  }
  Parts row(dest.begin() + first, dest.begin() + first + pieces);
  if (at.size() == size_t(into.getRank()))
    row = split(b.CreateInsertElement(join(row), scalar(op.getValueToStore()),
                                      position(at.back())),
                lanesOf(into));
  else
    row = parts(op.getValueToStore());
  std::copy(row.begin(), row.end(), dest.begin() + first);
  set(op.getResult(), dest);
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::ShuffleOp op) {
  if (!isRank(op.getV1VectorType(), 1))
    return noLowering(op);
  llvm::SmallVector<int> mask(op.getMask().begin(), op.getMask().end());
  llvm::Value *x = joined(op.getV1()), *y = joined(op.getV2());
  unsigned nx = lanesOf(op.getV1VectorType());
  unsigned ny = lanesOf(op.getV2VectorType());
  if (nx != ny) { // LLVM wants equal types: widen the shorter one
    unsigned n = std::max(nx, ny);
    auto wide = [&](llvm::Value *v, unsigned lanes) {
      llvm::SmallVector<int> all(n, -1);
      for (unsigned i = 0; i < lanes; ++i)
        all[i] = i;
      return lanes == n ? v : b.CreateShuffleVector(v, all);
    };
    x = wide(x, nx), y = wide(y, ny);
    for (int &lane : mask)
      if (lane >= int(nx))
        lane += n - nx;
  }
  return shuffle(op.getResult(), x, y, mask);
}

LogicalResult CpuLowering::vectorOp(vector::InterleaveOp op) {
  if (!isRank(op.getResultVectorType(), 1))
    return noLowering(op);
  llvm::SmallVector<int> mask;
  int half = lanesOf(op.getSourceVectorType());
  for (int i = 0; i < half; ++i)
    mask.append({i, half + i});
  return shuffle(op.getResult(), joined(op.getLhs()), joined(op.getRhs()),
                 mask);
}

LogicalResult CpuLowering::vectorOp(vector::DeinterleaveOp op) {
  if (!isRank(op.getSourceVectorType(), 1))
    return noLowering(op);
  llvm::Value *whole = joined(op.getSource());
  llvm::SmallVector<int> even, odd;
  for (int i = 0, n = lanesOf(op.getSourceVectorType()); i < n; i += 2)
    even.push_back(i), odd.push_back(i + 1);
  (void)shuffle(op.getRes1(), whole, nullptr, even);
  return shuffle(op.getRes2(), whole, nullptr, odd);
}

LogicalResult CpuLowering::vectorOp(vector::ExtractStridedSliceOp op) {
  if (!isRank(op.getSourceVectorType(), 1))
    return noLowering(op);
  int offset = cast<IntegerAttr>(op.getOffsets()[0]).getInt();
  unsigned lanes = lanesOf(op.getType());
  if (Parts &whole = parts(op.getSource());
      laneCount(whole.front()->getType()) == lanes &&
      offset % lanes == 0) { // one of the parts
    set(op.getResult(), split(whole[offset / lanes], lanes));
    return success();
  }
  llvm::SmallVector<int> mask;
  for (unsigned i = 0; i < lanes; ++i)
    mask.push_back(offset + i);
  return shuffle(op.getResult(), joined(op.getSource()), nullptr, mask);
}

LogicalResult CpuLowering::vectorOp(vector::InsertStridedSliceOp op) {
  if (!isRank(op.getDestVectorType(), 1))
    return noLowering(op);
  int offset = cast<IntegerAttr>(op.getOffsets()[0]).getInt();
  int n = lanesOf(op.getDestVectorType());
  int m = lanesOf(op.getSourceVectorType());
  llvm::SmallVector<int> wide(n, -1), mask(n);
  for (int i = 0; i < n; ++i) {
    if (i < m)
      wide[i] = i;
    mask[i] = i >= offset && i < offset + m ? n + i - offset : i;
  }
  return shuffle(op.getResult(), joined(op.getDest()),
                 b.CreateShuffleVector(joined(op.getValueToStore()), wide),
                 mask);
}

LogicalResult CpuLowering::vectorOp(vector::StepOp op) {
  set(op.getResult(), split(step(lanesOf(op.getType()), b.getInt64Ty()),
                            lanesOf(op.getType())));
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::CreateMaskOp op) {
  if (!isRank(op.getType(), 1))
    return noLowering(op);
  unsigned lanes = lanesOf(op.getType());
  set(op.getResult(),
      split(firstLanes(scalar(op.getOperand(0)), lanes, 4), lanes));
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::ConstantMaskOp op) {
  if (!isRank(op.getType(), 1))
    return noLowering(op);
  unsigned lanes = lanesOf(op.getType());
  set(op.getResult(),
      split(firstLanes(b.getInt64(op.getMaskDimSizes()[0]), lanes, 4), lanes));
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::BitCastOp op) {
  if (!isRank(op.getType(), 1))
    return noLowering(op);
  unsigned lanes = lanesOf(op.getType());
  set(op.getResult(),
      split(b.CreateBitCast(
                joined(op.getSource()),
                vectorType(getElementTypeOrSelf(op.getType()), lanes)),
            lanes));
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::ShapeCastOp op) {
  llvm::Value *whole = nullptr;
  VectorType from = op.getSourceVectorType(), to = op.getResultVectorType();
  Parts source = parts(op.getSource());
  auto types = partTypes(to);
  if (llvm::equal(types, llvm::map_range(source, [](llvm::Value *part) {
                    return part->getType();
                  }))) { // the same parts
    set(op.getResult(), source);
    return success();
  }
  if (from.getRank() == 2) { // rows of odd widths: row by row
    unsigned pieces = source.size() / from.getDimSize(0);
    Parts rows;
    for (size_t i = 0; i < source.size(); i += pieces)
      rows.push_back(join(llvm::ArrayRef(source).slice(i, pieces)));
    whole = join(rows);
  } else {
    whole = join(source);
  }
  if (to.getRank() == 1) {
    set(op.getResult(), split(whole, to.getDimSize(0)));
    return success();
  }
  Parts result;
  for (int64_t row = 0, n = to.getDimSize(1); row < to.getDimSize(0); ++row) {
    llvm::SmallVector<int> mask;
    for (int64_t i = 0; i < n; ++i)
      mask.push_back(row * n + i);
    result.append(split(b.CreateShuffleVector(whole, mask), n));
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::FromElementsOp op) {
  if (!isRank(op.getType(), 1))
    return noLowering(op);
  unsigned lanes = lanesOf(op.getType());
  llvm::Value *whole = llvm::PoisonValue::get(
      vectorType(getElementTypeOrSelf(op.getType()), lanes));
  for (auto [i, element] : llvm::enumerate(op.getElements()))
    whole = b.CreateInsertElement(whole, scalar(element), i);
  set(op.getResult(), split(whole, lanes));
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::ToElementsOp op) {
  if (!isRank(op.getSource().getType(), 1))
    return noLowering(op);
  llvm::Value *whole = joined(op.getSource());
  for (auto [i, element] : llvm::enumerate(op.getElements()))
    set(element, {b.CreateExtractElement(whole, i)});
  return success();
}

LogicalResult CpuLowering::vectorOp(vector::FMAOp op) {
  Parts result;
  for (auto [x, y, z] :
       llvm::zip(parts(op.getLhs()), parts(op.getRhs()), parts(op.getAcc())))
    result.push_back(
        b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z}));
  set(op.getResult(), result);
  return success();
}

LogicalResult CpuLowering::reduction(vector::ReductionOp op) {
  Parts p = wideParts(op);
  if (!isOrdered(op)) {
    finishReduction(op, combineAll(op, p));
    return success();
  }
  llvm::Value *result = nullptr;
  for (llvm::Value *part : p)
    for (unsigned i = 0; i < laneCount(part->getType()); ++i) {
      llvm::Value *lane = b.CreateExtractElement(part, i);
      result = result ? combine(op, result, lane) : lane;
    }
  finishReduction(op, result);
  return success();
}

} // namespace knapper::lower
