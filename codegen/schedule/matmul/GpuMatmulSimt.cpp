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

} // namespace

Schedule simtSchedule(const MatmulProblem &matmul, int64_t run,
                      const TargetDesc &target, bool window) {
  // Stages of two tiles and their sums fit what every CTA has without asking.
  constexpr SimtShape shapes[] = {
      {128, 128, 1, 16}, {128, 64, 1, 16}, {64, 128, 1, 16}, {64, 64, 1, 16},
      {64, 64, 2, 32},   {64, 64, 4, 32},  {32, 64, 2, 32},  {32, 64, 4, 32},
      {64, 32, 2, 32},   {64, 32, 4, 32},  {32, 32, 2, 32},  {32, 32, 4, 64},
      {16, 64, 4, 64},   {64, 16, 4, 64},  {16, 128, 2, 32}, {128, 16, 2, 32}};
  Outer outer = outerOf(matmul);
  SimtProblem problem;
  problem.batch =
      representative(ts::product(matmul.rhs.free.context(), outer.sizes));
  problem.m = representative(matmul.lhs.free);
  problem.n = representative(matmul.rhs.free);
  problem.k = representative(matmul.lhs.contract);
  problem.sms = target.cores;
  problem.aLanes = window ? 1 : accessOf(matmul.lhs);
  problem.bLanes = accessOf(matmul.rhs);
  problem.window = window;
  auto configFor = [&](const SimtShape &shape) {
    MatmulGpuSchedule config =
        configOf(MatmulAlgorithm::simt,
                 GpuTileShape{shape.rows, shape.columns, 2, 0, 0}, shape.depth);
    config.sliceK = shape.slices;
    config.epilogueColumns = run;
    return config;
  };
  // How many rows a group has is not known, and where they end takes registers.
  if (matmul.ends) {
    bool few = representative(programsOf(matmul, outer, 128, 128)) <
               static_cast<int64_t>(target.cores);
    return scheduleOf(matmul, outer,
                      configFor(few ? SimtShape{64, 64, 2, 16} : shapes[0]));
  }
  std::optional<MatmulGpuSchedule> best;
  double least = 0;
  for (const SimtShape &shape : shapes) {
    // Before Hopper a thread has too few registers for what four teams carry.
    if (shape.slices > 2 && !target.wgmma)
      continue;
    // So do the places of a window's elements in a deep stage.
    if (window && shape.depth > 32)
      continue;
    MatmulGpuSchedule config = configFor(shape);
    // Elements of a stage that a thread loads one by one, each with an address
    // beside its value: more of them spill.
    constexpr int64_t mostLoads = 36;
    if (problem.aLanes == 1 && problem.bLanes == 1 &&
        (config.tileM + config.tileN) * config.tileK >
            mostLoads * config.threads())
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
  return scheduleOf(matmul, outer, *best);
}

} // namespace knapper
