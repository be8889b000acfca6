#include "ir/tensor/Recurrence.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/Recurrence.cpp.inc"

llvm::DenseSet<Value> ts::dependentValues(RecurrenceOp op) {
  llvm::DenseSet<Value> found(op.stateArguments().begin(),
                              op.stateArguments().end());
  for (Operation &inner : op.getBody().front().without_terminator())
    if (llvm::any_of(inner.getOperands(),
                     [&](Value v) { return found.contains(v); }))
      found.insert(inner.result_begin(), inner.result_end());
  return found;
}

Operation *ts::firstMixed(RecurrenceOp op) {
  llvm::DenseSet<Value> found = dependentValues(op);
  SmallVector<Dim> dims = dimsOf(op.getStates()[0]);
  for (Operation &inner : op.getBody().front().without_terminator()) {
    if (inner.getNumResults() != 1 || !found.contains(inner.getResult(0)))
      continue;
    bool takes = dimsOf(inner.getResult(0)) == dims;
    if (auto dot = dyn_cast<DotOp>(inner))
      takes &= llvm::is_contained(op.stateArguments(), dot.getLhs()) &&
               !found.contains(dot.getRhs()) && dot.getLhsBatch().empty() &&
               dot.getLhsContract() == ArrayRef<int64_t>{1} &&
               rankOf(dot.getRhs()) == 2;
    else
      takes &= isa<ElementwiseOpInterface>(inner);
    if (!takes)
      return &inner;
  }
  return nullptr;
}

NextOp RecurrenceOp::next() {
  return cast<NextOp>(getBody().front().getTerminator());
}

SmallVector<DotOp> RecurrenceOp::matmuls() {
  llvm::DenseSet<Value> found = dependentValues(*this);
  SmallVector<DotOp> dots;
  for (DotOp dot : getBody().getOps<DotOp>())
    if (found.contains(dot.getResult()))
      dots.push_back(dot);
  return dots;
}

LogicalResult RecurrenceOp::verify() {
  Block &body = getBody().front();
  size_t states = getStates().size(), sequences = getSequences().size();
  auto next = dyn_cast<NextOp>(body.getTerminator());
  if (!next || next.getValues().size() != getNumResults() ||
      getNumResults() < states || body.getNumArguments() != getNumOperands())
    return emitOpError("(C1) other arguments or results than its body");
  if (getReversed().size() != sequences ||
      getReversedOutputs().size() != getNumResults() - states)
    return emitOpError("(C4) a flag for each sequence and output is needed");
  auto stepOf = [&](Type inside, Type outside) {
    SmallVector<Dim> dims = dimsOf(outside);
    return !dims.empty() && dims[0] == Dim(getSteps()) &&
           getElementTypeOrSelf(inside) == getElementTypeOrSelf(outside) &&
           ArrayRef<Dim>(dims).drop_front() == ArrayRef<Dim>(dimsOf(inside));
  };
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    Type outside = getOperand(i).getType();
    bool fits = i >= states && i < states + sequences
                    ? stepOf(argument.getType(), outside)
                    : argument.getType() == outside;
    if (!fits)
      return emitOpError("(C1) argument ") << i << " is none of the operand's";
  }
  for (auto [i, value] : llvm::enumerate(next.getValues())) {
    Type outside = getResult(i).getType();
    if (i < states
            ? value.getType() != outside || outside != getOperand(i).getType()
            : !stepOf(value.getType(), outside))
      return emitOpError("(C1) next value ") << i << " is none of the result's";
  }
  if (states == 0)
    return emitOpError("(C2) has no state");
  SmallVector<Dim> dims = dimsOf(getStates()[0]);
  if (dims.size() != 2 || llvm::any_of(getStates(), [&](Value state) {
        return dimsOf(state) != dims;
      }))
    return emitOpError("(C2) states are not of one shape [rows, units]");
  if (Operation *mixed = firstMixed(*this))
    return mixed->emitOpError("(C3) takes no state of a recurrence so");
  return success();
}
