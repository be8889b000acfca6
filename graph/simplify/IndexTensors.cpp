// Comparisons and gathers whose indices are affine in the position: position
// tables, masks that exporters write as gathers over index grids, one-hot rows.
#include "graph/simplify/AffineIndex.h"
#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"
#include "ir/tensor/SymbolicValue.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// Comparisons with one outcome for every position: `position >= 0`.
static LogicalResult knownCompare(CompareOp op, PatternRewriter &rewriter) {
  if (isa<FloatType>(elementTypeOf(op.getLhs())))
    return failure();
  auto difference = affineDifference(op.getLhs(), op.getRhs());
  if (!difference)
    return failure();
  std::optional<int64_t> offset = difference->offset.asConstant();
  if (!offset)
    return failure();
  bool growing = true, falling = true;
  for (Dim coefficient : difference->coefficients) {
    std::optional<int64_t> number = coefficient.asConstant();
    growing &= number && *number >= 0;
    falling &= number && *number <= 0;
  }
  bool equal = growing && falling;
  std::optional<int64_t> low, high;
  if (growing)
    low = offset;
  if (falling)
    high = offset;
  std::optional<bool> known;
  auto decide = [&](bool yes, bool no) {
    if (yes || no)
      known = yes;
  };
  switch (op.getPredicate()) {
  case ComparePredicate::ge:
    decide(low && *low >= 0, high && *high < 0);
    break;
  case ComparePredicate::gt:
    decide(low && *low > 0, high && *high <= 0);
    break;
  case ComparePredicate::le:
    decide(high && *high <= 0, low && *low > 0);
    break;
  case ComparePredicate::lt:
    decide(high && *high < 0, low && *low >= 0);
    break;
  case ComparePredicate::eq:
    decide(equal && *offset == 0, (low && *low > 0) || (high && *high < 0));
    break;
  case ComparePredicate::ne:
    decide((low && *low > 0) || (high && *high < 0), equal && *offset == 0);
    break;
  }
  if (!known)
    return failure();
  rewriter.replaceOp(op,
                     makeSplat(rewriter, op.getLoc(),
                               cast<RankedTensorType>(op.getType()), *known));
  return success();
}

/// `small` holds result dims `map` in any order: transpose and broadcast.
static Value spread(PatternRewriter &rewriter, Location location, Value small,
                    ArrayRef<int64_t> map, ArrayRef<Dim> dims) {
  SmallVector<int64_t> order(map.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](int64_t a, int64_t b) { return map[a] < map[b]; });
  small = makeTranspose(rewriter, location, small, order);
  SmallVector<int64_t> sorted(map);
  llvm::sort(sorted);
  return makeBroadcast(rewriter, location, small, dims, sorted);
}

/// gather with affine indices: a slice, its dim split into the index dims.
static LogicalResult gatherOfAffine(GatherOp op, PatternRewriter &rewriter) {
  auto index = affineIndex(op.getIndices());
  if (!index)
    return failure();
  int64_t axis = op.getDim();
  SmallVector<Dim> in = dimsOf(op.getInput()),
                   positions = dimsOf(op.getIndices());
  // The index dims as digits of one number, least significant first.
  SmallVector<int64_t> digits;
  Dim extent = in[axis].like(1);
  SmallVector<int64_t> left;
  for (auto [d, coefficient] : llvm::enumerate(index->coefficients))
    if (!coefficient.isConstant(0))
      left.push_back(d);
  while (!left.empty()) {
    auto next = llvm::find_if(
        left, [&](int64_t d) { return index->coefficients[d] == extent; });
    if (next == left.end())
      return failure();
    digits.push_back(*next);
    extent = extent * positions[*next];
    left.erase(next);
  }
  Dim offset = index->offset;
  if (std::optional<int64_t> number = offset.asConstant();
      number && *number < 0) {
    if (!digits.empty())
      return failure();
    offset = offset + in[axis];
  }
  // Every index lies inside.
  std::optional<int64_t> room = (in[axis] - offset - extent).asConstant();
  std::optional<int64_t> first = offset.asConstant();
  if (!room || *room < 0 || (first && *first < 0))
    return failure();
  Value x =
      makeSlice(rewriter, op.getLoc(), op.getInput(), axis, offset, extent);
  SmallVector<Dim> split(in.begin(), in.begin() + axis);
  SmallVector<int64_t> map;
  for (int64_t d = 0; d < axis; ++d)
    map.push_back(d);
  for (int64_t d : llvm::reverse(digits)) {
    split.push_back(positions[d]);
    map.push_back(axis + d);
  }
  for (size_t d = axis + 1; d < in.size(); ++d) {
    split.push_back(in[d]);
    map.push_back(d - 1 + positions.size());
  }
  x = makeReshape(rewriter, op.getLoc(), x, split);
  rewriter.replaceOp(
      op, spread(rewriter, op.getLoc(), x, map, dimsOf(op.getResult())));
  return success();
}

/// gather_nd over an index grid: every index component is one position, or a
/// number.
static LogicalResult gatherNdOfGrid(GatherNdOp op, PatternRewriter &rewriter) {
  auto concat = op.getIndices().getDefiningOp<ConcatOp>();
  int64_t depth = *dimsOf(op.getIndices()).back().asConstant();
  int64_t rank = rankOf(op.getIndices());
  if (op.getBatchDims() != 0 || !concat ||
      static_cast<int64_t>(concat.getInputs().size()) != depth ||
      static_cast<int64_t>(concat.getDim()) != rank - 1)
    return failure();
  SmallVector<Dim> in = dimsOf(op.getInput()), grid = dimsOf(op.getIndices());
  SmallVector<int64_t> map;
  SmallVector<std::pair<int64_t, Dim>> fixed;
  for (int64_t k = 0; k < depth; ++k) {
    auto index = affineIndex(concat.getInputs()[k]);
    if (!index)
      return failure();
    int64_t along = -1;
    for (auto [d, coefficient] : llvm::enumerate(index->coefficients)) {
      if (coefficient.isConstant(0))
        continue;
      if (along >= 0 || !coefficient.isConstant(1) ||
          static_cast<int64_t>(d) == rank - 1)
        return failure();
      along = d;
    }
    if (along < 0) {
      std::optional<int64_t> number = index->offset.asConstant();
      std::optional<int64_t> size = in[k].asConstant();
      if (!number || !size || *number < 0 || *number >= *size)
        return failure();
      fixed.push_back({k, index->offset});
      continue;
    }
    if (!index->offset.isConstant(0) || !(grid[along] == in[k]) ||
        llvm::is_contained(map, along))
      return failure();
    map.push_back(along);
  }
  Value x = op.getInput();
  SmallVector<Dim> dims;
  for (auto [k, start] : fixed)
    x = makeSlice(rewriter, op.getLoc(), x, k, start, start.like(1));
  for (auto [d, dim] : llvm::enumerate(in))
    if (!llvm::any_of(
            fixed, [&](auto &f) { return f.first == static_cast<int64_t>(d); }))
      dims.push_back(dim);
  x = makeReshape(rewriter, op.getLoc(), x, dims);
  for (size_t d = depth; d < in.size(); ++d)
    map.push_back(rank - 1 + d - depth);
  rewriter.replaceOp(
      op, spread(rewriter, op.getLoc(), x, map, dimsOf(op.getResult())));
  return success();
}

/// scatter_nd whose indices are a grid, as exporters write x[:, :, 0] = y: each
/// position of the updates is told apart by an index of its own, so that no two
/// meet.
static LogicalResult scatterNdOfGrid(ScatterNdOp op,
                                     PatternRewriter &rewriter) {
  constexpr StringLiteral unique = "ts.unique_indices";
  auto concat = op.getIndices().getDefiningOp<ConcatOp>();
  if (op.getReduction() || op->hasAttr(unique) || !concat ||
      static_cast<int64_t>(concat.getDim()) + 1 != rankOf(op.getIndices()))
    return failure();
  SmallVector<Dim> grid = dimsOf(op.getIndices());
  llvm::SmallBitVector told(grid.size());
  told.set(grid.size() - 1);
  for (auto [d, dim] : llvm::enumerate(grid))
    if (dim.isConstant(1))
      told.set(d);
  for (Value column : concat.getInputs()) {
    std::optional<AffineIndex> index = affineIndex(column);
    if (!index)
      continue;
    std::optional<size_t> along;
    size_t used = 0;
    for (auto [d, coefficient] : llvm::enumerate(index->coefficients))
      if (!coefficient.isConstant(0)) {
        along = d;
        ++used;
      }
    // A negative index counts from the end and may be another's place.
    if (used == 1 && lowerBound(index->offset).value_or(-1) >= 0 &&
        index->coefficients[*along].asConstant().value_or(0) > 0)
      told.set(*along);
  }
  if (!told.all())
    return failure();
  rewriter.modifyOpInPlace(
      op, [&] { op->setAttr(unique, rewriter.getUnitAttr()); });
  return success();
}

/// The comparison whose outcome a tensor of ones and zeros shows.
static CompareOp comparisonShown(Value value) {
  if (auto convert = value.getDefiningOp<ConvertOp>())
    return convert.getInput().getDefiningOp<CompareOp>();
  auto select = value.getDefiningOp<SelectOp>();
  if (!select || !isSplat(select.getOnTrue(), 1) ||
      !isSplat(select.getOnFalse(), 0))
    return {};
  return select.getCondition().getDefiningOp<CompareOp>();
}

/// dot(one_hot(i), m) is row i of m, and zeros for an i outside. Numerics: what
/// is not finite in m reaches only the results that select it, where the
/// product (0 * inf) spreads NaN over the column; the sign of a zero.
static LogicalResult dotOfOneHot(DotOp op, PatternRewriter &rewriter) {
  Type element = elementTypeOf(op.getResult());
  CompareOp compare = comparisonShown(op.getLhs());
  int64_t last = rankOf(op.getLhs()) - 1;
  if (!compare || compare.getPredicate() != ComparePredicate::eq ||
      !op.getLhsBatch().empty() ||
      op.getLhsContract() != ArrayRef<int64_t>{last} ||
      rankOf(op.getRhs()) != 2 || op.getRhsContract() != ArrayRef<int64_t>{0} ||
      elementTypeOf(op.getRhs()) != element ||
      !isa<IntegerType>(elementTypeOf(compare.getLhs())))
    return failure();
  std::optional<int64_t> rows = dimOf(op.getRhs(), 0).asConstant();
  if (!rows || *rows < 1)
    return failure();
  auto isPosition = [&](Value value) {
    auto index = affineIndex(value);
    if (!index || !index->offset.isConstant(0))
      return false;
    for (auto [d, coefficient] : llvm::enumerate(index->coefficients))
      if (!coefficient.isConstant(static_cast<int64_t>(d) == last))
        return false;
    return true;
  };
  Value chosen = isPosition(compare.getRhs())   ? compare.getLhs()
                 : isPosition(compare.getLhs()) ? compare.getRhs()
                                                : Value();
  auto broadcast = chosen ? chosen.getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!broadcast || llvm::is_contained(broadcast.getDims(), last))
    return failure();

  Location location = op.getLoc();
  SmallVector<Dim> dims = dimsOf(op.getLhs());
  dims.pop_back();
  RankedTensorType type =
      tensorType(op.getContext(), dims, rewriter.getI64Type());
  Value index = makeBroadcast(rewriter, location, broadcast.getInput(), dims,
                              broadcast.getDims());
  if (elementTypeOf(index) != type.getElementType())
    index = ConvertOp::create(rewriter, location, type, index);
  Value first = makeSplat(rewriter, location, type, 0);
  Value end = makeSplat(rewriter, location, type, *rows - 1);
  Value above = MaxOp::create(rewriter, location, index, first);
  Value inside = MinOp::create(rewriter, location, above, end);
  Value row =
      GatherOp::create(rewriter, location, op.getRhs(), inside, /*dim=*/0);
  Value isInside = CompareOp::create(rewriter, location, ComparePredicate::eq,
                                     index, inside);
  SmallVector<int64_t> leading(dims.size());
  std::iota(leading.begin(), leading.end(), 0);
  auto result = cast<RankedTensorType>(op.getType());
  Value mask =
      makeBroadcast(rewriter, location, isInside, dimsOf(result), leading);
  Value zero = makeSplat(rewriter, location, result, 0);
  rewriter.replaceOpWithNewOp<SelectOp>(op, mask, row, zero);
  return success();
}

void knapper::populateIndexPatterns(RewritePatternSet &patterns) {
  patterns.add(knownCompare);
  patterns.add(gatherOfAffine);
  patterns.add(gatherNdOfGrid);
  patterns.add(scatterNdOfGrid);
  patterns.add(dotOfOneHot);
}
