// Depthwise convolutions on GPUs, channels first: a run of output rows a
// thread.
//
//   program = one thread: `rows` results of a column, one below the other
//   the weights of the channel are read once; each input element of the rows
//   that the run sees is read once and feeds all results that see it
//
// Neighbouring threads have neighbouring columns, so loads are coalesced. What
// the window sees outside of the image is read from the nearest place inside
// and replaced by zero: no load waits for a branch, and narrow images, whose
// windows nearly all reach outside, cost what others cost.
//
// Parameters: rows, threads (1).
#include "codegen/schedule/conv/Depthwise.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ConvConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Loads and multiply-adds in the code of a thread, at most: of f64, which
/// takes two registers an element, half as many.
constexpr int64_t mostLoadsOf32Bits = 96, mostStepsOf32Bits = 256;

} // namespace

LogicalResult chooseGpuDepthwiseRows(ts::KernelOp kernel,
                                     const TargetDesc &target, Knobs &knobs,
                                     SmallVectorImpl<Schedule> &schedules) {
  if (!schedules.empty() && schedules.back().guard.terms.empty())
    return success();
  std::optional<Depthwise> w = depthwiseOf(kernel, false);
  if (!w || failed(Epilogue::create(kernel, w->op.getResult())))
    return success();
  Dim one = Dim::constant(kernel.getContext(), 1);
  int64_t share = ts::elementTypeOf(w->op.getInput()).isF64() ? 2 : 1;
  int64_t mostLoads = mostLoadsOf32Bits / share,
          mostSteps = mostStepsOf32Bits / share;
  int64_t rows = 8;
  auto programs = [&] {
    return w->output[0] * w->output[1] * w->output[2].ceilDiv(one * rows) *
           w->output[3];
  };
  auto loads = [&] {
    return neighboursSeen(rows, w->sh, w->kh, w->dh) * w->kw;
  };
  // Rather enough threads than long runs.
  constexpr int64_t threadsOfCore = 1024;
  while (rows > 1 &&
         (loads() > mostLoads || rows * w->kh * w->kw > mostSteps ||
          representative(w->output[2]) < rows ||
          representative(programs()) < threadsOfCore * target.cores))
    rows /= 2;
  // One row of a wide image lies inside nearly everywhere: gpu_window reads it
  // without a test.
  constexpr int64_t narrow = 32;
  if (loads() > mostLoads ||
      (rows == 1 && representative(w->output[3]) > narrow))
    return success();
  Schedule schedule;
  schedule.kind = "gpu_depthwise_rows";
  schedule.parameters =
      config::print(config::DepthwiseRowsGpuConfig{.rows = rows, .threads = 1});
  schedule.grid = programs();
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

struct RowsBuilder {
  ElementEmitter &e;
  Depthwise &w;
  int64_t rows;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Type sumType = computeType(ts::elementTypeOf(w.op.getResult()));

  /// `position`: image, channel, row, column.
  Value load(Value tensor, ArrayRef<Value> position) {
    Coord coord;
    for (Value index : position)
      coord.dims.push_back({index});
    Value value = e.emit(tensor, coord);
    if (!value || value.getType() == sumType)
      return value;
    return arith::ExtFOp::create(b, loc, sumType, value);
  }
  FailureOr<SmallVector<Value>> sums(Value image, Value channel, Value row,
                                     Value column);
};

FailureOr<SmallVector<Value>> RowsBuilder::sums(Value image, Value channel,
                                                Value row, Value column) {
  SmallVector<Dim> low = ts::dimsOf(w.op.getLow());
  Value zero = e.splat(sumType, 0, 0);
  SmallVector<Value> weights, sums(rows, zero);
  for (int64_t ky = 0; ky < w.kh; ++ky)
    for (int64_t kx = 0; kx < w.kw; ++kx) {
      weights.push_back(
          load(w.op.getFilter(),
               {channel, e.constant(0), e.constant(ky), e.constant(kx)}));
      if (!weights.back())
        return failure();
    }
  Value top = e.sub(e.mul(row, e.constant(w.sh)), e.size(low[0])),
        left = e.sub(e.mul(column, e.constant(w.sw)), e.size(low[1]));
  SmallVector<std::pair<Value, Value>> columns;
  for (int64_t kx = 0; kx < w.kw; ++kx)
    columns.push_back(
        nearestInside(e, e.add(left, e.constant(kx * w.dw)), w.input[3]));
  int64_t seen = neighboursSeen(rows, w.sh, w.kh, w.dh);
  for (int64_t j = 0; j < seen; ++j) {
    // Result r sees row j by tap (j - r * stride) / dilation.
    SmallVector<std::pair<int64_t, int64_t>> uses;
    for (int64_t r = 0; r < rows; ++r)
      if (int64_t tap = j - r * w.sh;
          tap >= 0 && tap % w.dh == 0 && tap / w.dh < w.kh)
        uses.push_back({r, tap / w.dh});
    if (uses.empty())
      continue;
    auto [y, isRow] = nearestInside(e, e.add(top, e.constant(j)), w.input[2]);
    for (auto [kx, place] : llvm::enumerate(columns)) {
      Value x = load(w.op.getInput(), {image, channel, y, place.first});
      if (!x)
        return failure();
      Value good = arith::AndIOp::create(b, loc, isRow, place.second);
      x = arith::SelectOp::create(b, loc, good, x, zero);
      for (auto [r, ky] : uses)
        sums[r] =
            math::FmaOp::create(b, loc, x, weights[ky * w.kw + kx], sums[r]);
    }
  }
  return sums;
}

} // namespace

LogicalResult buildGpuDepthwiseRows(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  std::optional<Depthwise> w = depthwiseOf(context.kernel, false);
  if (!w)
    return context.kernel.emitOpError("is no depthwise convolution");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, w->op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::DepthwiseRowsGpuConfig>(context);
  if (failed(config))
    return failure();
  int64_t rows = config->rows;
  Dim height = w->output[2];
  Value id = tile::ProgramIdOp::create(b, e.location);
  SmallVector<Value> place =
      e.delinearize(id, {w->output[0], w->output[1],
                         height.ceilDiv(height.like(rows)), w->output[3]});
  Value image = place[0], channel = place[1],
        row = e.mul(place[2], e.constant(rows)), column = place[3];
  FailureOr<SmallVector<Value>> sums =
      RowsBuilder{e, *w, rows}.sums(image, channel, row, column);
  if (failed(sums))
    return failure();
  int64_t known = height.knownDivisor();
  bool ends = known == 0 || known % rows != 0;
  for (int64_t r = 0; r < rows; ++r) {
    Value y = e.add(row, e.constant(r));
    auto store = [&] {
      Coord at;
      for (Value index : {image, channel, y, column})
        at.dims.push_back({index});
      return epilogue->store(e, (*sums)[r], at);
    };
    if (!ends || r == 0) {
      if (failed(store()))
        return failure();
      continue;
    }
    auto branch = scf::IfOp::create(b, e.location, e.less(y, e.size(height)),
                                    /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    if (failed(e.scoped(store)))
      return failure();
  }
  return success();
}

} // namespace knapper
