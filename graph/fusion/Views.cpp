#include "graph/fusion/Views.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

/// Kernels may assume this of memory that is not the caller's.
constexpr int64_t bufferAlignment = 16;

/// Elements from the operand's begin to the slice's.
Dim sliceOffset(SliceOp slice) {
  SmallVector<Dim> dims = dimsOf(slice.getInput()),
                   starts = dimsOf(slice.getStarts());
  Dim offset = Dim::constant(slice.getContext(), 0), stride = offset.like(1);
  for (size_t i = dims.size(); i-- > 0;) {
    offset = offset + starts[i] * stride;
    stride = stride * dims[i];
  }
  return offset;
}

/// One run of memory: single elements of leading dims, a range of the next one,
/// all of the rest.
bool isContiguous(SliceOp slice) {
  SmallVector<Dim> from = dimsOf(slice.getInput()),
                   to = dimsOf(slice.getType()),
                   starts = dimsOf(slice.getStarts());
  size_t whole = to.size();
  while (whole > 0 && starts[whole - 1].isConstant(0) &&
         slice.getSteps()[whole - 1] == 1 && from[whole - 1] == to[whole - 1])
    --whole;
  for (size_t i = 0; i < whole; ++i) {
    bool range = i + 1 == whole && slice.getSteps()[i] == 1;
    if (!range && !to[i].isConstant(1))
      return false;
  }
  return true;
}

std::optional<SmallVector<StridedDim>> reshape(ArrayRef<StridedDim> from,
                                               ArrayRef<Dim> to) {
  // Dims are matched group by group from the right: the smallest runs on both
  // sides with one matmul.
  SmallVector<StridedDim> result(to.size());
  size_t i = from.size(), j = to.size();
  while (i > 0 || j > 0) {
    if (i > 0 && from[i - 1].size.isConstant(1)) {
      --i;
      continue;
    }
    if (j > 0 && to[j - 1].isConstant(1)) {
      --j;
      result[j] = {to[j], to[j].like(0)};
      continue;
    }
    if (i == 0 || j == 0)
      return std::nullopt;
    // The run of `from` that has one stride.
    size_t firstFrom = i - 1, firstTo = j - 1;
    Dim fromSize = from[firstFrom].size, toSize = to[firstTo];
    while (!(fromSize == toSize)) {
      // Grow the side that divides the other, so that splits and merges
      // both end at the next common boundary.
      bool growTo = fromSize.exactDiv(toSize).has_value();
      if (growTo && firstTo > 0) {
        toSize = toSize * to[--firstTo];
      } else if (!growTo && firstFrom > 0) {
        const StridedDim &outer = from[firstFrom - 1];
        // The stride of a dim of size 1 between them says nothing.
        if (!outer.size.isConstant(1) &&
            !(outer.stride == from[i - 1].stride * fromSize))
          return std::nullopt;
        fromSize = fromSize * outer.size;
        --firstFrom;
      } else {
        return std::nullopt;
      }
    }
    Dim stride = from[i - 1].stride;
    for (size_t k = j; k-- > firstTo;) {
      result[k] = {to[k], stride};
      stride = stride * to[k];
    }
    i = firstFrom;
    j = firstTo;
  }
  return result;
}

StridedView dense(Value base) {
  StridedView view{base, {}, Dim::constant(base.getContext(), 0)};
  SmallVector<Dim> sizes = dimsOf(base);
  view.dims.resize(sizes.size());
  Dim stride = view.offset.like(1);
  for (size_t i = sizes.size(); i-- > 0;) {
    view.dims[i] = {sizes[i], stride};
    stride = stride * sizes[i];
  }
  return view;
}

} // namespace

bool fusion::isView(Operation *op) {
  if (isa<ReshapeOp, DimCastOp>(op))
    return true;
  auto slice = dyn_cast<SliceOp>(op);
  if (!slice || !isContiguous(slice))
    return false;
  Dim bytes = viewByteOffset(op);
  return bytes.knownDivisor() % bufferAlignment == 0;
}

Dim fusion::viewByteOffset(Operation *op) {
  if (auto slice = dyn_cast<SliceOp>(op))
    return sliceOffset(slice) * elementBytes(elementTypeOf(slice.getInput()));
  return Dim::constant(op->getContext(), 0);
}

bool fusion::isReindex(Operation *op) {
  return isa<ReshapeOp, DimCastOp, TransposeOp, SliceOp, BroadcastOp>(op);
}

bool fusion::movesInnermost(TransposeOp transpose) {
  SmallVector<Dim> dims = dimsOf(transpose.getInput());
  int64_t inner = dims.size() - 1;
  while (inner > 0 && dims[inner].isConstant(1))
    --inner;
  for (int64_t dim : llvm::reverse(transpose.getPermutation()))
    if (!dims[dim].isConstant(1))
      return dim != inner;
  return false;
}

std::optional<StridedView>
fusion::stridedView(Value value,
                    llvm::function_ref<bool(Operation *)> through) {
  SmallVector<Operation *> chain; // from the value to the base
  Value base = value;
  while (Operation *op = base.getDefiningOp()) {
    if (!through(op) || !(isReindex(op) || isa<ConvertOp>(op)))
      break;
    chain.push_back(op);
    base = op->getOperand(0);
  }
  StridedView view = dense(base);
  for (Operation *op : llvm::reverse(chain)) {
    SmallVector<StridedDim> from = view.dims;
    SmallVector<Dim> to = dimsOf(op->getResult(0));
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        view.dims[i] = from[dim];
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      for (auto [i, start] : llvm::enumerate(dimsOf(slice.getStarts()))) {
        view.offset = view.offset + from[i].stride * start;
        view.dims[i] = {to[i], from[i].stride * slice.getSteps()[i]};
      }
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      view.dims.assign(to.size(), StridedDim());
      for (auto [i, dim] : llvm::enumerate(to))
        view.dims[i] = {dim, dim.like(0)};
      for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
        if (from[i].size == to[dim])
          view.dims[dim] = from[i];
    } else if (isa<ReshapeOp>(op)) {
      std::optional<SmallVector<StridedDim>> dims = reshape(from, to);
      if (!dims)
        return std::nullopt;
      view.dims = std::move(*dims);
    } else { // conversion, dim_cast
      for (auto [i, dim] : llvm::enumerate(to))
        view.dims[i].size = dim;
    }
  }
  return view;
}

std::optional<StridedView> fusion::placesIn(Value result, Value hero) {
  StridedView view = dense(result);
  for (Value value = result; value != hero;) {
    Operation *op = value.getDefiningOp();
    if (!op || !isa<TransposeOp, ReshapeOp, DimCastOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
    SmallVector<StridedDim> from = view.dims;
    SmallVector<Dim> to = dimsOf(value);
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        view.dims[dim] = from[i];
    } else if (isa<ReshapeOp>(op)) {
      std::optional<SmallVector<StridedDim>> dims = reshape(from, to);
      if (!dims)
        return std::nullopt;
      view.dims = std::move(*dims);
    } else {
      for (auto [i, dim] : llvm::enumerate(to))
        view.dims[i].size = dim;
    }
  }
  return view;
}

bool fusion::isStrided(Value value,
                       llvm::function_ref<bool(Operation *)> through) {
  // Only a reshape can fail, and not one of data that lies in order.
  for (Value v = value; Operation *op = v.getDefiningOp();
       v = op->getOperand(0)) {
    if (!through(op) || !(isReindex(op) || isa<ConvertOp>(op)))
      return true;
    if (isa<ReshapeOp>(op))
      return stridedView(value, through).has_value();
  }
  return true;
}
