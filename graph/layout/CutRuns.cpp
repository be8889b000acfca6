#include "graph/layout/CutRuns.h"
#include "graph/fusion/Rules.h"
#include "graph/fusion/Views.h"
#include "graph/simplify/Match.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

Value knapper::runOf(OpBuilder &b, Location loc, Value x, unsigned dim,
                     int64_t first, int64_t size) {
  SmallVector<Dim> sizes = dimsOf(x);
  SmallVector<Dim> starts(sizes.size(), sizes[dim].like(0));
  starts[dim] = starts[dim] + first;
  sizes[dim] = starts[dim].like(size);
  return SliceOp::create(
      b, loc, tensorType(x.getContext(), sizes, elementTypeOf(x)), x,
      dimArray(x.getContext(), starts), SmallVector<int64_t>(sizes.size(), 1));
}

/// Of `found`, those whose place is in the dims that they have: what may be the
/// epilogue of a hero, and what reads a broadcast of more than a scalar, whose
/// elements a run of memory finds by a division each.
static llvm::SmallPtrSet<Operation *, 8>
boundToDims(const llvm::SmallPtrSetImpl<Operation *> &found) {
  llvm::SmallPtrSet<Operation *, 8> bound;
  auto isBound = [&](Value operand) {
    Operation *op = operand.getDefiningOp();
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
      return rankOf(broadcast.getInput()) > 0;
    while (op && fusion::isView(op))
      op = op->getOperand(0).getDefiningOp();
    return op && (fusion::heroOf(op) || bound.contains(op));
  };
  auto isNext = [&](Operation *op) {
    return !bound.contains(op) && llvm::any_of(op->getOperands(), isBound);
  };
  for (auto op = llvm::find_if(found, isNext); op != found.end();
       op = llvm::find_if(found, isNext))
    bound.insert(*op);
  return bound;
}

/// Elementwise ops on all of `x` and what it is made of, that nothing else but
/// `last` reads.
static llvm::SmallPtrSet<Operation *, 8> madeOnlyFor(Operation *last, Value x) {
  constexpr unsigned mostOps = 32;
  llvm::SmallPtrSet<Operation *, 8> found;
  SmallVector<Value> work{x};
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (op && isa<ElementwiseOpInterface>(op) && op->getNumResults() == 1 &&
        op->getNumOperands() > 0 && found.size() < mostOps &&
        llvm::all_of(
            op->getOperands(),
            [&](Value operand) { return dimsOf(operand) == dimsOf(x); }) &&
        found.insert(op).second)
      llvm::append_range(work, op->getOperands());
  }
  for (Operation *op : boundToDims(found))
    found.erase(op);
  auto isReadElsewhere = [&](Operation *op) {
    return !llvm::all_of(op->getUsers(), [&](Operation *user) {
      return user == last || found.contains(user);
    });
  };
  while (true) {
    auto other = llvm::find_if(found, isReadElsewhere);
    if (other == found.end())
      return found;
    found.erase(*other);
  }
}

namespace {
/// Runs of a tensor that has the shape `flat` in memory, along one dim of it.
/// Of the ops in `cut` the operands are cut, not their results: what a
/// reduction and its rest both read would be stored.
class CutRun {
public:
  CutRun(OpBuilder &b, Location loc, ArrayRef<Dim> flat, unsigned dim,
         const llvm::SmallPtrSetImpl<Operation *> &cut, int64_t first,
         int64_t size)
      : b(b), loc(loc), flat(flat), dim(dim), cut(cut), first(first),
        size(size) {}

  Value of(Value x) {
    if (Value run = made.lookup(x))
      return run;
    Value run = make(x);
    made[x] = run;
    return run;
  }

private:
  Value make(Value x) {
    SmallVector<Dim> sizes(flat);
    sizes[dim] = sizes[dim].like(size);
    auto broadcast = x.getDefiningOp<BroadcastOp>();
    if (broadcast && rankOf(broadcast.getInput()) == 0)
      return makeBroadcast(b, loc, broadcast.getInput(), sizes, {});
    Operation *op = x.getDefiningOp();
    if (!op || !cut.contains(op)) {
      Type type = tensorType(x.getContext(), flat, elementTypeOf(x));
      Value whole = ReshapeOp::create(b, loc, type, x);
      return flat[dim].isConstant(size)
                 ? whole
                 : runOf(b, loc, whole, dim, first, size);
    }
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, of(operand));
    Value result = b.clone(*op, operands)->getResult(0);
    result.setType(tensorType(x.getContext(), sizes, elementTypeOf(x)));
    return result;
  }

  OpBuilder &b;
  Location loc;
  ArrayRef<Dim> flat;
  unsigned dim;
  const llvm::SmallPtrSetImpl<Operation *> &cut;
  int64_t first, size;
  llvm::DenseMap<Value, Value> made;
};
} // namespace

std::pair<Value, Value> knapper::cutInTwo(OpBuilder &b, Operation *last,
                                          Value x, ArrayRef<Dim> flat,
                                          unsigned dim, int64_t whole,
                                          int64_t rest) {
  Location loc = last->getLoc();
  llvm::SmallPtrSet<Operation *, 8> only = madeOnlyFor(last, x);
  Value behind =
      rest ? CutRun(b, loc, flat, dim, only, whole, rest).of(x) : Value();
  return {CutRun(b, loc, flat, dim, only, 0, whole).of(x), behind};
}
