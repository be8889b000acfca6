#include "graph/layout/Selections.h"

#include "graph/layout/Maker.h"
#include "graph/layout/Symbols.h"
#include "ir/tensor/DataSelection.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <limits>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

using P = ComparePredicate;
constexpr double infinity = std::numeric_limits<double>::infinity();

void expand(TruePlacesOp op) {
  Maker m{OpBuilder(op), op.getLoc()};
  SmallVector<Dim> dims = dimsOf(op.getMask());
  Dim all = elementCount(op.getMask().getType()), count(op.getCount());
  SmallVector<Dim> line{all};
  Value mask = m.reshape(op.getMask(), line);
  // (Nothing is before a single element.)
  Value place = all.isConstant(1)
                    ? m.splat(line, m.i64, 0)
                    : m.make<ScanOp>(ReduceKind::add, m.convert(mask, m.i64),
                                     uint64_t(0), true, false);
  // What is not true goes into one more place behind all others.
  Value target = m.make<SelectOp>(mask, place, m.size(all, line));
  Value found =
      m.make<ScatterElementsOp>(m.splat({all + 1}, m.i64, 0), target,
                                m.iota(line, 0), uint64_t(0), ReduceKindAttr());
  found = makeSlice(m.b, m.loc, found, 0, all.like(0), count);
  // A row of indices a dim, from the last one on.
  SmallVector<Value> rows(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    Value size = m.size(dims[i], {count});
    Value row = i ? m.make<ModOp>(found, size) : found;
    rows[i] = m.reshape(row, {count.like(1), count});
    if (i)
      found = m.make<DivOp>(found, size);
  }
  op.replaceAllUsesWith(rows.size() == 1 ? rows[0] : m.joined(rows, 0));
  op.erase();
}

/// Borders of boxes, a tensor each.
struct Boxes {
  Value top, left, bottom, right;

  Boxes mapped(llvm::function_ref<Value(Value)> change) const {
    return {change(top), change(left), change(bottom), change(right)};
  }
};

/// Where a and b, of one shape, overlap by more than `limit`.
Value overlap(Maker &m, const Boxes &a, const Boxes &b, Value limit) {
  auto area = [&](const Boxes &x) {
    return m.make<MulOp>(m.make<SubOp>(x.bottom, x.top),
                         m.make<SubOp>(x.right, x.left));
  };
  Value height = m.make<SubOp>(m.make<MinOp>(a.bottom, b.bottom),
                               m.make<MaxOp>(a.top, b.top));
  Value width = m.make<SubOp>(m.make<MinOp>(a.right, b.right),
                              m.make<MaxOp>(a.left, b.left));
  Value shared = m.make<MulOp>(height, width);
  Value first = area(a), second = area(b);
  Value whole = m.make<SubOp>(m.make<AddOp>(first, second), shared);
  Value part = m.make<DivOp>(shared, whole);
  Value result = m.compare(P::gt, part,
                           makeBroadcast(m.b, m.loc, limit, dimsOf(part), {}));
  for (Value positive : {height, width, first, second})
    result =
        m.make<AndOp>(result, m.compare(P::gt, positive, m.like(positive, 0)));
  return result;
}

class SuppressionLoop {
public:
  explicit SuppressionLoop(NonMaxSuppressionOp op)
      : op(op), m{OpBuilder(op), op.getLoc()},
        module(op->getParentOfType<ModuleOp>()) {
    SmallVector<Dim> dims = dimsOf(op.getScores());
    // A symbolic number of boxes may be 0: one that is never the best stands
    // behind them.
    wide = dims[2] + 1;
    Dim one = wide.like(1);
    classes = {dims[0], dims[1]};
    state = {dims[0], dims[1], wide};
    columns = {dims[0], dims[1], one};
    rows = {dims[0], one, wide};
  }

  void expand();

private:
  Value best(Value alive) {
    return m.make<ArgReduceOp>(ReduceKind::max, alive, uint64_t(2), false);
  }
  Value bestScore(Value alive) { return m.reduce(ReduceKind::max, alive, {2}); }
  Value isLeft(Value score) {
    return m.compare(P::gt, score, m.like(score, -infinity));
  }
  Value anyLeft(Value score) {
    return m.reduce(ReduceKind::logical_or, isLeft(score), {0, 1});
  }
  Boxes borders();
  func::FuncOp body(TypeRange inputs);

  NonMaxSuppressionOp op;
  Maker m;
  ModuleOp module;
  Dim wide;
  SmallVector<Dim> classes, state, columns, rows;
};

/// Each [batches, wide].
Boxes SuppressionLoop::borders() {
  auto corner = [&](int64_t i) {
    Value x =
        makeSlice(m.b, m.loc, op.getBoxes(), 2, wide.like(i), wide.like(1));
    return m.padded(m.reshape(x, {classes[0], dimOf(op.getBoxes(), 1)}), 1,
                    wide.like(1), 0);
  };
  Value a = corner(0), b = corner(1), c = corner(2), d = corner(3);
  return {m.make<MinOp>(a, c), m.make<MinOp>(b, d), m.make<MaxOp>(a, c),
          m.make<MaxOp>(b, d)};
}

/// From the scores that are left, the best box of each class and its score to
/// the next ones; then what was taken, where there was any.
func::FuncOp SuppressionLoop::body(TypeRange inputs) {
  auto function = func::FuncOp::create(
      m.loc, "suppression", m.b.getFunctionType(inputs, TypeRange()));
  function.setPrivate();
  SymbolTable(module).insert(
      function, op->getParentOfType<func::FuncOp>()->getIterator());
  OpBuilder::InsertionGuard guard(m.b);
  m.b.setInsertionPointToStart(function.addEntryBlock());
  auto arguments = function.getArguments();
  Value alive = arguments[0], chosen = arguments[1], score = arguments[2];
  Boxes all{arguments[3], arguments[4], arguments[5], arguments[6]};
  Boxes taken = all.mapped([&](Value x) {
    Value border = m.make<GatherElementsOp>(x, chosen, uint64_t(1));
    return m.broadcast(m.reshape(border, columns), state);
  });
  Boxes others = all.mapped(
      [&](Value x) { return m.broadcast(m.reshape(x, rows), state); });
  Value itself = m.compare(P::eq, m.iota(state, 2),
                           m.broadcast(m.reshape(chosen, columns), state));
  Value gone = m.make<OrOp>(itself, overlap(m, taken, others, arguments[7]));
  Value left = m.make<SelectOp>(gone, m.like(alive, -infinity), alive);
  Value next = bestScore(left);
  Value results[] = {anyLeft(next), left,   best(left),
                     next,          chosen, isLeft(score)};
  func::ReturnOp::create(m.b, m.loc, results);
  function.setType(m.b.getFunctionType(
      inputs,
      llvm::map_to_vector(results, [](Value v) { return v.getType(); })));
  return function;
}

void SuppressionLoop::expand() {
  Value scores = op.getScores();
  Value never = m.like(scores, -infinity);
  scores = m.make<SelectOp>(m.make<IsNanOp>(scores), never, scores);
  scores = m.padded(scores, 2, wide.like(1), -infinity);
  Boxes all = borders();
  Value first = bestScore(scores);
  Value carried[] = {scores, best(scores), first};
  Value captures[] = {all.top, all.left, all.bottom, all.right, op.getLimit()};
  Value condition = anyLeft(first);
  SmallVector<Type> inputs, results;
  for (Value value : carried) {
    inputs.push_back(value.getType());
    results.push_back(value.getType());
  }
  for (Value value : captures)
    inputs.push_back(value.getType());
  StringAttr counter = newSymbol(module, "step"),
             count = newSymbol(module, "steps");
  Dim steps = Dim::symbol(op.getContext(), count), most(op.getMost());
  SmallVector<Dim> scans{steps, classes[0], classes[1]};
  results.push_back(m.type(scans, m.i64));
  results.push_back(m.type(scans, m.b.getI1Type()));
  func::FuncOp function = body(inputs);
  auto loop = LoopOp::create(
      m.b, m.loc, results, FlatSymbolRefAttr::get(function), counter,
      op.getMostAttr(), condition, carried, captures, count,
      m.b.getStrArrayAttr({}), m.b.getDenseBoolArrayAttr({false, false}));
  Value chosen = loop.getResult(3);
  chosen = m.make<SelectOp>(loop.getResult(4), chosen, m.like(chosen, -1));
  chosen = makeTranspose(m.b, m.loc, chosen, {1, 2, 0});
  op.replaceAllUsesWith(m.padded(chosen, 2, most - steps, -1));
  op.erase();
}

} // namespace

void knapper::expandSelections(func::FuncOp function) {
  Block &block = function.getBody().front();
  for (TruePlacesOp op :
       SmallVector<TruePlacesOp>(block.getOps<TruePlacesOp>()))
    expand(op);
  for (NonMaxSuppressionOp op :
       SmallVector<NonMaxSuppressionOp>(block.getOps<NonMaxSuppressionOp>()))
    SuppressionLoop(op).expand();
}
