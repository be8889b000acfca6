// Matmuls on GPUs: one `tile.matmul` a kernel, its region what the
// kernel computes of the matmul's elements. Which way and in which blocks:
// GpuMatmulChoose.cpp.
//
// Parameters: those of MatmulGpuSchedule (ir/config/MatmulGpuConfig.h).
#include "codegen/schedule/matmul/GpuMatmul.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

Outer outerOf(const MatmulProblem &matmul) {
  Outer outer;
  Dim zero = matmul.lhs.free.like(0);
  auto add = [&](Dim size, Dim a, Dim b) {
    if (size.isConstant(1))
      return;
    outer.sizes.push_back(size);
    outer.aStrides.push_back(a);
    outer.bStrides.push_back(b);
  };
  for (auto [i, size] : llvm::enumerate(matmul.batch))
    add(size, matmul.lhs.batchStrides[i], matmul.rhs.batchStrides[i]);
  for (auto [size, stride] :
       llvm::zip(matmul.lhs.outerSizes, matmul.lhs.outerStrides))
    add(size, stride, zero);
  return outer;
}

GpuMatmulProblem problemOf(const MatmulProblem &matmul, const Outer &outer,
                           int64_t rows, const TargetDesc &target) {
  const MatmulOperand &lhs = matmul.lhs, &rhs = matmul.rhs;
  Dim n = rhs.free;
  GpuMatmulProblem problem;
  problem.batch = representative(ts::product(n.context(), outer.sizes));
  problem.m = rows;
  problem.n = representative(n);
  problem.k = representative(lhs.contract);
  problem.machine = target;
  problem.aTransposed = !lhs.contractStride.isConstant(1);
  problem.bTransposed = !rhs.contractStride.isConstant(1);
  problem.aPitch =
      representative(problem.aTransposed ? lhs.contractStride : lhs.freeStride);
  problem.bPitch =
      representative(problem.bTransposed ? rhs.contractStride : rhs.freeStride);
  problem.stores = problem.staged = false;
  problem.splits = bool(lhs.contract.asConstant());
  return problem;
}

std::optional<MappedSide> mapSide(const MatmulOperand &side,
                                  ArrayRef<Dim> outerSizes,
                                  ArrayRef<Dim> outerStrides,
                                  Conditions &conditions) {
  // 16 bytes.
  int64_t chunk = 16 / ts::elementBytes(ts::elementTypeOf(side.base));
  MappedSide mapped;
  bool single = side.free.isConstant(1);
  mapped.depthFirst = side.contractStride.isConstant(1);
  if (!mapped.depthFirst && (single || !side.freeStride.isConstant(1)))
    return std::nullopt;
  Dim pitch = mapped.depthFirst ? side.freeStride : side.contractStride;
  if (single)
    pitch = side.contract; // no second row
  mapped.map.argument = side.base.getArgNumber();
  mapped.map.offset = side.offset;
  mapped.map.sizes = {side.contract, side.free};
  if (!mapped.depthFirst)
    std::swap(mapped.map.sizes[0], mapped.map.sizes[1]);
  mapped.map.strides = {pitch};
  for (auto [i, stride] : llvm::enumerate(outerStrides)) {
    if (stride.isConstant(0))
      continue;
    mapped.map.sizes.push_back(outerSizes[i]);
    mapped.map.strides.push_back(stride);
    mapped.batch |= int64_t(1) << i;
  }
  conditions.multiple(side.offset, chunk);
  for (Dim stride : mapped.map.strides) {
    conditions.multiple(stride, chunk);
    conditions.positive(stride);
  }
  mapped.map.box.assign(mapped.map.sizes.size(), 1);
  mapped.map.swizzle = 128;
  return mapped;
}

int64_t runOf(const MatmulProblem &matmul, const Epilogue &epilogue,
              int64_t most) {
  int64_t divisor =
      std::gcd(matmul.rhs.free.knownDivisor(), epilogue.runDivisor());
  while (most > 1 && divisor % most)
    most /= 2;
  return most;
}

Dim programsOf(const MatmulProblem &matmul, const Outer &outer, int64_t rows,
               int64_t columns) {
  Dim one = matmul.lhs.free.like(1);
  if (matmul.ends)
    return groupedBlocks(matmul, rows) * matmul.rhs.free.ceilDiv(one * columns);
  return ts::product(one.context(), outer.sizes) *
         matmul.lhs.free.ceilDiv(one * rows) *
         matmul.rhs.free.ceilDiv(one * columns);
}

MatmulGpuSchedule configOf(MatmulAlgorithm algorithm,
                           const GpuTileShape &blocks, int64_t tileK) {
  MatmulGpuSchedule config;
  config.algorithm = algorithm;
  config.tileM = blocks.rows;
  config.tileN = blocks.columns;
  config.tileK = tileK;
  config.stages = blocks.stages;
  config.consumers = blocks.consumers;
  config.pingpong = blocks.pingpong;
  config.rasterGroup = blocks.group;
  config.splitK = blocks.split;
  if (blocks.aRows < blocks.rows)
    config.copiedM = blocks.aRows;
  config.clusterM = blocks.clusterRows;
  config.clusterN = blocks.clusterColumns;
  config.ctasPerSm = blocks.ctasPerSm;
  config.swapAB = blocks.swapAB;
  config.epilogueChunks = blocks.epilogueChunks;
  return config;
}

Schedule scheduleOf(const MatmulProblem &matmul, const Outer &outer,
                    const MatmulGpuSchedule &config) {
  Schedule schedule;
  schedule.kind = "gpu_matmul";
  schedule.parameters = config::print(config);
  Dim one = matmul.lhs.free.like(1);
  int64_t rows = config.tileM * config.clusterM,
          columns = config.tileN * config.clusterN;
  if (config.swapAB)
    std::swap(rows, columns);
  schedule.grid =
      programsOf(matmul, outer, rows, columns) * config.clusterSize();
  schedule.grain = one;
  schedule.scratch = one * 0;
  return schedule;
}

bool leavesByBlocks(ts::KernelOp kernel, const Epilogue &epilogue) {
  if (kernel->getNumResults() != 1 || !epilogue.keepsPlaces())
    return false;
  Type stored = ts::elementTypeOf(kernel->getResult(0));
  return stored.isF16() || stored.isBF16();
}

OperandMap mapResult(ts::KernelOp kernel, const MatmulProblem &matmul,
                     const Outer &outer, const GpuTileShape &blocks) {
  Dim m = matmul.lhs.free, n = matmul.rhs.free;
  OperandMap c;
  c.argument = kernel.getInputs().size();
  c.offset = m.like(0);
  c.sizes = {n, m};
  c.strides = {n};
  if (matmul.ends) {
    // Element (column, i, first) is that of row first + i - 64: a box from i on
    // is cut before row `first`.
    c.offset = n * -64;
    c.sizes = {n, m.like(64), m + 64};
    c.strides = {n, n};
  }
  for (size_t i = matmul.ends ? outer.sizes.size() : 0; i < outer.sizes.size();
       ++i) {
    c.sizes.push_back(outer.sizes[i]);
    c.strides.push_back(
        m * n *
        ts::product(m.context(), ArrayRef<Dim>(outer.sizes).drop_front(i + 1)));
  }
  c.box.assign(c.sizes.size(), 1);
  c.box[0] = blocks.swapAB ? 64 : blocks.chunkColumns();
  c.box[1] = blocks.swapAB ? blocks.chunkColumns() : 64;
  c.swizzle = 2 * c.box[0];
  return c;
}

LogicalResult buildGpuMatmul(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  std::optional<MatmulProblem> matmul = analyseMatmul(context.kernel);
  if (!matmul)
    return context.kernel.emitOpError("is no matmul that this schedule knows");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, matmul->result);
  if (failed(epilogue))
    return failure();
  Outer outer = outerOf(*matmul);
  const MatmulOperand &lhs = matmul->lhs, &rhs = matmul->rhs;
  auto sizes = [&](ArrayRef<Dim> dims) {
    return llvm::map_to_vector(dims, [&](Dim dim) { return e.size(dim); });
  };
  FailureOr<MatmulGpuSchedule> config = configOf<MatmulGpuSchedule>(context);
  if (failed(config))
    return failure();
  int64_t run = config->epilogueColumns;
  bool store = config->tileStore;
  SmallVector<Value> aOuter = sizes(outer.aStrides),
                     bOuter = sizes(outer.bStrides),
                     outerSizes = sizes(outer.sizes);
  Value a = e.inputBuffer(lhs.base), aOffset = e.size(lhs.offset),
        aRow = e.size(lhs.freeStride), aK = e.size(lhs.contractStride),
        bb = e.inputBuffer(rhs.base), bOffset = e.size(rhs.offset),
        bColumn = e.size(rhs.freeStride), bK = e.size(rhs.contractStride),
        m = e.size(lhs.free), n = e.size(rhs.free), k = e.size(lhs.contract);
  if (config->swapAB) {
    std::swap(a, bb);
    std::swap(aOffset, bOffset);
    std::swap(aRow, bColumn);
    std::swap(aK, bK);
    std::swap(aOuter, bOuter);
    std::swap(m, n);
  }
  auto op = tile::MatmulOp::create(
      b, loc, a, aOffset, aRow, aK, aOuter, bb, bOffset, bColumn, bK, bOuter, m,
      n, k, outerSizes, /*window=*/ValueRange(),
      matmul->ends ? e.inputBuffer(matmul->ends) : Value(),
      store ? e.outputBuffer(0) : Value(), /*steps=*/nullptr,
      /*channels_first=*/nullptr,
      config::attributeOf(config::print<config::MatmulGpuConfig>(*config),
                          b.getContext()));

  Block &block = op.getBody().emplaceBlock();
  Type f32 = b.getF32Type();
  Value value =
      block.addArgument(run > 1 ? VectorType::get(run, f32) : f32, loc);
  SmallVector<Value> outerIndex;
  for (size_t i = 0; i < outer.sizes.size(); ++i)
    outerIndex.push_back(block.addArgument(b.getIndexType(), loc));
  Value row = block.addArgument(b.getIndexType(), loc),
        column = block.addArgument(b.getIndexType(), loc);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  return e.scoped([&]() -> LogicalResult {
    // The hero's dims: batch, rows that stand alone, the merged ones, columns.
    Coord coord;
    coord.lanes = run > 1 ? run : 0;
    size_t taken = 0;
    auto take = [&](Dim size) {
      coord.dims.push_back(
          {size.isConstant(1) ? e.constant(0) : outerIndex[taken++]});
    };
    llvm::for_each(matmul->resultBatch(), take);
    ArrayRef<Dim> rows = matmul->rows;
    size_t alone = 0;
    for (; !matmul->ends && alone < rows.size() && taken < outerIndex.size();
         ++alone)
      take(rows[alone]);
    for (Value index : e.delinearize(row, rows.drop_front(alone)))
      coord.dims.push_back({index});
    LaneIndex last{column, run > 1, {}, run};
    coord.dims.push_back(last);
    return epilogue->yield(e, value, coord, store);
  });
}

} // namespace knapper
