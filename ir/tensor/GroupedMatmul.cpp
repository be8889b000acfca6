#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/GroupedMatmul.cpp.inc"

LogicalResult
GroupedMatmulOp::inferReturnTypes(MLIRContext *context,
                                  std::optional<Location> location, Adaptor op,
                                  SmallVectorImpl<Type> &types) {
  SmallVector<Dim> x = dimsOf(op.getTokens()), w = dimsOf(op.getWeights());
  unsigned depth = op.getTransposed() ? 2 : 1;
  bool fits = x.size() == 2 && w.size() == 3 && rankOf(op.getEnds()) == 1 &&
              x[1] == w[depth] && dimOf(op.getEnds(), 0) == w[0] &&
              !w[0].isConstant(0);
  if (!fits)
    return emitOptionalError(
        location, "(C1) tokens ", shapeText(op.getTokens().getType()),
        ", weights ", shapeText(op.getWeights().getType()),
        op.getTransposed() ? " (transposed)" : "", " and ends ",
        shapeText(op.getEnds().getType()), " do not fit together");
  types.push_back(
      tensorType(context, {x[0], w[3 - depth]}, elementTypeOf(op.getTokens())));
  return success();
}

LogicalResult GroupedMatmulOp::verify() {
  if (elementTypeOf(getTokens()) != elementTypeOf(getWeights()))
    return emitOpError("(C2) tokens and weights differ in element type");
  return success();
}

Indexing GroupedMatmulOp::indexing() {
  return opaqueIndexing(*this, dimOf(getTokens(), 1));
}

Value ts::gatheredMatmul(OpBuilder &b, GroupedMatmulOp op) {
  Location loc = op.getLoc();
  MLIRContext *context = b.getContext();
  Dim rows = dimOf(op.getTokens(), 0), experts = dimOf(op.getEnds(), 0);
  RankedTensorType pairs = tensorType(context, {rows, experts}, b.getI32Type());
  Value row = IotaOp::create(b, loc, pairs, 0);
  Value end =
      BroadcastOp::create(b, loc, pairs, op.getEnds(), ArrayRef<int64_t>{1});
  Value after = CompareOp::create(b, loc, ComparePredicate::gt, end, row);
  Value first = ArgReduceOp::create(b, loc, ReduceKind::max,
                                    ConvertOp::create(b, loc, pairs, after),
                                    uint64_t(1), false);
  Value any = ReduceOp::create(b, loc, ReduceKind::logical_or, after,
                               ArrayRef<int64_t>{1});
  Value matrices =
      GatherOp::create(b, loc, op.getWeights(), first, uint64_t(0));
  Value matmul =
      DotOp::create(b, loc, op.getTokens(), matrices, ArrayRef<int64_t>{0},
                    ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1},
                    ArrayRef<int64_t>{op.getTransposed() ? 2 : 1}, TypeAttr());
  auto type = cast<RankedTensorType>(matmul.getType());
  Value has = BroadcastOp::create(b, loc, withElement(type, b.getI1Type()), any,
                                  ArrayRef<int64_t>{0});
  return SelectOp::create(b, loc, has, matmul, splatConstant(b, loc, type, 0));
}
