// Attention on GPUs: one `tile.attention` a kernel, its region what becomes of
// the scores (softcap, mask). Query, key, value and result are read and written
// where they lie, through their strides.
//
// By warpgroups (Hopper, f16 and bf16, heads of at most 256 elements) where the
// copies of boxes reach all four: elements contiguous, every other stride and
// the start a multiple of 16 bytes. What is not known of symbolic sizes becomes
// the schedule's guard. So are queries, keys and values that were widened to
// f32 (GpuWidenedAttention.h): the 16 bits are read, the result is f32 and lies
// anywhere. By FMAs of f32 for all else.
//
// Parameters: those of AttentionGpuSchedule (ir/config/AttentionGpuConfig.h).
#include "codegen/schedule/core/Conditions.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "graph/fusion/Views.h"
#include "ir/config/AttentionGpuConfig.h"
#include "ir/tensor/Decompose.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace knapper {

using config::AttentionAlgorithm;
using config::AttentionGpuSchedule;
using fusion::StridedView;
using ts::Dim;

namespace {

/// Keys and values of heads that are walked together, in MiB: they stay in the
/// second-level cache (of 50) while the longest rows of all of them go first.
constexpr int64_t kTogether = 32;

/// The attention of a kernel and where its operands and result lie.
struct Places {
  ts::AttentionOp op;
  StridedView query, key, value, result;

  Dim batch() const { return query.dims[0].size; }
  Dim heads() const { return query.dims[1].size; }
  Dim keyHeads() const { return key.dims[1].size; }
  Dim queries() const { return query.dims[2].size; }
  Dim keys() const { return key.dims[2].size; }
  Dim depth() const { return query.dims[3].size; }
  Dim columns() const { return value.dims[3].size; }

  /// f32 of what lies in memory as f16 or bf16.
  bool widened() const {
    return ts::elementTypeOf(op->getResult(0)).isF32() && readsHalf();
  }
  /// All three lie in memory as f16, or all as bf16.
  bool readsHalf() const {
    Type element = ts::elementTypeOf(query.base);
    return (element.isF16() || element.isBF16()) &&
           element == ts::elementTypeOf(key.base) &&
           element == ts::elementTypeOf(value.base);
  }
};

FailureOr<Places> placesOf(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::AttentionOp>();
  if (ops.empty())
    return kernel.emitOpError("has hero attention and none inside");
  Places places;
  places.op = *ops.begin();
  StridedView *views[] = {&places.query, &places.key, &places.value};
  for (auto [view, operand] :
       llvm::zip(views, places.op->getOperands().take_front(3))) {
    auto found = fusion::stridedView(operand, [](Operation *op) {
      return fusion::isReindex(op) || isa<ts::ConvertOp>(op);
    });
    if (!found || !isa<BlockArgument>(found->base))
      return places.op.emitOpError("reads no strided view of an argument");
    *view = std::move(*found);
  }
  auto result =
      fusion::placesIn(kernel.yield().getValues()[0], places.op.getResult());
  if (!result)
    return places.op.emitOpError("has a result without strides");
  places.result = std::move(*result);
  return places;
}

/// A view as a tensor for copies of boxes of 64 elements by `rows`; nothing if
/// its elements lie too far apart.
std::optional<OperandMap> mapOf(const StridedView &view, unsigned argument,
                                int64_t rows, Conditions &conditions) {
  constexpr int64_t chunk = 8; // 16 bytes
  if (!view.dims[3].stride.isConstant(1))
    return std::nullopt;
  OperandMap map;
  map.argument = argument;
  map.offset = view.offset;
  conditions.multiple(view.offset, chunk);
  map.sizes = {view.dims[3].size};
  for (int64_t d = 2; d >= 0; --d) {
    Dim stride = view.dims[d].stride;
    if (view.dims[d].size.isConstant(1))
      stride = stride.like(chunk); // no second one
    conditions.multiple(stride, chunk);
    conditions.positive(stride);
    map.sizes.push_back(view.dims[d].size);
    map.strides.push_back(stride);
  }
  map.box = {64, rows, 1, 1};
  map.swizzle = 128;
  return map;
}

bool isHalf(Value tensor) {
  Type element = ts::elementTypeOf(tensor);
  return element.isF16() || element.isBF16();
}

/// A mask that says of keys, for all rows alike, whether they are seen: where
/// it lies. Nothing if there is none.
std::optional<StridedView> keyMaskOf(ts::AttentionOp op) {
  Value mask = op.getMask();
  if (!mask || !ts::elementTypeOf(mask).isInteger(1) ||
      !ts::dimOf(mask, 2).isConstant(1))
    return std::nullopt;
  auto view = fusion::stridedView(mask, fusion::isReindex);
  if (!view || !isa<BlockArgument>(view->base))
    return std::nullopt;
  return view;
}

/// Whether scores are more than scaled dot products of keys that are seen.
bool changesScores(ts::AttentionOp op) {
  return (op.getMask() && !keyMaskOf(op)) ||
         op.getSoftcap().convertToDouble() > 0;
}

/// Whether several values, or one that does not lie in memory, make the mask.
bool computesMask(ts::AttentionOp op) {
  Value mask = op.getMask();
  if (!mask)
    return false;
  auto view = fusion::stridedView(mask, fusion::isReindex);
  return !view || !isa<BlockArgument>(view->base);
}

config::EmptyRowValue emptyRowConfig(ts::AttentionOp op) {
  switch (ts::emptyRowOf(op)) {
  case ts::EmptyRow::zero:
    break;
  case ts::EmptyRow::nan:
    return config::EmptyRowValue::nan;
  case ts::EmptyRow::mean:
    return config::EmptyRowValue::mean;
  }
  return config::EmptyRowValue::zero;
}

/// Completes the configuration by what the op says.
Schedule scheduleOf(const Places &places, AttentionGpuSchedule config) {
  ts::AttentionOp op = places.op;
  config.emptyRow = emptyRowConfig(op);
  config.headGroupMiB = op.getCausal() ? kTogether : 0;
  Schedule schedule;
  schedule.kind = "gpu_flash_attention";
  schedule.parameters = config::print(config);
  Dim one = places.queries().like(1);
  schedule.grid = places.batch() * places.heads() *
                  places.queries().ceilDiv(one * config.tileM);
  if (config.algorithm == AttentionAlgorithm::simt)
    schedule.grid =
        schedule.grid * places.columns().ceilDiv(one * config.headDim);
  schedule.grain = one;
  schedule.scratch = one * 0;
  return schedule;
}

/// Appends a schedule by warpgroups, if one serves this attention.
void chooseWarpgroups(ts::KernelOp kernel, const Places &places,
                      const TargetDesc &target,
                      SmallVectorImpl<Schedule> &schedules) {
  ts::AttentionOp op = places.op;
  if (!target.wgmma || !places.readsHalf())
    return;
  std::optional<int64_t> depth = places.depth().asConstant(),
                         columns = places.columns().asConstant();
  if (!depth || !columns)
    return;
  int64_t most = std::max(*depth, *columns);
  if (most > 256 || most == 0 || *depth == 0)
    return;
  bool narrow = most <= 64, wide = most > 128;
  bool widened = places.widened();
  // Three consumers have no registers for more than scaled dot products.
  bool three = narrow && !widened && !changesScores(op) && !op.getMask() &&
               ts::emptyRowOf(op) != ts::EmptyRow::mean;
  // What is read of a mask takes registers, too.
  int64_t keys = wide ? 64 : 128;
  if (changesScores(op))
    keys = wide ? 32 : !computesMask(op) ? 96 : narrow ? 64 : 32;
  // Weights of f32 are two or three words where others are one.
  if (widened)
    keys = 64;
  int64_t consumers = three ? 3 : 2;
  AttentionGpuSchedule config;
  config.algorithm = AttentionAlgorithm::wgmma;
  // Consumers that share their rows have half of the columns each.
  config.tileM = widened && wide ? 64 : 64 * consumers;
  config.tileN = keys;
  config.headDim = narrow ? 64
                   : wide ? llvm::alignTo(most, widened ? 128 : 64)
                          : 128;
  // What the two blocks of queries leave of shared memory.
  config.stages = narrow    ? 6
                  : wide    ? (widened ? 4 : 192 / keys)
                  : widened ? 6
                            : 4;
  config.consumers = consumers;
  config.scoreKeys = places.keys().knownDivisor() % 2 == 0 ? 2 : 1;
  Schedule schedule = scheduleOf(places, config);
  Conditions conditions;
  conditions.positive(places.keys());
  struct Side {
    const StridedView &view;
    unsigned argument;
    int64_t rows;
  };
  SmallVector<Side> sides = {
      {places.query, cast<BlockArgument>(places.query.base).getArgNumber(),
       config.tileM},
      {places.key, cast<BlockArgument>(places.key.base).getArgNumber(), keys},
      {places.value, cast<BlockArgument>(places.value.base).getArgNumber(),
       keys},
  };
  if (!widened)
    sides.push_back({places.result, kernel->getNumOperands(), 64});
  for (auto &side : sides) {
    auto map = mapOf(side.view, side.argument, side.rows, conditions);
    if (!map)
      return;
    schedule.maps.push_back(std::move(*map));
  }
  if (!conditions.holds)
    return;
  schedule.guard = conditions.guard;
  schedules.push_back(std::move(schedule));
}

} // namespace

bool hasWideHeads(ts::AttentionOp op, const TargetDesc &target) {
  constexpr int64_t mostHead = 256, mostScores = 32 << 20;
  auto size = [](Value tensor, unsigned dim) {
    return ts::dimOf(tensor, dim).asConstant();
  };
  auto depth = size(op.getQuery(), 3), columns = size(op.getValue(), 3);
  auto batch = size(op.getQuery(), 0), heads = size(op.getQuery(), 1);
  auto queries = size(op.getQuery(), 2), keys = size(op.getKey(), 2);
  if (!target.wgmma || !isHalf(op.getQuery()) || !depth || !columns || !batch ||
      !heads || !queries || !keys)
    return false;
  return std::max(*depth, *columns) > mostHead &&
         *batch * *heads * *queries <= mostScores / std::max<int64_t>(1, *keys);
}

bool isTakenWhole(ts::AttentionOp op, const TargetDesc &target) {
  if (!target.simt)
    return true;
  // Few rows would leave most processors idle; their scores are few, too.
  constexpr int64_t few = 8;
  std::optional<int64_t> rows = ts::dimOf(op.getQuery(), 2).asConstant();
  if (rows && *rows <= few)
    return false;
  if (hasWideHeads(op, target))
    return false;
  return llvm::all_of(op->getOperands().take_front(3), [](Value operand) {
    while (Operation *inner = operand.getDefiningOp()) {
      if (isa<ts::ConstantOp>(inner))
        return false;
      if (!fusion::isReindex(inner))
        break;
      operand = inner->getOperand(0);
    }
    return isHalf(operand) || ts::elementTypeOf(operand).isF32();
  });
}

LogicalResult chooseGpuFlashAttention(ts::KernelOp kernel,
                                      const TargetDesc &target, Knobs &,
                                      SmallVectorImpl<Schedule> &schedules) {
  FailureOr<Places> places = placesOf(kernel);
  if (failed(places))
    return failure();
  chooseWarpgroups(kernel, *places, target, schedules);
  if (schedules.empty() || !schedules.back().guard.terms.empty()) {
    std::optional<int64_t> columns = places->columns().asConstant();
    AttentionGpuSchedule config;
    config.tileM = config.tileN = 64;
    config.headDim = columns && *columns <= 64 ? 64 : 128;
    config.stages = 1;
    schedules.push_back(scheduleOf(*places, config));
  }
  return success();
}

/// The score of a run of keys: softcap and mask of their scaled dot products.
static Value scoreOf(ElementEmitter &e, ts::AttentionOp op, Value mask,
                     int64_t lanes, Value score, ArrayRef<Value> rows,
                     Value key) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  auto number = [&](double value) {
    return e.splat(b.getF32Type(), lanes, value);
  };
  double cap = op.getSoftcap().convertToDouble();
  if (cap > 0) {
    Value inner = arith::MulFOp::create(b, loc, score, number(1 / cap));
    score = arith::MulFOp::create(b, loc, math::TanhOp::create(b, loc, inner),
                                  number(cap));
  }
  if (!mask)
    return score;
  Coord at;
  at.lanes = lanes;
  SmallVector<Dim> dims = ts::dimsOf(mask);
  for (unsigned d = 0; d < 3; ++d)
    at.dims.push_back({dims[d].isConstant(1) ? e.constant(0) : rows[d]});
  if (dims[3].isConstant(1))
    at.dims.push_back({e.constant(0)});
  else
    at.dims.push_back({key, lanes ? 1 : 0, {}, std::max<int64_t>(lanes, 1)});
  Value value = e.emit(mask, at);
  if (!value)
    return {};
  if (lanes)
    value = e.widen(value, lanes);
  if (ts::elementTypeOf(mask).isInteger(1))
    return arith::SelectOp::create(
        b, loc, value, score, number(-std::numeric_limits<double>::infinity()));
  if (getElementTypeOrSelf(value.getType()).isF64())
    value = arith::TruncFOp::create(b, loc, score.getType(), value);
  return arith::AddFOp::create(b, loc, score, value);
}

LogicalResult buildGpuFlashAttention(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  FailureOr<Places> found = placesOf(context.kernel);
  if (failed(found))
    return failure();
  Places places = std::move(*found);
  ts::AttentionOp op = places.op;
  FailureOr<AttentionGpuSchedule> parsed =
      configOf<AttentionGpuSchedule>(context);
  if (failed(parsed))
    return failure();
  AttentionGpuSchedule config = *parsed;
  auto strides = [&](const StridedView &view) {
    return llvm::map_to_vector(view.dims, [&](const fusion::StridedDim &dim) {
      return e.size(dim.stride);
    });
  };
  auto buffer = [&](const StridedView &view) {
    return e.inputBuffer(cast<BlockArgument>(view.base));
  };
  SmallVector<Value> sizes;
  for (Dim dim :
       {places.batch(), places.heads(), places.keyHeads(), places.queries(),
        places.keys(), places.depth(), places.columns()})
    sizes.push_back(e.size(dim));
  Value causal;
  if (op.getCausal())
    causal = op.getCausalTopLeft()
                 ? e.constant(1)
                 : e.add(e.sub(e.size(places.keys()), e.size(places.queries())),
                         e.constant(1));
  Value q = buffer(places.query), k = buffer(places.key),
        v = buffer(places.value), o = e.outputBuffer(0);
  Value qOffset = e.size(places.query.offset),
        kOffset = e.size(places.key.offset),
        vOffset = e.size(places.value.offset),
        oOffset = e.size(places.result.offset);
  SmallVector<Value> qStrides = strides(places.query),
                     kStrides = strides(places.key),
                     vStrides = strides(places.value),
                     oStrides = strides(places.result);
  // By warpgroups a mask of keys is no matter of the region.
  std::optional<StridedView> keyMask;
  if (config.algorithm == AttentionAlgorithm::wgmma)
    keyMask = keyMaskOf(op);
  Value mask;
  SmallVector<Value> maskAt;
  if (keyMask) {
    mask = buffer(*keyMask);
    maskAt.push_back(e.size(keyMask->offset));
    for (unsigned d : {0, 1, 3}) {
      const fusion::StridedDim &dim = keyMask->dims[d];
      maskAt.push_back(
          e.size(dim.size.isConstant(1) ? dim.stride.like(0) : dim.stride));
    }
  }
  auto loop = tile::AttentionOp::create(
      b, loc, q, qOffset, qStrides, k, kOffset, kStrides, v, vOffset, vStrides,
      o, oOffset, oStrides, sizes, causal, mask, maskAt,
      b.getF32FloatAttr(op.getScale().convertToDouble()),
      config::attributeOf(config::print<config::AttentionGpuConfig>(config),
                          b.getContext()));
  int64_t run = config.scoreKeys;
  Block &block = loop.getBody().emplaceBlock();
  Type f32 = b.getF32Type();
  Value score =
      block.addArgument(run > 1 ? VectorType::get(run, f32) : f32, loc);
  SmallVector<Value> rows;
  for (unsigned i = 0; i < 3; ++i)
    rows.push_back(block.addArgument(b.getIndexType(), loc));
  Value key = block.addArgument(b.getIndexType(), loc);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  return e.scoped([&]() -> LogicalResult {
    Value result = scoreOf(e, op, mask ? Value() : op.getMask(),
                           run > 1 ? run : 0, score, rows, key);
    if (!result)
      return failure();
    tile::YieldOp::create(b, loc, result);
    return success();
  });
}

} // namespace knapper
