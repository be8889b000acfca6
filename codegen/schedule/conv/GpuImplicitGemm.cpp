// Convolutions on GPUs as matmuls whose left side is the input, read through
// the window: rows are output positions, the depth taps and channels, columns
// the features of a group. No patch is laid out in memory.
//
// By warpgroups (Hopper, f16 and bf16) with channels last where 16 bytes are
// channels of one tap and rows of the filter: channels and features of a group
// multiples of 8. By FMAs of f32 for all else: either layout, any
// strides, dilations, borders, spread inputs, groups. Few features a group
// (depthwise convolutions) are left to gpu_window: of a block of columns most
// would be another group's.
//
// Parameters: those of schedule "gpu_matmul".
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/GpuMatmul.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr int64_t kLeastFeatures = 8;

/// A convolution as a matmul. Of `matmul`'s left side the strides of rows are
/// those of images.
struct ImplicitGemmProblem {
  ts::ConvOp op;
  MatmulProblem matmul;
  SmallVector<Dim> input, filter, output;
  SmallVector<Dim> pitches;        ///< of the input's spatial dims
  bool last = true;                ///< channels
  unsigned spatial = 0, first = 0; ///< spatial dims, from this one on

  Dim taps(unsigned d) const { return filter[last ? d : d + 2]; }
};

std::optional<ImplicitGemmProblem> analyseConvolution(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (ops.empty())
    return std::nullopt;
  ImplicitGemmProblem conv;
  ts::ConvOp op = conv.op = *ops.begin();
  auto input = dyn_cast<BlockArgument>(op.getInput()),
       filter = dyn_cast<BlockArgument>(op.getFilter());
  Type element = ts::elementTypeOf(op.getInput());
  if (!input || !filter || element != ts::elementTypeOf(op.getFilter()) ||
      !(element.isF32() || element.isF16() || element.isBF16()))
    return std::nullopt;
  bool last = conv.last = op.getChannelsLast();
  unsigned spatial = conv.spatial = op.getStrides().size();
  conv.first = last ? 1 : 2;
  conv.input = ts::dimsOf(input);
  conv.filter = ts::dimsOf(filter);
  conv.output = ts::dimsOf(op.getResult());
  MLIRContext *context = op.getContext();
  Dim one = conv.input[0].like(1), zero = one.like(0);
  int64_t groups = op.getGroups();
  Dim channels = last ? conv.filter[spatial] : conv.filter[1];
  Dim features =
      (last ? conv.filter.back() : conv.filter[0]).floorDiv(one * groups);
  // (Of one channel in and out a tile of matmuls would be idle but for a
  // column.)
  if ((groups > 1 || channels.isConstant(1)) &&
      representative(features) < kLeastFeatures)
    return std::nullopt;

  // From the innermost dim out.
  Dim pitch = last ? conv.input.back() : one;
  conv.pitches.assign(spatial, one);
  for (unsigned d = spatial; d-- > 0;) {
    conv.pitches[d] = pitch;
    pitch = pitch * conv.input[conv.first + d];
  }
  Dim taps = one, positions = conv.output[0];
  for (unsigned d = 0; d < spatial; ++d) {
    taps = taps * conv.taps(d);
    positions = positions * conv.output[conv.first + d];
  }
  MatmulProblem &matmul = conv.matmul;
  matmul.result = op.getResult();
  matmul.rows.push_back(conv.output[0]);
  for (unsigned d = 0; d < spatial; ++d)
    matmul.rows.push_back(conv.output[conv.first + d]);
  MatmulOperand &lhs = matmul.lhs, &rhs = matmul.rhs;
  lhs.base = input;
  rhs.base = filter;
  lhs.offset = rhs.offset = zero;
  lhs.free = positions;
  lhs.contract = rhs.contract = taps * channels;
  lhs.contractStride = last ? one : pitch; // from channel to channel
  lhs.freeStride = ts::product(context, ArrayRef<Dim>(conv.input).drop_front());
  rhs.free = features;
  rhs.freeStride = last ? one : rhs.contract;
  rhs.contractStride = last ? conv.filter.back() : one;
  if (groups > 1) {
    matmul.batch = {one * groups};
    lhs.batchStrides = {channels * lhs.contractStride};
    rhs.batchStrides = {features * rhs.freeStride};
  }
  return conv;
}

/// Appends schedules by warpgroups that gather the input.
void chooseGathered(ts::KernelOp kernel, const ImplicitGemmProblem &conv,
                    const Epilogue &epilogue, const TargetDesc &target,
                    SmallVectorImpl<Schedule> &schedules) {
  const MatmulProblem &matmul = conv.matmul;
  if (!target.wgmma || !conv.last || ts::elementTypeOf(matmul.lhs.base).isF32())
    return;
  Outer outer = outerOf(matmul);
  Conditions conditions;
  constexpr int64_t chunk = 8; // 16 bytes
  conditions.multiple(conv.filter[conv.spatial], chunk);
  for (Dim stride : outer.aStrides)
    conditions.multiple(stride, chunk);
  for (Dim size : {matmul.lhs.contract, matmul.rhs.free})
    conditions.positive(size);
  auto filter = mapSide(matmul.rhs, outer.sizes, outer.bStrides, conditions);
  if (!filter || filter->depthFirst || !conditions.holds)
    return;
  bool store = outer.sizes.empty() && leavesByBlocks(kernel, epilogue) &&
               matmul.rhs.free.knownDivisor() % 8 == 0;
  Dim m = matmul.lhs.free;
  auto add = [&](int64_t rows, const Guard &guard) {
    GpuMatmulProblem problem = problemOf(matmul, outer, rows, target);
    problem.stores = store;
    problem.gathered = true;
    GpuTileShape blocks = chooseTileShape(problem);
    MatmulGpuSchedule config = configOf(MatmulAlgorithm::wgmma, blocks, 64);
    config.epilogueColumns = runOf(matmul, epilogue, 2);
    config.tileStore = store;
    config.bTransposed = true;
    config.bBatchDims = filter->batch;
    Schedule schedule = scheduleOf(matmul, outer, config);
    schedule.kind = "gpu_implicit_gemm";
    schedule.guard = guard;
    OperandMap map = filter->map;
    map.box[0] = map.box[1] = 64;
    schedule.maps = {map};
    if (store)
      schedule.maps.push_back(mapResult(kernel, matmul, outer, blocks));
    schedules.push_back(std::move(schedule));
  };
  // One cut serves few positions badly and another many.
  constexpr SizeRange cuts[] = {{4096, 2048}, {16384, 8192}};
  int64_t many = std::max<int64_t>(65536, 8 * m.knownDivisor());
  for (const SizeRange &range : rangesOf(m, cuts, many)) {
    Guard guard = conditions.guard;
    require(guard, m, range);
    add(range.typical, guard);
  }
}

} // namespace

LogicalResult chooseGpuImplicitGemm(ts::KernelOp kernel,
                                    const TargetDesc &target, Knobs &,
                                    SmallVectorImpl<Schedule> &schedules) {
  std::optional<ImplicitGemmProblem> conv = analyseConvolution(kernel);
  if (!conv)
    return success(); // gpu_window or plain loops take it
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, conv->matmul.result);
  if (failed(epilogue))
    return failure();
  chooseGathered(kernel, *conv, *epilogue, target, schedules);
  if (!schedules.empty() && schedules.back().guard.terms.empty())
    return success();
  int64_t run = conv->last ? runOf(conv->matmul, *epilogue, 4) : 1;
  size_t gathered = schedules.size();
  chooseSimt(conv->matmul, run, target, /*window=*/true, schedules);
  for (Schedule &schedule : llvm::drop_begin(schedules, gathered))
    schedule.kind = "gpu_implicit_gemm";
  return success();
}

LogicalResult buildGpuImplicitGemm(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  std::optional<ImplicitGemmProblem> conv = analyseConvolution(context.kernel);
  if (!conv)
    return context.kernel.emitOpError(
        "is no convolution that this schedule knows");
  const MatmulProblem &matmul = conv->matmul;
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, matmul.result);
  if (failed(epilogue))
    return failure();
  Outer outer = outerOf(matmul);
  const MatmulOperand &lhs = matmul.lhs, &rhs = matmul.rhs;
  bool last = conv->last;
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
  SmallVector<Dim> low = ts::dimsOf(conv->op.getLow());
  SmallVector<Value> window = {e.size(conv->filter[last ? conv->spatial : 1])};
  SmallVector<int64_t> steps;
  for (unsigned d = 0; d < conv->spatial; ++d) {
    for (Dim dim : {conv->output[conv->first + d], conv->input[conv->first + d],
                    low[d], conv->taps(d), conv->pitches[d]})
      window.push_back(e.size(dim));
    llvm::append_values(steps, conv->op.getStrides()[d],
                        conv->op.getDilations()[d],
                        conv->op.getInputDilations()[d]);
  }
  Value a = e.inputBuffer(lhs.base), aOffset = e.size(lhs.offset),
        aRow = e.size(lhs.freeStride), aK = e.size(lhs.contractStride),
        bb = e.inputBuffer(rhs.base), bOffset = e.size(rhs.offset),
        bColumn = e.size(rhs.freeStride), bK = e.size(rhs.contractStride),
        m = e.size(lhs.free), n = e.size(rhs.free), k = e.size(lhs.contract);
  Value features = e.size(rhs.free);
  auto op = tile::MatmulOp::create(
      b, loc, a, aOffset, aRow, aK, aOuter, bb, bOffset, bColumn, bK, bOuter, m,
      n, k, outerSizes, window, /*ends=*/Value(),
      store ? e.outputBuffer(0) : Value(), b.getDenseI64ArrayAttr(steps),
      last ? nullptr : b.getUnitAttr(),
      config::attributeOf(config::print<config::MatmulGpuConfig>(*config),
                          b.getContext()));

  Block &block = op.getBody().emplaceBlock();
  Type f32 = b.getF32Type();
  Value value =
      block.addArgument(run > 1 ? VectorType::get(run, f32) : f32, loc);
  Value group;
  if (!outer.sizes.empty())
    group = block.addArgument(b.getIndexType(), loc);
  Value row = block.addArgument(b.getIndexType(), loc),
        column = block.addArgument(b.getIndexType(), loc);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  return e.scoped([&]() -> LogicalResult {
    Coord coord;
    coord.lanes = run > 1 ? run : 0;
    for (Value index : e.delinearize(row, matmul.rows))
      coord.dims.push_back({index});
    Value feature = group ? e.add(e.mul(group, features), column) : column;
    LaneIndex along{feature, run > 1, {}, run};
    coord.dims.insert(last ? coord.dims.end() : coord.dims.begin() + 1, along);
    return epilogue->yield(e, value, coord, store);
  });
}

} // namespace knapper
