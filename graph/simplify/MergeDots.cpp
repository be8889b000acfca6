#include "graph/simplify/MergeDots.h"

#include "graph/simplify/Match.h"
#include "graph/simplify/SimplifyPasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_MERGEDOTS
#include "graph/simplify/SimplifyPasses.h.inc"
} // namespace knapper

namespace {

struct Column {
  DotOp dot;
  AddOp add; ///< null without bias
  Value bias;
};

/// dot(x, w) + broadcast(b along the last dim), when the sum is the only use.
Column columnOf(DotOp dot) {
  Column column{dot, {}, {}};
  if (!dot->hasOneUse())
    return column;
  auto add = dyn_cast<AddOp>(*dot->user_begin());
  if (!add)
    return column;
  Value other = add.getLhs() == dot.getResult() ? add.getRhs() : add.getLhs();
  auto broadcast = other.getDefiningOp<BroadcastOp>();
  if (!broadcast || !isPackedConstant(broadcast.getInput()) ||
      broadcast.getDims() != ArrayRef<int64_t>{rankOf(dot) - 1} ||
      !(dimOf(broadcast.getInput(), 0) == dimOf(dot, rankOf(dot) - 1)))
    return column;
  column.add = add;
  column.bias = broadcast.getInput();
  return column;
}

/// 0, 1, 2 when the value goes into an attention as query, key, value; else 3.
unsigned attentionSlot(Value value) {
  for (int step = 0; step < 10; ++step) {
    if (value.use_empty())
      return 3;
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (isa<AttentionOp>(user))
      return std::min(use.getOperandNumber(), 3u);
    if (user->getNumResults() != 1)
      return 3;
    value = user->getResult(0);
  }
  return 3;
}

/// Whether an elementwise op reads the value, stored in another type or not.
bool isComputedWith(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<ConvertOp>(user) ? isComputedWith(user->getResult(0))
                                : isElementwise(user);
  });
}

/// Whether an elementwise op reads the result (after its bias): the matmul's
/// own epilogue would take it.
bool hasEpilogue(DotOp dot) {
  Column column = columnOf(dot);
  return isComputedWith(column.add ? column.add.getResult() : dot.getResult());
}

void merge(MutableArrayRef<DotOp> dots) {
  SmallVector<std::tuple<unsigned, size_t, DotOp>> order;
  for (auto [i, dot] : llvm::enumerate(dots))
    order.push_back({attentionSlot(dot), i, dot});
  llvm::sort(order, [](const auto &a, const auto &b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (auto [dot, entry] : llvm::zip(dots, order))
    dot = std::get<2>(entry);
  DotOp first = *llvm::min_element(
      dots, [](DotOp a, DotOp b) { return a->isBeforeInBlock(b); });
  SmallVector<Column> columns;
  bool anyBias = false;
  for (DotOp dot : dots) {
    columns.push_back(columnOf(dot));
    anyBias |= bool(columns.back().bias);
    hoistConstantExpression(dot.getRhs(), first);
    if (columns.back().bias)
      hoistConstantExpression(columns.back().bias, first);
  }
  SmallVector<Location> locations;
  for (DotOp dot : dots)
    locations.push_back(dot.getLoc());
  OpBuilder builder(first);
  Location location = builder.getFusedLoc(locations);

  int64_t contract = first.getRhsContract()[0], last = rankOf(first) - 1;
  SmallVector<Value> weights, biases;
  for (Column &column : columns) {
    weights.push_back(column.dot.getRhs());
    if (!anyBias)
      continue;
    Type type = tensorType(builder.getContext(), {dimOf(column.dot, last)},
                           elementTypeOf(column.dot));
    biases.push_back(column.bias ? column.bias
                                 : makeSplat(builder, location,
                                             cast<RankedTensorType>(type), 0));
  }
  Value weight = ConcatOp::create(builder, location, weights, 1 - contract);
  Value result = DotOp::create(builder, location, first.getLhs(), weight,
                               ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                               first.getLhsContract(), first.getRhsContract(),
                               first.getResultTypeAttr());
  if (anyBias) {
    Value bias = ConcatOp::create(builder, location, biases, 0);
    bias = makeBroadcast(builder, location, bias, dimsOf(result), {last});
    result = AddOp::create(builder, location, result, bias);
  }
  Dim start = dimOf(result, last).like(0);
  for (Column &column : columns) {
    Dim size = dimOf(column.dot, last);
    Value slice =
        makeSlice(builder, column.dot.getLoc(), result, last, start, size);
    start = start + size;
    (column.bias ? column.add.getResult() : column.dot.getResult())
        .replaceAllUsesWith(slice);
  }
  for (Column &column : columns) { // the builder stands at one of them
    if (column.bias)
      column.add.erase();
    column.dot.erase();
  }
}

} // namespace

void knapper::mergeDots(func::FuncOp function, bool all) {
  for (Block &block : function.getBody()) {
    llvm::MapVector<Value, SmallVector<DotOp>> byLhs;
    for (DotOp dot : block.getOps<DotOp>())
      if (dot.getLhsBatch().empty() && dot.getLhsContract().size() == 1 &&
          rankOf(dot.getRhs()) == 2 && !isPackedConstant(dot.getLhs()) &&
          isPackedConstant(dot.getRhs()) && (all || !hasEpilogue(dot)))
        byLhs[dot.getLhs()].push_back(dot);
    for (auto &[lhs, dots] : byLhs) {
      SmallVector<DotOp> left(dots);
      while (!left.empty()) {
        SmallVector<DotOp> group{left.front()}, others;
        for (DotOp dot : ArrayRef<DotOp>(left).drop_front()) {
          DotOp first = group.front();
          bool alike =
              dot.getLhsContract() == first.getLhsContract() &&
              dot.getRhsContract() == first.getRhsContract() &&
              dot.getResultTypeAttr() == first.getResultTypeAttr() &&
              elementTypeOf(dot.getRhs()) == elementTypeOf(first.getRhs());
          (alike ? group : others).push_back(dot);
        }
        if (group.size() > 1)
          merge(group);
        left = others;
      }
    }
  }
}

namespace {
struct MergeDotsPass : knapper::impl::MergeDotsBase<MergeDotsPass> {
  using MergeDotsBase::MergeDotsBase;
  void runOnOperation() override { mergeDots(getOperation(), all); }
};
} // namespace
