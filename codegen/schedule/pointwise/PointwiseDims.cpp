#include "codegen/schedule/pointwise/PointwiseDims.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static bool isSingle(Value value) {
  return ts::elementCount(value.getType()).isConstant(1);
}

/// Whether a slice leaves the dims behind `first` whole, and walks along that
/// one.
static bool leavesWhole(ts::SliceOp slice, int64_t first) {
  SmallVector<Dim> from = ts::dimsOf(slice.getInput()),
                   to = ts::dimsOf(slice.getResult());
  SmallVector<Dim> starts = ts::dimsOf(slice.getStarts());
  if (slice.getSteps()[first] != 1 || !starts[first].asConstant())
    return false;
  for (int64_t d = first + 1, rank = to.size(); d < rank; ++d)
    if (!starts[d].isConstant(0) || slice.getSteps()[d] != 1 ||
        !(from[d] == to[d]))
      return false;
  return true;
}

OwningOpRef<ts::KernelOp> withJoinedDims(ts::KernelOp kernel) {
  if (kernel.getNumResults() == 0)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(kernel.getResult(0));
  int64_t rank = dims.size(), first = rank - 1;
  Block &body = kernel.getBody().front();
  SmallVector<ts::SliceOp> slices(body.getOps<ts::SliceOp>());
  if (rank < 2 || slices.empty() ||
      llvm::any_of(
          dims, [](Dim dim) { return !dim.asConstant() || dim.isConstant(0); }))
    return {};
  for (Operation &op : body.without_terminator())
    if (!isa<ts::SliceOp, ts::ElementwiseOpInterface, ts::ConstantOp>(op) &&
        !(isa<ts::BroadcastOp>(op) && isSingle(op.getOperand(0))))
      return {};
  // All others are as wide.
  auto isWhole = [&](Value value, int64_t from) {
    SmallVector<Dim> own = ts::dimsOf(value);
    return int64_t(own.size()) == rank &&
           ArrayRef<Dim>(own).drop_front(from) ==
               ArrayRef<Dim>(dims).drop_front(from);
  };
  auto allValues = [&](llvm::function_ref<bool(Value)> holds) {
    for (Operation &op : body.without_terminator())
      if (!llvm::all_of(op.getResults(), holds))
        return false;
    return llvm::all_of(body.getArguments(), holds) &&
           llvm::all_of(kernel.getResults(), holds);
  };
  auto joinsFrom = [&](int64_t begin) {
    return llvm::all_of(slices,
                        [&](ts::SliceOp s) {
                          return int64_t(s.getSteps().size()) == rank &&
                                 leavesWhole(s, begin);
                        }) &&
           allValues([&](Value value) {
             return isWhole(value, begin + 1) ||
                    (isSingle(value) && !isWhole(value, 0));
           });
  };
  while (first > 0 && joinsFrom(first - 1))
    --first;
  if (first == rank - 1)
    return {};

  OwningOpRef<ts::KernelOp> copy = kernel.clone();
  MLIRContext *context = kernel.getContext();
  Dim behind = ts::product(context, ArrayRef<Dim>(dims).drop_front(first + 1));
  auto join = [&](Value value) {
    if (!isWhole(value, first + 1))
      return;
    SmallVector<Dim> own = ts::dimsOf(value);
    own.resize(first + 1, behind);
    own[first] = own[first] * behind;
    value.setType(ts::tensorType(context, own, ts::elementTypeOf(value)));
  };
  Block &joined = copy->getBody().front();
  for (Operation &op : joined.without_terminator()) {
    if (auto slice = dyn_cast<ts::SliceOp>(op)) {
      SmallVector<Dim> starts = ts::dimsOf(slice.getStarts());
      starts.resize(first + 1, behind);
      starts[first] = starts[first] * behind;
      slice.setStartsAttr(ts::dimArray(context, starts));
      slice.setSteps(
          SmallVector<int64_t>(slice.getSteps().take_front(first + 1)));
    }
    llvm::for_each(op.getResults(), join);
  }
  llvm::for_each(joined.getArguments(), join);
  llvm::for_each(copy->getResults(), join);
  return copy;
}

} // namespace knapper
