// Which blocks of elements the programs of a pointwise kernel take, and along
// which dim (Pointwise.cpp).
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/core/ShallowMatmul.h"
#include "codegen/schedule/pointwise/Pointwise.h"
#include "codegen/schedule/pointwise/PointwiseDims.h"
#include "codegen/schedule/reduce/ReduceCluster.h"
#include "ir/config/PointwiseConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Whether every tensor of the region is either of the results' shape, read at
/// the same position, or a single element.
bool isFlat(ts::KernelOp kernel) {
  SmallVector<Dim> dims = ts::dimsOf(kernel.getResult(0));
  auto sameOrSingle = [&](Type type) {
    return ts::dimsOf(type) == dims || ts::elementCount(type).isConstant(1);
  };
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (!sameOrSingle(argument.getType()))
      return false;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isa<ts::ElementwiseOpInterface, ts::ConstantOp, ts::BroadcastOp,
             ts::ReshapeOp, ts::SizeOp, ts::DimCastOp>(op))
      return false;
    for (Type type : op.getResultTypes())
      if (!sameOrSingle(type))
        return false;
  }
  return true;
}

int64_t regionFlops(ts::KernelOp kernel) {
  int64_t flops = 1;
  kernel.getBody().walk(
      [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  return flops;
}

} // namespace

/// A tile that may lie across many operands reads all of them: more than these
/// need more registers and stack than there are.
constexpr size_t mostCutOperands = 24;

/// At most `lanes`, so that no boundary between many operands cuts a tile.
static int64_t lanesBetweenBoundaries(ts::KernelOp kernel, unsigned lane,
                                      int64_t lanes) {
  bool asStored = llvm::all_of(
      kernel.getBody().front().without_terminator(), [](Operation &op) {
        return isa<ts::ElementwiseOpInterface, ts::ConcatOp>(op);
      });
  for (auto concat : kernel.getBody().getOps<ts::ConcatOp>()) {
    if (concat.getInputs().size() <= mostCutOperands ||
        (asStored && concat.getDim() != lane))
      continue;
    Dim begin = Dim::constant(kernel.getContext(), 0);
    for (Value input : concat.getInputs()) {
      begin = begin + ts::dimOf(input, concat.getDim());
      while (lanes > 1 && begin.knownDivisor() % lanes != 0)
        lanes /= 2;
    }
  }
  return lanes;
}

/// Whether runs of many pages are copied side by side: the longer a copy at
/// once (codegen/lower/cpu/CpuCopy.cpp), the better.
static bool joinsLongRuns(ts::KernelOp kernel, unsigned lane) {
  constexpr int64_t least = 16384; // elements
  ts::ConcatOp concat = concatAlong(kernel, lane);
  return concat && llvm::all_of(concat.getInputs(), [&](Value input) {
           return isa<BlockArgument>(input) &&
                  representative(ts::dimOf(input, lane)) >= least;
         });
}

/// Of rows that a transposition takes apart: how many neighbours in the operand
/// a program reads together, though they are one dim further out in the result.
/// A short row alone is too little for the processor to fetch ahead; too many
/// are as many places to write to.
static int64_t rowsBeside(ts::KernelOp kernel, unsigned lane) {
  constexpr int64_t shortRow = 512, most = 4; // bytes, rows
  auto transpose =
      kernel.yield().getValues()[0].getDefiningOp<ts::TransposeOp>();
  if (!transpose || kernel->getNumResults() != 1 || lane < 2 ||
      !isa<BlockArgument>(transpose.getInput()))
    return 1;
  SmallVector<Dim> dims = ts::dimsOf(transpose);
  ArrayRef<int64_t> from = transpose.getPermutation();
  std::optional<int64_t> row = dims[lane].asConstant(),
                         count = dims[lane - 2].asConstant();
  if (lane + 1 != dims.size() || from[lane] != int64_t(lane) ||
      from[lane - 2] + 1 != int64_t(lane) || !row || !count ||
      *row * ts::elementBytes(ts::elementTypeOf(transpose)) > shortRow)
    return 1;
  for (int64_t beside = most; beside > 1; --beside)
    if (*count % beside == 0)
      return beside;
  return 1;
}

/// The dim that tiles run along. Of a few channels after a long dim programs of
/// a few elements would spend their time on finding their place, so tiles run
/// along the dim before. (What only moves runs of elements moves them as runs.)
static unsigned laneDim(ts::KernelOp kernel, const TargetDesc &target,
                        ArrayRef<Dim> dims, bool flat, int64_t flops) {
  constexpr int64_t few = 4, many = 16;
  unsigned lane = dims.empty() ? 0 : dims.size() - 1;
  while (lane > 0 && dims[lane].isConstant(1))
    --lane;
  bool transposes = !kernel.getBody().getOps<ts::TransposeOp>().empty();
  if (!flat && lane > 0 && !target.simt && (transposes || flops > 1) &&
      dims[lane].asConstant().value_or(few + 1) <= few &&
      representative(dims[lane - 1]) >= many)
    --lane;
  return lane;
}

/// Whether neighbours of a row are read from neighbours in memory, wherever it
/// lies: whatever moves elements leaves the innermost dim as it is.
static bool readsNeighbours(ts::KernelOp kernel) {
  return llvm::all_of(
      kernel.getBody().front().without_terminator(), [](Operation &op) {
        return llvm::TypeSwitch<Operation *, bool>(&op)
            .Case([](ts::TransposeOp o) {
              return o.getPermutation().back() + 1 ==
                     static_cast<int64_t>(o.getPermutation().size());
            })
            .Case([](ts::SliceOp o) {
              return o.getSteps().empty() || o.getSteps().back() == 1;
            })
            .Case([](ts::PadOp o) {
              return o.getMode() == ts::PadMode::constant;
            })
            .Case([](ts::GatherOp o) {
              return static_cast<int64_t>(o.getDim()) + 1 <
                     ts::rankOf(o.getInput());
            })
            .Case<ts::GatherElementsOp, ts::GatherNdOp, ts::DotOp>(
                [](auto) { return false; })
            .Default([](Operation *) { return true; });
      });
}

/// Elements of a row, neighbours in it, that a thread of a GPU computes
/// together, so that it finds their place once and reads each operand once: an
/// access of the widest element. 1: rows are not whole runs of that.
static int64_t runOfThread(ts::KernelOp kernel, Dim row) {
  constexpr int64_t access = 16;
  int64_t run = access / widestBytes(kernel);
  std::optional<int64_t> length = row.asConstant();
  return run > 1 && length && *length > 0 && *length % run == 0 &&
                 readsNeighbours(kernel)
             ? run
             : 1;
}

/// Whether a row that is a tile of its own is short, or the tile a good deal
/// wider.
static bool leavesThreadsIdle(Dim row, const TargetDesc &target) {
  constexpr int64_t shortRow = 256;
  int64_t length = *row.asConstant();
  int64_t tile = llvm::PowerOf2Ceil(uint64_t(length));
  return length <= shortRow ||
         (tile <= target.lanes(DType::f32) && length <= tile * 3 / 4);
}

/// Of lanes across short rows each has a place of its own: what neighbours read
/// lies together where they are those of a warp. An element a thread, where
/// there are few; else a run, or where rows have none four at once (of matmuls,
/// each of many reads, two), a word of them a store.
static void tileAcross(ts::KernelOp kernel, const TargetDesc &target,
                       int64_t length, int64_t run,
                       config::PointwiseGpuConfig &config) {
  constexpr int64_t word = 4, threadsOfCore = 2048;
  int64_t several = kernel.getHero() == ts::Hero::matmul ? 2 : 4;
  config.lanes = config.block = config.threads = 256;
  config.access = 1;
  if (length > threadsOfCore * int64_t(target.cores) && run > 1) {
    config.lanes = config.block = run * config.lanes;
    config.access = run;
  } else if (length > threadsOfCore * int64_t(target.cores)) {
    config.lanes = config.block = several * config.lanes;
    int64_t bytes = ts::elementBytes(ts::elementTypeOf(kernel.getResult(0)));
    config.access = std::max<int64_t>(1, word / std::max<int64_t>(1, bytes));
  }
}

/// How many rows of `length` elements a program takes, `beside` of them at
/// each: so many that finding one's place, and a branch that ends them
/// unforeseen, do not count.
static int64_t rowsOfProgram(Dim dim, int64_t length, int64_t beside) {
  constexpr int64_t perProgram = 8192;
  int64_t all = std::max<int64_t>(1, representative(dim));
  int64_t rows = std::clamp<int64_t>(perProgram / (length * beside), 1, all);
  // Programs of equal work, where that costs little.
  for (int64_t fewer = rows; fewer > rows * 3 / 4; --fewer)
    if (all % fewer == 0)
      return fewer;
  return rows;
}

/// Whether a CPU's lanes lie across rows of a few elements: where functions of
/// them cost more than the indices of each lane.
static bool crossesRows(ts::KernelOp kernel, ArrayRef<Dim> dims, unsigned lane,
                        int64_t flops) {
  constexpr int64_t shortRow = 8, costly = 30;
  bool isKnown = llvm::all_of(
      dims, [](Dim dim) { return dim.asConstant().value_or(0) > 0; });
  return lane > 0 && isKnown && flops >= costly &&
         *dims[lane].asConstant() <= shortRow &&
         llvm::all_of(
             kernel.getBody().front().without_terminator(), [](Operation &op) {
               return isa<ts::ElementwiseOpInterface, ts::ConstantOp,
                          ts::BroadcastOp, ts::ReshapeOp, ts::SizeOp,
                          ts::DimCastOp, ts::PadOp, ts::SliceOp, ts::IotaOp>(
                   op);
             });
}

/// How often the results have each element side by side, in the innermost dim
/// of all; 1: they are not such.
static int64_t repeatsOf(ts::KernelOp kernel, ArrayRef<Dim> dims) {
  constexpr int64_t most = 16;
  int64_t last = int64_t(dims.size()) - 1;
  if (last < 1)
    return 1;
  int64_t repeat = dims[last].asConstant().value_or(1);
  bool all = llvm::all_of(kernel.yield().getValues(), [&](Value value) {
    auto op = value.getDefiningOp<ts::BroadcastOp>();
    return op && ts::dimsOf(value) == dims && !op.getDims().empty() &&
           op.getDims().back() == last - 1;
  });
  return all && repeat > 1 && repeat <= most &&
                 dims[last - 1].asConstant().value_or(1) > 1
             ? repeat
             : 1;
}

LogicalResult choosePointwise(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  if (kernel.getHero() == ts::Hero::matmul && !isShallowMatmul(kernel, target))
    return success();
  OwningOpRef<ts::KernelOp> joined;
  if (target.simt && (joined = withJoinedDims(kernel)))
    kernel = *joined;
  MLIRContext *context = kernel.getContext();
  SmallVector<Dim> dims = ts::dimsOf(kernel.getResult(0));
  bool flat = isFlat(kernel);
  int64_t flops = regionFlops(kernel);
  unsigned lane = laneDim(kernel, target, dims, flat, flops);
  int64_t repeat = target.simt || flat ? 1 : repeatsOf(kernel, dims);
  if (repeat > 1)
    lane = dims.size() - 2;
  Dim one = Dim::constant(context, 1);
  // The threads of a block of rows shorter than this would mostly be idle.
  constexpr int64_t shortRow = 64;
  // Rows that an index names.
  bool named = target.simt && kernel.getHero() == ts::Hero::gather &&
               !kernel.getBody().getOps<ts::GatherOp>().empty() &&
               !(lane > 0 && representative(dims[lane]) <= shortRow);
  int64_t threadRun =
      target.simt && !dims.empty() ? runOfThread(kernel, dims[lane]) : 1;
  bool across = target.simt && !flat && !named && lane > 0 &&
                (representative(dims[lane]) <= shortRow ||
                 (threadRun > 1 && leavesThreadsIdle(dims[lane], target)));
  if (!target.simt && !flat && repeat == 1)
    across = crossesRows(kernel, dims, lane, flops);
  Dim run =
      flat || across || dims.empty() ? product(context, dims) : dims[lane];
  int64_t length = representative(run);
  // Long chains keep many tiles alive, so their tiles are one register.
  config::PointwiseGpuConfig config;
  int64_t &lanes = config.lanes, &block = config.block;
  lanes = lanesOver(run, flops > 200 ? 16 : flops > 40 ? 32 : 64);
  block = 4096;
  if (repeat > 1 || (across && !target.simt))
    lanes = std::min<int64_t>(lanes, 16);
  if (!target.simt) {
    if (int64_t most = flops > 10 ? lanes : 128; lanes >= 16)
      knobs.tune(config, lanes, [&](int64_t other) { return other <= most; });
    lanes = lanesBetweenBoundaries(kernel, lane, lanes);
    if (joinsLongRuns(kernel, lane))
      block = 16384;
    knobs.tune(config, block);
  }
  if (across && target.simt) {
    tileAcross(kernel, target, length, threadRun, config);
  } else if (target.simt) {
    // A tile is spread over the threads of a block, one access of 16 bytes each
    // (bytes in flight count, and blocks give them best).
    lanes = target.lanes(DType::f32);
    while (lanes > 128 && lanes / 2 >= length)
      lanes /= 2;
    block = lanes;
  }
  if (std::optional<int64_t> number = run.asConstant();
      number && !flat && !across && !named && *number <= 2 * block)
    block = std::max(lanes, (*number + lanes - 1) / lanes * lanes);
  constexpr int64_t longest = 1024;
  int64_t rows = 1, beside = 1;
  if (std::optional<int64_t> number = run.asConstant();
      number && *number > 1 && *number <= std::min(block, longest) && !flat &&
      !across && repeat == 1 && lane > 0 && !target.simt) {
    beside = rowsBeside(kernel, lane);
    rows = rowsOfProgram(dims[lane - 1], *number, beside);
  }
  // Repeated rows are counted through all dims before them.
  Dim repeated = product(context, ArrayRef<Dim>(dims).take_front(lane));
  if (repeat > 1) {
    block = std::max(block, (length + lanes - 1) / lanes * lanes);
    rows = rowsOfProgram(repeated, length * repeat, 1);
  }
  Schedule schedule;
  schedule.kind = "pointwise";
  config.flat = flat;
  config.dim = lane;
  config.rows = rows;
  config.stream = streamsOut(kernel, target);
  if (target.simt) {
    // The index comes first, so that a thread asks for two accesses of the row
    // at once; more of them, or longer tiles, are slower.
    if (named) {
      int64_t bytes = ts::elementBytes(ts::elementTypeOf(kernel.getResult(0)));
      config.threads = std::max<int64_t>(32, lanes * bytes / (2 * 16));
    }
    config.across = across;
    schedule.parameters = config::print(config);
  } else {
    knobs.tune(config, config.stream);
    schedule.parameters = config::print(
        config::PointwiseCpuConfig{config, beside, across, repeat});
  }
  Dim around = one;
  if (!flat && !across)
    for (auto [i, dim] : llvm::enumerate(dims))
      if (i != lane)
        around =
            around * (i + 1 == lane                 ? dim.ceilDiv(one * rows)
                      : i + 2 == lane && beside > 1 ? dim.floorDiv(one * beside)
                                                    : dim);
  schedule.grid = repeat > 1 ? repeated.ceilDiv(one * rows)
                             : around * run.ceilDiv(one * block);
  // About 10 us of work at one element a nanosecond and 15 flops.
  int64_t work =
      std::max<int64_t>(1, beside * rows * repeat * std::min(block, length) *
                               (1 + flops / 15) / 4);
  schedule.grain = one * std::max<int64_t>(1, 8000 / work);
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
