// Blocks of rows in registers: reading them, turning them.
#include "codegen/lower/Cpu.h"

using namespace mlir;

namespace knapper::lower {

Parts CpuEmitter::pieces(Value value, unsigned lanes) {
  Parts &known = parts(value);
  if (laneCount(known.front()->getType()) == lanes)
    return known;
  llvm::Value *whole = join(known);
  Parts result;
  for (unsigned at = 0; at < laneCount(whole->getType()); at += lanes)
    result.push_back(b.CreateShuffleVector(
        whole, llvm::to_vector(llvm::seq<int>(at, at + lanes))));
  return result;
}

void CpuEmitter::setPieces(Value value, llvm::ArrayRef<llvm::Value *> pieces) {
  Parts whole(pieces);
  unsigned lanes = cast<VectorType>(value.getType()).getDimSize(0);
  unsigned wanted = partLanes(lanes).front();
  // Halves of halves: each join is then one that LLVM knows for what it is.
  while (laneCount(whole.front()->getType()) < wanted) {
    Parts joined;
    for (size_t i = 0; i < whole.size(); i += 2)
      joined.push_back(join({whole[i], whole[i + 1]}));
    whole = std::move(joined);
  }
  set(value, whole);
}

LogicalResult CpuEmitter::loadRows(tile::LoadRowsOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  unsigned columns = op.getColumns();
  int64_t count = op.getType().getDimSize(0) / columns;
  llvm::Type *type = llvm::FixedVectorType::get(ref->memory, columns);
  auto atLeast = [](llvm::Value *value, int64_t least) {
    auto *number = dyn_cast<llvm::ConstantInt>(value);
    return number && number->getSExtValue() >= least;
  };
  llvm::Value *rows = scalar(op.getRows()), *valid = scalar(op.getValid());
  bool allRows = atLeast(rows, count), allColumns = atLeast(valid, columns);
  llvm::Value *offset = scalar(op.getOffset());
  Parts result;
  for (int64_t i = 0; i < count; ++i) {
    llvm::Value *part = allColumns ? nullptr : valid;
    if (!allRows)
      part = b.CreateSelect(b.CreateICmpSGT(rows, b.getInt64(i)), valid,
                            b.getInt64(0));
    result.push_back(
        loadPart(*ref, offset, type, llvm::Align(ref->bytes), part, nullptr));
    offset = b.CreateAdd(offset, scalar(op.getStride()));
  }
  setPieces(op.getResult(), result);
  return success();
}

/// Lane i of the result is lane `lanes[i]` of the pieces in a row, taken from
/// one piece after the other.
static llvm::Value *chosen(llvm::IRBuilder<> &b,
                           llvm::ArrayRef<llvm::Value *> pieces,
                           llvm::ArrayRef<unsigned> lanes) {
  unsigned width = laneCount(pieces.front()->getType());
  llvm::Value *result = nullptr;
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    llvm::SmallVector<int> mask;
    bool any = false;
    for (unsigned i = 0; i < lanes.size(); ++i) {
      bool mine = lanes[i] / width == number;
      any |= mine;
      if (result)
        mask.push_back(mine ? int(width + lanes[i] % width) : int(i));
      else
        mask.push_back(mine ? int(lanes[i] % width) : -1);
    }
    if (any)
      result = result ? b.CreateShuffleVector(result, piece, mask)
                      : b.CreateShuffleVector(piece, mask);
  }
  return result;
}

LogicalResult CpuEmitter::transpose(tile::TransposeOp op) {
  unsigned columns = op.getColumns();
  unsigned lanes = op.getType().getDimSize(0), rows = lanes / columns;
  if (rows == columns && llvm::isPowerOf2_32(rows)) {
    // Two rows exchange what lies on the wrong side of the diagonal, in blocks
    // of 1, 2, 4, ... elements.
    Parts r = pieces(op.getInput(), columns);
    for (unsigned d = 1; d < rows; d *= 2)
      for (unsigned i = 0; i < rows; ++i) {
        if (i & d)
          continue;
        llvm::SmallVector<int> upper, lower;
        for (unsigned lane = 0; lane < columns; ++lane) {
          upper.push_back(lane & d ? columns + (lane ^ d) : lane);
          lower.push_back(lane & d ? columns + lane : lane ^ d);
        }
        llvm::Value *x = r[i], *y = r[i + d];
        r[i] = b.CreateShuffleVector(x, y, upper);
        r[i + d] = b.CreateShuffleVector(x, y, lower);
      }
    setPieces(op.getResult(), r);
    return success();
  }
  unsigned width = target.lanes(DType::f32);
  if (lanes % width)
    return op.emitOpError("has no lowering for CPUs at this size");
  Parts source = pieces(op.getInput(), width), result;
  for (unsigned at = 0; at < lanes; at += width) {
    llvm::SmallVector<unsigned> from;
    for (unsigned lane = at; lane < at + width; ++lane)
      from.push_back(lane % rows * columns + lane / rows);
    result.push_back(chosen(b, source, from));
  }
  setPieces(op.getResult(), result);
  return success();
}

} // namespace knapper::lower
