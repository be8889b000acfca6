// The schedule of a matrix product: panel, rows of a program, threads, scratch.
// (What the parameters mean: CpuMatmul.cpp.)
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/CpuMatmul.h"

#include <algorithm>

using namespace mlir;

namespace knapper {

using ts::Dim;

/// Rows of the left side that are worth the gathering of pairs.
static constexpr int64_t kPairRows = 4;

/// No fewer rows of a block for the sake of sharing: two register tiles.
static constexpr int64_t kLeastRows = 24;

int64_t productGroup(const MatmulProblem &product) {
  if (product.bytes)
    return 4;
  if (product.group)
    return product.nibbles ? 2 : 1;
  std::optional<int64_t> rows = product.lhs.free.asConstant();
  bool few = !product.packed && rows && *rows < kPairRows;
  return product.pairs && !few ? 2 : 1;
}

/// The widest panel that divides the columns without waste, from those that
/// the register tiles are good at.
static int64_t choosePanel(const MatmulProblem &product, int64_t runDivisor,
                           Knobs &knobs) {
  int64_t columns = product.rhs.free.asConstant().value_or(768);
  return cheapestPanel(
      {{48, 1.0}, {64, 1.01}, {32, 1.06}, {16, 1.6}}, runDivisor,
      [&](int64_t panel) { return (columns + panel - 1) / panel; }, knobs);
}

/// Whether SplitBlocks can have these products.
static bool canSplit(const TargetDesc &target, const MatmulProblem &product) {
  auto isF32 = [](const MatmulOperand &side) {
    return ts::elementTypeOf(side.base).isF32();
  };
  std::optional<int64_t> depth = product.lhs.contract.asConstant();
  return target.tileProducts && !product.group && isF32(product.lhs) &&
         isF32(product.rhs) && product.lhs.contractStride.isConstant(1) &&
         depth && *depth >= 32;
}

/// Of a program, which has `blockRows` rows and what is left of a register
/// tile, at most.
static SplitShape shapeOf(const MatmulProblem &product, int64_t parts,
                          int64_t panel, int64_t blockRows) {
  int64_t rows = blockRows + 32, depth = *product.lhs.contract.asConstant();
  if (std::optional<int64_t> known = product.lhs.free.asConstant())
    rows = std::min(rows, std::max<int64_t>(1, *known));
  return {parts, panel, depth, rows};
}

std::optional<SplitShape> splitShape(const Schedule &schedule,
                                     const TargetDesc &target,
                                     const MatmulProblem &product) {
  auto split = schedule.parameters.find("split");
  if (split == schedule.parameters.end() || split->second == 0 ||
      !canSplit(target, product))
    return std::nullopt;
  return shapeOf(product, split->second, schedule.at("panel"),
                 schedule.at("rows"));
}

/// Threads that take rows each read the whole matrix; threads that take columns
/// each read all rows, half of which the kernel before left on other cores, as
/// the kernel after finds half of the results there. What is less decides.
RowSplit splitOf(const MatmulProblem &product, int64_t blockRows,
                 int64_t blocks, int64_t parts) {
  Dim rows = product.lhs.free, one = rows.like(1);
  RowSplit split{rows.ceilDiv(one * blockRows), one};
  bool alone = product.batch.empty() && product.lhs.outerSizes.empty();
  if (!product.packed || product.group || !alone)
    return split;
  int64_t depth = *product.rhs.contract.asConstant(),
          columns = *product.rhs.free.asConstant();
  int64_t few = depth * columns / std::max<int64_t>(1, depth + columns);
  Dim many = rows.floorDiv(one * (few + 1)).min(one); // 0 or 1
  Dim most = (rows.ceilDiv(one * (2 * kLeastRows)) * 2)
                 .min(rows.ceilDiv(one * (kLeastRows / 2)));
  // As many blocks for each of two or four threads.
  Dim even = split.blocks.ceilDiv(one * 4) * 4;
  split.blocks = split.blocks.max(many * even.max(one * blocks).min(most));
  split.parts = one.max((one - many) * most.min(one * parts));
  return split;
}

LogicalResult chooseCpuMatmul(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  std::optional<MatmulProblem> product = analyseMatmul(kernel);
  if (!product)
    return success(); // the loop schedule takes it
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, product->result);
  if (failed(epilogue))
    return failure();
  Schedule schedule;
  schedule.kind = "matmul";
  int64_t panel = choosePanel(*product, epilogue->runDivisor(), knobs);
  const MatmulOperand &lhs = product->lhs, &rhs = product->rhs;
  // The row block of A takes about a third of the second-level cache.
  int64_t depth = std::max<int64_t>(1, representative(lhs.contract));
  int64_t bytes = product->group ? 4 : 4 / productGroup(*product);
  int64_t rows =
      (target.l2Bytes ? target.l2Bytes : 1 << 20) / 3 / (bytes * depth);
  rows = std::clamp<int64_t>(rows / 24 * 24, 192, 384);
  rows = knobs.pick("rows", rows, {96, 192, 384, 768});
  // As many programs as share well among any few threads.
  constexpr int64_t programs = 16;
  int64_t panels = std::max<int64_t>(
      1, (rhs.free.asConstant().value_or(768) + panel - 1) / panel);
  int64_t share = std::max<int64_t>(1, (programs + panels - 1) / panels);
  int64_t blocks = std::max<int64_t>(4, share), parts = share;
  if (product->packed && !product->group) {
    blocks = knobs.pick("blocks", blocks, {1, 4, 8, 16});
    parts = knobs.pick("parts", parts, {1, 2, 4});
  }
  schedule.parameters = {
      {"panel", panel}, {"rows", rows}, {"blocks", blocks}, {"parts", parts}};
  schedule.group = product->group ? 1 : productGroup(*product);
  if (target.floatParts && canSplit(target, *product)) {
    int64_t height = std::min(rows, representative(lhs.free));
    bool pays = splitPays(shapeOf(*product, target.floatParts, panel, rows),
                          height, panels);
    schedule.parameters["split"] = knobs.pick(
        "split", pays ? target.floatParts : 0, {0, target.floatParts});
  }
  std::optional<SplitShape> inParts = splitShape(schedule, target, *product);
  if (inParts)
    schedule.group = kSplitGroup;
  Dim one = Dim::constant(kernel.getContext(), 1);
  RowSplit split = splitOf(*product, rows, blocks, parts);
  schedule.grid = ts::product(kernel.getContext(), product->batch) *
                  ts::product(kernel.getContext(), lhs.outerSizes) *
                  split.blocks * rhs.free.ceilDiv(one * panel) * split.parts;
  // What a program is worth depends on how many there are.
  Dim flops = lhs.free.max(one) * (2 * depth * panel);
  schedule.grain =
      (split.blocks * split.parts * (1600000 / bytes)).floorDiv(flops).max(one);
  // A panel in scratch: gathered, or expanded (one row more, of nibbles).
  schedule.scratch = (product->packed && !product->group
                          ? one * 0
                          : (lhs.contract + 1) * (panel * 4) + 64) +
                     accumulatorBytes(/*inTiles=*/schedule.group > 1);
  if (inParts)
    schedule.scratch = schedule.scratch + SplitBlocks::scratchBytes(*inParts);
  if (product->packed)
    schedule.packed.push_back({product->rhs.base.getArgNumber(),
                               *rhs.contract.asConstant(),
                               *rhs.free.asConstant(), product->transposed,
                               panel, productGroup(*product),
                               /*winograd=*/false, product->nibbles});
  for (BlockArgument parameter : {product->scale, product->zero})
    if (parameter)
      schedule.packed.push_back(
          {parameter.getArgNumber(),
           (*rhs.contract.asConstant() + product->group - 1) / product->group,
           *rhs.free.asConstant(), /*transposed=*/false, panel});
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
