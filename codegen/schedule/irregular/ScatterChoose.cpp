// How the updates of a scatter are shared out among programs (Scatter.cpp).
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/irregular/Scatter.h"
#include "ir/config/IrregularConfig.h"
#include "ir/tensor/Update.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

ScatterSplit::ScatterSplit(Operation *scatter) {
  dims = ts::dimsOf(scatter->getOperand(2));
  auto elements = dyn_cast<ts::ScatterElementsOp>(scatter);
  unsigned indexed = elements ? 0 : ts::rankOf(scatter->getOperand(1)) - 1;
  for (unsigned i = 0; i < dims.size(); ++i)
    (elements ? i == elements.getDim() : i < indexed) ? loops.push_back(i)
                                                      : own.push_back(i);
}

Dim ScatterSplit::updates(Dim one) const {
  Dim count = one;
  for (Dim dim : dims)
    count = count * dim;
  return count;
}

Dim ScatterSplit::programs(Dim one, int64_t lanes) const {
  Dim count = one;
  for (unsigned i : own)
    count =
        count * (lanes && i + 1 == dims.size() ? dims[i].ceilDiv(one * lanes)
                                               : dims[i]);
  return count;
}

std::optional<unsigned> indexedDim(Operation *scatter) {
  if (auto elements = dyn_cast<ts::ScatterElementsOp>(scatter))
    return elements.getDim();
  if (ts::dimsOf(scatter->getOperand(1)).back().isConstant(0))
    return std::nullopt;
  return 0;
}

bool isSameAlongLast(Value value) {
  auto dim = [](Value v) { return ts::rankOf(v) - 1; };
  SmallVector<std::pair<Value, int64_t>> work{{value, dim(value)}};
  while (!work.empty()) {
    auto [v, along] = work.pop_back_val();
    if (ts::dimOf(v, along).isConstant(1))
      continue;
    Operation *op = v.getDefiningOp();
    if (auto broadcast = dyn_cast_if_present<ts::BroadcastOp>(op)) {
      const auto *at = llvm::find(broadcast.getDims(), along);
      if (at != broadcast.getDims().end())
        work.push_back(
            {broadcast.getInput(), at - broadcast.getDims().begin()});
    } else if (isa_and_present<ts::ElementwiseOpInterface, ts::DimCastOp>(op)) {
      for (Value operand : op->getOperands())
        work.push_back({operand, along});
    } else if (auto iota = dyn_cast_if_present<ts::IotaOp>(op)) {
      if (static_cast<int64_t>(iota.getDim()) == along)
        return false;
    } else if (auto constant = dyn_cast_if_present<ts::ConstantOp>(op)) {
      if (!cast<DenseElementsAttr>(constant.getValue()).isSplat())
        return false;
    } else {
      return false;
    }
  }
  return true;
}

std::optional<ts::ReduceKind> scatterReduction(Operation *scatter) {
  if (auto elements = dyn_cast<ts::ScatterElementsOp>(scatter))
    return elements.getReduction();
  return cast<ts::ScatterNdOp>(scatter).getReduction();
}

namespace {

/// Whether updates may meet in memory in any order.
bool meetsInMemory(Operation *scatter, const TargetDesc &target) {
  std::optional<ts::ReduceKind> kind = scatterReduction(scatter);
  if (!target.simt || !kind)
    return false;
  bool rounds = isa<FloatType>(ts::elementTypeOf(scatter->getResult(0))) &&
                (*kind == ts::ReduceKind::add || *kind == ts::ReduceKind::mul);
  return !rounds || !target.deterministic;
}

/// Whether each update may be written by whoever comes to it.
bool areApart(Operation *scatter, const TargetDesc &target) {
  return target.simt && !scatterReduction(scatter) &&
         scatter->hasAttr("ts.unique_indices");
}

/// Neighbours that a thread writes at once: 16 bytes.
int64_t runApart(Operation *scatter, const ScatterSplit &split) {
  Value result = scatter->getResult(0);
  if (!split.hasLanes() || !isa<ts::ScatterNdOp>(scatter))
    return 1;
  int64_t run = 16 / ts::elementBytes(ts::elementTypeOf(result));
  while (run > 1 && (split.dims.back().knownDivisor() % run ||
                     ts::dimsOf(result).back().knownDivisor() % run))
    run /= 2;
  return std::max<int64_t>(run, 1);
}

/// Neighbours that a thread combines at once: as many as one instruction takes.
/// Of others the threads of a warp have neighbours.
int64_t runOf(Operation *scatter, const ScatterSplit &split,
              const TargetDesc &target) {
  Value result = scatter->getResult(0), indices = scatter->getOperand(1);
  bool oneIndex = isa<ts::ScatterNdOp>(scatter) || isSameAlongLast(indices);
  if (!target.vectorAtomics || !ts::elementTypeOf(result).isF32() ||
      scatterReduction(scatter) != ts::ReduceKind::add || !split.hasLanes() ||
      !oneIndex)
    return 1;
  int64_t run = 4;
  while (run > 1 && (split.dims.back().knownDivisor() % run ||
                     ts::dimsOf(result).back().knownDivisor() % run))
    run /= 2;
  return run;
}

/// Updates of a run whose places are computed side by side, or 0: single
/// elements, combined, of one index each.
int64_t aheadOf(Operation *scatter, const ScatterSplit &split,
                const TargetDesc &target) {
  constexpr int64_t run = 32;
  bool oneIndex = isa<ts::ScatterElementsOp>(scatter) ||
                  ts::dimsOf(scatter->getOperand(1)).back().isConstant(1);
  bool isWide = ts::elementBytes(ts::elementTypeOf(scatter->getResult(0))) >= 4;
  return !target.simt && scatterReduction(scatter) && oneIndex && isWide &&
                 !split.loops.empty() &&
                 representative(split.dims[split.loops.back()]) >= 2 * run
             ? run
             : 0;
}

} // namespace

LogicalResult chooseScatter(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  Operation *scatter = ts::scatterOf(kernel);
  if (!scatter)
    return kernel.emitOpError("has hero scatter and none inside");
  ScatterSplit split(scatter);
  Dim one = Dim::constant(kernel.getContext(), 1);
  int64_t lanes = 0;
  bool inMemory = ts::updatedInput(kernel).has_value();
  bool atomic = inMemory && meetsInMemory(scatter, target);
  if (atomic || (inMemory && areApart(scatter, target))) {
    int64_t run =
        atomic ? runOf(scatter, split, target) : runApart(scatter, split);
    Schedule schedule;
    schedule.kind = "scatter";
    schedule.parameters =
        config::print(config::ScatterConfig{.lanes = run > 1 ? run : 0,
                                            .ranges = 1,
                                            .atomic = atomic,
                                            .apart = !atomic,
                                            .threads = 1});
    schedule.grid = split.updates(one).floorDiv(one * run);
    schedule.grain = one;
    schedule.scratch = one * 0;
    schedules.push_back(std::move(schedule));
    return success();
  }
  if (inMemory && split.hasLanes()) {
    // A GPU's tile is at least an access of every thread of a warp.
    bool gpu = target.simt;
    lanes = gpu ? 512 : 64;
    while (lanes > (gpu ? 128 : 4) && lanes > representative(split.dims.back()))
      lanes /= 2;
    // One program would be alone: two share its lanes.
    if (!gpu && lanes >= 32 && representative(split.programs(one, lanes)) == 1)
      lanes /= 2;
  }
  int64_t loops = 1;
  for (unsigned i : split.loops)
    loops *= std::max<int64_t>(1, representative(split.dims[i]));
  int64_t work = std::max<int64_t>(1, lanes) * loops;
  Dim programs = inMemory ? split.programs(one, lanes) : one;
  // Blocks that a processor holds at once; a range of few updates is not
  // worth all indices.
  constexpr int64_t blocks = 4, leastUpdates = 4;
  int64_t ranges = 1;
  std::optional<unsigned> indexed = indexedDim(scatter);
  if (target.simt && inMemory && indexed) {
    int64_t wanted = blocks * int64_t(target.cores) /
                     std::max<int64_t>(1, representative(programs));
    int64_t extent =
        representative(ts::dimsOf(scatter->getResult(0))[*indexed]);
    ranges =
        std::max<int64_t>(1, std::min({wanted, extent, loops / leastUpdates}));
  }
  int64_t ahead = inMemory && !lanes ? aheadOf(scatter, split, target) : 0;
  Schedule schedule;
  schedule.kind = "scatter";
  schedule.parameters = config::print(
      config::ScatterConfig{.lanes = lanes, .ranges = ranges, .ahead = ahead});
  schedule.grid = programs * ranges;
  schedule.grain = one * std::max<int64_t>(1, 16000 / work);
  schedule.scratch = one * (2 * sizeof(int64_t) * ahead);
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
