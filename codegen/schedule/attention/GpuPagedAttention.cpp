// Attention over keys and values in blocks (ts.paged_attention) on GPUs: one
// `tile.paged_attention` a kernel, which reads the blocks where they lie.
//
// By mma.sync (f16 and bf16, heads of a multiple of 16 elements up to 256):
//
//   one token a CTA and key head: all query heads of the group are rows of one
//     matrix, the warps, and of few tokens the CTAs of a cluster, share out its
//     keys. Of steps whose sequences have one token each, most of them, or that
//     have few tokens.
//   neighbouring tokens a CTA and key head: the warps share out their rows, and
//     each key is read once for all of them. Of all other steps.
//
// By FMAs of f32 for all else. Lengths and tables are read on the device, so
// that a recorded step serves every length.
//
// Parameters: those of PagedAttentionGpuConfig
// (ir/config/AttentionGpuConfig.h).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/AttentionGpuConfig.h"
#include "ir/config/DeviceLimits.h"
#include "ir/config/GpuTimes.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tile/PagedOps.h"

using namespace mlir;

namespace knapper {

using config::PagedAttentionAlgorithm;
using config::PagedAttentionGpuConfig;
using ts::Dim;

LogicalResult chooseGpuPagedAttention(ts::KernelOp kernel,
                                      const TargetDesc &target, Knobs &,
                                      SmallVectorImpl<Schedule> &schedules) {
  ts::PagedAttentionOp op = firstOp<ts::PagedAttentionOp>(kernel);
  if (!op)
    return success(); // another kind of attention
  Dim tokens = ts::dimOf(op.getQuery(), 0), one = tokens.like(1);
  auto size = [](Value tensor, unsigned d) {
    return *ts::dimOf(tensor, d).asConstant();
  };
  PagedAttentionGpuConfig base;
  base.heads = size(op.getQuery(), 1);
  base.keyHeads = size(op.getKeys(), 1);
  base.positions = size(op.getKeys(), 2);
  base.depth = size(op.getKeys(), 3);
  base.columns = size(op.getValues(), 3);
  auto add = [&](const PagedAttentionGpuConfig &config, Dim grid) -> Guard & {
    Schedule schedule;
    schedule.kind = "gpu_paged_attention";
    schedule.parameters = config::print(config);
    schedule.grid = grid;
    schedule.grain = one;
    schedule.scratch = one * 0;
    schedules.push_back(std::move(schedule));
    return schedules.back().guard;
  };
  Type element = ts::elementTypeOf(op.getQuery());
  constexpr int64_t fragment = 16, widest = 256;
  if (!(element.isF16() || element.isBF16()) || base.depth % fragment ||
      base.columns % fragment || std::max(base.depth, base.columns) > widest) {
    base.warps = 4;
    add(base, (tokens * base.heads).ceilDiv(one * base.warps));
    return success();
  }
  base.algorithm = PagedAttentionAlgorithm::mmaSync;
  // Bytes of a key and its value: a chunk more, for the banks.
  constexpr int64_t chunk = 16;
  int64_t pair = 2 * (base.depth + base.columns) + 2 * chunk;
  int64_t share = base.heads / base.keyHeads;

  PagedAttentionGpuConfig single = base;
  single.warps = 4;
  single.keys = fragment;
  constexpr config::PagedFigures figures = config::kH200Paged;
  int64_t room = limitsOf(target).sharedBytesPerCta();
  while (single.warps > 1 && 2 * single.warps * fragment * pair > room)
    single.warps /= 2;
  single.stages = std::clamp<int64_t>(std::min(figures.onTheWay, room) /
                                          (single.warps * fragment * pair),
                                      2, figures.mostStages);
  int64_t programs = base.keyHeads * ((share + fragment - 1) / fragment);
  int64_t wanted = 2 * int64_t(target.cores);
  auto addSingle = [&](int64_t split) -> Guard & {
    single.keySplit = split;
    return add(single, tokens * (programs * split));
  };
  auto most = [&](Guard &guard, Dim bound) {
    guard.terms.push_back({tokens, ts::ComparePredicate::le, bound});
  };
  if (target.clusters)
    for (int64_t split : {8, 4, 2})
      if (int64_t few = wanted / (split * programs))
        most(addSingle(split), one * few);
  // So few rows would leave most of a CTA's warps idle.
  most(addSingle(1), one * figures.few);
  PagedAttentionGpuConfig many = base;
  many.warps = 8;
  many.tokens = many.warps * fragment / share;
  if (many.tokens == 0) {
    addSingle(1);
    return success();
  }
  Dim sequences = ts::dimOf(op.getTable(), 0);
  most(addSingle(1), sequences);
  // Most sequences with one token, some with chunks: a tile of tokens would
  // take one sequence after the other. Of more tokens each key is read too
  // often.
  Guard &mixed = addSingle(1);
  most(mixed, sequences * figures.perSequence);
  most(mixed, one * figures.mixed);
  // What a thread has of scores, results and queries fills its registers.
  int64_t width = std::max(base.depth, base.columns);
  many.keys = width <= 128 ? 64 : width <= 192 ? 32 : 16;
  many.stages = std::clamp<int64_t>(room / (many.keys * pair), 2, 3);
  add(many, tokens.ceilDiv(one * many.tokens) * base.keyHeads);
  return success();
}

LogicalResult buildGpuPagedAttention(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  auto config = configOf<PagedAttentionGpuConfig>(context);
  if (failed(config))
    return failure();
  ts::PagedAttentionOp op = firstOp<ts::PagedAttentionOp>(context.kernel);
  if (!op)
    return context.kernel.emitOpError("has no attention over blocks inside");
  SmallVector<Value> buffers;
  for (Value operand : op->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument)
      return op.emitOpError("reads no argument");
    buffers.push_back(e.inputBuffer(argument));
  }
  SmallVector<Value> sizes;
  for (Dim dim : {ts::dimOf(op.getQuery(), 0), ts::dimOf(op.getTable(), 0),
                  ts::dimOf(op.getTable(), 1), ts::dimOf(op.getKeys(), 0)})
    sizes.push_back(e.size(dim));
  OpBuilder &b = e.builder;
  tile::PagedAttentionOp::create(
      b, e.location, buffers[0], buffers[1], buffers[2], buffers[3], buffers[4],
      buffers[5], e.outputBuffer(0), sizes,
      b.getF32FloatAttr(op.getScale().convertToDouble()),
      b.getF32FloatAttr(op.getSoftcap().convertToDouble()),
      b.getI64IntegerAttr(static_cast<int64_t>(op.getWindow())),
      config::attributeOf(config::print(*config), b.getContext()));
  return success();
}

} // namespace knapper
