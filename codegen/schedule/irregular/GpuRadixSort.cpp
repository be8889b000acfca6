// A stable sort of 64-bit words by eight of their bits (`ts.digit`): one launch
// of an LSD radix sort. Longer sorts of known sizes are such launches, one a
// digit (graph/layout/SplitSorts.h).
//
// A program counts the values of a tile, looks back at the tiles before it,
// then places its words (tile.radix_pass).
//
// Parameters: threads, items (words of a thread), ctas_per_sm.
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/irregular/GpuSorter.h"
#include "ir/tile/GridOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {
/// 64-bit words of the state before the tiles'.
constexpr int64_t kHeadWords = 16;
constexpr int64_t kValues = tile::RadixPassOp::kValues;
} // namespace

LogicalResult chooseGpuRadixSort(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op || !op->hasAttr("ts.digit"))
    return success();
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  std::optional<int64_t> lines = dims.front().asConstant(),
                         length = dims.back().asConstant();
  if (dims.size() != 2 || !lines || !length || *length >= int64_t(1) << 30 ||
      !isa<BlockArgument>(op.getInput()) || kernel.getNumResults() != 1 ||
      kernel.yield().getValues()[0] != op.getValues())
    return kernel.emitOpError("sorts by a digit and is not lines of words");
  config::RadixSortGpuConfig config;
  config.threads = kValues;
  // While one CTA waits for the counts of those before it, two others compute.
  // An SM has registers for three.
  config.ctasPerSm = 3;
  config.items = 12;
  // Smaller tiles, as long as an SM has none.
  constexpr int64_t leastItems = 4;
  auto tiles = [&] {
    return int64_t(llvm::divideCeil(*length, config.threads * config.items));
  };
  while (config.items > leastItems && *lines * tiles() < target.cores)
    config.items /= 2;
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "gpu_radix_sort";
  schedule.parameters = config::print(config);
  schedule.grid = one * (2 * *lines * tiles());
  schedule.grain = one;
  schedule.scratch = one * 0;
  constexpr int64_t wordBytes = 8, countBytes = 4;
  schedule.state =
      kHeadWords * wordBytes + *lines * tiles() * kValues * countBytes;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildGpuRadixSort(BuildContext &context) {
  auto config = configOf<config::RadixSortGpuConfig>(context);
  if (failed(config))
    return failure();
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::TopKOp op = firstOp<ts::TopKOp>(context.kernel);
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Value state = e.stateBuffer();
  Value ticket =
      tile::TicketOp::create(b, loc, b.getIndexType(), state, e.constant(0));
  tile::RadixPassOp::create(
      b, loc, e.inputBuffer(cast<BlockArgument>(op.getInput())),
      e.outputBuffer(0), state, e.constant(kHeadWords), ticket, e.size(dims[0]),
      e.size(dims[1]), op->getAttrOfType<IntegerAttr>("ts.digit"),
      b.getI64IntegerAttr(config->items));
  return success();
}

} // namespace knapper
