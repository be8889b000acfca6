#include "graph/layout/Gates.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

static int64_t firstColumn(SliceOp slice) {
  return *dimsOf(slice.getStarts())[1].asConstant();
}

bool Gates::match() {
  SmallVector<Dim> x = dimsOf(dot.getLhs()), y = dimsOf(dot.getRhs());
  Type element = elementTypeOf(dot.getLhs());
  if (!isa<FloatType>(element) || element != elementTypeOf(dot.getRhs()) ||
      x.size() != 2 || y.size() != 2 || !dot.getLhsBatch().empty() ||
      dot.getLhsContract() != ArrayRef<int64_t>{1} ||
      dot.getRhsContract().size() != 1)
    return false;
  int64_t columnDim = 1 - dot.getRhsContract()[0];
  // A reduction reads the products of one sum one behind the other.
  if (form == Form::reduction && columnDim != 0)
    return false;
  std::optional<int64_t> depth = x[1].asConstant(),
                         columns = y[columnDim].asConstant();
  if (!depth || !columns || *depth == 0 || *columns == 0 ||
      *columns % *depth != 0)
    return false;
  width = *depth;
  bytes = *columns * *depth * elementBytes(element);
  return *columns == width || follow(dot.getResult());
}

bool Gates::follow(Value value) {
  for (Operation *user : value.getUsers()) {
    if (wide.contains(user) || llvm::is_contained(slices, user))
      continue;
    if (auto slice = dyn_cast<SliceOp>(user)) {
      Dim columns = dimOf(slice.getResult(), 1);
      if (!(dimOf(slice.getResult(), 0) == dimOf(value, 0)) ||
          !dimsOf(slice.getStarts())[1].asConstant() ||
          llvm::any_of(slice.getSteps(), [](int64_t s) { return s != 1; }))
        return false;
      if (columns.isConstant(width)) {
        slices.push_back(slice);
        continue;
      }
    } else if (!knapper::isElementwise(user) || user->getNumResults() != 1 ||
               dimsOf(user->getResult(0)) != dimsOf(value)) {
      return false;
    }
    std::optional<int64_t> columns = dimOf(user->getResult(0), 1).asConstant();
    if (!columns || *columns < width)
      return false;
    wide.insert(user);
    if (!follow(user->getResult(0)))
      return false;
  }
  return true;
}

Value Gates::reduction(OpBuilder &b, int64_t offset) {
  Location loc = dot.getLoc();
  Type element = elementTypeOf(dot.getLhs());
  Type compute =
      element.getIntOrFloatBitWidth() < 32 ? b.getF32Type() : element;
  auto convert = [&](Value x, Type to) -> Value {
    return elementTypeOf(x) == to
               ? x
               : ConvertOp::create(b, loc, withElement(x.getType(), to), x);
  };
  Dim depth = dimOf(dot.getLhs(), 1), columns = depth.like(width);
  SmallVector<Dim> dims{dimOf(dot.getLhs(), 0), columns, depth};
  Value matrix =
      makeSlice(b, loc, dot.getRhs(), 0, depth.like(offset), columns);
  if (!state) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(dot);
    // Widened where it is read: apart, that would be a kernel of its own.
    state = convert(makeBroadcast(b, loc, dot.getLhs(), dims, {0, 2}), compute);
  }
  Value y = makeBroadcast(b, loc, convert(matrix, compute), dims, {1, 2});
  Value sum = ReduceOp::create(b, loc, ReduceKind::add,
                               MulOp::create(b, loc, state, y), {2}, false);
  return convert(sum, elementTypeOf(dot.getResult()));
}

Value Gates::matmul(OpBuilder &b, int64_t offset) {
  Dim depth = dimOf(dot.getLhs(), 1);
  Value matrix =
      makeSlice(b, dot.getLoc(), dot.getRhs(), 1 - dot.getRhsContract()[0],
                depth.like(offset), depth.like(width));
  return DotOp::create(b, dot.getLoc(), dot.getLhs(), matrix, dot.getLhsBatch(),
                       dot.getRhsBatch(), dot.getLhsContract(),
                       dot.getRhsContract(), dot.getResultTypeAttr());
}

Value Gates::part(OpBuilder &b, Value value, int64_t offset) {
  if (Value known = parts.lookup({value, offset}))
    return known;
  Operation *op = value.getDefiningOp();
  Value made;
  if (value == dot.getResult()) {
    made = form == Form::dot ? matmul(b, offset) : reduction(b, offset);
  } else if (op && wide.contains(op)) {
    if (auto slice = dyn_cast<SliceOp>(op)) {
      made = part(b, slice.getInput(), offset + firstColumn(slice));
    } else {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands())
        operands.push_back(part(b, operand, offset));
      made = cloneElementwise(b, op, operands);
    }
  } else {
    Dim columns = dimOf(value, 1);
    made = makeSlice(b, dot.getLoc(), value, 1, columns.like(offset),
                     columns.like(width));
  }
  return parts[{value, offset}] = made;
}

void Gates::rewrite() {
  if (dimOf(dot.getResult(), 1).isConstant(width)) {
    OpBuilder b(dot);
    if (form == Form::dot)
      return;
    dot.replaceAllUsesWith(reduction(b, 0));
    dot.erase();
    return;
  }
  // In the block's order: what one makes the next may use.
  llvm::sort(slices,
             [](SliceOp x, SliceOp y) { return x->isBeforeInBlock(y); });
  for (SliceOp slice : slices) {
    OpBuilder b(slice);
    Value made = part(b, slice.getInput(), firstColumn(slice));
    slice.replaceAllUsesWith(made);
  }
  for (SliceOp slice : slices)
    slice.erase();
  SmallVector<Operation *> dead = wide.takeVector();
  llvm::sort(dead,
             [](Operation *x, Operation *y) { return y->isBeforeInBlock(x); });
  for (Operation *op : dead)
    op->erase();
  dot.erase();
}

SmallVector<Gates> knapper::gatesIn(func::FuncOp body, Gates::Form form) {
  SmallVector<Gates> found;
  for (DotOp op : body.getBody().getOps<DotOp>())
    if (Gates gates(op, form); gates.match())
      found.push_back(std::move(gates));
  return found;
}
