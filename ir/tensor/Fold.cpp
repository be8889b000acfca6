// Folders that need no arithmetic on elements; folding through evaluation is a
// pass of its own (graph/simplify) since it needs a size limit and the
// reference.
#include "ir/tensor/Dialect.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult SizeOp::fold(FoldAdaptor) {
  std::optional<int64_t> number = Dim(getSize()).asConstant();
  if (!number)
    return {};
  return DenseElementsAttr::get(cast<ShapedType>(getType()), *number);
}

OpFoldResult DimCastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : Value();
}

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : Value();
}

OpFoldResult BitcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : Value();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  // A broadcast of a broadcast is one broadcast.
  auto inner = getInput().getDefiningOp<BroadcastOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> dims;
  for (int64_t dim : inner.getDims())
    dims.push_back(getDims()[dim]);
  getInputMutable().assign(inner.getInput());
  setDims(dims);
  return getResult();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  // A size may stay a symbol where another one is 0.
  auto type = cast<ShapedType>(getType());
  if (auto elements =
          dyn_cast_if_present<DenseElementsAttr>(adaptor.getInput());
      elements && type.hasStaticShape())
    return elements.reshape(type);
  return {};
}

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &,
                                            MLIRContext *) {}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  bool identity = true;
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    identity &= static_cast<int64_t>(i) == dim;
  if (identity)
    return getInput();
  auto inner = getInput().getDefiningOp<TransposeOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> permutation;
  for (int64_t dim : getPermutation())
    permutation.push_back(inner.getPermutation()[dim]);
  getInputMutable().assign(inner.getInput());
  setPermutation(permutation);
  return getResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getInput().getType() != getType())
    return {};
  for (auto [start, step] : llvm::zip(dimsOf(getStarts()), getSteps()))
    if (!start.isConstant(0) || step != 1)
      return {};
  return getInput();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? getInputs()[0] : Value();
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getDims().empty() ? getInput() : Value();
}
