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

namespace {

/// A run [begin, end) of dims that become one.
struct DimRun {
  int64_t begin, end;
};

/// Values with the dims of each run merged.
class Merging {
public:
  Merging(ArrayRef<Dim> dims, ArrayRef<DimRun> runs) : runs(runs) {
    for (DimRun run : runs) {
      Dim size = dims[run.begin];
      for (int64_t d = run.begin + 1; d < run.end; ++d)
        size = size * dims[d];
      merged.push_back(size);
    }
  }
  bool canMerge(Value value, int64_t depth = 0) const;
  Value merge(OpBuilder &b, Value value);

private:
  std::optional<SmallVector<int64_t>> spreadMap(BroadcastOp op) const;

  ArrayRef<DimRun> runs;
  SmallVector<Dim> merged;
  DenseMap<Value, Value> made;
};

} // namespace

/// An op whose only reader computes it again with other dims.
static Operation *computedBefore(Value value) {
  Operation *op = value.getDefiningOp();
  return isElementwise(op) && llvm::all_equal(value.getUsers()) ? op : nullptr;
}

/// The merged dims that the operand of a broadcast has, which is spread along
/// the others; null where it has a part of a run.
std::optional<SmallVector<int64_t>> Merging::spreadMap(BroadcastOp op) const {
  SmallVector<Dim> from = dimsOf(op.getInput()), to = dimsOf(op.getResult());
  SmallVector<int64_t> result;
  for (auto [i, run] : llvm::enumerate(runs)) {
    int64_t has = 0, spread = 0, equal = 0;
    for (auto [d, place] : llvm::enumerate(op.getDims())) {
      if (place < run.begin || place >= run.end)
        continue;
      ++has;
      equal += from[d] == to[place];
      spread += from[d].isConstant(1);
    }
    if (has == run.end - run.begin && equal == has)
      result.push_back(i);
    else if (spread != has)
      return std::nullopt;
  }
  return result;
}

bool Merging::canMerge(Value value, int64_t depth) const {
  constexpr int64_t deepest = 32;
  if (depth > deepest)
    return false;
  if (auto spread = value.getDefiningOp<BroadcastOp>())
    return spreadMap(spread).has_value();
  Operation *op = computedBefore(value);
  return !op || llvm::all_of(op->getOperands(), [&](Value operand) {
    return canMerge(operand, depth + 1);
  });
}

Value Merging::merge(OpBuilder &b, Value value) {
  if (Value known = made.lookup(value))
    return known;
  Location loc = value.getLoc();
  Value result;
  if (auto spread = value.getDefiningOp<BroadcastOp>()) {
    SmallVector<int64_t> map = *spreadMap(spread);
    SmallVector<Dim> dims;
    for (int64_t i : map)
      dims.push_back(merged[i]);
    Value input = makeReshape(b, loc, spread.getInput(), dims);
    result = makeBroadcast(b, loc, input, merged, map);
  } else if (Operation *op = computedBefore(value)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(merge(b, operand));
    result = cloneElementwise(b, op, operands);
  } else {
    result = makeReshape(b, loc, value, merged);
  }
  return made[value] = result;
}

/// Whether something else than reductions and what they reduce has a value of
/// these dims.
static bool leaves(Value value, ArrayRef<Dim> dims, int64_t depth) {
  constexpr int64_t deepest = 12;
  return depth > deepest ||
         llvm::any_of(value.getUsers(), [&](Operation *user) {
           return !isa<ReduceOp>(user) &&
                  (!isElementwise(user) ||
                   leaves(user->getResult(0), dims, depth + 1));
         });
}

/// Whether what is computed from the value has these dims again, before
/// anything else than elementwise ops, and is kept.
static bool meetsAgain(Value value, ArrayRef<Dim> dims, int64_t depth = 0) {
  constexpr int64_t deepest = 12;
  if (depth > deepest)
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (!isElementwise(user) && !isa<BroadcastOp, ReshapeOp>(user))
      return false;
    Value result = user->getResult(0);
    return ArrayRef<Dim>(dimsOf(result)) == dims
               ? leaves(result, dims, depth)
               : meetsAgain(result, dims, depth + 1);
  });
}

static void merge(ReduceOp op) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  int64_t rank = dims.size();
  auto isReduced = [&](int64_t d) {
    return llvm::is_contained(op.getDims(), d);
  };
  auto isNumber = [&](int64_t d) {
    return dims[d].asConstant().value_or(0) > 0;
  };
  // Rows that are long are read as well by themselves.
  constexpr int64_t wideRow = 4096;
  SmallVector<DimRun> runs;
  for (int64_t d = 0; d < rank; ++d) {
    bool joins = d > 0 && isReduced(d) && isReduced(d - 1) && isNumber(d) &&
                 isNumber(d - 1) &&
                 (d + 1 < rank || *dims[d].asConstant() < wideRow);
    if (joins)
      runs.back().end = d + 1;
    else
      runs.push_back({d, d + 1});
  }
  Merging merging(dims, runs);
  if (runs.size() == dims.size() || !merging.canMerge(op.getInput()) ||
      meetsAgain(op.getResult(), dims))
    return;
  SmallVector<int64_t> along;
  for (auto [i, run] : llvm::enumerate(runs))
    if (isReduced(run.begin))
      along.push_back(i);
  OpBuilder b(op);
  op.replaceAllUsesWith(ReduceOp::create(b, op.getLoc(), op.getKind(),
                                         merging.merge(b, op.getInput()), along,
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
