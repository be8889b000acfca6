#include "ir/tensor/IndexLimit.h"

#include "ir/tensor/Dialect.h"
#include "ir/tensor/Dim.h"
#include "ir/tensor/SymbolicValue.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace knapper::ts {
namespace {

class IndexLimitSearch {
public:
  /// Elements of `value`, and `shift` added to each on the way here.
  void follow(Value value, int64_t shift) {
    if (!seen.insert({value, shift}).second)
      return;
    for (OpOperand &use : value.getUses())
      follow(use, shift);
  }
  std::optional<int64_t> limit;

private:
  /// Elements plus `shift` must be below `dim`, and are not negative.
  void mustBeBelow(Dim dim, int64_t shift) {
    std::optional<int64_t> least = lowerBound(dim);
    if (!least || *least <= 0)
      return;
    int64_t found = std::max<int64_t>(1, *least - shift);
    limit = std::min(limit.value_or(found), found);
  }

  void indexes(Value table, int64_t dim, int64_t shift) {
    mustBeBelow(dimsOf(table)[dim], shift);
  }

  /// One index for each of the last dim of `indices`: the least of them all.
  void indexesMany(Value table, Value indices, int64_t first, int64_t shift) {
    std::optional<int64_t> count = dimsOf(indices).back().asConstant();
    for (int64_t d = 0; count && d < *count; ++d)
      indexes(table, first + d, shift);
  }

  void follow(OpOperand &use, int64_t shift) {
    Value value = use.get();
    llvm::TypeSwitch<Operation *>(use.getOwner())
        .Case<GatherOp, GatherElementsOp, ScatterElementsOp>([&](auto op) {
          if (op.getIndices() == value)
            indexes(op.getInput(), op.getDim(), shift);
          if (op.getInput() == value)
            follow(op.getResult(), shift);
        })
        .Case([&](GatherNdOp op) {
          if (op.getIndices() == value)
            indexesMany(op.getInput(), value, op.getBatchDims(), shift);
          if (op.getInput() == value)
            follow(op.getResult(), shift);
        })
        .Case([&](ScatterNdOp op) {
          if (op.getIndices() == value)
            indexesMany(op.getInput(), value, 0, shift);
        })
        .Case<ReshapeOp, BroadcastOp, TransposeOp, SliceOp, ConcatOp, PadOp,
              DimCastOp, MaxOp, MinOp, SelectOp>(
            [&](auto op) { follow(op->getResult(0), shift); })
        .Case([&](ConvertOp op) {
          if (isa<IntegerType>(elementTypeOf(op.getResult())))
            follow(op.getResult(), shift);
        })
        .Case([&](AddOp op) {
          Value other = op->getOperand(1 - use.getOperandNumber());
          DenseElementsAttr added;
          if (auto moved = other.getDefiningOp<BroadcastOp>())
            other = moved.getInput();
          if (matchPattern(other, m_Constant(&added)) && added.isSplat() &&
              isa<IntegerType>(added.getElementType()))
            follow(op.getResult(),
                   shift + added.getSplatValue<APInt>().getSExtValue());
        })
        .Default([](Operation *) {});
  }

  llvm::DenseSet<std::pair<Value, int64_t>> seen;
};

} // namespace

std::optional<int64_t> indexLimit(Value value) {
  IndexLimitSearch search;
  search.follow(value, 0);
  return search.limit;
}

void markIndexLimits(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType());
        type && isa<IntegerType>(type.getElementType()))
      if (std::optional<int64_t> limit = indexLimit(argument))
        function.setArgAttr(
            argument.getArgNumber(), kIndexLimit,
            Builder(function.getContext()).getI64IntegerAttr(*limit));
}

} // namespace knapper::ts
