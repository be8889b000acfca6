// The schedule of a matmul: panel, rows of a program, threads, scratch.
// (What the parameters mean: CpuMatmul.cpp.)
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/CpuMatmul.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace knapper {

using ts::Dim;

/// Rows of the left side that are worth the gathering of pairs.
static constexpr int64_t kPairRows = 4;

/// No fewer rows of a block for the sake of sharing, where a block copies its
/// panel.
static constexpr int64_t kCopyBlock = 48;

/// No fewer rows of a block for the sake of sharing: two register tiles.
static constexpr int64_t kLeastRows = 24;

int64_t dotGroup(const MatmulProblem &matmul) {
  if (matmul.bytes)
    return 4;
  if (matmul.group)
    return matmul.nibbles ? 2 : 1;
  std::optional<int64_t> rows = matmul.lhs.free.asConstant();
  bool few = !matmul.packed && rows && *rows < kPairRows;
  return matmul.pairs && !few ? 2 : 1;
}

/// Rows of the left side that are worth the copying of a panel: more than two
/// register tiles.
static constexpr int64_t kCopyRows = 13;

bool readsInPlace(const MatmulProblem &matmul, const TargetDesc &target,
                  int64_t panel) {
  const MatmulOperand &rhs = matmul.rhs;
  std::optional<int64_t> rows = matmul.lhs.free.asConstant(),
                         columns = rhs.free.asConstant(),
                         depth = rhs.contract.asConstant();
  int64_t known = rhs.free.knownDivisor();
  if (!rhs.freeStride.isConstant(1) || !known || known % panel)
    return false;
  if ((rows && *rows < kCopyRows) || rhs.contractStride.isConstant(panel))
    return true;
  int64_t bytes = ts::elementBytes(ts::elementTypeOf(rhs.base));
  return columns && depth && *columns * *depth * bytes <= target.l1Bytes / 2;
}

bool fetchesUnpacked(const MatmulProblem &matmul, const TargetDesc &target,
                     int64_t panel) {
  const MatmulOperand &rhs = matmul.rhs;
  std::optional<int64_t> rows = matmul.lhs.free.asConstant(),
                         columns = rhs.free.asConstant(),
                         depth = rhs.contract.asConstant();
  if (matmul.packed || !columns || !depth || *columns <= panel ||
      !rhs.contractStride.isConstant(1) || !rhs.freeStride.isConstant(*depth) ||
      !ts::elementTypeOf(rhs.base).isF32() ||
      *columns * *depth * 4 <= target.l2Bytes / 4)
    return false;
  // The next panel, this one and its copy fit. Few rows use a panel once.
  return (rows && *rows < kCopyRows) ||
         panel * *depth * 4 <= target.l2Bytes / 4;
}

bool copiesRows(const MatmulProblem &matmul, const TargetDesc &target) {
  const MatmulOperand &lhs = matmul.lhs;
  std::optional<int64_t> rows = lhs.free.asConstant(),
                         depth = lhs.contract.asConstant(),
                         stride = lhs.contractStride.asConstant();
  if (matmul.packed || !rows || !depth || !stride || *stride == 1 ||
      !lhs.freeStride.isConstant(1) || *rows < kCopyRows)
    return false;
  int64_t bytes = ts::elementBytes(ts::elementTypeOf(lhs.base));
  return *depth * *stride * bytes > target.l1Bytes / 2;
}

/// The widest panel that divides the columns without waste, from those that
/// the register tiles are good at.
static void choosePanel(const MatmulProblem &matmul, int64_t runDivisor,
                        MatmulCpuConfig &config, Knobs &knobs) {
  int64_t columns = matmul.rhs.free.asConstant().value_or(768);
  // Experts begin with a panel.
  if (matmul.ends && matmul.packed && matmul.transposed)
    runDivisor = std::gcd(runDivisor, columns);
  config.panel = cheapestPanel(
      {{48, 1.0}, {64, 1.01}, {32, 1.06}, {16, 1.6}}, runDivisor,
      [&](int64_t panel) { return (columns + panel - 1) / panel; });
  knobs.tune(config, config.panel,
             [&](int64_t panel) { return keepsRuns(panel, runDivisor); });
}

/// Whether SplitBlocks can have these matmuls.
static bool canSplit(const TargetDesc &target, const MatmulProblem &matmul) {
  auto isF32 = [](const MatmulOperand &side) {
    return ts::elementTypeOf(side.base).isF32();
  };
  std::optional<int64_t> depth = matmul.lhs.contract.asConstant();
  return target.tileMatmuls && !matmul.group && !matmul.ends &&
         isF32(matmul.lhs) && isF32(matmul.rhs) &&
         matmul.lhs.contractStride.isConstant(1) && depth && *depth >= 32;
}

/// Of a program, which has `blockRows` rows and what is left of a register
/// tile, at most.
static SplitShape shapeOf(const MatmulProblem &matmul, int64_t parts,
                          int64_t panel, int64_t blockRows) {
  int64_t rows = blockRows + 32, depth = *matmul.lhs.contract.asConstant();
  if (std::optional<int64_t> known = matmul.lhs.free.asConstant())
    rows = std::min(rows, std::max<int64_t>(1, *known));
  return {parts, panel, depth, rows};
}

std::optional<SplitShape> splitShape(const MatmulCpuConfig &config,
                                     const TargetDesc &target,
                                     const MatmulProblem &matmul) {
  if (config.floatParts <= 0 || !canSplit(target, matmul))
    return std::nullopt;
  return shapeOf(matmul, config.floatParts, config.panel, config.rows);
}

/// Threads that take rows each read the whole matrix; threads that take columns
/// each read all rows, half of which the kernel before left on other cores, as
/// the kernel after finds half of the results there. What is less decides.
RowSplit splitOf(const MatmulProblem &matmul, const MatmulCpuConfig &config) {
  Dim rows = matmul.lhs.free, one = rows.like(1);
  RowSplit split{rows.ceilDiv(one * config.rows), one};
  if (matmul.ends)
    return {groupedBlocks(matmul, config.rows), one};
  bool alone = matmul.batch.empty() && matmul.lhs.outerSizes.empty();
  if (matmul.group || !alone)
    return split;
  if (!matmul.packed) {
    // Each block copies the panel: as few as keep a few threads busy.
    split.blocks = split.blocks.max(
        (one * config.blocks).min(rows.floorDiv(one * kCopyBlock)));
    return split;
  }
  int64_t depth = *matmul.rhs.contract.asConstant(),
          columns = *matmul.rhs.free.asConstant();
  int64_t few = depth * columns / std::max<int64_t>(1, depth + columns);
  Dim many = rows.floorDiv(one * (few + 1)).min(one); // 0 or 1
  Dim most = (rows.ceilDiv(one * (2 * kLeastRows)) * 2)
                 .min(rows.ceilDiv(one * (kLeastRows / 2)));
  // As many blocks for each of two or four threads.
  Dim even = split.blocks.ceilDiv(one * 4) * 4;
  split.blocks =
      split.blocks.max(many * even.max(one * config.blocks).min(most));
  split.parts = one.max((one - many) * most.min(one * config.parts));
  return split;
}

LogicalResult chooseCpuMatmul(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  std::optional<MatmulProblem> matmul = analyseMatmul(kernel);
  if (!matmul)
    return success(); // the loop schedule takes it
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, matmul->result);
  if (failed(epilogue))
    return failure();
  Schedule schedule;
  schedule.kind = "cpu_matmul";
  MatmulCpuConfig config;
  choosePanel(*matmul, epilogue->runDivisor(), config, knobs);
  int64_t panel = config.panel;
  const MatmulOperand &lhs = matmul->lhs, &rhs = matmul->rhs;
  // The row block of A takes about a third of the second-level cache.
  int64_t depth = std::max<int64_t>(1, representative(lhs.contract));
  int64_t bytes = matmul->group ? 4 : 4 / dotGroup(*matmul);
  int64_t &rows = config.rows;
  rows = target.l2Bytes / 3 / (bytes * depth);
  rows = std::clamp<int64_t>(rows / 24 * 24, 192, 384);
  bool copies = copiesRows(*matmul, target);
  if (copies) // their copy takes part of it
    rows = std::clamp<int64_t>(65536 / depth / 24 * 24, 48, 384);
  knobs.tune(config, rows);
  // As many programs as share well among any few threads.
  constexpr int64_t programs = 16, kCopyPrograms = 8;
  int64_t panels = std::max<int64_t>(
      1, (rhs.free.asConstant().value_or(768) + panel - 1) / panel);
  int64_t share = std::max<int64_t>(1, (programs + panels - 1) / panels);
  config.blocks = std::max<int64_t>(4, share);
  config.parts = share;
  if (!matmul->packed)
    config.blocks = std::max<int64_t>(1, kCopyPrograms / panels);
  if (matmul->packed && !matmul->group && !matmul->ends) {
    knobs.tune(config, config.blocks);
    knobs.tune(config, config.parts);
  }
  schedule.group = matmul->group ? 1 : dotGroup(*matmul);
  if (target.floatParts && canSplit(target, *matmul)) {
    int64_t height = std::min(rows, representative(lhs.free));
    bool pays = splitPays(shapeOf(*matmul, target.floatParts, panel, rows),
                          height, panels, target.splitCacheBytes);
    config.floatParts = pays ? target.floatParts : 0;
    knobs.tune(config, config.floatParts, {0, target.floatParts});
  }
  schedule.parameters = config::print(config);
  std::optional<SplitShape> inParts = splitShape(config, target, *matmul);
  if (inParts)
    schedule.group = kSplitGroup;
  Dim one = Dim::constant(kernel.getContext(), 1);
  RowSplit split = splitOf(*matmul, config);
  schedule.grid = ts::product(kernel.getContext(), matmul->resultBatch()) *
                  ts::product(kernel.getContext(), lhs.outerSizes) *
                  split.blocks * rhs.free.ceilDiv(one * panel) * split.parts;
  // What a program is worth depends on how many there are.
  Dim flops = lhs.free.max(one) * (2 * depth * panel);
  schedule.grain =
      (split.blocks * split.parts * (1600000 / bytes)).floorDiv(flops).max(one);
  // A panel in scratch: gathered, or expanded (one row more, of nibbles).
  schedule.scratch =
      (matmul->packed && !matmul->group
           ? one * 0
           : (lhs.contract + kRowsPastPanel) * (panel * 4) + 64) +
      accumulatorBytes(/*inTiles=*/schedule.group > 1);
  if (copies)
    schedule.scratch = schedule.scratch + depth * rowPitch(rows) * 4;
  if (inParts)
    schedule.scratch = schedule.scratch + SplitBlocks::scratchBytes(*inParts);
  if (matmul->packed && matmul->ends) {
    int64_t experts = *matmul->batch[0].asConstant(),
            contract = *rhs.contract.asConstant(),
            columns = *rhs.free.asConstant();
    PackedOperand packed{rhs.base.getArgNumber(), contract, columns,
                         matmul->transposed,      panel,    dotGroup(*matmul)};
    // The experts' matrices above one another, or side by side.
    (matmul->transposed ? packed.columns : packed.rows) *= experts;
    if (!matmul->transposed && contract % packed.group)
      packed.pieces = experts;
    schedule.packed.push_back(packed);
  } else if (matmul->packed)
    schedule.packed.push_back(
        {matmul->rhs.base.getArgNumber(), *rhs.contract.asConstant(),
         *rhs.free.asConstant(), matmul->transposed, panel, dotGroup(*matmul),
         /*winograd=*/false, matmul->nibbles});
  for (BlockArgument parameter : {matmul->scale, matmul->zero})
    if (parameter)
      schedule.packed.push_back(
          {parameter.getArgNumber(),
           (*rhs.contract.asConstant() + matmul->group - 1) / matmul->group,
           *rhs.free.asConstant(), /*transposed=*/false, panel});
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
