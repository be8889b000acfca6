// The schedule of a reduction: lanes, rows of a program, threads, scratch.
// (What the parameters mean: Reduce.cpp.)
#include "codegen/lower/gpu/BlockThreads.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/Reduce.h"
#include "ir/config/ReduceConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// How long a row may be for the threads of a GPU's block to hold it.
static int64_t mostHeld(ts::KernelOp kernel, const TargetDesc &target) {
  int64_t bytes = 4;
  for (BlockArgument argument : kernel.getBody().getArguments())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(argument)));
  int64_t most = 32 * int64_t(target.lanes(DType::f32)) * 4 / bytes;
  // An index of 64 bits goes with each element.
  return kernel.getBody().getOps<ts::ArgReduceOp>().empty() ? most : most / 8;
}

/// Rows that a program of a GPU reads before it reduces the first, and threads
/// of its block; 0: as others. Of normalised rows of 8 KiB: where one number is
/// computed of a row (rms), two rows are under way; where it is two, one after
/// the other, twice the threads wait less.
static std::pair<int64_t, int64_t> rowsHeld(ts::KernelOp kernel,
                                            const Space &space, Dim kept,
                                            int64_t lanes,
                                            const TargetDesc &target) {
  constexpr int64_t access = 16, leastAccesses = 512, accessesOfThread = 4;
  auto norms = kernel.getBody().getOps<ts::LayerNormOp>();
  int64_t bytes = 1, operands = 0, results = 0;
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (ts::dimsOf(argument) == space.dims) {
      bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(argument)));
      ++operands;
    }
  for (Value result : kernel.getResults())
    results += ts::dimsOf(result) == space.dims;
  int64_t accesses = lanes * bytes / access;
  // Every processor still has some programs.
  constexpr int64_t rows = 2;
  if (!llvm::hasSingleElement(norms) || operands != 1 || results != 1 ||
      accesses < leastAccesses || accesses >= 2 * leastAccesses ||
      representative(kept) < 4 * rows * target.cores)
    return {1, 0};
  if ((*norms.begin()).getRms())
    return {rows, accesses / accessesOfThread};
  return {1, 2 * accesses / accessesOfThread};
}

/// A tile around a row of a length that no warp's accesses divide: whole
/// accesses of all threads of a block, of which the largest that wastes little.
static int64_t aroundRow(ts::KernelOp kernel, int64_t length,
                         const TargetDesc &target) {
  int64_t bytes = 1;
  for (BlockArgument argument : kernel.getBody().getArguments())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(argument)));
  int64_t round = 32 * target.lanes(DType::f32) * 4 / 256 / bytes;
  // The row may start at any lane of an access.
  constexpr int64_t access = 16;
  if (length * bytes % access)
    length += access / bytes - 1;
  constexpr int64_t leastRounds = 4, mostThreads = 512;
  for (int64_t warps = 1;
       warps < mostThreads / 32 && length >= 2 * leastRounds * round;
       warps *= 2)
    round *= 2;
  return (length + round - 1) / round * round;
}

/// Elements of a tile that each thread of a block gets, where whole accesses of
/// all threads are to divide it.
static int64_t elementsOfThread(ts::KernelOp kernel, int64_t lanes) {
  int64_t bytes = 1;
  for (BlockArgument argument : kernel.getBody().getArguments())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(argument)));
  int64_t width = lower::accessWidth(lower::kAccessBytes / bytes, lanes);
  int64_t threads = lower::threadsOfRow(lower::kMostBlockThreads, lanes, width);
  return lanes / lower::threadsThatDivide(threads, lanes, width);
}

/// The kept dims but the lane dim: how many rows or columns of tiles there are.
static Dim keptAround(const Space &space, unsigned lane) {
  Dim kept = space.dims[0].like(1);
  for (auto [d, dim] : llvm::enumerate(space.dims))
    if (d != lane &&
        !llvm::is_contained(space.reduced, static_cast<int64_t>(d)))
      kept = kept * dim;
  return kept;
}

/// How the programs of a cluster share the rows of columns: so many programs
/// (1: none), of so many lanes.
struct Sharing {
  int64_t clusterSize, lanes;
};

/// `kernel` has no composites; `columns`: of all rows together, `run` of them
/// beside each other.
///
/// Read at 16384x16384, 65536x4096, 131072x2048 (H200): best by a block of 512
/// threads for each processor, a thread having one access of each of its rows;
/// two or four times as many threads cost 2 to 5 %, half as many 15 to 30 %.
static Sharing shareColumns(ts::KernelOp kernel, const Space &space,
                            int64_t columns, int64_t run,
                            const TargetDesc &target) {
  constexpr Sharing none = {1, 0};
  // (Other GPUs have no clusters.)
  if (!target.clusters || space.reduced.empty())
    return none;
  constexpr int64_t word = 4;
  int64_t bytes = 1, combined = 0; // of a column
  bool computes = false;
  for (Operation &op : kernel.getBody().front()) {
    if (isa<ts::ArgReduceOp>(op))
      return none;
    computes |= isa<ts::ElementwiseOpInterface>(op);
    auto reduce = dyn_cast<ts::ReduceOp>(op);
    if (!reduce)
      continue;
    Type type = computeType(ts::elementTypeOf(reduce.getInput()));
    if (type.isInteger(1))
      return none;
    combined += std::max(word, ts::elementBytes(type));
  }
  // Of the columns' results one program stores all, maybe over an operand that
  // others still need for theirs.
  auto isFull = [&](Value value) { return ts::dimsOf(value) == space.dims; };
  if (llvm::any_of(kernel.getResults(), isFull) &&
      !llvm::all_of(kernel.getResults(), isFull))
    return none;
  auto see = [&](Value value) {
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(value)));
  };
  llvm::for_each(kernel.getBody().getArguments(), see);
  llvm::for_each(kernel.getResults(), see);
  constexpr int64_t access = 16, warp = 32, blockThreads = 512, blocks = 8,
                    threadsAtOnce = 128 * blockThreads, leastRows = 32;
  constexpr int64_t mostPrograms = blocks * blockThreads / warp;
  // Of a thread: what all threads of a block leave, and once more those of one
  // program, fits in shared memory, and the sums fit the registers.
  constexpr int64_t mostCombined = 64;
  int64_t width = access / bytes, clusterSize = 1;
  while (width > 1 && width * combined > mostCombined)
    width /= 2;
  if (width * combined > mostCombined)
    return none;
  // Rows of the dim that is shared out, each with all that other dims hold.
  constexpr int64_t leastShared = 2;
  int64_t rows = representative(space.dims[sharedDim(space)]), others = 1;
  for (int64_t d : space.reduced)
    if (d != int64_t(sharedDim(space)))
      others *= std::max<int64_t>(1, representative(space.dims[d]));
  int64_t least =
      std::max<int64_t>(leastShared, llvm::divideCeil(leastRows, others));
  while (clusterSize < mostPrograms &&
         columns * clusterSize < threadsAtOnce * width &&
         rows >= 2 * clusterSize * least)
    clusterSize *= 2;
  // What waits for others of its program does so in a warp (GpuLowering.cpp).
  int64_t threads =
      computes ? warp
               : blockThreads / std::max<int64_t>(clusterSize / blocks, 2);
  while (threads > warp && threads * width / 2 >= run)
    threads /= 2;
  // Of few columns a thread would compute elements that are none.
  while (width > 1 && warp * width / 2 >= run)
    width /= 2;
  return {clusterSize, threads * width};
}

/// Whether a program of a GPU takes a column as if it were a row, its lanes far
/// apart: where columns are so few, or runs of them so narrow, that most of the
/// lanes of the column form would be idle. Neighbours then read the same
/// sectors of memory, from caches.
static bool columnsAsRows(const Space &space, int64_t columns, int64_t run,
                          int64_t clusterSize, const TargetDesc &target) {
  if (space.reduced.empty())
    return false;
  std::optional<int64_t> length =
      space.dims[laneOfRows(space, target)].asConstant();
  constexpr int64_t leastRow = 16, mostRow = 1 << 18, narrow = 16, busy = 2048,
                    cached = 1 << 20; // columns, elements
  if (!length || *length < leastRow || *length > mostRow)
    return false;
  int64_t elements = columns;
  for (int64_t d : space.reduced)
    elements *= std::max<int64_t>(1, representative(space.dims[d]));
  return run < narrow ||
         (clusterSize == 1 && columns < busy && elements <= cached);
}

/// Of a run of so many elements, tiles about equal, of at most about `most`, of
/// which no thread gets more elements than its registers hold.
static int64_t equalTiles(ts::KernelOp kernel, int64_t length, int64_t most) {
  constexpr int64_t leastStep = 512, mostStep = 8192, mostOfThread = 64;
  int64_t tile = llvm::divideCeil(length, llvm::divideCeil(length, most));
  int64_t step = leastStep;
  while (step < mostStep &&
         elementsOfThread(kernel, llvm::alignTo(tile, step)) > mostOfThread)
    step *= 2;
  return llvm::alignTo(tile, step);
}

/// How often a program that does not hold its part of a row reads it.
static int64_t readsOfRow(ts::KernelOp kernel, const Space &space) {
  int64_t reads = 0;
  for (Operation &op : kernel.getBody().front())
    reads += isa<ts::ReduceOp, ts::ArgReduceOp>(op);
  return reads + llvm::any_of(kernel.getResults(), [&](Value value) {
           return ts::dimsOf(value) == space.dims;
         });
}

/// How the programs of a cluster share few long rows: so many (1: none), of
/// tiles of so many lanes. Each has one tile, which it holds, or the tiles of a
/// part of the longest reduced dim, which it reads in each pass. `kernel` has
/// no composites.
static Sharing shareRow(ts::KernelOp kernel, const Space &space, int64_t rows,
                        unsigned lane, const TargetDesc &target) {
  constexpr Sharing none = {1, 0};
  constexpr int64_t leastRow = 16384, leastTile = 4096, mostPrograms = 8;
  unsigned shared = sharedDim(space);
  int64_t turns = 1; // of a loop around the shared dim
  for (int64_t d : space.reduced) {
    std::optional<int64_t> size = space.dims[d].asConstant();
    if (!size)
      return none;
    if (d != int64_t(shared))
      turns *= *size;
  }
  int64_t length = *space.dims[shared].asConstant(), row = length * turns;
  if (!target.clusters || row < leastRow || rows >= 2 * int64_t(target.cores))
    return none;
  for (Operation &op : kernel.getBody().front()) {
    auto reduce = dyn_cast<ts::ReduceOp>(op);
    if (reduce &&
        computeType(ts::elementTypeOf(reduce.getInput())).isInteger(1))
      return none;
  }
  // (As of columns: one program stores what is of a row.)
  auto isFull = [&](Value value) { return ts::dimsOf(value) == space.dims; };
  if (llvm::any_of(kernel.getResults(), isFull) &&
      !llvm::all_of(kernel.getResults(), isFull))
    return none;
  int64_t bytes = 1;
  for (BlockArgument argument : kernel.getBody().getArguments())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(argument)));

  // One tile each: whole accesses of the threads of a block, of which a thread
  // has registers for 32 elements and what it computes of them.
  constexpr int64_t round = 2048, narrow = 16384;
  int64_t mostOfTile = mostHeld(kernel, target);
  if (bytes <= 2)
    mostOfTile = std::min(mostOfTile, narrow);
  bool isRun = lane == shared;
  auto held = [&](int64_t clusterSize) -> Sharing {
    int64_t tile = llvm::alignTo(llvm::divideCeil(length, clusterSize), round);
    if (!isRun || turns != 1 || tile > mostOfTile)
      return none;
    return {int64_t(llvm::divideCeil(length, tile)), tile};
  };
  // Bytes that the SM with the most CTAs reads, and bytes that it could read
  // while the CTAs of a cluster wait for each other.
  constexpr int64_t waits = 4096;
  int64_t reads = readsOfRow(kernel, space);
  auto cost = [&](int64_t clusterSize) {
    int64_t programs = llvm::divideCeil(rows * clusterSize, target.cores);
    // Again from the second-level cache, at twice the rate; a program alone
    // leaves memory idle between its tiles.
    int64_t quarters = 4;
    if (!held(clusterSize).lanes)
      quarters = (2 + 2 * reads) + (programs == 1 ? 1 + reads : 0);
    return programs * (row * bytes / clusterSize) * quarters / 4 +
           (clusterSize > 1 ? waits * reads : 0);
  };
  int64_t clusterSize = 1;
  for (int64_t more = 2; more <= mostPrograms; more *= 2)
    if (row / more >= leastTile && length >= more &&
        cost(more) < cost(clusterSize))
      clusterSize = more;
  if (clusterSize == 1)
    return none;
  if (Sharing tiles = held(clusterSize); tiles.lanes)
    return tiles.clusterSize > 1 ? tiles : none;
  if (!isRun)
    return {clusterSize, 0};
  // Bytes in flight that an SM needs.
  constexpr int64_t atOnce = 32768;
  return {clusterSize, equalTiles(kernel, llvm::divideCeil(length, clusterSize),
                                  atOnce / bytes)};
}

/// Whether a GPU's lanes lie across all kept dims: where rows are short, or
/// runs of columns are, so that a block would mostly be idle, and there are
/// columns enough for its processors.
static bool lanesAcross(ts::KernelOp kernel, const Space &space, unsigned lane,
                        const TargetDesc &target) {
  // A thread reads its row alone: of longer ones neighbours read too far apart.
  constexpr int64_t shortRow = 16, shortRun = 64;
  int64_t columns = 1;
  Dim length = space.dims[0].like(1);
  for (auto [d, dim] : llvm::enumerate(space.dims)) {
    if (llvm::is_contained(space.reduced, static_cast<int64_t>(d)))
      length = length * dim;
    else
      columns *= std::max<int64_t>(1, representative(dim));
  }
  bool isRow = llvm::is_contained(space.reduced, static_cast<int64_t>(lane));
  if (space.reduced.empty() ||
      (isRow ? !length.asConstant() || *length.asConstant() > shortRow
             : representative(space.dims[lane]) > shortRun))
    return false;
  // In blocks of 128, two warps for each scheduler.
  return columns >= (isRow ? 128 : 512 * target.cores / 2);
}

LogicalResult chooseReduce(ts::KernelOp kernel, const TargetDesc &target,
                           Knobs &knobs, SmallVectorImpl<Schedule> &schedules) {
  OwningOpRef<ts::KernelOp> copy = asReductions(kernel, target);
  FailureOr<Space> space = commonSpace(*copy);
  if (failed(space))
    return failure();
  Dim one = Dim::constant(kernel.getContext(), 1);
  if (space->dims.empty())
    return kernel.emitOpError("reduces a tensor without dims");
  unsigned lane = laneDim(*space);
  bool rowForm = llvm::is_contained(space->reduced, static_cast<int64_t>(lane));
  Dim run = sizeOfRun(*space, firstOfRun(*copy, *space, target));
  FailureOr<Space> given = commonSpace(kernel); // of its composites
  bool isArg = !kernel.getBody().getOps<ts::ArgReduceOp>().empty();
  int64_t flops = 1;
  kernel.getBody().walk(
      [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  // Chains of comparisons are long: several at once hide it.
  int64_t most = isArg ? (target.simt ? 16 : 64) : flops > 40 ? 32 : 64;
  config::ReduceConfig config;
  int64_t &lanes = config.lanes;
  lanes = lanesOver(run, most);
  constexpr int64_t cheap = 8; // its values leave registers for wide tiles
  bool isComposite = llvm::any_of(kernel.getBody().front(), [](Operation &op) {
    return isa<ts::SoftmaxOp, ts::LayerNormOp>(op);
  });
  if (!target.simt && !rowForm && !isArg && !isComposite && flops <= cheap) {
    // Columns side by side are one run of memory in each row: the longer, the
    // better, while there are programs enough.
    constexpr int64_t widest = 256, odd = 128, leastPrograms = 8;
    int64_t columns = representative(run),
            programs = representative(keptAround(*space, lane));
    while (2 * lanes <= widest && columns % (2 * lanes) == 0 &&
           programs * (columns / (2 * lanes)) >= leastPrograms)
      lanes *= 2;
    if (run.asConstant() && columns > lanes && columns <= odd &&
        columns % lanes) {
      // What one narrower register holds needs no mask.
      int64_t rest = columns % 16;
      lanes = rest == 4 || rest == 8 ? columns : (columns + 15) / 16 * 16;
    }
  }
  // A few rows of columns that keep exponentials.
  constexpr int64_t few = 32, wide = 128;
  Dim length = one;
  for (int64_t d : space->reduced)
    length = length * space->dims[d];
  if (!target.simt && !rowForm && isComposite && run.asConstant() &&
      *run.asConstant() % wide == 0 &&
      length.asConstant().value_or(few + 1) <= few)
    lanes = wide;
  if (!target.simt && lanes >= 16 && !isArg)
    knobs.tune(config, lanes,
               [&](int64_t other) { return other <= lanes || flops <= 10; });
  int64_t clusterSize = 1;
  if (target.simt) {
    int64_t around = representative(keptAround(*space, lane)),
            beside = representative(run);
    Sharing sharing = {1, 0};
    if (!rowForm) {
      sharing = shareColumns(*copy, *space, beside * around, beside, target);
      if (!lanesAcross(*copy, *space, lane, target) &&
          columnsAsRows(*space, beside * around, beside, sharing.clusterSize,
                        target)) {
        rowForm = true;
        sharing = {1, 0};
      }
    }
    if (rowForm && !lanesAcross(*copy, *space, lane, target)) {
      lane = laneOfRows(*space, target);
      run = space->dims[lane];
      sharing =
          shareRow(*copy, *space, representative(keptAround(*space, lane)),
                   lane, target);
    }
    // A row that fits the registers of a block is one tile, read once.
    lanes = target.lanes(DType::f32);
    // (What lies apart is read lane by lane: a tile for many threads, whatever
    // the length.)
    constexpr int64_t widest = 4096, mostOfThread = 64;
    std::optional<int64_t> apart =
        rowForm && lane != laneDim(*space) ? run.asConstant() : std::nullopt;
    if (apart && *apart > lanes && *apart <= mostHeld(*copy, target))
      lanes = *apart < widest ? llvm::PowerOf2Ceil(*apart)
                              : llvm::alignTo(*apart, widest);
    else if (std::optional<int64_t> number = run.asConstant();
             number && *number > 0 && *number % 128 == 0 &&
             *number <= mostHeld(*copy, target) && rowForm &&
             elementsOfThread(*copy, *number) <= mostOfThread)
      lanes = *number;
    else if (number && *number > lanes && rowForm &&
             *number <= mostHeld(*copy, target))
      lanes = aroundRow(*copy, *number, target);
    // One of several turns has partial results beside it in registers.
    constexpr int64_t mostOfTurn = 16384;
    bool turns = llvm::any_of(space->reduced, [&](int64_t d) {
      return d != int64_t(lane) && !space->dims[d].isConstant(1);
    });
    if (rowForm && turns && lanes > mostOfTurn)
      lanes = equalTiles(*copy, representative(run), mostOfTurn);
    while (lanes > 128 && lanes / 2 >= representative(run))
      lanes /= 2;
    // Rather more programs than wide ones; of a long row, whole blocks.
    constexpr int64_t leastPrograms = 256;
    clusterSize = sharing.clusterSize;
    if (clusterSize > 1 && sharing.lanes)
      lanes = sharing.lanes;
    else if (!rowForm)
      while (lanes > 128 && representative(run) / lanes *
                                    representative(keptAround(*space, lane)) <
                                leastPrograms)
        lanes /= 2;
    else if (run.asConstant().value_or(0) > mostHeld(*copy, target))
      lanes = 4 * target.lanes(DType::f32);
  }
  bool across = target.simt && clusterSize == 1 &&
                lanesAcross(*copy, *space, lane, target);
  if (across) {
    rowForm = false;
    lanes = 128;
    // Neighbouring threads have neighbouring columns: what they store together
    // is in few sectors. Of many short ones each thread has several.
    constexpr int64_t elements = 16, programsOfCore = 16;
    bool words = llvm::none_of(copy->getBody().getArguments(),
                               [](BlockArgument argument) {
                                 return ts::elementTypeOf(argument).isF64();
                               });
    // (f64's functions take the registers of more elements at once.)
    if (words) {
      config.access = 1;
      config.threads = lanes;
    }
    int64_t columns = 1, length = 1;
    for (auto [d, dim] : llvm::enumerate(space->dims))
      (llvm::is_contained(space->reduced, static_cast<int64_t>(d)) ? length
                                                                   : columns) *=
          std::max<int64_t>(1, representative(dim));
    while (words && 2 * length * (lanes / config.threads) <= elements &&
           columns >= 2 * lanes * programsOfCore * int64_t(target.cores))
      lanes *= 2;
  }
  Dim kept = one, row = one;
  for (auto [d, dim] : llvm::enumerate(space->dims)) {
    if (llvm::is_contained(space->reduced, static_cast<int64_t>(d)))
      row = row * dim;
    else if (d != lane)
      kept = kept * dim;
  }
  bool &stream = config.stream;
  stream = streamsOut(kernel, target);
  if (!target.simt)
    knobs.tune(config, stream);
  constexpr int64_t mostRows = 32, leastPrograms = 32;
  constexpr int64_t leastGroups = 4;
  // Rows overlap where memory, not arithmetic, is what is short.
  int64_t rows = 1;
  if (stream && rowForm && !target.simt && space->reduced.size() == 1 &&
      kernel.getNumResults() == 1 &&
      ts::dimsOf(kernel.getResult(0)) == space->dims)
    rows =
        std::clamp<int64_t>(representative(kept) / leastPrograms, 1, mostRows);
  int64_t group = 1;
  if (rows == 1 && rowForm) {
    group = rowsOfGroup(*copy, *space, lanes, target);
    if (representative(kept) < leastGroups * group)
      group = 1;
    rows = group;
  }
  int64_t threads = config.threads;
  if (target.simt && rowForm && !isArg && space->reduced.size() == 1 &&
      run.isConstant(lanes) && clusterSize == 1 && space->dims == given->dims)
    std::tie(rows, threads) = rowsHeld(kernel, *space, kept, lanes, target);
  Schedule schedule;
  schedule.kind = "reduce";
  config.rowForm = rowForm;
  config.rows = rows;
  config.threads = threads;
  config.group = group;
  config.clusterSize = clusterSize;
  config.across = across;
  if (across) {
    run = one;
    for (auto [d, dim] : llvm::enumerate(space->dims))
      if (!llvm::is_contained(space->reduced, static_cast<int64_t>(d)))
        run = run * dim;
    kept = one;
  }
  schedule.grid = rowForm ? kept.ceilDiv(one.like(rows)) * clusterSize
                          : kept * run.ceilDiv(run.like(lanes)) * clusterSize;
  if (target.simt && !across)
    shareColumnsInBlock(*copy, *space, target, config, schedule.grid);
  rowForm = config.rowForm, group = config.group;
  schedule.parameters = config::print(config);
  // A row takes a tile at least.
  Dim elements = rowForm ? row.max(one * lanes) : row * lanes;
  schedule.grain = grainOf(32000, elements * (rows * (1 + flops / 8)));
  // Generous: every costly op of the region could be kept.
  int64_t costly = 0;
  kernel.getBody().walk([&](Operation *op) {
    auto elementwise = dyn_cast<ts::ElementwiseOpInterface>(op);
    costly += isa<ts::SoftmaxOp>(op) ||
              (elementwise && elementwise.elementFlops() >= 10);
  });
  schedule.scratch = one * 0;
  if (rowForm || (!target.simt && keepsColumns(*space, lanes)))
    schedule.scratch = (row * (rowForm ? 8 : 8 * lanes)).ceilDiv(one * 64) *
                       (64 * costly * group);
  if (group > 1)
    schedule.scratch = schedule.scratch + one * scratchOfGroups(*copy);
  // It may start anywhere in a page, and is read up to a tile too far.
  constexpr int64_t page = 4096;
  if (rows > 1 && group == 1 && !target.simt)
    schedule.scratch = schedule.scratch + one * (page + 8 * lanes);
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
