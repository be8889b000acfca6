// Movement into the operands of ts.dot, and below it.
#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

static SmallVector<int64_t> freeDims(int64_t rank, ArrayRef<int64_t> batch,
                                     ArrayRef<int64_t> contract) {
  SmallVector<int64_t> result;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(batch, dim) && !llvm::is_contained(contract, dim))
      result.push_back(dim);
  return result;
}

/// dot(transpose(x), ..) reads x, as long as the free dims keep their order.
static LogicalResult dotOfTranspose(DotOp op, PatternRewriter &rewriter) {
  for (unsigned side : {0, 1}) {
    auto transpose = op->getOperand(side).getDefiningOp<TransposeOp>();
    if (!transpose)
      continue;
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    ArrayRef<int64_t> batch = side ? op.getRhsBatch() : op.getLhsBatch();
    ArrayRef<int64_t> contract =
        side ? op.getRhsContract() : op.getLhsContract();
    SmallVector<int64_t> free = freeDims(permutation.size(), batch, contract);
    auto through = [&](ArrayRef<int64_t> dims) {
      SmallVector<int64_t> result;
      for (int64_t dim : dims)
        result.push_back(permutation[dim]);
      return result;
    };
    if (!llvm::is_sorted(through(free)))
      continue;
    // Rows of the left side stay contiguous along the contracted dim.
    int64_t last = permutation.size() - 1;
    if (!side && llvm::is_contained(contract, last) &&
        !llvm::is_contained(through(contract), last))
      continue;
    rewriter.modifyOpInPlace(op, [&] {
      SmallVector<int64_t> newBatch = through(batch),
                           newContract = through(contract);
      op->setOperand(side, transpose.getInput());
      if (side) {
        op.setRhsBatch(newBatch);
        op.setRhsContract(newContract);
      } else {
        op.setLhsBatch(newBatch);
        op.setLhsContract(newContract);
      }
    });
    return success();
  }
  return failure();
}

/// Rows of the left side are read in the order in which they lie: what puts
/// them into another comes after the matmul.
static LogicalResult dotOfTransposedRows(DotOp op, PatternRewriter &rewriter) {
  auto transpose = op.getLhs().getDefiningOp<TransposeOp>();
  if (!transpose || !op.getLhsBatch().empty() ||
      op.getLhsContract().size() != 1)
    return failure();
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t last = permutation.size() - 1;
  if (op.getLhsContract()[0] != last || permutation[last] != last ||
      llvm::is_sorted(permutation))
    return failure();
  Value dot =
      DotOp::create(rewriter, op.getLoc(), transpose.getInput(), op.getRhs(),
                    op.getLhsBatch(), op.getRhsBatch(), op.getLhsContract(),
                    op.getRhsContract(), op.getResultTypeAttr());
  SmallVector<int64_t> after(permutation.drop_back());
  for (int64_t dim = last; dim < rankOf(dot); ++dim)
    after.push_back(dim);
  rewriter.replaceOp(op, makeTranspose(rewriter, op.getLoc(), dot, after));
  return success();
}

/// A reshape that merges free dims of the left side comes after the matmul.
static LogicalResult dotOfReshape(DotOp op, PatternRewriter &rewriter) {
  auto reshape = op.getLhs().getDefiningOp<ReshapeOp>();
  if (!reshape)
    return failure();
  SmallVector<Dim> in = dimsOf(reshape.getInput()),
                   out = dimsOf(reshape.getResult());
  auto groups = reshapeGroups(in, out);
  if (!groups)
    return failure();
  bool merges = false;
  SmallVector<Dim> dims;
  SmallVector<int64_t> position(out.size(), -1);
  for (const DimGroup &group : *groups) {
    bool isFree = true;
    for (unsigned o = group.outBegin; o < group.outEnd; ++o)
      isFree &= !llvm::is_contained(op.getLhsBatch(), o) &&
                !llvm::is_contained(op.getLhsContract(), o);
    if (isFree) {
      if (group.outSize() == 0)
        continue;
      merges |= group.inSize() > 1 && group.outSize() == 1;
      for (unsigned i = group.inBegin; i < group.inEnd; ++i)
        dims.push_back(in[i]);
      continue;
    }
    for (unsigned o = group.outBegin; o < group.outEnd; ++o) {
      position[o] = dims.size();
      dims.push_back(out[o]);
    }
  }
  if (!merges)
    return failure();
  auto through = [&](ArrayRef<int64_t> named) {
    SmallVector<int64_t> result;
    for (int64_t dim : named)
      result.push_back(position[dim]);
    return result;
  };
  Value lhs = makeReshape(rewriter, op.getLoc(), reshape.getInput(), dims);
  Value dot = DotOp::create(rewriter, op.getLoc(), lhs, op.getRhs(),
                            through(op.getLhsBatch()), op.getRhsBatch(),
                            through(op.getLhsContract()), op.getRhsContract(),
                            op.getResultTypeAttr());
  rewriter.replaceOp(
      op, makeReshape(rewriter, op.getLoc(), dot, dimsOf(op.getResult())));
  return success();
}

/// Matmuls whose batch dims were merged on both sides (attention as [B*H, S,
/// D]) keep them apart: the merge comes after the matmul.
static LogicalResult dotOfMergedBatches(DotOp op, PatternRewriter &rewriter) {
  ReshapeOp reshapes[2];
  SmallVector<DimGroup> groups[2];
  for (unsigned side : {0, 1}) {
    reshapes[side] = op->getOperand(side).getDefiningOp<ReshapeOp>();
    if (!reshapes[side])
      return failure();
    auto found = reshapeGroups(dimsOf(reshapes[side].getInput()),
                               dimsOf(reshapes[side].getResult()));
    if (!found)
      return failure();
    groups[side] = *found;
  }
  auto groupOf = [&](unsigned side, int64_t dim) {
    return *llvm::find_if(groups[side], [&](const DimGroup &group) {
      return group.outBegin <= dim && dim < group.outEnd;
    });
  };
  ArrayRef<int64_t> batch[2] = {op.getLhsBatch(), op.getRhsBatch()};
  ArrayRef<int64_t> contract[2] = {op.getLhsContract(), op.getRhsContract()};
  // Dims beside the batch stay as they are.
  for (unsigned side : {0, 1})
    for (const DimGroup &group : groups[side])
      if (!group.isSame() && !(group.outSize() == 1 && group.inSize() > 1 &&
                               llvm::is_contained(batch[side], group.outBegin)))
        return failure();
  bool merges = false;
  SmallVector<int64_t> newBatch[2], newContract[2];
  for (auto [left, right] : llvm::zip(batch[0], batch[1])) {
    DimGroup a = groupOf(0, left), b = groupOf(1, right);
    if (a.inSize() != b.inSize())
      return failure();
    for (unsigned i = 0; i < a.inSize(); ++i) {
      if (!(dimOf(reshapes[0].getInput(), a.inBegin + i) ==
            dimOf(reshapes[1].getInput(), b.inBegin + i)))
        return failure();
      newBatch[0].push_back(a.inBegin + i);
      newBatch[1].push_back(b.inBegin + i);
    }
    merges |= a.inSize() > 1;
  }
  if (!merges)
    return failure();
  for (unsigned side : {0, 1})
    for (int64_t dim : contract[side])
      newContract[side].push_back(groupOf(side, dim).inBegin);
  Value dot =
      DotOp::create(rewriter, op.getLoc(), reshapes[0].getInput(),
                    reshapes[1].getInput(), newBatch[0], newBatch[1],
                    newContract[0], newContract[1], op.getResultTypeAttr());
  rewriter.replaceOp(
      op, makeReshape(rewriter, op.getLoc(), dot, dimsOf(op.getResult())));
  return success();
}

/// Weights stand on the right: dot(w, x) is the transpose of dot(x, w).
static LogicalResult weightsOnTheRight(DotOp op, PatternRewriter &rewriter) {
  if (!op.getLhsBatch().empty() || !isPackedConstant(op.getLhs()) ||
      isPackedConstant(op.getRhs()))
    return failure();
  int64_t left = rankOf(op.getLhs()) - op.getLhsContract().size();
  int64_t right = rankOf(op.getRhs()) - op.getRhsContract().size();
  Value dot = DotOp::create(rewriter, op.getLoc(), op.getRhs(), op.getLhs(),
                            ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                            op.getRhsContract(), op.getLhsContract(),
                            op.getResultTypeAttr());
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < left; ++i)
    permutation.push_back(right + i);
  for (int64_t i = 0; i < right; ++i)
    permutation.push_back(i);
  rewriter.replaceOp(op,
                     makeTranspose(rewriter, op.getLoc(), dot, permutation));
  return success();
}

/// The transpose of a matmul is the matmul with its sides exchanged, as long
/// as that reads the left side no worse: gradients of weights come so.
static LogicalResult transposeOfDot(TransposeOp op, PatternRewriter &rewriter) {
  auto dot = op.getInput().getDefiningOp<DotOp>();
  if (!dot || !dot->hasOneUse() || !dot.getLhsBatch().empty() ||
      isPackedConstant(dot.getLhs()) || isPackedConstant(dot.getRhs()))
    return failure();
  int64_t left = rankOf(dot.getLhs()) - dot.getLhsContract().size();
  int64_t right = rankOf(dot.getRhs()) - dot.getRhsContract().size();
  if (left == 0 || right == 0)
    return failure();
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    if (from != (static_cast<int64_t>(to) + left) % (left + right))
      return failure();
  auto alongRows = [](Value side, ArrayRef<int64_t> contract) {
    return llvm::is_contained(contract, rankOf(side) - 1);
  };
  if (alongRows(dot.getLhs(), dot.getLhsContract()) &&
      !alongRows(dot.getRhs(), dot.getRhsContract()))
    return failure();
  rewriter.replaceOpWithNewOp<DotOp>(
      op, dot.getRhs(), dot.getLhs(), ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
      dot.getRhsContract(), dot.getLhsContract(), dot.getResultTypeAttr());
  return success();
}

void knapper::populateDotPatterns(RewritePatternSet &patterns) {
  patterns.add(dotOfTranspose);
  patterns.add(dotOfTransposedRows);
  patterns.add(dotOfReshape);
  patterns.add(dotOfMergedBatches);
  patterns.add(weightsOnTheRight);
  patterns.add(transposeOfDot);
}
