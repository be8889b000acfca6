// Clusters of programs that share out long rows and columns (GPUs).
#include "codegen/schedule/reduce/ReduceCluster.h"
#include "codegen/lower/gpu/BlockThreads.h"
#include "ir/config/GpuTimes.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static constexpr Sharing none = {1, 0};
static constexpr config::ClusterFigures kFigures = config::kH200Clusters;

int64_t widestBytes(ts::KernelOp kernel) {
  int64_t bytes = 1;
  for (BlockArgument argument : kernel.getBody().getArguments())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(argument)));
  return bytes;
}

int64_t mostHeld(ts::KernelOp kernel, const TargetDesc &target) {
  int64_t bytes = std::max<int64_t>(4, widestBytes(kernel));
  int64_t most = 32 * int64_t(target.lanes(DType::f32)) * 4 / bytes;
  // An index of 64 bits goes with each element.
  return kernel.getBody().getOps<ts::ArgReduceOp>().empty() ? most : most / 8;
}

int64_t elementsOfThread(ts::KernelOp kernel, int64_t lanes) {
  return lanes /
         lower::spreadTiles(widestBytes(kernel), lanes, /*reduces=*/true)
             .threads;
}

int64_t equalTiles(ts::KernelOp kernel, int64_t length, int64_t most) {
  // Of registers, which are alike in all GPUs.
  constexpr int64_t leastStep = 512, mostStep = 8192, mostOfThread = 64;
  int64_t tile = llvm::divideCeil(length, llvm::divideCeil(length, most));
  int64_t step = leastStep;
  while (step < mostStep &&
         elementsOfThread(kernel, llvm::alignTo(tile, step)) > mostOfThread)
    step *= 2;
  return llvm::alignTo(tile, step);
}

/// Whether the results are all of full shape, or none is. One program stores
/// all that is of a row or column, maybe over an operand that others still need
/// for results of full shape.
static bool storesAlike(ts::KernelOp kernel, const Space &space) {
  auto isFull = [&](Value value) { return ts::dimsOf(value) == space.dims; };
  return llvm::none_of(kernel.getResults(), isFull) ||
         llvm::all_of(kernel.getResults(), isFull);
}

// A block for each processor, a thread having one access of each of its rows.
Sharing shareColumns(ts::KernelOp kernel, const Space &space, int64_t columns,
                     int64_t run, const TargetDesc &target) {
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
  if (!storesAlike(kernel, space))
    return none;
  auto see = [&](Value value) {
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(value)));
  };
  llvm::for_each(kernel.getBody().getArguments(), see);
  llvm::for_each(kernel.getResults(), see);
  constexpr int64_t access = 16, warp = 32, blocks = 8; // of a cluster
  constexpr int64_t blockThreads = kFigures.blockThreads;
  int64_t threadsAtOnce = target.programsForAll() * blockThreads;
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
  int64_t least = std::max<int64_t>(
      leastShared, llvm::divideCeil(kFigures.leastRows, others));
  while (clusterSize < mostPrograms &&
         columns * clusterSize < threadsAtOnce * width &&
         rows >= 2 * clusterSize * least)
    clusterSize *= 2;
  // What waits for others of its program does so in a warp (TileLayout.cpp).
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

/// How often a program that does not hold its part of a row reads it.
static int64_t readsOfRow(ts::KernelOp kernel, const Space &space) {
  int64_t reads = 0;
  for (Operation &op : kernel.getBody().front())
    reads += isa<ts::ReduceOp, ts::ArgReduceOp>(op);
  return reads + llvm::any_of(kernel.getResults(), [&](Value value) {
           return ts::dimsOf(value) == space.dims;
         });
}

Sharing shareRow(ts::KernelOp kernel, const Space &space, int64_t rows,
                 unsigned lane, const TargetDesc &target) {
  constexpr int64_t mostPrograms = 8; // CTAs of a portable cluster
  unsigned shared = sharedDim(space);
  int64_t iterations = 1; // of a loop around the shared dim
  for (int64_t d : space.reduced) {
    std::optional<int64_t> size = space.dims[d].asConstant();
    if (!size)
      return none;
    if (d != int64_t(shared))
      iterations *= *size;
  }
  int64_t length = *space.dims[shared].asConstant(), row = length * iterations;
  if (!target.clusters || row < kFigures.leastRow ||
      rows >= 2 * int64_t(target.cores))
    return none;
  for (Operation &op : kernel.getBody().front()) {
    auto reduce = dyn_cast<ts::ReduceOp>(op);
    if (reduce &&
        computeType(ts::elementTypeOf(reduce.getInput())).isInteger(1))
      return none;
  }
  if (!storesAlike(kernel, space))
    return none;
  int64_t bytes = widestBytes(kernel);

  // One tile each: whole accesses of the threads of a block, of which a thread
  // has registers for 32 elements and what it computes of them.
  constexpr int64_t round = 2048;
  int64_t mostOfTile = mostHeld(kernel, target);
  if (bytes <= 2)
    mostOfTile = std::min(mostOfTile, kFigures.mostNarrow);
  bool isRun = lane == shared;
  auto held = [&](int64_t clusterSize) -> Sharing {
    int64_t tile = llvm::alignTo(llvm::divideCeil(length, clusterSize), round);
    if (!isRun || iterations != 1 || tile > mostOfTile)
      return none;
    return {int64_t(llvm::divideCeil(length, tile)), tile};
  };
  // Bytes that the SM with the most CTAs reads, or could while CTAs wait.
  int64_t reads = readsOfRow(kernel, space);
  auto cost = [&](int64_t clusterSize) {
    int64_t programs = llvm::divideCeil(rows * clusterSize, target.cores);
    // Again from the second-level cache, at twice the rate; a program alone
    // leaves memory idle between its tiles.
    int64_t quarters = 4;
    if (!held(clusterSize).lanes)
      quarters = (2 + 2 * reads) + (programs == 1 ? 1 + reads : 0);
    return programs * (row * bytes / clusterSize) * quarters / 4 +
           (clusterSize > 1 ? kFigures.waits * reads : 0);
  };
  int64_t clusterSize = 1;
  for (int64_t more = 2; more <= mostPrograms; more *= 2)
    if (row / more >= kFigures.leastTile && length >= more &&
        cost(more) < cost(clusterSize))
      clusterSize = more;
  if (clusterSize == 1)
    return none;
  if (Sharing tiles = held(clusterSize); tiles.lanes)
    return tiles.clusterSize > 1 ? tiles : none;
  if (!isRun)
    return {clusterSize, 0};
  return {clusterSize, equalTiles(kernel, llvm::divideCeil(length, clusterSize),
                                  kFigures.onTheWay / bytes)};
}

} // namespace knapper
