// Rotary position embedding: x * cos + concat(-x[half:], x[:half]) * sin.
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// Whether the two halves of the last dim are provably equal: elementwise on
/// concat(f, f).
static bool hasEqualHalves(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return false;
  if (splatOf(value))
    return true;
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getInputs().size() == 2 &&
           static_cast<int64_t>(concat.getDim()) == rankOf(value) - 1 &&
           concat.getInputs()[0] == concat.getInputs()[1];
  if (isElementwise(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return hasEqualHalves(operand, depth + 1);
    });
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    // The last dim is the operand's last dim, or repeats one element.
    ArrayRef<int64_t> dims = broadcast.getDims();
    if (dims.empty() || dims.back() != rankOf(value) - 1 ||
        dimOf(broadcast.getInput(), dims.size() - 1).isConstant(1))
      return true;
    return hasEqualHalves(broadcast.getInput(), depth + 1);
  }
  return false;
}

/// The first half of what `hasEqualHalves` accepted.
static Value firstHalf(PatternRewriter &rewriter, Value value, Dim half) {
  Operation *op = value.getDefiningOp();
  SmallVector<Dim> dims = dimsOf(value);
  if (Value scalar = scalarOf(rewriter, value)) {
    dims.back() = half;
    return makeBroadcast(rewriter, op->getLoc(), scalar, dims, {});
  }
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getInputs()[0];
  dims.back() = half;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    ArrayRef<int64_t> map = broadcast.getDims();
    Value input = broadcast.getInput();
    if (!map.empty() && map.back() == rankOf(value) - 1 &&
        !dimOf(input, map.size() - 1).isConstant(1))
      input = firstHalf(rewriter, input, half);
    return makeBroadcast(rewriter, op->getLoc(), input, dims, map);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(firstHalf(rewriter, operand, half));
  return cloneElementwise(rewriter, op, operands);
}

/// A table broadcast to [B, H, S, D]: its source, if it has one row for all
/// heads and its halves are equal.
static BroadcastOp asTable(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getDims().empty() ||
      broadcast.getDims().back() != 3)
    return {};
  Value source = broadcast.getInput();
  bool hasRows = false;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims())) {
    Dim size = dimOf(source, i);
    if (dim == 1 && !size.isConstant(1))
      return {};
    if ((dim == 2 || dim == 3) && !(size == dimOf(value, dim)))
      return {};
    hasRows |= dim == 2;
  }
  return hasRows && hasEqualHalves(source) ? broadcast : BroadcastOp();
}

/// [B or 1, S, D/2]
static Value makeTable(PatternRewriter &rewriter, BroadcastOp table, Dim half) {
  Value value = firstHalf(rewriter, table.getInput(), half);
  SmallVector<Dim> dims = {half.like(1), dimOf(table.getResult(), 2), half};
  for (auto [i, dim] : llvm::enumerate(table.getDims()))
    if (dim == 0)
      dims[0] = dimOf(value, i);
  return makeReshape(rewriter, table.getLoc(), value, dims);
}

namespace {
/// A range of a tensor's last dim.
struct DimRange {
  Value source;
  Dim start, size;
};
} // namespace

/// The value as a range of the last of four dims: what it slices, or all of it.
static DimRange lastDimRange(Value value) {
  Dim size = dimOf(value, 3);
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice)
    return {value, size.like(0), size};
  SmallVector<Dim> starts = dimsOf(slice.getStarts());
  for (int64_t i = 0; i < 3; ++i)
    if (!starts[i].isConstant(0) ||
        !(dimOf(value, i) == dimOf(slice.getInput(), i)))
      return {value, size.like(0), size};
  if (llvm::any_of(slice.getSteps(), [](int64_t s) { return s != 1; }))
    return {value, size.like(0), size};
  return {slice.getInput(), starts[3], size};
}

/// Whether `rotated` is concat(-x[half:], x[:half]) along the last dim.
static bool isRotated(Value rotated, Value x) {
  auto concat = rotated.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || concat.getDim() != 3 ||
      rotated.getType() != x.getType())
    return false;
  auto neg = concat.getInputs()[0].getDefiningOp<NegOp>();
  std::optional<Dim> half = dimOf(x, 3).exactDiv(dimOf(x, 3).like(2));
  if (!neg || !half)
    return false;
  DimRange all = lastDimRange(x), high = lastDimRange(neg.getInput()),
           low = lastDimRange(concat.getInputs()[1]);
  if (low.source == x) // slices of a slice were not joined
    all = {x, half->like(0), dimOf(x, 3)};
  return high.source == all.source && low.source == all.source &&
         low.start == all.start && high.start == all.start + *half &&
         low.size == *half && high.size == *half;
}

static LogicalResult findRope(AddOp op, PatternRewriter &rewriter) {
  for (unsigned side : {0, 1}) {
    auto straight = op->getOperand(side).getDefiningOp<MulOp>();
    auto rotated = op->getOperand(1 - side).getDefiningOp<MulOp>();
    if (!straight || !rotated)
      return failure();
    for (unsigned t : {0, 1})
      for (unsigned s : {0, 1}) {
        Value x = straight->getOperand(s);
        if (rankOf(x) != 4 || !isRotated(rotated->getOperand(t), x))
          continue;
        BroadcastOp cos = asTable(straight->getOperand(1 - s)),
                    sin = asTable(rotated->getOperand(1 - t));
        if (!cos || !sin)
          continue;
        Dim half = *dimOf(x, 3).exactDiv(dimOf(x, 3).like(2));
        Value cosTable = makeTable(rewriter, cos, half),
              sinTable = makeTable(rewriter, sin, half);
        if (cosTable.getType() != sinTable.getType())
          return failure();
        rewriter.replaceOpWithNewOp<RopeOp>(op, x, cosTable, sinTable);
        return success();
      }
  }
  return failure();
}

/// concat(rope(x[:r]), x[r:]) is a rope of x that leaves the rest alone.
static LogicalResult takeRest(ConcatOp op, PatternRewriter &rewriter) {
  if (op.getInputs().size() != 2 || rankOf(op) != 4 || op.getDim() != 3)
    return failure();
  auto rope = op.getInputs()[0].getDefiningOp<RopeOp>();
  if (!rope || !(dimOf(rope.getCos(), 2) * 2 == dimOf(rope.getInput(), 3)))
    return failure();
  DimRange rotated = lastDimRange(rope.getInput()),
           rest = lastDimRange(op.getInputs()[1]);
  if (rotated.source != rest.source || !rotated.start.isConstant(0) ||
      !(rest.start == rotated.size) || rotated.source.getType() != op.getType())
    return failure();
  rewriter.replaceOpWithNewOp<RopeOp>(op, rotated.source, rope.getCos(),
                                      rope.getSin(), rope.getInterleavedAttr());
  return success();
}

void knapper::populateRopePatterns(RewritePatternSet &patterns) {
  patterns.add(findRope);
  patterns.add(takeRest);
}
