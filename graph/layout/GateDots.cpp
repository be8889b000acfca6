#include "graph/layout/GateDots.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_GATEDOTS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

namespace {

int64_t firstColumn(SliceOp slice) {
  return *dimsOf(slice.getStarts())[1].asConstant();
}

/// The product of one dot, column by column of a gate.
class Gates {
public:
  explicit Gates(DotOp dot) : dot(dot) {}

  /// Whether the dot is of this form; finds the slices.
  bool match();
  void rewrite();
  Dim rows() { return dimOf(dot.getLhs(), 0); }
  /// Bytes of the matrix, which every row reads.
  int64_t matrixBytes() const { return bytes; }

private:
  bool follow(Value wide);
  /// Columns [offset, offset + width) of a value with more.
  Value part(OpBuilder &b, Value value, int64_t offset);
  Value reduction(OpBuilder &b, int64_t offset);

  DotOp dot;
  int64_t width = 0, bytes = 0;
  Value state;                 ///< h, once a row of R
  SmallVector<SliceOp> slices; ///< of `width` columns
  llvm::SmallSetVector<Operation *, 8> wide;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> parts;
};

} // namespace

bool Gates::match() {
  SmallVector<Dim> x = dimsOf(dot.getLhs()), y = dimsOf(dot.getRhs());
  Type element = elementTypeOf(dot.getLhs());
  if (!isa<FloatType>(element) || element != elementTypeOf(dot.getRhs()) ||
      x.size() != 2 || y.size() != 2 || !dot.getLhsBatch().empty() ||
      dot.getLhsContract() != ArrayRef<int64_t>{1} ||
      dot.getRhsContract() != ArrayRef<int64_t>{1})
    return false;
  std::optional<int64_t> depth = x[1].asConstant(), columns = y[0].asConstant();
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
    state = makeBroadcast(b, loc, convert(dot.getLhs(), compute), dims, {0, 2});
  }
  Value y = makeBroadcast(b, loc, convert(matrix, compute), dims, {1, 2});
  Value sum = ReduceOp::create(b, loc, ReduceKind::add,
                               MulOp::create(b, loc, state, y), {2}, false);
  return convert(sum, elementTypeOf(dot.getResult()));
}

Value Gates::part(OpBuilder &b, Value value, int64_t offset) {
  if (Value known = parts.lookup({value, offset}))
    return known;
  Operation *op = value.getDefiningOp();
  Value made;
  if (value == dot.getResult()) {
    made = reduction(b, offset);
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

static SmallVector<Gates> gatesIn(func::FuncOp body) {
  SmallVector<Gates> found;
  for (DotOp op : body.getBody().getOps<DotOp>())
    if (Gates gates(op); gates.match())
      found.push_back(std::move(gates));
  return found;
}

/// A loop that runs instead of `op` where `few` is 1, and not where it is 0;
/// `op` runs where it is 0. Returns its body, a copy.
static func::FuncOp splitLoop(LoopOp op, func::FuncOp body, Dim few) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  func::FuncOp copy = body.clone();
  copy.setName((body.getName() + "_few").str());
  SymbolTable(body->getParentOfType<ModuleOp>())
      .insert(copy, body->getIterator());

  Dim trips(*op.getTrips());
  size_t carried = op.getCarried().size();
  auto withTrips = [&](LoopOp loop, Dim count) {
    loop.setTripsAttr(count.attr());
    for (OpResult scan : loop->getResults().drop_front(carried)) {
      SmallVector<Dim> dims = dimsOf(scan);
      dims[0] = count;
      scan.setType(tensorType(b.getContext(), dims, elementTypeOf(scan)));
    }
  };
  SmallVector<Type> types(op.getResultTypes());
  auto first = cast<LoopOp>(b.clone(*op));
  first.setBodyAttr(FlatSymbolRefAttr::get(copy));
  withTrips(first, trips * few);
  auto last = cast<LoopOp>(b.clone(*op));
  last.getCarriedMutable().assign(first.getResults().take_front(carried));
  withTrips(last, trips - trips * few);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Value value = last->getResult(i);
    if (i >= carried) {
      // The parts are in any order: one of them is empty.
      SmallVector<Value> both{first->getResult(i), value};
      value = makeReshape(b, loc, ConcatOp::create(b, loc, ValueRange(both), 0),
                          dimsOf(types[i]));
    }
    result.replaceAllUsesWith(value);
  }
  op.erase();
  return copy;
}

void knapper::reduceGateDots(func::FuncOp function, int64_t mostBytes) {
  SmallVector<LoopOp> loops(function.getBody().getOps<LoopOp>());
  for (LoopOp op : loops) {
    func::FuncOp body = bodyOf(op, op.getBodyAttr());
    Dim rows;
    int64_t bytes = 0, known = 0;
    bool alike = true; ///< all rows that only a run knows are as many
    for (Gates &gates : gatesIn(body)) {
      if (std::optional<int64_t> count = gates.rows().asConstant()) {
        known += *count * gates.matrixBytes();
        continue;
      }
      alike &= !rows || rows == gates.rows();
      rows = gates.rows();
      bytes += gates.matrixBytes();
    }
    if (!alike || known > mostBytes)
      continue;
    if (rows) {
      int64_t mostRows = (mostBytes - known) / bytes;
      if (mostRows == 0 || !op.getTrips() || op.getCondition() ||
          !op.getSymbols().empty())
        continue;
      Dim one = rows.like(1);
      body = splitLoop(op, body,
                       rows.like(mostRows).floorDiv(rows.max(one)).min(one));
    }
    for (Gates &gates : gatesIn(body))
      gates.rewrite();
  }
}

namespace {
struct GateDotsPass : knapper::impl::GateDotsBase<GateDotsPass> {
  using Base = knapper::impl::GateDotsBase<GateDotsPass>;
  using Base::Base;
  void runOnOperation() override {
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      reduceGateDots(function, mostBytes);
  }
};
} // namespace
