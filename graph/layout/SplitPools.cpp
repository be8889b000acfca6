#include "graph/layout/SplitPools.h"

#include "graph/layout/PlaneLayout.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// How many times fewer taps, and of how many at least.
static constexpr double leastGain = 1.6;
static constexpr int64_t leastTaps = 1 << 15;

static bool isWorthIt(PoolOp op) {
  // (The schedule of planes does it a row at a time.)
  if (op.getWindow().size() != 2 || (planePoolOf(op) && prefersPlanes(op)))
    return false;
  Type element = elementTypeOf(op.getInput());
  if (op.getKind() != PoolKind::max && !element.isF32() && !element.isF64())
    return false;
  SmallVector<Dim> in = dimsOf(op.getInput()), out = dimsOf(op.getResult());
  unsigned first = op.getChannelsLast() ? 1 : 2;
  int64_t sizes[] = {in[first].asConstant().value_or(0),
                     out[first].asConstant().value_or(0),
                     out[first + 1].asConstant().value_or(0)};
  int64_t kh = op.getWindow()[0], kw = op.getWindow()[1];
  if (llvm::any_of(sizes, [](int64_t size) { return size < 1; }) ||
      kh > sizes[0] || kw > 64)
    return false;
  int64_t channels = out[op.getChannelsLast() ? 3 : 1].asConstant().value_or(1);
  int64_t whole = sizes[1] * sizes[2] * kh * kw,
          split = sizes[0] * sizes[2] * kw + sizes[1] * sizes[2] * kh;
  return channels * whole >= leastTaps &&
         static_cast<double>(whole) >= leastGain * static_cast<double>(split);
}

static void split(PoolOp op) {
  OpBuilder b(op);
  SmallVector<Dim> low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  Dim none = low[0].like(0);
  Value made = op.getInput();
  for (unsigned d : {1, 0}) {
    // Along the other dim the window is an element.
    auto only = [&](ArrayRef<int64_t> all) {
      SmallVector<int64_t> numbers{1, 1};
      numbers[d] = all[d];
      return numbers;
    };
    auto border = [&](ArrayRef<Dim> all) {
      SmallVector<Dim> dims{none, none};
      dims[d] = all[d];
      return dimArray(b.getContext(), dims);
    };
    made = PoolOp::create(b, op.getLoc(), op.getKind(), made,
                          only(op.getWindow()), only(op.getStrides()),
                          only(op.getDilations()), border(low), border(high),
                          op.getCountPadding(), op.getChannelsLast());
  }
  op.replaceAllUsesWith(made);
  op.erase();
}

void knapper::splitPools(func::FuncOp function, bool maximaOnly) {
  SmallVector<PoolOp> found;
  function.walk([&](PoolOp op) {
    if ((op.getKind() == PoolKind::max || !maximaOnly) && isWorthIt(op))
      found.push_back(op);
  });
  llvm::for_each(found, split);
}
