// Depthwise convolutions on GPUs (channels last): a run of output pixels a
// program.
//
//   program = `pixels` neighbours of an output row, for a tile of channels
//   for each window row: the input columns that the run sees and the weights of
//   the row are read once; every column feeds all pixels that see it
//
// What the window sees outside of the image is read from the nearest place
// inside and replaced by zero, so that no load waits for a branch.
//
// Parameters: lanes (channels of a program), pixels.
#include "codegen/schedule/conv/Depthwise.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ConvConfig.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Multiply-adds in the code of a window row, at most.
constexpr int64_t mostSteps = 256;

} // namespace

LogicalResult chooseGpuDepthwise(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  // Narrower tiles leave most of a warp idle.
  constexpr int64_t leastChannels = 48;
  std::optional<Depthwise> w = depthwiseOf(kernel, true);
  if (!w || representative(w->output[3]) < leastChannels)
    return success();
  Dim one = Dim::constant(kernel.getContext(), 1);
  // A warp has 4 channels a thread; more warps where none of them idles.
  int64_t lanes = 128, channels = representative(w->output[3]);
  while (lanes < 512 && channels % (2 * lanes) == 0)
    lanes *= 2;
  int64_t pixels = 8;
  auto programs = [&] {
    return w->output[0] * w->output[1] * w->output[2].ceilDiv(one * pixels) *
           w->output[3].ceilDiv(one * lanes);
  };
  // Rather more programs than long runs; code of a bounded length.
  while (pixels > 1 &&
         (pixels * w->kw > mostSteps || representative(w->output[2]) < pixels ||
          representative(programs()) * (lanes / 128) < 8 * target.cores))
    pixels /= 2;
  if (pixels * w->kw > mostSteps)
    return success();
  Schedule schedule;
  schedule.kind = "gpu_depthwise";
  schedule.parameters =
      config::print(config::DepthwiseGpuConfig{lanes, pixels});
  schedule.grid = programs();
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildGpuDepthwise(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  std::optional<Depthwise> w = depthwiseOf(context.kernel, true);
  if (!w)
    return context.kernel.emitOpError("is no depthwise convolution");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, w->op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::DepthwiseGpuConfig>(context);
  if (failed(config))
    return failure();
  int64_t lanes = config->lanes, pixels = config->pixels;
  Dim channels = w->output[3], blocks = channels.ceilDiv(channels.like(lanes)),
      runs = w->output[2].ceilDiv(channels.like(pixels));
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> place =
      e.delinearize(id, {w->output[0], w->output[1], runs, blocks});
  Value image = place[0], row = place[1],
        column = e.mul(place[2], e.constant(pixels)),
        channel = e.mul(place[3], e.constant(lanes));
  Value valid;
  if (int64_t known = channels.knownDivisor(); !known || known % lanes)
    valid = e.sub(e.size(channels), channel);

  SmallVector<Dim> low = ts::dimsOf(w->op.getLow());
  Type sumType = computeType(ts::elementTypeOf(w->op.getResult()));
  auto at = [&](ArrayRef<Value> position) {
    Coord coord;
    coord.lanes = lanes;
    coord.valid = valid;
    for (Value index : position)
      coord.dims.push_back({index});
    coord.dims.push_back({channel, 1, {}, lanes});
    return coord;
  };
  auto isPadded = [&](unsigned i) {
    return !low[i].isConstant(0) ||
           !ts::dimsOf(w->op.getHigh())[i].isConstant(0);
  };
  Value zero = e.splat(sumType, lanes, 0);
  Value left = e.sub(e.mul(column, e.constant(w->sw)), e.size(low[1])),
        top = e.sub(e.mul(row, e.constant(w->sh)), e.size(low[0]));
  LogicalResult status = success();
  SmallVector<Value> sums(pixels, zero);
  SmallVector<Value> results = forEach(
      e, e.constant(0), e.constant(w->kh), sums,
      [&](Value ky, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> next(carried.begin(), carried.end());
        auto [y, isRow] = nearestInside(
            e, e.add(top, e.mul(ky, e.constant(w->dh))), w->input[1]);
        SmallVector<Value> weights;
        for (int64_t kx = 0; kx < w->kw; ++kx) {
          Value weight = e.emit(w->op.getFilter(),
                                at({ky, e.constant(kx), e.constant(0)}));
          if (!weight)
            return failure();
          weights.push_back(e.widen(weight, lanes));
        }
        int64_t columns = neighboursSeen(pixels, w->sw, w->kw, w->dw);
        for (int64_t j = 0; j < columns; ++j) {
          // Pixel p sees column j by tap (j - p * stride) / dilation.
          SmallVector<std::pair<int64_t, int64_t>> uses;
          for (int64_t p = 0; p < pixels; ++p)
            if (int64_t tap = j - p * w->sw;
                tap >= 0 && tap % w->dw == 0 && tap / w->dw < w->kw)
              uses.push_back({p, tap / w->dw});
          if (uses.empty())
            continue;
          // A run that ends behind the row sees columns behind the image's.
          auto [x, isColumn] =
              nearestInside(e, e.add(left, e.constant(j)), w->input[2]);
          Value value = e.emit(w->op.getInput(), at({image, y, x}));
          if (!value)
            return failure();
          Value good = isColumn;
          if (isPadded(0))
            good = arith::AndIOp::create(b, loc, good, isRow);
          Value mask = vector::BroadcastOp::create(
              b, loc, VectorType::get(lanes, b.getI1Type()), good);
          value = arith::SelectOp::create(b, loc, mask, e.widen(value, lanes),
                                          zero);
          for (auto [p, tap] : uses)
            next[p] =
                vector::FMAOp::create(b, loc, value, weights[tap], next[p]);
        }
        return next;
      },
      status);
  if (failed(status))
    return failure();
  Value width = e.size(w->output[2]);
  bool ends =
      w->output[2].knownDivisor() % pixels != 0 || !w->output[2].knownDivisor();
  for (int64_t p = 0; p < pixels; ++p) {
    Value x = e.add(column, e.constant(p));
    auto store = [&] {
      return epilogue->store(e, results[p], at({image, row, x}));
    };
    if (!ends || p == 0) {
      if (failed(store()))
        return failure();
      continue;
    }
    auto branch = scf::IfOp::create(b, loc, e.less(x, width),
                                    /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    if (failed(e.scoped(store)))
      return failure();
  }
  return success();
}

} // namespace knapper
