#include "graph/layout/MergeReducedDims.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_MERGEREDUCEDDIMS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// An op whose only reader computes it again with other dims.
static Operation *computedBefore(Value value) {
  Operation *op = value.getDefiningOp();
  return isElementwise(op) && llvm::all_equal(value.getUsers()) ? op : nullptr;
}

static bool canReshape(Value value, int64_t depth = 0) {
  constexpr int64_t deepest = 32;
  if (depth > deepest)
    return false;
  if (auto spread = value.getDefiningOp<BroadcastOp>())
    return rankOf(spread.getInput()) == 0;
  Operation *op = computedBefore(value);
  return !op || llvm::all_of(op->getOperands(), [&](Value operand) {
    return canReshape(operand, depth + 1);
  });
}

static Value reshaped(OpBuilder &b, Value value, ArrayRef<Dim> dims,
                      DenseMap<Value, Value> &made) {
  if (Value known = made.lookup(value))
    return known;
  Location loc = value.getLoc();
  Value result;
  if (auto spread = value.getDefiningOp<BroadcastOp>()) {
    result = makeBroadcast(b, loc, spread.getInput(), dims, {});
  } else if (Operation *op = computedBefore(value)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(reshaped(b, operand, dims, made));
    result = cloneElementwise(b, op, operands);
  } else {
    result = makeReshape(b, loc, value, dims);
  }
  return made[value] = result;
}

static void merge(ReduceOp op) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  ArrayRef<int64_t> reduced = op.getDims();
  int64_t rank = dims.size(), first = rank;
  for (int64_t d : llvm::reverse(reduced)) {
    if (d != first - 1 || dims[d].asConstant().value_or(0) < 1)
      break;
    first = d;
  }
  // Rows that are long and whole accesses are read as well by themselves.
  constexpr int64_t wideRow = 4096;
  if (rank - first < 2 || *dims.back().asConstant() >= wideRow ||
      !canReshape(op.getInput()))
    return;
  Dim row = dims[first].like(1);
  for (Dim dim : ArrayRef(dims).drop_front(first))
    row = row * dim;
  SmallVector<Dim> merged(ArrayRef(dims).take_front(first));
  merged.push_back(row);
  SmallVector<int64_t> along(reduced.drop_back(rank - first));
  along.push_back(first);
  OpBuilder b(op);
  DenseMap<Value, Value> made;
  op.replaceAllUsesWith(
      ReduceOp::create(b, op.getLoc(), op.getKind(),
                       reshaped(b, op.getInput(), merged, made), along,
                       op.getIgnoresNan())
          .getResult());
  op.erase();
}

void knapper::mergeReducedDims(func::FuncOp function) {
  SmallVector<ReduceOp> found;
  function.walk([&](ReduceOp op) { found.push_back(op); });
  llvm::for_each(found, merge);
}

namespace {
struct MergeReducedDimsPass
    : knapper::impl::MergeReducedDimsBase<MergeReducedDimsPass> {
  void runOnOperation() override { mergeReducedDims(getOperation()); }
};
} // namespace
