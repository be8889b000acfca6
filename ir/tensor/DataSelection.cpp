#include "ir/tensor/DataSelection.h"
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/DataSelection.cpp.inc"

LogicalResult TruePlacesOp::inferReturnTypes(MLIRContext *context,
                                             std::optional<Location> location,
                                             Adaptor op,
                                             SmallVectorImpl<Type> &types) {
  SmallVector<Dim> mask = dimsOf(op.getMask());
  if (mask.empty())
    return emitOptionalError(location, "(C1) the mask is a scalar");
  if (ArrayRef<Dim>(mask).drop_back() != ArrayRef<Dim>(dimsOf(op.getBefore())))
    return emitOptionalError(location, "(C2) before is ",
                             shapeText(op.getBefore().getType()),
                             " for a mask ", shapeText(op.getMask().getType()));
  Dim count(op.getCount());
  Dim dims[] = {count.like(static_cast<int64_t>(mask.size())), count};
  types.push_back(tensorType(context, dims, IntegerType::get(context, 64)));
  return success();
}

LogicalResult NonMaxSuppressionOp::inferReturnTypes(
    MLIRContext *context, std::optional<Location> location, Adaptor op,
    SmallVectorImpl<Type> &types) {
  SmallVector<Dim> boxes = dimsOf(op.getBoxes()),
                   scores = dimsOf(op.getScores());
  if (boxes.size() != 3 || scores.size() != 3 || !(boxes[0] == scores[0]) ||
      !(boxes[1] == scores[2]) || !boxes[2].isConstant(4))
    return emitOptionalError(location, "(C1) boxes ",
                             shapeText(op.getBoxes().getType()), " and scores ",
                             shapeText(op.getScores().getType()));
  Dim dims[] = {scores[0], scores[1], Dim(op.getMost())};
  types.push_back(tensorType(context, dims, IntegerType::get(context, 64)));
  return success();
}

Indexing TruePlacesOp::indexing() { return opaqueIndexing(getOperation()); }
Indexing NonMaxSuppressionOp::indexing() {
  return opaqueIndexing(getOperation());
}
