// Blocks of rows in registers: reading them, turning them.
#include "codegen/lower/cpu/CpuLowering.h"

using namespace mlir;

namespace knapper::lower {

Parts CpuLowering::pieces(Value value, unsigned lanes) {
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

void CpuLowering::setPieces(Value value, llvm::ArrayRef<llvm::Value *> pieces) {
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

LogicalResult CpuLowering::loadRows(tile::LoadRowsOp op) {
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

namespace {

/// Rows of `length` elements, as many as a register has lanes, which lie in
/// memory as one run of `length` registers. The largest power of two in the
/// length is a unit; then the units of a row are an odd number m, and a
/// register holds a power of two of them, W. A group of m registers has W rows.
///
///   in memory   unit c of row r is unit r * m + c of its group
///   spread      register i of the group has, at its unit l, that of register
///               (i + shift(l)) mod m: always the same unit of a row, of W
///               different rows
///
/// From one to the other each register is blended with another one about
/// log2(m) times. That is less than to pick every lane from m registers.
struct Run {
  unsigned length, lanes, unit, m, units;

  Run(unsigned length, unsigned lanes)
      : length(length), lanes(lanes), unit(length & -length), m(length / unit),
        units(lanes / unit) {}

  /// x with x * units = 1 modulo m.
  unsigned inverse() const {
    for (unsigned x = 0; x < m; ++x)
      if (x * units % m == 1 % m)
        return x;
    llvm_unreachable("an odd number and a power of two");
  }
  unsigned shift(unsigned l) const { return (m - l % m) * inverse() % m; }
  /// The spread register, of all groups, and the lane in it of an element of a
  /// row, as one number.
  unsigned laneOf(unsigned row, unsigned element) const {
    unsigned c = element / unit, group = row / units;
    unsigned l = (row % units * m + c) % units;
    return (group * m + c * inverse() % m) * lanes + l * unit + element % unit;
  }

  /// Spreads a group, or (`back`) puts it in order.
  void transpose(llvm::IRBuilder<> &b,
                 llvm::MutableArrayRef<llvm::Value *> group, bool back) const {
    for (unsigned step = 1; step < m; step *= 2) {
      llvm::SmallVector<int> mask;
      for (unsigned i = 0; i < lanes; ++i)
        mask.push_back(shift(i / unit) & step ? lanes + i : i);
      Parts next;
      for (unsigned i = 0; i < m; ++i)
        next.push_back(b.CreateShuffleVector(
            group[i], group[(i + (back ? m - step : step)) % m], mask));
      llvm::copy(next, group.begin());
    }
  }
};

} // namespace

LogicalResult CpuLowering::transpose(tile::TransposeOp op) {
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
  bool spreads = rows == width && columns <= width,
       joins = columns == width && rows <= width;
  if (!spreads && !joins) {
    for (unsigned at = 0; at < lanes; at += width) {
      llvm::SmallVector<unsigned> from;
      for (unsigned lane = at; lane < at + width; ++lane)
        from.push_back(lane % rows * columns + lane / rows);
      result.push_back(chosen(b, source, from));
    }
    setPieces(op.getResult(), result);
    return success();
  }
  Run run(spreads ? columns : rows, width);
  auto transposeGroups = [&](Parts &pieces) {
    for (unsigned first = 0; first < run.length; first += run.m)
      run.transpose(b, llvm::MutableArrayRef(pieces).slice(first, run.m),
                    joins);
  };
  if (spreads)
    transposeGroups(source);
  // Lanes of whole registers: by row, or by where the run wants them.
  llvm::SmallVector<unsigned> from(lanes);
  for (unsigned row = 0; row < width; ++row)
    for (unsigned k = 0; k < run.length; ++k) {
      unsigned spread = run.laneOf(row, k), element = k * width + row;
      (spreads ? from[element] : from[spread]) = spreads ? spread : element;
    }
  for (unsigned at = 0; at < lanes; at += width)
    result.push_back(chosen(b, source, llvm::ArrayRef(from).slice(at, width)));
  if (joins)
    transposeGroups(result);
  setPieces(op.getResult(), result);
  return success();
}

} // namespace knapper::lower
