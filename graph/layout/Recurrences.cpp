#include "graph/layout/Recurrences.h"

#include "graph/layout/Gates.h"
#include "graph/layout/StepViews.h"
#include "graph/layout/Symbols.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

//===----------------------------------------------------------------------===//
// From a loop
//===----------------------------------------------------------------------===//

bool mentions(Operation *op, StringRef symbol) {
  return llvm::any_of(symbolsNamedBy(op),
                      [&](StringAttr name) { return name == symbol; });
}

/// One loop, whose body is a copy that this may change.
class RecurrenceFormer {
public:
  RecurrenceFormer(LoopOp loop, func::FuncOp body)
      : loop(loop), block(body.getBody().front()), b(loop),
        trips(*loop.getTrips()),
        counter(Dim::symbol(loop.getContext(), loop.getCounter())) {}

  /// Null where the loop is of another form.
  RecurrenceOp form();

private:
  struct Sequence {
    Value value; ///< in the body, [...]
    Value whole; ///< beside the loop, [T, ...]
    bool reversed;
  };
  /// Whether the op takes one element of a captured sequence.
  bool takeSequence(SliceOp slice);
  /// Sorts the body's ops: before the loop, sequences, and those of a step.
  bool sortOps();
  RecurrenceOp create();

  LoopOp loop;
  Block &block;
  OpBuilder b;
  Dim trips, counter;
  IRMapping outside; ///< of what no step changes
  SmallVector<Sequence> sequences;
  llvm::DenseSet<Value> taken; ///< elements of sequences
  SmallVector<Operation *> steps;
};

} // namespace

bool RecurrenceFormer::takeSequence(SliceOp slice) {
  SmallVector<Dim> dims = dimsOf(slice.getInput()),
                   starts = dimsOf(slice.getStarts()),
                   result = dimsOf(slice.getResult());
  Value whole = outside.lookupOrNull(slice.getInput());
  bool forward = starts[0] == counter,
       reversed = starts[0] == trips - counter - 1;
  if (!whole || !(forward || reversed) || !(dims[0] == trips) ||
      !result[0].isConstant(1) ||
      llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
    return false;
  for (size_t i = 1; i < dims.size(); ++i)
    if (!starts[i].isConstant(0) || !(dims[i] == result[i]))
      return false;
  OpBuilder inner(slice->getBlock(), std::next(slice->getIterator()));
  Value element = makeReshape(inner, slice.getLoc(), slice,
                              ArrayRef<Dim>(result).drop_front());
  for (OpOperand &use : llvm::make_early_inc_range(slice->getUses())) {
    Operation *user = use.getOwner();
    if (user == element.getDefiningOp())
      continue;
    if (isa<ReshapeOp>(user) &&
        user->getResultTypes()[0] == element.getType()) {
      user->replaceAllUsesWith(ValueRange(element));
      user->erase();
      continue;
    }
    use.set(ReshapeOp::create(inner, slice.getLoc(), slice.getType(), element));
  }
  sequences.push_back({element, whole, reversed});
  taken.insert(element);
  return true;
}

bool RecurrenceFormer::sortOps() {
  size_t carried = loop.getCarried().size();
  for (auto [argument, value] :
       llvm::zip(block.getArguments().drop_front(carried), loop.getCaptures()))
    outside.map(argument, value);
  for (Operation &op : block.without_terminator()) {
    if (op.getNumRegions() || op.getNumResults() != 1)
      return false;
    if (taken.contains(op.getResult(0)))
      continue;
    if (mentions(&op, loop.getCounter())) {
      auto slice = dyn_cast<SliceOp>(op);
      if (!slice || !takeSequence(slice))
        return false;
    } else if (!isa<BroadcastOp>(op) &&
               llvm::all_of(op.getOperands(),
                            [&](Value v) { return outside.contains(v); })) {
      b.clone(op, outside);
    } else if (isa<ReshapeOp, SliceOp, BroadcastOp, TransposeOp, DotOp>(op) ||
               isElementwise(&op)) {
      steps.push_back(&op);
    } else {
      return false;
    }
  }
  return true;
}

RecurrenceOp RecurrenceFormer::create() {
  size_t carried = loop.getCarried().size();
  llvm::SetVector<Value> weights; ///< in the body
  auto see = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (outside.contains(operand))
        weights.insert(operand);
  };
  llvm::for_each(steps, see);
  see(block.getTerminator());

  SmallVector<Value> whole, constant;
  SmallVector<bool> reversed;
  for (const Sequence &sequence : sequences) {
    whole.push_back(sequence.whole);
    reversed.push_back(sequence.reversed);
  }
  for (Value weight : weights)
    constant.push_back(outside.lookup(weight));
  auto op = RecurrenceOp::create(b, loop.getLoc(), loop.getResultTypes(),
                                 trips.attr(), loop.getCarried(), whole,
                                 constant, b.getDenseBoolArrayAttr(reversed),
                                 loop.getReversedAttr());

  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&op.getBody());
  IRMapping inside;
  auto take = [&](Value value) {
    inside.map(value, body->addArgument(value.getType(), value.getLoc()));
  };
  llvm::for_each(block.getArguments().take_front(carried), take);
  for (const Sequence &sequence : sequences)
    take(sequence.value);
  llvm::for_each(weights, take);
  for (Operation *step : steps)
    b.clone(*step, inside);
  SmallVector<Value> next;
  for (Value value : block.getTerminator()->getOperands())
    next.push_back(inside.lookup(value));
  NextOp::create(b, loop.getLoc(), next);
  return op;
}

RecurrenceOp RecurrenceFormer::form() {
  if (!sortOps())
    return {};
  for (Type type : loop.getCarried().getTypes())
    if (dimsOf(type).size() != 2 ||
        !isa<FloatType>(getElementTypeOrSelf(type)) ||
        dimsOf(type) != dimsOf(loop.getCarried()[0]))
      return {};
  for (Value value : block.getTerminator()->getOperands())
    if (taken.contains(value) || outside.contains(value))
      return {};
  RecurrenceOp op = create();
  // A matmul of the sequences alone is none of a step's.
  auto dots = op.getBody().getOps<DotOp>();
  if (firstMixed(op) || !llvm::hasNItems(dots, op.matmuls().size())) {
    op.erase();
    return {};
  }
  return op;
}

void knapper::formRecurrences(func::FuncOp function,
                              llvm::function_ref<bool(RecurrenceOp)> takes) {
  for (LoopOp loop : SmallVector<LoopOp>(function.getBody().getOps<LoopOp>())) {
    if (!loop.getTrips() || loop.getCondition() || loop.getCount() ||
        !loop.getSymbols().empty() || loop.getCarried().empty())
      continue;
    func::FuncOp body = bodyOf(loop, loop.getBodyAttr());
    OwningOpRef<func::FuncOp> copy = body.clone();
    moveStepViewsUp(*copy);
    for (Gates &gates : gatesIn(*copy, Gates::Form::dot))
      gates.rewrite();
    RecurrenceOp op = RecurrenceFormer(loop, *copy).form();
    if (op && !takes(op)) {
      op.erase();
      op = {};
    }
    if (!op)
      continue;
    loop.replaceAllUsesWith(op.getResults());
    loop.erase();
    if (SymbolTable::symbolKnownUseEmpty(body, function->getParentOp()))
      body.erase();
  }
}

//===----------------------------------------------------------------------===//
// To a loop
//===----------------------------------------------------------------------===//

static void expand(RecurrenceOp op) {
  OpBuilder b(op);
  MLIRContext *context = op.getContext();
  auto module = op->getParentOfType<ModuleOp>();
  StringAttr counter = newSymbol(module, "step");
  Dim at = Dim::symbol(context, counter), steps(op.getSteps());
  SmallVector<Type> inputs, outputs(op.next()->getOperandTypes());
  llvm::append_range(inputs, op->getOperandTypes());
  auto body = func::FuncOp::create(op.getLoc(), "recurrence",
                                   b.getFunctionType(inputs, outputs));
  body.setPrivate();
  SymbolTable(module).insert(
      body, op->getParentOfType<func::FuncOp>()->getIterator());
  b.setInsertionPointToStart(body.addEntryBlock());
  IRMapping inside;
  size_t states = op.getStates().size(), count = op.getSequences().size();
  for (auto [i, argument] : llvm::enumerate(op.getBody().getArguments())) {
    Value value = body.getArgument(i);
    if (i >= states && i < states + count) {
      Dim start = op.getReversed()[i - states] ? steps - at - 1 : at;
      value = makeSlice(b, op.getLoc(), value, 0, start, steps.like(1));
      value = makeReshape(b, op.getLoc(), value, dimsOf(argument));
    }
    inside.map(argument, value);
  }
  for (Operation &inner : op.getBody().front().without_terminator())
    b.clone(inner, inside);
  func::ReturnOp::create(
      b, op.getLoc(), llvm::map_to_vector(op.next().getValues(), [&](Value v) {
        return inside.lookup(v);
      }));
  b.setInsertionPoint(op);
  auto loop = LoopOp::create(
      b, op.getLoc(), op.getResultTypes(), FlatSymbolRefAttr::get(body),
      counter, op.getStepsAttr(), Value(), op.getStates(),
      op.getOperands().drop_front(states), StringAttr(), b.getStrArrayAttr({}),
      op.getReversedOutputsAttr());
  op.replaceAllUsesWith(loop.getResults());
  op.erase();
}

void knapper::expandRecurrences(func::FuncOp function,
                                llvm::function_ref<bool(RecurrenceOp)> takes) {
  for (RecurrenceOp op :
       SmallVector<RecurrenceOp>(function.getBody().getOps<RecurrenceOp>()))
    if (!takes(op))
      expand(op);
}
