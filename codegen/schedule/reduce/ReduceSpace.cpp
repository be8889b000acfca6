// What a kernel's reductions read and which dims they reduce: one space for
// all.
#include "codegen/schedule/reduce/Reduce.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static std::optional<Space> spaceOf(Operation *op) {
  if (auto reduce = dyn_cast<ts::ReduceOp>(op))
    return Space{ts::dimsOf(reduce.getInput()),
                 SmallVector<int64_t>(reduce.getDims())};
  if (auto reduce = dyn_cast<ts::ArgReduceOp>(op))
    return Space{ts::dimsOf(reduce.getInput()),
                 {static_cast<int64_t>(reduce.getDim())}};
  if (auto softmax = dyn_cast<ts::SoftmaxOp>(op))
    return Space{ts::dimsOf(softmax.getInput()),
                 {static_cast<int64_t>(softmax.getDim())}};
  if (auto norm = dyn_cast<ts::LayerNormOp>(op))
    return Space{ts::dimsOf(norm.getInput()),
                 llvm::to_vector(llvm::seq<int64_t>(
                     norm.getDim(), ts::rankOf(norm.getInput())))};
  return std::nullopt;
}

FailureOr<Space> commonSpace(ts::KernelOp kernel) {
  std::optional<Space> space;
  for (Operation &op : kernel.getBody().front()) {
    std::optional<Space> own = spaceOf(&op);
    if (!own)
      continue;
    if (space && !(*space == *own)) {
      op.emitOpError("reduces other dims than the rest of its kernel");
      return failure();
    }
    space = own;
  }
  if (!space) {
    kernel.emitOpError("has hero reduce and no reduction");
    return failure();
  }
  return *space;
}

unsigned sharedDim(const Space &space) {
  return *llvm::max_element(space.reduced, [&](int64_t a, int64_t b) {
    return representative(space.dims[a]) < representative(space.dims[b]);
  });
}

bool keepsColumns(const Space &space, int64_t lanes) {
  Dim size = space.dims[0].like(lanes);
  for (int64_t d : space.reduced)
    size = size * space.dims[d];
  constexpr int64_t mostElements = 1 << 15; // they stay in the caches
  std::optional<int64_t> number = size.asConstant();
  return number && *number <= mostElements;
}

unsigned laneDim(const Space &space) {
  unsigned lane = space.dims.size() - 1;
  while (lane > 0 && space.dims[lane].isConstant(1))
    --lane;
  if (space.dims[lane].isConstant(1) && !space.reduced.empty())
    return space.reduced.back();
  return lane;
}

unsigned laneOfRows(const Space &space, const TargetDesc &target) {
  unsigned lane = laneDim(space);
  if (!target.simt || space.reduced.empty())
    return lane;
  constexpr int64_t shortRun = 32;
  bool isReduced = llvm::is_contained(space.reduced, int64_t(lane));
  return isReduced && representative(space.dims[lane]) >= shortRun
             ? lane
             : sharedDim(space);
}

unsigned firstOfRun(ts::KernelOp kernel, const Space &space,
                    const TargetDesc &target) {
  unsigned lane = laneDim(space), first = lane;
  auto isReduced = [&](unsigned d) {
    return llvm::is_contained(space.reduced, static_cast<int64_t>(d));
  };
  if (target.simt || !isReduced(lane))
    return lane;
  while (first > 0 && isReduced(first - 1))
    --first;
  // An index past the end of the innermost dim has to be right for all that is
  // read: what is spread has all of these dims, or none; to less than the whole
  // space, all that it is spread to, or none.
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isa<ts::ReduceOp, ts::ElementwiseOpInterface, ts::BroadcastOp,
             ts::ConstantOp, ts::SizeOp>(op))
      return lane;
    auto spread = dyn_cast<ts::BroadcastOp>(op);
    if (!spread)
      continue;
    SmallVector<Dim> from = ts::dimsOf(spread.getInput());
    unsigned has = 0, wanted = 0;
    if (SmallVector<Dim> to = ts::dimsOf(spread); to != space.dims) {
      auto isLong = [](Dim dim) { return !dim.isConstant(1); };
      has = llvm::count_if(from, isLong);
      wanted = llvm::count_if(to, isLong);
      if (has != 0 && has != wanted)
        return lane;
      continue;
    }
    for (unsigned d = first; d <= lane; ++d) {
      if (space.dims[d].isConstant(1))
        continue;
      ++wanted;
      for (auto [dim, to] : llvm::zip(from, spread.getDims()))
        has += to == d && !dim.isConstant(1);
    }
    if (has != 0 && has != wanted)
      return lane;
  }
  return first;
}

Dim sizeOfRun(const Space &space, unsigned first) {
  Dim size = space.dims[0].like(1);
  for (unsigned d = first; d <= laneDim(space); ++d)
    size = size * space.dims[d];
  return size;
}

} // namespace knapper
