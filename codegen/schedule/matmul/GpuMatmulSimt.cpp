// Matmuls by FMAs of f32 on GPUs: which tile a CTA has, how many teams of its
// threads share a stage's depth, and how many CTAs of a cluster share all of
// it. Few tiles leave SMs idle, and a tile that one team multiplies waits for
// all it reads: smaller tiles, more teams and more CTAs a tile all cost
// something, which a model weighs.
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/GpuMatmul.h"
#include "ir/config/GpuTimes.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// A tile and who shares its depth.
struct SimtShape {
  int64_t rows, columns, slices, depth;
};

struct SimtProblem {
  int64_t batch, m, n, k;
  int64_t sms;
  int64_t aLanes, bLanes; ///< elements of an access
  bool window;            ///< the left side is a convolution's input
};

/// Elements that a thread reads at once of a side (SimtLoad.cpp).
int64_t accessOf(const MatmulOperand &side) {
  bool byDepth = side.contractStride.isConstant(1);
  if (!byDepth && !side.freeStride.isConstant(1))
    return 1;
  auto fits = [](Dim dim) { return dim.knownDivisor() % 4 == 0; };
  return fits(side.offset) &&
                 fits(byDepth ? side.freeStride : side.contractStride) &&
                 fits(byDepth ? side.contract : side.free)
             ? 4
             : 1;
}

int64_t ceil(int64_t x, int64_t by) { return (x + by - 1) / by; }

/// Modelled time in an SM's cycles.
double cyclesOf(const SimtProblem &p, const MatmulGpuSchedule &shape) {
  constexpr config::SimtTimes times = config::kH200Simt;
  constexpr config::Limits sm = config::kHopper;
  int64_t own = shape.threadRows() * shape.threadColumns(),
          threads = shape.threads();
  double steps = double(ceil(ceil(p.k, shape.tileK), shape.splitK));
  // Of a CTA's step, in warp instructions.
  double fmas = double(shape.tileM * shape.tileN) / 32 * double(shape.tileK);
  double reads = fmas / double(own) *
                 double(shape.threadRows() / 4 + shape.threadColumns() / 4);
  auto copies = [&](int64_t size, int64_t lanes, double each) {
    return double(size * shape.tileK) / 32 *
           (each / double(lanes) + times.write);
  };
  double all =
      fmas + reads +
      copies(shape.tileM, p.aLanes, p.window ? times.inWindow : times.address) +
      copies(shape.tileN, p.bLanes, times.address);
  double warps = double(threads) / 32;
  double first = times.load + times.alone * all / std::min(4.0, warps);
  int64_t eachRegisters = own == 64 ? 90 : own == 32 ? 96 : 72;
  int64_t sharedBytes = 8 * shape.tileK * (shape.tileM + shape.tileN + 8);
  int64_t ctasPerSm = std::max<int64_t>(
      1, std::min(
             {sm.threadsPerSm / threads,
              sm.registersPerSm / (threads * eachRegisters),
              sm.sharedBytesPerSm / (sharedBytes + sm.reservedSharedPerCta)}));
  auto round = [&](int64_t ctas) {
    // Few warps leave gaps.
    double gaps = 1 + 1 / (double(ctas) * warps);
    double busy = std::max(times.together * all * gaps, times.read * reads);
    return steps * std::max(first, double(ctas) * busy);
  };
  int64_t each = ceil(p.batch * ceil(p.m, shape.tileM) *
                          ceil(p.n, shape.tileN) * shape.splitK,
                      p.sms);
  double cycles = double(each / ctasPerSm) * round(ctasPerSm);
  if (each % ctasPerSm)
    cycles += round(each % ctasPerSm);
  if (shape.sliceK > 1)
    cycles += times.slices;
  if (shape.splitK > 1)
    cycles += times.splits + times.meet * double(own * each);
  return cycles + times.launch;
}

/// Stages of two tiles and their sums fit what every CTA has without asking.
constexpr SimtShape kShapes[] = {
    {128, 128, 1, 16}, {128, 64, 1, 16}, {64, 128, 1, 16}, {64, 64, 1, 16},
    {64, 64, 2, 32},   {64, 64, 4, 32},  {32, 64, 2, 32},  {32, 64, 4, 32},
    {64, 32, 2, 32},   {64, 32, 4, 32},  {32, 32, 2, 32},  {32, 32, 4, 64},
    {16, 64, 4, 64},   {64, 16, 4, 64},  {16, 128, 2, 32}, {128, 16, 2, 32}};

struct SimtChooser {
  const MatmulProblem &matmul;
  const TargetDesc &target;
  int64_t run;
  Outer outer = outerOf(matmul);

  /// A size that ranges are made of, and where it stands in the problem.
  struct Axis {
    Dim size;
    SmallVector<SizeRange> ranges;
    int64_t SimtProblem::*place;
  };

  MatmulGpuSchedule configFor(const SimtShape &shape) const {
    MatmulGpuSchedule config =
        configOf(MatmulAlgorithm::simt,
                 GpuTileShape{shape.rows, shape.columns, 2, 0, 0}, shape.depth);
    config.sliceK = shape.slices;
    config.epilogueColumns = run;
    return config;
  }
  bool takesTooManyRegisters(const SimtShape &shape) const;
  Schedule best(const SimtProblem &problem);
  SmallVector<Schedule> byRanges(SimtProblem problem, ArrayRef<Axis> axes);

  std::optional<MatmulGpuSchedule> last = {}; ///< that was chosen
};

/// Whether a thread's values beside its sums spill: those of a long epilogue
/// where four teams leave 128 registers a thread, and addresses where each of
/// 64 sums is stored alone and both tiles are transposed on their way in.
bool SimtChooser::takesTooManyRegisters(const SimtShape &shape) const {
  constexpr int64_t longEpilogue = 5; // ops
  Block *body = matmul.result.getDefiningOp()->getBlock();
  if (shape.slices == 4 && shape.rows == 64 && shape.columns == 64)
    return std::distance(body->begin(), body->end()) > longEpilogue;
  return shape.rows == 128 && shape.columns == 128 && run == 1 &&
         matmul.lhs.contractStride.isConstant(1) &&
         matmul.rhs.contractStride.isConstant(1);
}

/// The schedule with the least modelled time; the one before where it takes
/// hardly longer, so that ranges have fewer variants.
Schedule SimtChooser::best(const SimtProblem &problem) {
  std::optional<MatmulGpuSchedule> best;
  double least = 0;
  for (const SimtShape &shape : kShapes) {
    // Before Hopper a thread has too few registers for what four teams carry.
    if (shape.slices > 2 && !target.wgmma)
      continue;
    // So do the places of a window's elements in a deep stage.
    if (problem.window && shape.depth > 32)
      continue;
    MatmulGpuSchedule config = configFor(shape);
    // Elements of a stage that a thread loads one by one, each with an address
    // beside its value: more of them spill.
    constexpr int64_t mostLoads = 36;
    if (problem.aLanes == 1 && problem.bLanes == 1 &&
        (config.tileM + config.tileN) * config.tileK >
            mostLoads * config.threads())
      continue;
    if (takesTooManyRegisters(shape))
      continue;
    for (int64_t split : {1, 2, 4, 8}) {
      if (split > 1 &&
          (!target.clusters || shape.rows * shape.columns > 128 * 64))
        continue;
      config.splitK = split;
      double cycles = cyclesOf(problem, config);
      if (best && cycles >= least)
        continue;
      best = config;
      least = cycles;
    }
  }
  constexpr double hardly = 1.03;
  if (!last || cyclesOf(problem, *last) > hardly * least)
    last = best;
  return scheduleOf(matmul, outer, *last);
}

/// The schedules of every range of the axes, the first axis outermost.
/// Neighbouring ranges with the same schedules become one.
SmallVector<Schedule> SimtChooser::byRanges(SimtProblem problem,
                                            ArrayRef<Axis> axes) {
  if (axes.empty())
    return {best(problem)};
  auto same = [](const Schedule &a, const Schedule &b) {
    return a.parameters == b.parameters && a.guard.str() == b.guard.str();
  };
  const Axis &axis = axes.front();
  SmallVector<Schedule> all, last;
  size_t before = 0; // schedules of the ranges before the last one
  for (const SizeRange &range : axis.ranges) {
    problem.*axis.place = range.typical;
    SmallVector<Schedule> inner = byRanges(problem, axes.drop_front());
    if (inner.size() == last.size() && llvm::all_of_zip(inner, last, same))
      all.truncate(before);
    before = all.size();
    last = inner;
    for (Schedule &schedule : inner) {
      require(schedule.guard, axis.size, range);
      all.push_back(std::move(schedule));
    }
  }
  return all;
}

} // namespace

void chooseSimt(const MatmulProblem &matmul, int64_t run,
                const TargetDesc &target, bool window,
                SmallVectorImpl<Schedule> &schedules) {
  SimtChooser chooser{matmul, target, run};
  const Outer &outer = chooser.outer;
  // How many rows a group has is not known, and where they end takes registers.
  if (matmul.ends) {
    bool few = representative(programsOf(matmul, outer, 128, 128)) <
               static_cast<int64_t>(target.cores);
    schedules.push_back(scheduleOf(
        matmul, outer,
        chooser.configFor(few ? SimtShape{64, 64, 2, 16} : kShapes[0])));
    return;
  }
  SimtProblem problem;
  problem.k = representative(matmul.lhs.contract);
  problem.sms = target.cores;
  problem.aLanes = window ? 1 : accessOf(matmul.lhs);
  problem.bLanes = accessOf(matmul.rhs);
  problem.window = window;
  Dim m = matmul.lhs.free, n = matmul.rhs.free,
      batch = ts::product(n.context(), outer.sizes);
  // One cut serves few rows badly and another many; of several symbolic sizes
  // coarser ones, as each multiplies the others'.
  constexpr SizeRange fine[] = {{16, 16},     {32, 32},     {64, 64},
                                {128, 128},   {256, 256},   {384, 384},
                                {512, 512},   {1024, 1024}, {1536, 1280},
                                {2048, 2048}, {4096, 3072}},
                      coarse[] = {{32, 32}, {256, 128}, {2048, 1024}},
                      batches[] = {{16, 8}, {128, 64}};
  bool alone = m.isSymbolic() + n.isSymbolic() + batch.isSymbolic() == 1;
  auto cuts = alone ? ArrayRef(fine) : ArrayRef(coarse);
  auto many = [](Dim size, int64_t typical) {
    return std::max<int64_t>(typical, 8 * size.knownDivisor());
  };
  // The model's times are Hopper's: other cards have one schedule.
  auto ranges = [&](Dim size, ArrayRef<SizeRange> cuts, int64_t typical) {
    return target.wgmma ? rangesOf(size, cuts, many(size, typical))
                        : rangesOf(size, {}, representative(size));
  };
  SmallVector<Schedule> all = chooser.byRanges(
      problem, {{batch, ranges(batch, batches, 512), &SimtProblem::batch},
                {m, ranges(m, cuts, 8192), &SimtProblem::m},
                {n, ranges(n, cuts, 8192), &SimtProblem::n}});
  llvm::append_range(schedules, std::move(all));
}

SmallVector<SizeRange> rangesOf(Dim size, ArrayRef<SizeRange> cuts,
                                int64_t last) {
  if (std::optional<int64_t> number = size.asConstant())
    return {{std::nullopt, *number}};
  SmallVector<SizeRange> ranges;
  for (const SizeRange &cut : cuts)
    if (*cut.most >= size.knownDivisor()) // no run has fewer but one of none
      ranges.push_back(cut);
  ranges.push_back({std::nullopt, last});
  return ranges;
}

void require(Guard &guard, Dim size, const SizeRange &range) {
  if (range.most)
    guard.terms.push_back(
        {size, ts::ComparePredicate::le, size.like(*range.most)});
}

} // namespace knapper
