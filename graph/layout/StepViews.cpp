#include "graph/layout/StepViews.h"

#include "graph/simplify/Match.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// One of the two layouts, of each value that is wanted in it.
class StepViews {
public:
  enum class Kind {
    dropped,    ///< [1, B, H] as [B, H]
    transposed, ///< [M, N] as [N, M]
  };

  StepViews(Block &block, Kind kind) : block(block), kind(kind) {}
  void run();

private:
  /// Whether the op gives its operand in the wanted layout.
  bool isView(Operation &op) const;
  /// Whether the op can be computed from operands in that layout.
  bool passes(Operation *op) const;
  Value leaf(OpBuilder &b, Value value) const;
  Value viewOf(OpBuilder &b, Value value);
  Value emit(OpBuilder &b, Operation *op);

  Block &block;
  Kind kind;
  llvm::DenseSet<Value> wanted;
  llvm::DenseMap<Value, Value> views;
};

} // namespace

/// Whether the op transposes a matrix. One of a single row or column may be
/// reshaped instead.
static bool isTranspose(Operation &op) {
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transpose.getPermutation() == ArrayRef<int64_t>{1, 0};
  auto reshape = dyn_cast<ReshapeOp>(op);
  if (!reshape || rankOf(reshape.getInput()) != 2 || rankOf(reshape) != 2)
    return false;
  SmallVector<Dim> in = dimsOf(reshape.getInput()), out = dimsOf(reshape);
  return in[0] == out[1] && in[1] == out[0] &&
         (in[0].isConstant(1) || in[1].isConstant(1));
}

static bool contractsColumns(DotOp dot) {
  return dot.getRhsContract() == ArrayRef<int64_t>{0};
}

bool StepViews::isView(Operation &op) const {
  if (kind == Kind::transposed)
    return isTranspose(op);
  auto reshape = dyn_cast<ReshapeOp>(op);
  if (!reshape)
    return false;
  SmallVector<Dim> dims = dimsOf(reshape.getInput());
  return !dims.empty() && dims[0].isConstant(1) &&
         dimsOf(reshape.getResult()) == ArrayRef<Dim>(dims).drop_front();
}

bool StepViews::passes(Operation *op) const {
  if (!op || op->getNumResults() != 1 || op->getBlock() != &block)
    return false;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return kind == Kind::dropped ? !llvm::is_contained(broadcast.getDims(), 0)
                                 : broadcast.getDims().size() < 2;
  if (isElementwise(op))
    return true;
  if (kind == Kind::dropped)
    return false;
  if (auto dot = dyn_cast<DotOp>(op))
    return dot.getLhsBatch().empty() && rankOf(dot.getLhs()) == 2 &&
           rankOf(dot.getRhs()) == 2;
  if (auto slice = dyn_cast<SliceOp>(op))
    return llvm::all_of(slice.getSteps(),
                        [](int64_t step) { return step == 1; });
  return isTranspose(*op);
}

Value StepViews::leaf(OpBuilder &b, Value value) const {
  if (kind == Kind::transposed)
    return makeTranspose(b, value.getLoc(), value, {1, 0});
  return makeReshape(b, value.getLoc(), value,
                     ArrayRef<Dim>(dimsOf(value)).drop_front());
}

Value StepViews::viewOf(OpBuilder &b, Value value) {
  Value &known = views[value];
  return known ? known : known = leaf(b, value);
}

Value StepViews::emit(OpBuilder &b, Operation *op) {
  Location loc = op->getLoc();
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    SmallVector<Dim> dims = dimsOf(broadcast.getResult());
    SmallVector<int64_t> map(broadcast.getDims());
    if (kind == Kind::transposed)
      std::swap(dims[0], dims[1]);
    else
      dims.erase(dims.begin());
    for (int64_t &dim : map)
      dim = kind == Kind::transposed ? 1 - dim : dim - 1;
    return makeBroadcast(b, loc, broadcast.getInput(), dims, map);
  }
  if (isElementwise(op)) {
    SmallVector<Value> operands = llvm::map_to_vector(
        op->getOperands(), [&](Value operand) { return viewOf(b, operand); });
    return cloneElementwise(b, op, operands);
  }
  if (isTranspose(*op))
    return op->getOperand(0);
  if (auto dot = dyn_cast<DotOp>(op)) {
    // What is on the left is contracted along its rows.
    static constexpr int64_t kRow[] = {1};
    bool columns = contractsColumns(dot);
    return DotOp::create(
        b, loc, columns ? viewOf(b, dot.getRhs()) : dot.getRhs(), dot.getLhs(),
        dot.getRhsBatch(), dot.getLhsBatch(),
        columns ? ArrayRef<int64_t>(kRow) : dot.getRhsContract(),
        dot.getLhsContract(), dot.getResultTypeAttr());
  }
  auto slice = cast<SliceOp>(op);
  Value made = viewOf(b, slice.getInput());
  SmallVector<Dim> starts = dimsOf(slice.getStarts()),
                   dims = dimsOf(slice.getResult());
  for (int64_t d = 0; d < 2; ++d)
    made = makeSlice(b, loc, made, d, starts[1 - d], dims[1 - d]);
  return made;
}

void StepViews::run() {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (isView(op))
      wanted.insert(op.getOperand(0));
    if (op.getNumResults() != 1 || !wanted.contains(op.getResult(0)) ||
        !passes(&op) || isa<BroadcastOp>(op) || isTranspose(op))
      continue;
    if (auto dot = dyn_cast<DotOp>(op)) {
      if (contractsColumns(dot))
        wanted.insert(dot.getRhs());
      continue;
    }
    wanted.insert(op.operand_begin(), op.operand_end());
  }
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    OpBuilder b(&op);
    if (isView(op)) {
      Value view = viewOf(b, op.getOperand(0));
      if (kind == Kind::transposed)
        views.try_emplace(view, op.getOperand(0));
      op.getResult(0).replaceAllUsesWith(view);
      continue;
    }
    b.setInsertionPointAfter(&op);
    if (op.getNumResults() == 1 && wanted.contains(op.getResult(0)) &&
        passes(&op))
      views[op.getResult(0)] = emit(b, &op);
  }
}

void knapper::moveStepViewsUp(func::FuncOp body) {
  Block &block = body.getBody().front();
  StepViews(block, StepViews::Kind::dropped).run();
  StepViews(block, StepViews::Kind::transposed).run();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}
