// Merging two sorted runs (`ts.runs`): each thread finds by bisection where its
// elements of the result begin in both runs, and merges from there (merge path:
// Odeh, Green, Mwassi, Shmueli, Birk, IPDPSW 2012).
//
// Parameters: lanes, threads, access; steps (elements that a thread merges).
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/irregular/GpuSorter.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

struct MergeSort : GpuSorter {
  int64_t run = op->getAttrOfType<IntegerAttr>("ts.runs").getInt();
  int64_t steps;

  MergeSort(BuildContext &context, const config::MergeSortGpuConfig &config)
      : GpuSorter{.context = context, .lanes = config.lanes},
        steps(config.steps) {}

  /// Keys of elements of the line.
  Value keyAt(Value place) {
    Value x = elementsAt(place, {});
    return x ? keys.of(x, lanes) : x;
  }
  LogicalResult build();
};

LogicalResult MergeSort::build() {
  using P = arith::CmpIPredicate;
  SmallVector<Dim> grid = aroundOf(op);
  Dim all = ts::dimsOf(op.getInput())[axis];
  grid.push_back(all.ceilDiv(all.like(lanes * steps)));
  Value start = e.mul(takeLine(grid), e.constant(lanes * steps));
  Value length = number(run), last = number(run - 1), one = number(1);
  // Of the result's first `place` elements, `low` are the left run's. Of equal
  // elements the left run's go first.
  Value place = add(spread(start),
                    arith::MulIOp::create(b, loc, laneIds(), number(steps)));
  Value low = arith::MaxSIOp::create(b, loc, sub(place, length), number(0));
  LogicalResult status = success();
  SmallVector<Value> found = forEach(
      e, e.constant(0), e.constant(llvm::Log2_64_Ceil(run + 1)),
      ValueRange{low, least(place, length)},
      [&](Value, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value from = carried[0], to = carried[1];
        Value middle = shiftRight(add(from, to), 1);
        Value behind = arith::MaxSIOp::create(
            b, loc, least(sub(sub(place, one), middle), last), number(0));
        Value left = keyAt(least(middle, last)),
              right = keyAt(add(behind, length));
        if (!left || !right)
          return failure();
        Value open = is(P::slt, from, to), first = is(P::uge, left, right);
        return SmallVector<Value>{
            pick(both(open, first), add(middle, one), from),
            pick(open, pick(first, to, middle), to)};
      },
      status);
  if (failed(status))
    return failure();
  Value i = found[0], j = sub(place, i);
  Value left = keyAt(least(i, last)),
        right = keyAt(add(least(j, last), length));
  if (!left || !right)
    return failure();
  Value size = e.size(all);
  std::optional<int64_t> known = all.asConstant();
  for (int64_t s = 0; s < steps; ++s) {
    Value takes = both(is(P::slt, i, length),
                       either(is(P::sge, j, length), is(P::uge, left, right)));
    Coord to = line;
    to.dims[axis] = {e.add(start, e.constant(s)), steps, {}, 1};
    if (!known || *known % (lanes * steps))
      to.valid = e.div(e.sub(e.add(size, e.constant(steps - 1 - s)), start),
                       e.constant(steps));
    if (failed(store(to, {}, [&] {
          return keys.elementOf(pick(takes, left, right), lanes);
        })))
      return failure();
    if (s + 1 == steps)
      break;
    i = pick(takes, add(i, one), i);
    j = pick(takes, j, add(j, one));
    Value next =
        keyAt(pick(takes, least(i, last), add(least(j, last), length)));
    if (!next)
      return failure();
    left = pick(takes, next, left);
    right = pick(takes, right, next);
  }
  return success();
}

} // namespace

LogicalResult chooseGpuMergeSort(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op || !op->hasAttr("ts.runs") || needsPlaces(kernel, op))
    return success();
  constexpr int64_t lanes = 256, steps = 4;
  Schedule schedule;
  schedule.kind = "gpu_merge_sort";
  schedule.parameters = config::print(
      config::MergeSortGpuConfig{{lanes, lanes, /*access=*/1}, steps});
  Dim length = ts::dimsOf(op.getInput())[op.getDim()];
  schedule.grid = ts::product(kernel.getContext(), aroundOf(op)) *
                  length.ceilDiv(length.like(lanes * steps));
  schedule.grain = length.like(1);
  schedule.scratch = length.like(0);
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildGpuMergeSort(BuildContext &context) {
  auto config = configOf<config::MergeSortGpuConfig>(context);
  if (failed(config))
    return failure();
  return MergeSort(context, *config).build();
}

} // namespace knapper
