// Reshape, transpose, broadcast, slice, concat: among each other.
#include "graph/simplify/Match.h"
#include "graph/simplify/ReshapeFirst.h"
#include "graph/simplify/Simplify.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// broadcast(reshape(x)) where the reshape only adds or removes dims of size 1.
static LogicalResult broadcastOfReshape(BroadcastOp op,
                                        PatternRewriter &rewriter) {
  auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
  if (!reshape)
    return failure();
  SmallVector<Dim> in = dimsOf(reshape.getInput());
  auto units = unitReshapeMap(in, dimsOf(reshape.getResult()));
  if (!units)
    return failure();
  // A dim of size 1 fits any result dim: it takes the one before its
  // neighbour's.
  SmallVector<int64_t> map(in.size());
  int64_t next = rankOf(op);
  for (int64_t i = in.size() - 1; i >= 0 && next >= 0; --i) {
    map[i] = (*units)[i] >= 0 ? op.getDims()[(*units)[i]] : next - 1;
    next = map[i] < next ? map[i] : -1;
  }
  if (next >= 0) {
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(),
                                             reshape.getInput(), map);
    return success();
  }
  // No room for them: only the other dims are broadcast.
  SmallVector<Dim> kept;
  SmallVector<int64_t> keptMap;
  for (auto [i, dim] : llvm::enumerate(in))
    if ((*units)[i] >= 0) {
      kept.push_back(dim);
      keptMap.push_back(op.getDims()[(*units)[i]]);
    }
  if (static_cast<int64_t>(kept.size()) == rankOf(reshape))
    return failure();
  Value small = makeReshape(rewriter, op.getLoc(), reshape.getInput(), kept);
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), small, keptMap);
  return success();
}

/// A broadcast that only adds dims of size 1 is a reshape. That of equal
/// elements would fold and become a broadcast again, also of those that no
/// double holds.
static LogicalResult broadcastOfUnits(BroadcastOp op,
                                      PatternRewriter &rewriter) {
  SplatElementsAttr splat;
  if (splatOf(op.getInput()) ||
      matchPattern(op.getInput(), m_Constant(&splat)) ||
      !(elementCount(op.getInput().getType()) == elementCount(op.getType())))
    return failure();
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
  return success();
}

/// reshape(broadcast(x)) where the reshape only adds or removes dims of size 1:
/// the broadcast comes last.
static LogicalResult reshapeOfBroadcast(ReshapeOp op,
                                        PatternRewriter &rewriter) {
  auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return failure();
  if (rankOf(broadcast.getInput()) == 0) {
    rewriter.replaceOpWithNewOp<BroadcastOp>(
        op, op.getType(), broadcast.getInput(), ArrayRef<int64_t>{});
    return success();
  }
  auto units =
      unitReshapeMap(dimsOf(broadcast.getResult()), dimsOf(op.getResult()));
  if (!units)
    return failure();
  SmallVector<Dim> in = dimsOf(broadcast.getInput()), kept;
  SmallVector<int64_t> map;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    if (int64_t target = (*units)[dim]; target >= 0) {
      kept.push_back(in[i]);
      map.push_back(target);
    }
  Value small = makeReshape(rewriter, op.getLoc(), broadcast.getInput(), kept);
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), small, map);
  return success();
}

/// broadcast(transpose(x)) has no simpler form; transpose(broadcast(x)) does:
/// the small tensor is transposed.
static LogicalResult transposeOfBroadcast(TransposeOp op,
                                          PatternRewriter &rewriter) {
  auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return failure();
  SmallVector<int64_t> position = inversePermutation(op.getPermutation());
  SmallVector<std::pair<int64_t, int64_t>> order; // (result dim, operand dim)
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    order.push_back({position[dim], i});
  llvm::sort(order);
  SmallVector<int64_t> map, permutation;
  for (auto [result, operand] : order) {
    map.push_back(result);
    permutation.push_back(operand);
  }
  Value small =
      makeTranspose(rewriter, op.getLoc(), broadcast.getInput(), permutation);
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), small, map);
  return success();
}

/// A transpose that only moves dims of size 1 is a reshape.
static LogicalResult transposeOfUnits(TransposeOp op,
                                      PatternRewriter &rewriter) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  int64_t last = -1;
  for (int64_t dim : op.getPermutation())
    if (!dims[dim].isConstant(1)) {
      if (dim < last)
        return failure();
      last = dim;
    }
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
  return success();
}

/// reshape(transpose(x)) to transpose(reshape(x)) where two reshapes, or two
/// transposes, meet then.
static LogicalResult reshapeOfTranspose(ReshapeOp op,
                                        PatternRewriter &rewriter) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose)
    return failure();
  bool meetsReshape = transpose.getInput().getDefiningOp<ReshapeOp>();
  bool meetsTranspose =
      !op->use_empty() && llvm::all_of(op->getUsers(), [](Operation *user) {
        return isa<TransposeOp>(user);
      });
  return meetsReshape || meetsTranspose ? reshapeFirst(op, rewriter)
                                        : failure();
}

std::optional<ReshapeFirst> knapper::asReshapeFirst(ReshapeOp op) {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose)
    return std::nullopt;
  SmallVector<Dim> middle = dimsOf(transpose.getResult()),
                   out = dimsOf(op.getResult());
  auto groups = reshapeGroups(middle, out);
  if (!groups)
    return std::nullopt;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  // Where in x each group lies; groups in the order of x give the new reshape.
  SmallVector<std::pair<int64_t, unsigned>> order;
  for (auto [g, group] : llvm::enumerate(*groups)) {
    if (group.inSize() == 0)
      return std::nullopt;
    for (unsigned i = group.inBegin + 1; i < group.inEnd; ++i)
      if (permutation[i] != permutation[i - 1] + 1)
        return std::nullopt;
    order.push_back({permutation[group.inBegin], g});
  }
  llvm::sort(order);
  SmallVector<Dim> reshaped;
  SmallVector<int64_t> back(out.size());
  for (auto [start, g] : order)
    for (unsigned o = (*groups)[g].outBegin; o < (*groups)[g].outEnd; ++o) {
      back[o] = reshaped.size();
      reshaped.push_back(out[o]);
    }
  return ReshapeFirst{std::move(reshaped), std::move(back)};
}

LogicalResult knapper::reshapeFirst(ReshapeOp op, PatternRewriter &rewriter) {
  std::optional<ReshapeFirst> first = asReshapeFirst(op);
  if (!first)
    return failure();
  Value x = op.getInput().getDefiningOp<TransposeOp>().getInput();
  Value inner = makeReshape(rewriter, op.getLoc(), x, first->shape);
  rewriter.replaceOp(
      op, makeTranspose(rewriter, op.getLoc(), inner, first->permutation));
  return success();
}

/// slice(slice(x))
static LogicalResult sliceOfSlice(SliceOp op, PatternRewriter &rewriter) {
  auto inner = op.getInput().getDefiningOp<SliceOp>();
  if (!inner)
    return failure();
  SmallVector<Dim> starts;
  SmallVector<int64_t> steps;
  for (auto [a, s, b, t] :
       llvm::zip(dimsOf(inner.getStarts()), inner.getSteps(),
                 dimsOf(op.getStarts()), op.getSteps())) {
    starts.push_back(a + b * s);
    steps.push_back(s * t);
  }
  rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getInput(),
                                       dimArray(op.getContext(), starts),
                                       steps);
  return success();
}

/// slice(broadcast(x)): only dims that x really has are sliced.
static LogicalResult sliceOfBroadcast(SliceOp op, PatternRewriter &rewriter) {
  auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return failure();
  Value x = broadcast.getInput();
  SmallVector<Dim> in = dimsOf(x), out = dimsOf(op.getResult()), dims;
  SmallVector<Dim> allStarts = dimsOf(op.getStarts()), starts;
  SmallVector<int64_t> steps;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims())) {
    bool repeated = in[i].isConstant(1);
    dims.push_back(repeated ? in[i] : out[dim]);
    starts.push_back(repeated ? in[i].like(0) : allStarts[dim]);
    steps.push_back(repeated ? 1 : op.getSteps()[dim]);
  }
  Value small =
      SliceOp::create(rewriter, op.getLoc(),
                      tensorType(op.getContext(), dims, elementTypeOf(x)), x,
                      dimArray(op.getContext(), starts), steps);
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), small,
                                           broadcast.getDims());
  return success();
}

/// slice(concat(a, b, ..)) that lies within one operand.
static LogicalResult sliceOfConcat(SliceOp op, PatternRewriter &rewriter) {
  auto concat = op.getInput().getDefiningOp<ConcatOp>();
  if (!concat)
    return failure();
  int64_t dim = concat.getDim();
  SmallVector<Dim> starts = dimsOf(op.getStarts());
  Dim size = dimOf(op.getResult(), dim);
  int64_t step = op.getSteps()[dim];
  if (step < 1)
    return failure();
  // The last element read, not one beyond it.
  std::optional<int64_t> count = size.asConstant();
  if (step != 1 && !count)
    return failure();
  Dim length = step == 1 ? size : size.like((*count - 1) * step + 1);
  Dim position = size.like(0);
  for (Value input : concat.getInputs()) {
    Dim extent = dimOf(input, dim);
    std::optional<int64_t> before = (starts[dim] - position).asConstant();
    std::optional<int64_t> after =
        (position + extent - starts[dim] - length).asConstant();
    if (before && *before >= 0 && after && *after >= 0) {
      starts[dim] = starts[dim] - position;
      rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), input,
                                           dimArray(op.getContext(), starts),
                                           op.getSteps());
      return success();
    }
    position = position + extent;
  }
  return failure();
}

/// concat of concats along the same dim, and of neighbouring slices of one
/// tensor.
static LogicalResult simplifyConcat(ConcatOp op, PatternRewriter &rewriter) {
  int64_t dim = op.getDim();
  SmallVector<Value> inputs;
  bool changed = false;
  for (Value input : op.getInputs()) {
    if (dimOf(input, dim).isConstant(0) && op.getInputs().size() > 1) {
      changed = true;
      continue;
    }
    auto inner = input.getDefiningOp<ConcatOp>();
    if (inner && static_cast<int64_t>(inner.getDim()) == dim) {
      llvm::append_range(inputs, inner.getInputs());
      changed = true;
      continue;
    }
    auto slice = input.getDefiningOp<SliceOp>();
    auto last =
        inputs.empty() ? SliceOp() : inputs.back().getDefiningOp<SliceOp>();
    if (slice && last && slice.getInput() == last.getInput() &&
        llvm::all_of(slice.getSteps(), [](int64_t s) { return s == 1; }) &&
        llvm::all_of(last.getSteps(), [](int64_t s) { return s == 1; })) {
      SmallVector<Dim> a = dimsOf(last.getStarts()),
                       b = dimsOf(slice.getStarts());
      SmallVector<Dim> size = dimsOf(last.getResult());
      bool joins = a[dim] + size[dim] == b[dim];
      for (size_t i = 0; i < a.size(); ++i)
        joins &= static_cast<int64_t>(i) == dim || a[i] == b[i];
      if (joins) {
        size[dim] = size[dim] + dimOf(input, dim);
        inputs.back() = SliceOp::create(
            rewriter, op.getLoc(),
            tensorType(op.getContext(), size, elementTypeOf(op)),
            slice.getInput(), last.getStarts(), last.getSteps());
        changed = true;
        continue;
      }
    }
    inputs.push_back(input);
  }
  if (!changed || inputs.empty())
    return failure();
  rewriter.replaceOpWithNewOp<ConcatOp>(op, inputs, dim);
  return success();
}

void knapper::populateMovementPatterns(RewritePatternSet &patterns,
                                       bool sinkTransposes) {
  patterns.add(broadcastOfUnits);
  patterns.add(broadcastOfReshape);
  patterns.add(reshapeOfBroadcast);
  patterns.add(transposeOfBroadcast);
  patterns.add(transposeOfUnits);
  patterns.add(reshapeOfTranspose);
  patterns.add(sliceOfSlice);
  patterns.add(sliceOfBroadcast);
  patterns.add(sliceOfConcat);
  patterns.add(simplifyConcat);
  populateSinkPatterns(patterns, sinkTransposes);
}
