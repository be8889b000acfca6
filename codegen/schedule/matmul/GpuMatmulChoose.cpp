// The schedules of a matmul on a GPU.
//
// By warpgroups (Hopper, f16 and bf16) where the copies of whole blocks reach
// both operands: the innermost dim of each contiguous, every other stride and
// the start a multiple of 16 bytes. What is not known of symbolic sizes becomes
// the schedule's guard. Where they do not, warpgroups carry the operands
// themselves (`stagingWarpgroups`). The block sizes are those with the least
// modelled time (GpuMatmulCost.h). A few rows are multiplied as B passes by,
// where both depths are contiguous and 16-byte accesses reach them. By warps
// (mma.sync) on other GPUs, where one dim of each operand is contiguous. By
// FMAs of f32 for all else.
//
// f32 goes the ways of f16 only where the matmul may round it to tf32: by
// warpgroups where both depths are contiguous, since the unit transposes
// elements of 16 bits alone; else by warps, on Hopper too.
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/GpuMatmul.h"
#include "ir/tensor/PackedDot.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Whether the operands, of f32, may be rounded to tf32.
bool allowsTf32(const MatmulProblem &matmul) {
  Operation *op = matmul.result.getDefiningOp();
  return ts::elementTypeOf(matmul.lhs.base).isF32() && op &&
         op->hasAttr("ts.tf32");
}

/// Rows up to which a matmul takes the time of reading B, multiplied by
/// whatever unit: of a large B less than of a small one, where warpgroups'
/// first copies take longer than all of it.
int64_t mostGemvRows(const MatmulProblem &matmul, const TargetDesc &target) {
  constexpr int64_t few = 4, fewOfMany = 2, many = 4 << 20;
  bool wgmmaCan =
      target.wgmma && ts::elementBytes(ts::elementTypeOf(matmul.lhs.base)) == 2;
  return wgmmaCan && representative(matmul.rhs.free) *
                             representative(matmul.lhs.contract) >
                         many
             ? fewOfMany
             : few;
}

/// Appends schedules for few rows or few columns, if any serves this matmul,
/// that read `lanes` elements at once. Returns whether they read all layouts
/// that the matmul's symbols allow.
bool chooseGemvAccess(const MatmulProblem &matmul, const TargetDesc &target,
                      int64_t lanes, SmallVectorImpl<Schedule> &schedules) {
  int64_t most = mostGemvRows(matmul, target);
  std::optional<int64_t> rows = matmul.lhs.free.asConstant(),
                         columns = matmul.rhs.free.asConstant();
  bool swap = (!rows || *rows > most) && columns && *columns <= most;
  const MatmulOperand &lhs = swap ? matmul.rhs : matmul.lhs,
                      &rhs = swap ? matmul.lhs : matmul.rhs;
  std::optional<int64_t> known = swap ? columns : rows;
  if ((known && *known > most) || lhs.free.knownDivisor() > most || !lhs.contractStride.isConstant(1) ||
      !rhs.contractStride.isConstant(1))
    return false;
  Outer outer = outerOf(matmul);
  Conditions conditions;
  conditions.multiple(lhs.contract, lanes);
  for (const MatmulOperand *side : {&lhs, &rhs}) {
    conditions.multiple(side->offset, lanes);
    if (!side->free.isConstant(1))
      conditions.multiple(side->freeStride, lanes);
  }
  for (Dim stride : llvm::concat<Dim>(outer.aStrides, outer.bStrides))
    conditions.multiple(stride, lanes);
  if (!conditions.holds)
    return false;

  // As many threads a column as have something to read, a block's at most; a
  // thread has at least two reads of B in flight. Of several rows, what it has
  // read of A serves four columns: reading it again would take longer than B.
  constexpr int64_t warps = 8, threads = warps * 32, mostReads = 8;
  int64_t runs = std::max<int64_t>(1, representative(lhs.contract) / lanes);
  int64_t team = std::min<int64_t>(threads, llvm::PowerOf2Ceil(runs));
  int64_t passes = (runs + team - 1) / team;
  auto add = [&](int64_t rows, bool guarded) {
    // In the end each thread has one sum: of a shallow depth, fewer columns.
    int64_t own = std::min<int64_t>(
        rows > 1 ? 4 : std::max<int64_t>(1, 2 / passes), team / rows);
    if (own == 0)
      return false;
    GpuTileShape blocks{
        rows, own * (threads / team),
        passes * own <= mostReads ? passes : mostReads / 2 / own, warps, 0};
    blocks.swapAB = swap;
    MatmulGpuSchedule config =
        configOf(MatmulAlgorithm::gemv, blocks, team * lanes);
    if (lanes * ts::elementBytes(ts::elementTypeOf(lhs.base)) != 16)
      config.access = lanes;
    Schedule schedule = scheduleOf(matmul, outer, config);
    schedule.guard = conditions.guard;
    if (guarded)
      schedule.guard.terms.push_back(
          {lhs.free, ts::ComparePredicate::le, lhs.free.like(rows)});
    schedules.push_back(std::move(schedule));
    return true;
  };
  bool added = known ? add(std::max<int64_t>(1, *known), false)
                     : add(1, true) && add(most, true);
  return added && conditions.guard.terms.empty();
}

/// Appends schedules for few rows or few columns, if any serves this matmul:
/// by the widest accesses, then by those that reach every size.
void chooseGemv(const MatmulProblem &matmul, const TargetDesc &target,
                SmallVectorImpl<Schedule> &schedules) {
  int64_t bytes = ts::elementBytes(ts::elementTypeOf(matmul.lhs.base));
  // Of two bytes a warp reads half a line: those of a small B are waited for,
  // whatever their width, and a thread's sum is there sooner than a tile's.
  constexpr int64_t smallElements = 1 << 14;
  std::optional<int64_t> elements =
      (matmul.rhs.free * matmul.rhs.contract * matmul.lhs.free).asConstant();
  SmallVector<int64_t> widths = {16, 8, 4};
  if (bytes < widths.back() && elements && *elements <= smallElements)
    widths.push_back(bytes);
  for (int64_t width : widths) {
    size_t before = schedules.size();
    if (chooseGemvAccess(matmul, target, width / bytes, schedules))
      return;
    // One that some sizes allow: the narrowest serves the others, where no
    // tensor cores do.
    if (schedules.size() > before) {
      if (ts::elementTypeOf(matmul.lhs.base).isF32())
        chooseGemvAccess(matmul, target, 4 / bytes, schedules);
      return;
    }
  }
}

/// What a kernel computes of each element after the matmul.
int64_t operationsOf(ts::KernelOp kernel) {
  int64_t operations = 0;
  for (auto op : kernel.getBody().front().getOps<ts::ElementwiseOpInterface>())
    operations += op.elementFlops();
  return operations;
}

/// Whether the kernel can end elements down a column of the result, one by one:
/// blocks leave it, and it reads nothing else but rows of columns. Another
/// matrix it would read two bytes at a time.
bool endsColumns(ts::KernelOp kernel, const MatmulProblem &matmul) {
  Dim n = matmul.rhs.free;
  return llvm::all_of(
      kernel.getBody().getArguments(), [&](BlockArgument input) {
        if (input == matmul.lhs.base || input == matmul.rhs.base)
          return true;
        Dim elements = ts::product(
            n.context(), ts::dimsOf(cast<RankedTensorType>(input.getType())));
        return elements == n || elements.isConstant(1);
      });
}

/// One cut serves few rows badly and another many. Up to some thousands it
/// matters whether blocks are as many as SMs, or half or twice as many.
constexpr SizeRange kRowCuts[] = {
    {32, 32}, {256, 128}, {1024, 512}, {2048, 2048}, {4096, 4096}};

/// Images come by eights, of so many positions each.
int64_t manyRows(Dim rows) {
  return std::max<int64_t>(8192, 8 * rows.knownDivisor());
}

/// Appends schedules by warpgroups, if any serves this matmul.
void chooseWgmma(ts::KernelOp kernel, const MatmulProblem &matmul,
                 const Epilogue &epilogue, const TargetDesc &target,
                 SmallVectorImpl<Schedule> &schedules) {
  Type element = ts::elementTypeOf(matmul.lhs.base);
  bool tf32 = allowsTf32(matmul);
  if (!target.wgmma || !(element.isF16() || element.isBF16() || tf32))
    return;
  Outer outer = outerOf(matmul);
  if (outer.sizes.size() > 3)
    return;
  const int64_t depth = tf32 ? 32 : 64; // 128 bytes
  Conditions conditions;
  auto a = mapSide(matmul.lhs, outer.sizes, outer.aStrides, conditions);
  auto b = mapSide(matmul.rhs, outer.sizes, outer.bStrides, conditions);
  // Matmuls of tf32 read both sides by depth only.
  if (!a || !b || (tf32 && !(a->depthFirst && b->depthFirst)))
    return;
  Dim m = matmul.lhs.free, n = matmul.rhs.free, k = matmul.lhs.contract;
  conditions.positive(k);
  // Symbolic columns: pairs of them in a register, and whole rows of 16 bytes.
  if (n.isSymbolic())
    conditions.multiple(n, 8);
  if (!conditions.holds)
    return;

  bool columnsFit = n.isSymbolic() || n.knownDivisor() % 8 == 0;
  bool store = leavesByBlocks(kernel, epilogue);
  if (matmul.ends && store && !columnsFit)
    return;
  int64_t run =
      n.isSymbolic() && !epilogue.runDivisor() ? 2 : runOf(matmul, epilogue, 2);

  auto add = [&](const GpuTileShape &blocks, const Guard &guard) {
    MatmulGpuSchedule config = configOf(MatmulAlgorithm::wgmma, blocks, depth);
    config.tf32 = tf32;
    config.epilogueColumns = blocks.swapAB ? 1 : run;
    config.tileStore = store;
    config.unaligned = store && !columnsFit;
    MappedSide first = *a, second = *b;
    if (blocks.swapAB)
      std::swap(first, second);
    config.aTransposed = !first.depthFirst;
    config.bTransposed = !second.depthFirst;
    config.aBatchDims = first.batch;
    config.bBatchDims = second.batch;
    Schedule schedule = scheduleOf(matmul, outer, config);
    schedule.guard = guard;
    first.map.box[0] = second.map.box[0] = depth;
    first.map.box[1] =
        (first.depthFirst ? blocks.aRows : 64) / blocks.clusterColumns;
    second.map.box[1] =
        (second.depthFirst ? blocks.columns : 64) / blocks.clusterRows;
    schedule.maps = {first.map, second.map};
    if (store && columnsFit)
      schedule.maps.push_back(mapResult(kernel, matmul, outer, blocks));
    schedules.push_back(std::move(schedule));
  };
  // So many rows of `most` or fewer.
  auto best = [&](int64_t rows, std::optional<int64_t> most) {
    GpuMatmulProblem problem = problemOf(matmul, outer, rows, target);
    problem.stores = store;
    problem.swaps = store && !tf32 && endsColumns(kernel, matmul);
    problem.mostRows = most;
    problem.operations = operationsOf(kernel);
    problem.grouped = bool(matmul.ends);
    if (problem.grouped)
      problem.swaps = problem.splits = false;
    // The model counts elements of 16 bits.
    if (tf32) {
      problem.k *= 2;
      problem.aPitch *= 2;
      problem.bPitch *= 2;
    }
    return chooseTileShape(problem);
  };
  if (matmul.ends) {
    // Rows of an expert, on average.
    int64_t experts = representative(matmul.batch[0]);
    constexpr int64_t cuts[][2] = {{64, 48}, {160, 96}, {512, 300}};
    for (auto [most, typical] : cuts) {
      Guard guard = conditions.guard;
      if (std::optional<int64_t> rows = m.asConstant()) {
        if (*rows > most * experts)
          continue;
        add(best(typical, std::nullopt), guard);
        return;
      }
      guard.terms.push_back(
          {m, ts::ComparePredicate::le, m.like(most * experts)});
      add(best(typical, std::nullopt), guard);
    }
    add(best(1100, std::nullopt), conditions.guard);
    return;
  }
  if (std::optional<int64_t> rows = m.asConstant()) {
    add(best(*rows, *rows), conditions.guard);
    return;
  }
  for (const SizeRange &range : rangesOf(m, kRowCuts, manyRows(m))) {
    Guard guard = conditions.guard;
    require(guard, m, range);
    add(best(range.typical, range.most), guard);
  }
}

/// Appends schedules by warpgroups that carry the operands themselves: any
/// strides, if one dim of each side is contiguous.
void chooseStaged(ts::KernelOp kernel, const MatmulProblem &matmul,
                  const Epilogue &epilogue, const TargetDesc &target,
                  SmallVectorImpl<Schedule> &schedules) {
  Type element = ts::elementTypeOf(matmul.lhs.base);
  const MatmulOperand &lhs = matmul.lhs, &rhs = matmul.rhs;
  bool aDepth = lhs.contractStride.isConstant(1),
       bDepth = rhs.contractStride.isConstant(1);
  if (!target.wgmma || !(element.isF16() || element.isBF16()) ||
      !(aDepth || lhs.freeStride.isConstant(1)) ||
      !(bDepth || rhs.freeStride.isConstant(1)))
    return;
  Outer outer = outerOf(matmul);
  Conditions conditions;
  conditions.positive(lhs.contract);
  if (!conditions.holds)
    return;
  auto add = [&](int64_t rows, const Guard &guard) {
    bool store = leavesByBlocks(kernel, epilogue);
    GpuMatmulProblem problem = problemOf(matmul, outer, rows, target);
    problem.operations = operationsOf(kernel);
    problem.staged = true;
    problem.swaps = store && endsColumns(kernel, matmul);
    GpuTileShape blocks = chooseTileShape(problem);
    MatmulGpuSchedule config = configOf(MatmulAlgorithm::wgmma, blocks, 64);
    config.epilogueColumns = blocks.swapAB ? 1 : runOf(matmul, epilogue, 2);
    config.tileStore = config.unaligned = store;
    config.aTransposed = blocks.swapAB ? !bDepth : !aDepth;
    config.bTransposed = blocks.swapAB ? !aDepth : !bDepth;
    config.stagingWarpgroups = 2;
    Schedule schedule = scheduleOf(matmul, outer, config);
    schedule.guard = guard;
    schedules.push_back(std::move(schedule));
  };
  for (const SizeRange &range :
       rangesOf(lhs.free, kRowCuts, manyRows(lhs.free))) {
    Guard guard = conditions.guard;
    require(guard, lhs.free, range);
    add(range.typical, guard);
  }
}

/// Appends schedules by warps, if they serve this matmul: with one dim of each
/// side contiguous. Where a side's lines start at multiples of 16 bytes, they
/// are copied.
void chooseMmaSync(const MatmulProblem &matmul, const Epilogue &epilogue,
                   const TargetDesc &target,
                   SmallVectorImpl<Schedule> &schedules) {
  Type element = ts::elementTypeOf(matmul.lhs.base);
  const MatmulOperand *sides[] = {&matmul.lhs, &matmul.rhs};
  int64_t bytes = ts::elementBytes(element), lanes = 16 / bytes;
  bool tf32 = allowsTf32(matmul);
  if (!(element.isF16() || element.isBF16() || tf32))
    return;
  bool transposed[2];
  for (auto [i, side] : llvm::enumerate(sides)) {
    transposed[i] = !side->contractStride.isConstant(1);
    if (transposed[i] && !side->freeStride.isConstant(1))
      return;
  }
  Outer outer = outerOf(matmul);
  ArrayRef<Dim> outerStrides[] = {outer.aStrides, outer.bStrides};
  Conditions any;
  any.positive(matmul.lhs.contract);
  if (!any.holds)
    return;

  auto add = [&](ArrayRef<bool> copied, const Guard &guard) {
    GpuMatmulProblem problem =
        problemOf(matmul, outer, representative(matmul.lhs.free), target);
    problem.staged = !copied[0] || !copied[1];
    MmaSyncTileShape blocks =
        chooseMmaSyncTileShape(problem, bytes, target.l1Bytes);
    MatmulGpuSchedule config =
        configOf(MatmulAlgorithm::mmaSync,
                 {blocks.rows, blocks.columns, blocks.stages, blocks.warps, 0},
                 128 / bytes);
    config.tf32 = tf32;
    config.warpsM = blocks.warpRows;
    config.aTransposed = transposed[0];
    config.bTransposed = transposed[1];
    config.aCopied = copied[0];
    config.bCopied = copied[1];
    config.epilogueColumns = runOf(matmul, epilogue, lanes);
    Schedule schedule = scheduleOf(matmul, outer, config);
    schedule.guard = guard;
    schedules.push_back(std::move(schedule));
  };
  // Sides that are known to lie otherwise are not copied; the others are where
  // the guard holds.
  Conditions both = any;
  bool copied[2];
  for (auto [i, side] : llvm::enumerate(sides)) {
    Conditions own = both;
    own.multiple(side->offset, lanes);
    if (!side->free.isConstant(1) || transposed[i])
      own.multiple(transposed[i] ? side->contractStride : side->freeStride,
                   lanes);
    for (Dim stride : outerStrides[i])
      own.multiple(stride, lanes);
    copied[i] = own.holds;
    if (own.holds)
      both = own;
  }
  add(copied, both.guard);
  if (both.guard.terms.size() > any.guard.terms.size())
    add({false, false}, any.guard);
}

} // namespace

LogicalResult chooseGpuMatmul(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  std::optional<MatmulProblem> matmul = analyseMatmul(kernel);
  if (!matmul)
    return success(); // the loop schedule takes it
  Type element = ts::elementTypeOf(matmul->lhs.base);
  if (!element.isF32() && !element.isF16() && !element.isBF16())
    return success();
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, matmul->result);
  if (failed(epilogue))
    return failure();
  auto open = [&] {
    return schedules.empty() || !schedules.back().guard.terms.empty();
  };
  // (Few rows of packed integers have schedules of their own.)
  if (!matmul->ends && kernel.getBody().getOps<ts::PackedDotOp>().empty())
    chooseGemv(*matmul, target, schedules);
  if (open())
    chooseWgmma(kernel, *matmul, *epilogue, target, schedules);
  if (open() && !matmul->ends)
    chooseStaged(kernel, *matmul, *epilogue, target, schedules);
  // (What warpgroups carry is any matmul with a depth.)
  if (open() && !matmul->ends && (!target.wgmma || allowsTf32(*matmul)))
    chooseMmaSync(*matmul, *epilogue, target, schedules);
  if (open())
    chooseSimt(*matmul, runOf(*matmul, *epilogue, 4), target, /*window=*/false,
               schedules);
  return success();
}

} // namespace knapper
