// The schedule of a reduction: lanes, rows of a program, threads, scratch.
// (What the parameters mean: Reduce.cpp.)
#include "codegen/schedule/core/Conditions.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/reduce/ReduceCluster.h"
#include "ir/config/ReduceConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

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
  int64_t bytes = widestBytes(kernel);
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

/// The kept dims but the lane dim: how many rows or columns of tiles there are.
static Dim keptAround(const Space &space, unsigned lane) {
  Dim kept = space.dims[0].like(1);
  for (auto [d, dim] : llvm::enumerate(space.dims))
    if (d != lane &&
        !llvm::is_contained(space.reduced, static_cast<int64_t>(d)))
      kept = kept * dim;
  return kept;
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

namespace {

/// Chooses the form of a kernel's reductions and its sizes.
class ReduceChoice {
public:
  ReduceChoice(ts::KernelOp kernel, ts::KernelOp copy, Space space,
               const TargetDesc &target, Knobs &knobs)
      : kernel(kernel), copy(copy), space(std::move(space)), target(target),
        knobs(knobs), one(Dim::constant(kernel.getContext(), 1)),
        lane(laneDim(this->space)), rowForm(isReduced(lane)),
        run(sizeOfRun(this->space, firstOfRun(copy, this->space, target))) {
    isArg = !kernel.getBody().getOps<ts::ArgReduceOp>().empty();
    kernel.getBody().walk(
        [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  }

  Schedule choose();

  /// After `choose`: whether the columns are a symbol, so that there may be so
  /// many that wider tiles are better, and no tuning has decided.
  bool mayHaveMany() const { return narrow && narrow == config.lanes; }
  /// Before it: there are as many as `manyColumnsGuard` says.
  void takeManyColumns() { manyColumns = true; }
  Guard manyColumnsGuard() const {
    Conditions conditions;
    conditions.require(run, ts::ComparePredicate::ge, 2 * widest);
    conditions.require(run * keptAround(space, lane), ts::ComparePredicate::ge,
                       leastPrograms * widest);
    return conditions.guard;
  }

private:
  bool isReduced(unsigned d) const {
    return llvm::is_contained(space.reduced, static_cast<int64_t>(d));
  }
  bool isAcross() const { return lanesAcross(copy, space, lane, target); }
  int64_t rowsAround() const { return representative(keptAround(space, lane)); }

  void chooseLanes();
  void widenColumns();
  void chooseGpuTiles();
  Sharing chooseSharing();
  void chooseGpuRowLanes();
  void chooseAcross();
  void chooseRows();
  void finishSchedule(Schedule &schedule);
  Dim scratchBytes(Dim row) const;

  ts::KernelOp kernel;
  ts::KernelOp copy; ///< of reductions alone
  Space space;       ///< of `copy`
  const TargetDesc &target;
  Knobs &knobs;
  Dim one;
  unsigned lane;
  bool rowForm, isArg = false, manyColumns = false;
  static constexpr int64_t widest = 256, leastPrograms = 8;
  Dim run; ///< elements along which tiles lie
  int64_t narrow = 0; ///< lanes for a symbolic number of columns
  int64_t flops = 1, rows = 1, group = 1, clusterSize = 1, threads = 0;
  config::ReduceConfig config;
};

/// Lanes of a CPU's tile, and where a GPU's begin.
void ReduceChoice::chooseLanes() {
  // Chains of comparisons are long: several at once hide it.
  int64_t most = isArg ? (target.simt ? 16 : 64) : flops > 40 ? 32 : 64;
  config.lanes = lanesOver(run, most);
  if (target.simt)
    return;
  constexpr int64_t cheap = 8; // its values leave registers for wide tiles
  bool isComposite = llvm::any_of(kernel.getBody().front(), [](Operation &op) {
    return isa<ts::SoftmaxOp, ts::LayerNormOp>(op);
  });
  if (!rowForm && !isArg && !isComposite && flops <= cheap)
    widenColumns();
  // A few rows of columns that keep exponentials.
  constexpr int64_t few = 32, wide = 128;
  Dim length = one;
  for (int64_t d : space.reduced)
    length = length * space.dims[d];
  if (!rowForm && isComposite && run.asConstant() &&
      *run.asConstant() % wide == 0 &&
      length.asConstant().value_or(few + 1) <= few)
    config.lanes = wide;
  if (int64_t lanes = config.lanes; lanes >= 16 && !isArg)
    knobs.tune(config, config.lanes,
               [&](int64_t other) { return other <= lanes || flops <= 10; });
}

/// Columns side by side are one run of memory in each row: the longer, the
/// better, while there are programs enough.
void ReduceChoice::widenColumns() {
  constexpr int64_t odd = 128;
  int64_t &lanes = config.lanes;
  if (manyColumns) {
    lanes = widest;
    return;
  }
  int64_t columns = representative(run), programs = rowsAround();
  while (2 * lanes <= widest && columns % (2 * lanes) == 0 &&
         programs * (columns / (2 * lanes)) >= leastPrograms)
    lanes *= 2;
  narrow = run.asConstant() ? 0 : lanes;
  if (run.asConstant() && columns > lanes && columns <= odd &&
      columns % lanes) {
    // What one narrower register holds needs no mask.
    int64_t rest = columns % 16;
    lanes = rest == 4 || rest == 8 ? columns : (columns + 15) / 16 * 16;
  }
}

/// How programs of a cluster share rows or columns of a GPU. Turns to the row
/// form where columns are better taken as rows.
Sharing ReduceChoice::chooseSharing() {
  Sharing sharing = {1, 0};
  if (!rowForm) {
    int64_t beside = representative(run), columns = beside * rowsAround();
    sharing = shareColumns(copy, space, columns, beside, target);
    if (!isAcross() &&
        columnsAsRows(space, columns, beside, sharing.clusterSize, target)) {
      rowForm = true;
      sharing = {1, 0};
    }
  }
  if (rowForm && !isAcross()) {
    lane = laneOfRows(space, target);
    run = space.dims[lane];
    sharing = shareRow(copy, space, rowsAround(), lane, target);
  }
  return sharing;
}

/// A row that fits the registers of a block is one tile, read once.
void ReduceChoice::chooseGpuRowLanes() {
  int64_t &lanes = config.lanes;
  lanes = target.lanes(DType::f32);
  int64_t most = mostHeld(copy, target);
  // (What lies apart is read lane by lane: a tile for many threads, whatever
  // the length.)
  constexpr int64_t widest = 4096, mostOfThread = 64;
  std::optional<int64_t> number = run.asConstant();
  bool isApart = rowForm && lane != laneDim(space);
  if (isApart && number && *number > lanes && *number <= most)
    lanes = *number < widest ? llvm::PowerOf2Ceil(*number)
                             : llvm::alignTo(*number, widest);
  else if (number && *number > 0 && *number % 128 == 0 && *number <= most &&
           rowForm && elementsOfThread(copy, *number) <= mostOfThread)
    lanes = *number;
  else if (number && *number > lanes && rowForm && *number <= most)
    lanes = aroundRow(copy, *number, target);
  // One of several iterations has partial results beside it in registers.
  constexpr int64_t mostOfIteration = 16384;
  bool hasLoops = llvm::any_of(space.reduced, [&](int64_t d) {
    return d != int64_t(lane) && !space.dims[d].isConstant(1);
  });
  if (rowForm && hasLoops && lanes > mostOfIteration)
    lanes = equalTiles(copy, representative(run), mostOfIteration);
  while (lanes > 128 && lanes / 2 >= representative(run))
    lanes /= 2;
}

void ReduceChoice::chooseGpuTiles() {
  Sharing sharing = chooseSharing();
  chooseGpuRowLanes();
  // Rather more programs than wide ones; of a long row, whole blocks.
  constexpr int64_t leastGpuPrograms = 256;
  int64_t &lanes = config.lanes;
  clusterSize = sharing.clusterSize;
  if (clusterSize > 1 && sharing.lanes)
    lanes = sharing.lanes;
  else if (!rowForm)
    while (lanes > 128 &&
           representative(run) / lanes * rowsAround() < leastGpuPrograms)
      lanes /= 2;
  else if (run.asConstant().value_or(0) > mostHeld(copy, target))
    lanes = 4 * target.lanes(DType::f32);
  config.across = clusterSize == 1 && isAcross();
  if (config.across)
    chooseAcross();
}

/// Neighbouring threads have neighbouring columns: what they store together is
/// in few sectors. Of many short ones each thread has several.
void ReduceChoice::chooseAcross() {
  rowForm = false;
  int64_t &lanes = config.lanes;
  lanes = 128;
  constexpr int64_t elements = 16, programsOfCore = 16;
  bool words =
      llvm::none_of(copy.getBody().getArguments(), [](BlockArgument argument) {
        return ts::elementTypeOf(argument).isF64();
      });
  // (f64's functions take the registers of more elements at once.)
  if (!words)
    return;
  config.access = 1;
  threads = lanes;
  int64_t columns = 1, length = 1;
  for (auto [d, dim] : llvm::enumerate(space.dims))
    (isReduced(d) ? length : columns) *=
        std::max<int64_t>(1, representative(dim));
  while (2 * length * (lanes / threads) <= elements &&
         columns >= 2 * lanes * programsOfCore * int64_t(target.cores))
    lanes *= 2;
}

/// Rows of a program, and how many of them are in work at once.
void ReduceChoice::chooseRows() {
  constexpr int64_t mostRows = 32, leastProgramsOfRows = 32, leastGroups = 4;
  Dim kept = keptAround(space, lane);
  // Rows overlap where memory, not arithmetic, is what is short.
  if (config.stream && rowForm && !target.simt && space.reduced.size() == 1 &&
      kernel.getNumResults() == 1 &&
      ts::dimsOf(kernel.getResult(0)) == space.dims)
    rows = std::clamp<int64_t>(representative(kept) / leastProgramsOfRows, 1,
                               mostRows);
  if (rows == 1 && rowForm) {
    group = rowsOfGroup(copy, space, config.lanes, target);
    if (representative(kept) < leastGroups * group)
      group = 1;
    rows = group;
  }
  FailureOr<Space> given = commonSpace(kernel); // of its composites
  if (target.simt && rowForm && !isArg && space.reduced.size() == 1 &&
      run.isConstant(config.lanes) && clusterSize == 1 && succeeded(given) &&
      space.dims == given->dims)
    std::tie(rows, threads) =
        rowsHeld(kernel, space, kept, config.lanes, target);
}

/// Generous: every costly op of the region could be kept.
Dim ReduceChoice::scratchBytes(Dim row) const {
  int64_t costly = 0, lanes = config.lanes;
  kernel->walk([&](Operation *op) {
    auto elementwise = dyn_cast<ts::ElementwiseOpInterface>(op);
    costly += isa<ts::SoftmaxOp>(op) ||
              (elementwise && elementwise.elementFlops() >= 10);
  });
  Dim scratch = one * 0;
  if (config.rowForm || (!target.simt && keepsColumns(space, lanes)))
    scratch = (row * (config.rowForm ? 8 : 8 * lanes)).ceilDiv(one * 64) *
              (64 * costly * config.group);
  if (config.group > 1)
    scratch = scratch + one * scratchOfGroups(copy);
  // It may start anywhere in a page, and is read up to a tile too far.
  constexpr int64_t page = 4096;
  if (rows > 1 && config.group == 1 && !target.simt)
    scratch = scratch + one * (page + 8 * lanes);
  return scratch;
}

void ReduceChoice::finishSchedule(Schedule &schedule) {
  config.rowForm = rowForm;
  config.rows = rows;
  config.threads = threads;
  config.group = group;
  config.clusterSize = clusterSize;
  Dim kept = keptAround(space, lane), row = one;
  for (int64_t d : space.reduced)
    row = row * space.dims[d];
  if (config.across) {
    run = one;
    for (auto [d, dim] : llvm::enumerate(space.dims))
      if (!isReduced(d))
        run = run * dim;
    kept = one;
  }
  schedule.kind = "reduce";
  schedule.grid = rowForm ? kept.ceilDiv(one.like(rows))
                          : kept * run.ceilDiv(run.like(config.lanes));
  schedule.grid = schedule.grid * clusterSize;
  if (target.simt && !config.across)
    shareColumnsInBlock(copy, space, target, config, schedule.grid);
  schedule.parameters = config::print(config);
  // A row takes a tile at least.
  Dim elements =
      config.rowForm ? row.max(one * config.lanes) : row * config.lanes;
  schedule.grain = grainOf(32000, elements * (rows * (1 + flops / 8)));
  schedule.scratch = scratchBytes(row);
}

Schedule ReduceChoice::choose() {
  Schedule schedule;
  chooseLanes();
  if (target.simt)
    chooseGpuTiles();
  config.stream = streamsOut(kernel, target);
  if (!target.simt)
    knobs.tune(config, config.stream);
  chooseRows();
  finishSchedule(schedule);
  return schedule;
}

} // namespace

LogicalResult chooseReduce(ts::KernelOp kernel, const TargetDesc &target,
                           Knobs &knobs, SmallVectorImpl<Schedule> &schedules) {
  OwningOpRef<ts::KernelOp> copy = asReductions(kernel, target);
  FailureOr<Space> space = commonSpace(*copy);
  if (failed(space))
    return failure();
  if (space->dims.empty())
    return kernel.emitOpError("reduces a tensor without dims");
  ReduceChoice choice(kernel, *copy, *space, target, knobs);
  Schedule schedule = choice.choose();
  if (choice.mayHaveMany()) {
    Knobs decided;
    ReduceChoice wide(kernel, *copy, *space, target, decided);
    wide.takeManyColumns();
    Schedule first = wide.choose();
    first.guard = wide.manyColumnsGuard();
    schedules.push_back(std::move(first));
  }
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
