#include "ir/tensor/ScaledDot.h"
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/ScaledDot.cpp.inc"

LogicalResult ScaledDotOp::inferReturnTypes(MLIRContext *context,
                                            std::optional<Location> location,
                                            Adaptor op,
                                            SmallVectorImpl<Type> &types) {
  SmallVector<Dim> input = dimsOf(op.getInput()),
                   weight = dimsOf(op.getWeight());
  if (input.empty() || weight.size() != 2 || !(input.back() == weight[0]))
    return emitOptionalError(location, "(C1) input ",
                             shapeText(op.getInput().getType()), " and weight ",
                             shapeText(op.getWeight().getType()),
                             " do not fit together");
  input.back() = weight[1];
  types.push_back(tensorType(context, input, Float32Type::get(context)));
  return success();
}

LogicalResult ScaledDotOp::verify() {
  auto group = static_cast<int64_t>(getGroup());
  if (group < 1 || (elementTypeOf(getWeight()).isInteger(4) && group % 2))
    return emitOpError("(C3) a group of ")
           << group << " rows of " << elementTypeOf(getWeight());
  SmallVector<Dim> weight = dimsOf(getWeight());
  SmallVector<Dim> wanted{weight[0].ceilDiv(weight[0].like(group)), weight[1]};
  for (Value parameter : {getScale(), getZero()})
    if (parameter && dimsOf(parameter) != wanted)
      return emitOpError("(C2) a parameter is ")
             << shapeText(parameter.getType()) << ", not " << wanted[0].str()
             << "x" << wanted[1].str();
  return success();
}

Indexing ScaledDotOp::indexing() {
  return opaqueIndexing(*this, dimsOf(getWeight())[0]);
}

Value ts::expandedWeight(OpBuilder &b, ScaledDotOp op) {
  Location loc = op.getLoc();
  Type f32 = b.getF32Type();
  RankedTensorType matrix = withElement(op.getWeight().getType(), f32);
  SmallVector<Dim> dims = dimsOf(op.getWeight());
  auto group = static_cast<int64_t>(op.getGroup());
  // A row of parameters for each row of the matrix.
  auto spread = [&](Value rows) -> Value {
    Dim groups = dimsOf(rows)[0];
    MLIRContext *context = b.getContext();
    Value wide = BroadcastOp::create(
        b, loc, tensorType(context, {groups, groups.like(group), dims[1]}, f32),
        rows, ArrayRef<int64_t>{0, 2});
    SmallVector<Dim> merged{groups * group, dims[1]};
    wide = ReshapeOp::create(b, loc, tensorType(context, merged, f32), wide);
    if (merged == dims)
      return wide;
    Dim zero = groups.like(0);
    return SliceOp::create(b, loc, matrix, wide,
                           dimArray(context, {zero, zero}),
                           ArrayRef<int64_t>{1, 1});
  };
  Value value = ConvertOp::create(b, loc, matrix, op.getWeight());
  if (op.getZero())
    value = SubOp::create(b, loc, value, spread(op.getZero()));
  return MulOp::create(b, loc, value, spread(op.getScale()));
}
