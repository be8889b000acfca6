// Sums over all steps as one matmul behind the loop.
#include "graph/loops/BatchedSteps.h"
#include "graph/simplify/Match.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// acc + moved(base) of each step is acc + moved(the sum of all bases): `moved`
/// are transposes, reshapes and sums.
struct LoopSum {
  size_t carried;                 ///< its place
  SmallVector<Operation *> moved; ///< from the outside in
  DotOp dot;                      ///< the base, or
  Value terms;                    ///< what sums in `moved` add up

  SmallVector<Value> operands() const {
    DotOp base = dot;
    return base ? SmallVector<Value>{base.getLhs(), base.getRhs()}
                : SmallVector<Value>{terms};
  }
};

/// Rows of all steps beside the loop: computed before it or, where `before` is
/// null, a scan of it.
struct StackedRows {
  Value before;
  size_t scan;
};

class SumMover {
public:
  SumMover(LoopParts &parts, LoopBudget &budget)
      : parts(parts), budget(budget), steps(parts, budget) {
    for (auto [i, scan] : llvm::enumerate(parts.scans))
      kept.insert({scan.value, i});
  }
  void run();

private:
  std::optional<LoopSum> match(size_t carried);
  /// Whether rows of both operands cost less than the sum in each step.
  bool isWorthMoving(DotOp dot);
  bool isKept(Value value) const { return kept.contains(value); }
  /// The order for rows of these values; nothing where they differ.
  std::optional<StepOrder> commonOrder(ArrayRef<Value> values) const;
  void keep(Value value, StepOrder order);
  Value ofAll(OpBuilder &b, const LoopSum &sum, ArrayRef<Value> operands);

  LoopParts &parts;
  LoopBudget &budget;
  BatchedSteps steps;
  llvm::MapVector<Value, size_t> kept; ///< and its scan
};

} // namespace

std::optional<LoopSum> SumMover::match(size_t carried) {
  const LoopParts::Carried &each = parts.carried[carried];
  auto add = each.next.getDefiningOp<AddOp>();
  if (!add || !each.inside.hasOneUse() || !add->hasOneUse() ||
      each.initial.getType() != each.inside.getType())
    return std::nullopt;
  bool first = add.getLhs() == each.inside;
  if (!first && add.getRhs() != each.inside)
    return std::nullopt;
  Value value = first ? add.getRhs() : add.getLhs();
  LoopSum sum{carried, {}, {}, {}};
  bool sums = false;
  while (Operation *op = value.getDefiningOp()) {
    auto reduce = dyn_cast<ReduceOp>(op);
    // Parts of a sum of f16 may overflow where the sum of each step does not.
    bool adds = reduce && reduce.getKind() == ReduceKind::add &&
                !reduce.getIgnoresNan() && !elementTypeOf(reduce).isF16();
    if (!adds && !isa<TransposeOp, ReshapeOp>(op))
      break;
    if (parts.namesOwnSymbol(op))
      return std::nullopt;
    sums |= adds;
    sum.moved.push_back(op);
    value = op->getOperand(0);
  }
  if (auto dot = value.getDefiningOp<DotOp>()) {
    sum.dot = dot;
    return parts.namesOwnSymbol(dot) ? std::nullopt : std::optional(sum);
  }
  if (!sums)
    return std::nullopt;
  sum.terms = value;
  return sum;
}

std::optional<StepOrder> SumMover::commonOrder(ArrayRef<Value> values) const {
  std::optional<StepOrder> common;
  for (Value value : values) {
    std::optional<StepOrder> order = steps.orderOf(value);
    if (auto found = kept.find(value); found != kept.end())
      order = parts.scans[found->second].order;
    if (order && common && *order != *common)
      return std::nullopt;
    if (order)
      common = order;
  }
  return common.value_or(StepOrder::forward);
}

bool SumMover::isWorthMoving(DotOp dot) {
  Dim depth = parts.trips.like(1), written = parts.trips.like(0),
      bytes = parts.trips.like(0);
  for (int64_t d : dot.getLhsContract())
    depth = depth * dimOf(dot.getLhs(), d);
  for (Value operand : {dot.getLhs(), dot.getRhs()}) {
    // Invariant operands would be read again and again.
    if (steps.isInvariant(operand))
      return false;
    if (isKept(operand))
      continue;
    if (steps.orderOf(operand)) {
      bytes = bytes + steps.bytesBefore(operand);
      continue;
    }
    written = written + elementCount(operand.getType());
    bytes = bytes + byteCount(operand.getType()) * parts.trips;
  }
  std::optional<int64_t> small = depth.asConstant();
  if (!small || *small > budget.depth ||
      isLess(elementCount(dot.getType()), written).value_or(true) ||
      !commonOrder({dot.getLhs(), dot.getRhs()}))
    return false;
  return steps.charge(bytes);
}

void SumMover::keep(Value value, StepOrder order) {
  if (steps.orderOf(value) || isKept(value))
    return;
  kept.insert({value, parts.scans.size()});
  parts.scans.push_back({value, order, {}});
}

Value SumMover::ofAll(OpBuilder &b, const LoopSum &sum,
                      ArrayRef<Value> operands) {
  Value value;
  if (DotOp dot = sum.dot) {
    auto dims = [](ArrayRef<int64_t> of) {
      return llvm::map_to_vector(of, [](int64_t d) { return d + 1; });
    };
    SmallVector<int64_t> lhs = dims(dot.getLhsContract()),
                         rhs = dims(dot.getRhsContract());
    lhs.insert(lhs.begin(), 0);
    rhs.insert(rhs.begin(), 0);
    value = DotOp::create(b, dot.getLoc(), operands[0], operands[1],
                          dims(dot.getLhsBatch()), dims(dot.getRhsBatch()), lhs,
                          rhs, dot.getResultTypeAttr());
  } else {
    value = ReduceOp::create(b, sum.terms.getLoc(), ReduceKind::add,
                             operands[0], ArrayRef<int64_t>{0});
  }
  for (Operation *op : llvm::reverse(sum.moved)) {
    IRMapping mapping;
    mapping.map(op->getOperand(0), value);
    value = b.clone(*op, mapping)->getResult(0);
  }
  return value;
}

void SumMover::run() {
  SmallVector<LoopSum> sums;
  for (size_t i = 0; i < parts.carried.size(); ++i) {
    std::optional<LoopSum> sum = match(i);
    if (!sum || !sum->dot || !isWorthMoving(sum->dot))
      continue;
    StepOrder order = *commonOrder(sum->operands());
    for (Value operand : sum->operands())
      keep(operand, order);
    sums.push_back(*sum);
  }
  if (sums.empty())
    return;
  // Sums of what is there for all steps anyway.
  for (size_t i = 0; i < parts.carried.size(); ++i)
    if (std::optional<LoopSum> sum = match(i);
        sum && sum->terms &&
        (isKept(sum->terms) || (steps.orderOf(sum->terms) &&
                                steps.charge(steps.bytesBefore(sum->terms)))))
      sums.push_back(*sum);

  SmallVector<StackedRows> rows;
  for (const LoopSum &sum : sums)
    for (Value operand : sum.operands()) {
      auto found = kept.find(operand);
      rows.push_back(found != kept.end()
                         ? StackedRows{{}, found->second}
                         : StackedRows{steps.before(operand), 0});
    }
  // The sums are carried still, so that `ofAll` can copy their ops;
  // `dropUnused` takes them.
  parts.rebuild();
  OpBuilder b(parts.loop->getContext());
  b.setInsertionPointAfter(parts.loop);
  auto next = rows.begin();
  for (const LoopSum &sum : sums) {
    SmallVector<Value> operands;
    for (size_t i = 0; i < sum.operands().size(); ++i, ++next)
      operands.push_back(next->before ? next->before
                                      : parts.scans[next->scan].result);
    LoopParts::Carried &acc = parts.carried[sum.carried];
    Value total = AddOp::create(b, parts.loop.getLoc(), acc.initial,
                                ofAll(b, sum, operands));
    acc.result.replaceAllUsesWith(total);
  }
}

void knapper::sumBehind(LoopParts &parts, LoopBudget &budget) {
  SumMover(parts, budget).run();
}
