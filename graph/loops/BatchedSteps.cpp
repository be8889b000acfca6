#include "graph/loops/BatchedSteps.h"

#include "graph/simplify/Match.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

BatchedSteps::BatchedSteps(LoopParts &parts, LoopBudget &budget)
    : parts(parts), budget(budget), outer(parts.loop) {
  for (const LoopParts::Capture &each : parts.captures) {
    kinds.insert(
        {each.inside, {true, StepOrder::forward, parts.trips.like(0)}});
    made.insert({each.inside, each.outside});
  }
  for (Operation &op : parts.body->without_terminator())
    if (std::optional<Kind> kind = classify(&op))
      kinds.insert({op.getResult(0), *kind});
}

std::optional<BatchedSteps::Kind> BatchedSteps::kindOf(Value value) const {
  auto found = kinds.find(value);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

bool BatchedSteps::isInvariant(Value value) const {
  std::optional<Kind> kind = kindOf(value);
  return kind && kind->invariant;
}

std::optional<StepOrder> BatchedSteps::orderOf(Value value) const {
  std::optional<Kind> kind = kindOf(value);
  return kind && !kind->invariant ? std::optional(kind->order) : std::nullopt;
}

/// One row of a captured sequence, all of it.
std::optional<BatchedSteps::Kind> BatchedSteps::rowOfCapture(SliceOp op) const {
  auto argument = dyn_cast<BlockArgument>(op.getInput());
  if (!argument || !isInvariant(argument))
    return std::nullopt;
  SmallVector<Dim> in = dimsOf(op.getInput()), out = dimsOf(op.getResult()),
                   starts = dimsOf(op.getStarts());
  if (in.empty() || !(in[0] == parts.trips) || !out[0].isConstant(1) ||
      llvm::any_of(op.getSteps(), [](int64_t step) { return step != 1; }))
    return std::nullopt;
  for (size_t i = 1; i < in.size(); ++i)
    if (!starts[i].isConstant(0) || !(in[i] == out[i]))
      return std::nullopt;
  std::optional<StepOrder> order = parts.orderOf(starts[0]);
  return order ? std::optional(Kind{false, *order, byteCount(op.getType())})
               : std::nullopt;
}

static Dim productOf(Value value, ArrayRef<int64_t> dims) {
  Dim result = Dim::constant(value.getContext(), 1);
  for (int64_t d : dims)
    result = result * dimOf(value, d);
  return result;
}

bool BatchedSteps::charge(Dim bytes) {
  std::optional<int64_t> known = bytes.asConstant();
  if (known && *known > budget.bytes)
    return false;
  budget.bytes -= known.value_or(0);
  return true;
}

Dim BatchedSteps::bytesBefore(Value value) const {
  if (!orderOf(value))
    return parts.trips.like(0);
  Operation *op = value.getDefiningOp();
  while (isa<ReshapeOp, TransposeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  // Matmuls were charged as they were found.
  bool there =
      isa<DotOp>(op) || (isa<SliceOp>(op) && isInvariant(op->getOperand(0)));
  return there ? parts.trips.like(0) : parts.trips * byteCount(value.getType());
}

bool BatchedSteps::isWorthBatching(DotOp op) {
  bool lhs = !isInvariant(op.getLhs()), rhs = !isInvariant(op.getRhs());
  Value of = lhs ? op.getLhs() : op.getRhs();
  SmallVector<int64_t> free;
  for (int64_t d = 0, rank = rankOf(of); d < rank; ++d)
    if (!llvm::is_contained(lhs ? op.getLhsBatch() : op.getRhsBatch(), d) &&
        !llvm::is_contained(lhs ? op.getLhsContract() : op.getRhsContract(), d))
      free.push_back(d);
  std::optional<int64_t> rows = productOf(of, free).asConstant();
  if (!rows || *rows > budget.rows)
    return false;
  // No operand is shared by steps: what is saved is a kernel each.
  std::optional<int64_t> depth =
      productOf(op.getLhs(), op.getLhsContract()).asConstant();
  if (lhs && rhs && (!depth || *depth > budget.depth))
    return false;
  Dim bytes = parts.trips * byteCount(op.getType());
  for (Value operand : op->getOperands())
    bytes = bytes + bytesBefore(operand);
  return charge(bytes);
}

/// Whether all elements are there also where no step asks for them.
static bool isInside(SliceOp op) {
  for (auto [in, out, start, step] :
       llvm::zip(dimsOf(op.getInput()), dimsOf(op.getResult()),
                 dimsOf(op.getStarts()), op.getSteps())) {
    Dim last = start + (out - 1) * step;
    for (Dim place : {start, last})
      if (!isLess(place.like(-1), place).value_or(false) ||
          !isLess(place, in).value_or(false))
        return false;
  }
  return true;
}

std::optional<BatchedSteps::Kind> BatchedSteps::classify(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() || !isPure(op))
    return std::nullopt;
  if (auto slice = dyn_cast<SliceOp>(op))
    if (std::optional<Kind> row = rowOfCapture(slice))
      return row;
  if (!isElementwise(op) &&
      !isa<ConstantOp, WeightOp, SizeOp, IotaOp, ReshapeOp, BroadcastOp,
           TransposeOp, SliceOp, ReduceOp, DotOp>(op))
    return std::nullopt;
  if (parts.namesOwnSymbol(op))
    return std::nullopt;
  if (auto slice = dyn_cast<SliceOp>(op); slice && !isInside(slice))
    return std::nullopt;
  Kind result{true, StepOrder::forward, parts.trips.like(0)};
  for (Value operand : op->getOperands()) {
    std::optional<Kind> kind = kindOf(operand);
    if (!kind ||
        (!kind->invariant && !result.invariant && kind->order != result.order))
      return std::nullopt;
    if (kind->invariant)
      continue;
    bool more = isLess(result.read, kind->read).value_or(true);
    result = {false, kind->order, more ? kind->read : result.read};
  }
  if (result.invariant)
    return result;
  bool grows =
      isLess(result.read * budget.growth, byteCount(op->getResult(0).getType()))
          .value_or(true);
  auto dot = dyn_cast<DotOp>(op);
  if (grows || (dot && !isWorthBatching(dot)))
    return std::nullopt;
  return result;
}

Value BatchedSteps::before(Value value) {
  if (Value known = made.lookup(value))
    return known;
  SmallVector<Operation *> needed, open{value.getDefiningOp()};
  llvm::DenseSet<Operation *> seen{open.front()};
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    needed.push_back(op);
    for (Value operand : op->getOperands())
      if (!made.contains(operand) &&
          seen.insert(operand.getDefiningOp()).second)
        open.push_back(operand.getDefiningOp());
  }
  llvm::sort(needed,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : needed)
    made[op->getResult(0)] = emit(op);
  return made.lookup(value);
}

Value BatchedSteps::emit(Operation *op) {
  if (!isInvariant(op->getResult(0)))
    return emitRows(op);
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, made.lookup(operand));
  return outer.clone(*op, mapping)->getResult(0);
}

static SmallVector<int64_t> behindFirst(ArrayRef<int64_t> dims) {
  return llvm::map_to_vector(dims, [](int64_t d) { return d + 1; });
}

Value BatchedSteps::emitDot(DotOp op, Value lhs, bool lhsRows, Value rhs,
                            bool rhsRows) {
  auto dims = [](ArrayRef<int64_t> of, bool rows) {
    return rows ? behindFirst(of) : SmallVector<int64_t>(of);
  };
  SmallVector<int64_t> lhsBatch = dims(op.getLhsBatch(), lhsRows),
                       rhsBatch = dims(op.getRhsBatch(), rhsRows);
  // Where the steps stand among the dims of the result.
  int64_t place = lhsBatch.size();
  if (lhsRows && rhsRows) {
    lhsBatch.insert(lhsBatch.begin(), 0);
    rhsBatch.insert(rhsBatch.begin(), 0);
    place = 0;
  } else if (rhsRows) {
    place = rankOf(lhs) - op.getLhsContract().size();
  }
  Value result =
      DotOp::create(outer, op.getLoc(), lhs, rhs, lhsBatch, rhsBatch,
                    dims(op.getLhsContract(), lhsRows),
                    dims(op.getRhsContract(), rhsRows), op.getResultTypeAttr());
  SmallVector<int64_t> order{place};
  for (int64_t d = 0, rank = rankOf(result); d < rank; ++d)
    if (d != place)
      order.push_back(d);
  return makeTranspose(outer, op.getLoc(), result, order);
}

Value BatchedSteps::emitRows(Operation *op) {
  Location loc = op->getLoc();
  SmallVector<Dim> dims{parts.trips};
  llvm::append_range(dims, dimsOf(op->getResult(0)));
  bool isRow = isa<SliceOp>(op) && isInvariant(op->getOperand(0));
  if (isRow)
    return makeReshape(outer, loc, made.lookup(op->getOperand(0)), dims);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(made.lookup(operand));
  if (auto dot = dyn_cast<DotOp>(op))
    return emitDot(dot, operands[0], !isInvariant(dot.getLhs()), operands[1],
                   !isInvariant(dot.getRhs()));
  if (isa<ReshapeOp>(op))
    return makeReshape(outer, loc, operands[0], dims);
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<int64_t> order = behindFirst(transpose.getPermutation());
    order.insert(order.begin(), 0);
    return makeTranspose(outer, loc, operands[0], order);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    SmallVector<int64_t> map = behindFirst(broadcast.getDims());
    map.insert(map.begin(), 0);
    return makeBroadcast(outer, loc, operands[0], dims, map);
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    auto all = ReduceOp::create(outer, loc, reduce.getKind(), operands[0],
                                behindFirst(reduce.getDims()));
    all.setIgnoresNan(reduce.getIgnoresNan());
    return all;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    SmallVector<Dim> starts{parts.trips.like(0)};
    llvm::append_range(starts, dimsOf(slice.getStarts()));
    SmallVector<int64_t> steps{1};
    llvm::append_range(steps, slice.getSteps());
    return SliceOp::create(
        outer, loc,
        tensorType(op->getContext(), dims, elementTypeOf(slice.getResult())),
        operands[0], dimArray(op->getContext(), starts), steps);
  }
  // Elementwise: what no step changes is the same for all.
  for (auto [operand, inside] : llvm::zip(operands, op->getOperands()))
    if (isInvariant(inside)) {
      SmallVector<int64_t> map =
          behindFirst(llvm::to_vector(llvm::seq(rankOf(operand))));
      operand = makeBroadcast(outer, loc, operand, dims, map);
    }
  return cloneElementwise(outer, op, operands);
}
