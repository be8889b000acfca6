// Convolutions of few features, channels first: the lanes of a register are
// neighbouring pixels, so none is empty where there are no features for it.
//
//   program = (image, block of output rows)
//     the input rows of the block go to scratch, a plane a channel, with their
//     border: its planes lie row after row, so a tap of the window is a
//     distance between pixels, the same for all of them, and pixels are counted
//     through the rows of a block (what falls into the border is computed and
//     dropped) for each run of pixels, and at most eight features, a sum each a
//     register:
//       for each channel and tap: its pixels times the features' weights
//     one epilogue takes the sums row by row
//
// The filter [F, C, kh, kw] is read where it lies, a number at a time.
//
// Parameters: rows of a block.
#include "codegen/schedule/conv/PlaneBuild.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/Knobs.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "graph/layout/PlaneLayout.h"
#include "ir/config/ConvConfig.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using config::PlaneCpuConfig;
using ts::Dim;

namespace {

/// What a run reads behind the last plane, and its sums behind the last pixel.
constexpr int64_t kSlack = 256;

int64_t planesBytes(const PlaneConv &p, int64_t rows) {
  int64_t elements = p.channels * p.paddedRows(rows) * p.paddedWidth() + kSlack;
  return (4 * (elements + (p.kw - 1) * p.dw) + 63) / 64 * 64;
}

int64_t sumsOfFeature(const PlaneConv &p, int64_t rows) {
  return rows * p.paddedWidth() + kSlack;
}

class PlaneConvBuilder {
public:
  PlaneConvBuilder(BuildContext &context, const PlaneCpuConfig &config,
                   PlaneConv conv, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location), p(conv),
        epilogue(std::move(epilogue)), rows(config.rows),
        lanes(context.target.lanes(DType::f32)) {
    bool many = context.target.vectorRegisters >= 32;
    int64_t most = many ? 8 : 4;
    int64_t tiles = llvm::divideCeil(p.features, most);
    features = llvm::divideCeil(p.features, tiles);
    int64_t all = rows * p.paddedWidth();
    int64_t widest = std::clamp<int64_t>((many ? 24 : 10) / features, 1, 8);
    int64_t runs = llvm::divideCeil(all, widest * lanes);
    registers = llvm::divideCeil(all, runs * lanes);
  }

  LogicalResult build();

private:
  void copyRows();
  /// Zeros in `count` elements of the planes from `at` on.
  void zeros(Value at, Value count);
  void copyRow(Value channel, Value from, Value at);
  /// Sums of a run of pixels from `pixel` on, for the features from `feature`.
  void sums(Value pixel, Value feature);
  /// What one channel's rows from window row `i` on, or the one, add to them.
  SmallVector<Value> addTaps(ValueRange carried, Value pixel, Value feature,
                             Value channel, Value row);
  LogicalResult store();

  VectorType vectorType() const {
    return VectorType::get(lanes, b.getF32Type());
  }

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  PlaneConv p;
  Epilogue epilogue;
  int64_t rows, lanes;
  int64_t features;  ///< that a run computes together
  int64_t registers; ///< of pixels of a run

  Value image, firstRow, count;     ///< of the block: output rows
  Value planes, results;            ///< scratch
  LogicalResult status = success(); ///< of what loops have made
};

void PlaneConvBuilder::zeros(Value at, Value count) {
  Value zero = e.splat(b.getF32Type(), lanes, 0);
  forLanes(
      e, e.constant(0), count, lanes, false, {},
      [&](Value i, Value valid, ValueRange) -> FailureOr<SmallVector<Value>> {
        tile::StoreOp::create(b, loc, zero, planes, e.add(at, i), valid);
        return SmallVector<Value>();
      },
      status);
}

void PlaneConvBuilder::copyRow(Value channel, Value from, Value at) {
  zeros(at, e.constant(p.lowW));
  Value begin = e.add(at, e.constant(p.lowW));
  int64_t wide = 4 * lanes;
  forLanes(
      e, e.constant(0), e.constant(p.width), wide, p.width % wide == 0, {},
      [&](Value i, Value valid, ValueRange) -> FailureOr<SmallVector<Value>> {
        Coord coord;
        coord.lanes = wide;
        coord.valid = valid;
        coord.dims = {{image}, {channel}, {from}, {i, 1}};
        Value pixels = e.emit(p.op.getInput(), coord);
        if (!pixels)
          return failure();
        tile::StoreOp::create(b, loc, e.widen(pixels, wide), planes,
                              e.add(begin, i), valid);
        return SmallVector<Value>();
      },
      status);
  int64_t right = p.paddedWidth() - p.lowW - p.width;
  zeros(e.add(begin, e.constant(p.width)), e.constant(right));
}

void PlaneConvBuilder::copyRows() {
  Dim height = ts::dimOf(p.op.getInput(), 2);
  Value needed = e.add(count, e.constant((p.kh - 1) * p.dh));
  Value top = e.sub(firstRow, e.constant(p.lowH));
  auto copyOne = [&](Value channel, Value r) {
    Value from = e.add(top, r);
    Value row = e.add(e.mul(channel, e.constant(p.paddedRows(rows))), r);
    Value at = e.mul(row, e.constant(p.paddedWidth()));
    Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                         from, e.size(height));
    auto branch = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    e.scoped([&] { copyRow(channel, from, at); });
    b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
    e.scoped([&] { zeros(at, e.constant(p.paddedWidth())); });
  };
  forEach(
      e, e.constant(0), e.constant(p.channels), {},
      [&](Value channel, ValueRange) -> FailureOr<SmallVector<Value>> {
        forEach(
            e, e.constant(0), needed, {},
            [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
              copyOne(channel, r);
              return SmallVector<Value>();
            },
            status);
        return SmallVector<Value>();
      },
      status);
}

SmallVector<Value> PlaneConvBuilder::addTaps(ValueRange carried, Value pixel,
                                             Value feature, Value channel,
                                             Value row) {
  SmallVector<Value> acc(carried);
  int64_t line = p.dh * p.paddedWidth();
  Value base = e.add(
      e.mul(channel, e.constant(p.paddedRows(rows) * p.paddedWidth())), pixel);
  auto addRow = [&](Value i, int64_t below) {
    for (int64_t j = 0; j < p.kw; ++j) {
      SmallVector<Value> pixels;
      for (int64_t r = 0; r < registers; ++r)
        pixels.push_back(tile::LoadOp::create(
            b, loc, vectorType(), planes,
            e.add(base, e.constant(below + j * p.dw + r * lanes))));
      for (int64_t f = 0; f < features; ++f) {
        Coord coord;
        coord.dims = {
            {e.add(feature, e.constant(f))}, {channel}, {i}, {e.constant(j)}};
        Value weight = e.emit(p.op.getFilter(), coord);
        if (!weight) {
          status = failure();
          return;
        }
        weight = e.widen(weight, lanes);
        for (int64_t r = 0; r < registers; ++r) {
          Value &sum = acc[f * registers + r];
          sum = vector::FMAOp::create(b, loc, pixels[r], weight, sum);
        }
      }
    }
  };
  if (row) {
    base = e.add(base, e.mul(row, e.constant(line)));
    addRow(row, 0);
  } else {
    for (int64_t i = 0; i < p.kh; ++i)
      addRow(e.constant(i), i * line);
  }
  return acc;
}

void PlaneConvBuilder::sums(Value pixel, Value feature) {
  constexpr int64_t mostSteps = 100;
  bool unrolled = p.kh * p.kw * features * registers <= mostSteps;
  SmallVector<Value> begin(features * registers,
                           e.splat(b.getF32Type(), lanes, 0));
  SmallVector<Value> made = forEach(
      e, e.constant(0), e.constant(p.channels), begin,
      [&](Value channel, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        if (unrolled)
          return addTaps(carried, pixel, feature, channel, Value());
        return forEach(
            e, e.constant(0), e.constant(p.kh), carried,
            [&](Value i, ValueRange inner) -> FailureOr<SmallVector<Value>> {
              return addTaps(inner, pixel, feature, channel, i);
            },
            status);
      },
      status);
  for (int64_t f = 0; f < features; ++f) {
    Value at = e.mul(e.add(feature, e.constant(f)),
                     e.constant(sumsOfFeature(p, rows)));
    at = e.add(at, pixel);
    for (int64_t r = 0; r < registers; ++r)
      tile::StoreOp::create(b, loc, made[f * registers + r], results,
                            e.add(at, e.constant(r * lanes)));
  }
}

LogicalResult PlaneConvBuilder::store() {
  int64_t wide = 4 * lanes;
  auto storeRow = [&](Value feature, Value r) {
    Value line = e.add(e.mul(feature, e.constant(sumsOfFeature(p, rows))),
                       e.mul(r, e.constant(p.paddedWidth())));
    return forLanes(
        e, e.constant(0), e.constant(p.outWidth), wide, p.outWidth % wide == 0,
        [&](Value column, Value valid) -> LogicalResult {
          Value made = tile::LoadOp::create(
              b, loc, VectorType::get(wide, b.getF32Type()), results,
              e.add(line, column), valid);
          Coord coord;
          coord.lanes = wide;
          coord.valid = valid;
          coord.dims = {{image}, {feature}, {e.add(firstRow, r)}, {column, 1}};
          return epilogue.store(e, made, coord);
        });
  };
  return forEach(e, e.constant(0), e.constant(p.features), [&](Value feature) {
    return forEach(e, e.constant(0), count,
                   [&](Value r) { return storeRow(feature, r); });
  });
}

LogicalResult PlaneConvBuilder::build() {
  Dim one = ts::dimOf(p.op.getResult(), 0).like(1);
  Dim height = ts::dimOf(p.op.getResult(), 2);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> index = e.delinearize(
      id, {ts::dimOf(p.op.getResult(), 0), height.ceilDiv(one * rows)});
  image = index[0];
  firstRow = e.mul(index[1], e.constant(rows));
  count = e.min(e.constant(rows), e.sub(e.size(height), firstRow));
  Type buffer = tile::BufferType::get(b.getF32Type());
  planes = tile::ScratchOp::create(b, loc, buffer, e.constant(0));
  results =
      tile::ScratchOp::create(b, loc, buffer, e.constant(planesBytes(p, rows)));
  copyRows();
  Value pixels = e.mul(count, e.constant(p.paddedWidth()));
  forEach(
      e, e.constant(0), pixels, {},
      [&](Value pixel, ValueRange) -> FailureOr<SmallVector<Value>> {
        int64_t tiles = llvm::divideCeil(p.features, features);
        forEach(
            e, e.constant(0), e.constant(tiles), {},
            [&](Value tile, ValueRange) -> FailureOr<SmallVector<Value>> {
              // The last ones overlap those before.
              sums(pixel, e.min(e.mul(tile, e.constant(features)),
                                e.constant(p.features - features)));
              return SmallVector<Value>();
            },
            status);
        return SmallVector<Value>();
      },
      status, registers *lanes);
  return failed(status) ? failure() : store();
}

std::optional<PlaneConv> convOf(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (!llvm::hasSingleElement(ops))
    return std::nullopt;
  return planeConvOf(*ops.begin());
}

/// As many rows as keep a block in a quarter of L2, and give threads work.
int64_t rowsOfBlock(PlaneConv p, const TargetDesc &target) {
  int64_t height =
      std::max<int64_t>(1, representative(ts::dimOf(p.op.getResult(), 2)));
  int64_t rowBytes = 4 * (p.channels + p.features) * p.paddedWidth();
  int64_t span = p.paddedRows(0);
  int64_t most = target.l2Bytes / 4 / rowBytes - span;
  int64_t rows = std::clamp<int64_t>(most, 1, (height + 3) / 4);
  int64_t blocks = llvm::divideCeil(height, rows);
  return llvm::divideCeil(height, blocks + blocks % 2);
}

} // namespace

LogicalResult chooseCpuPlaneConv(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  std::optional<PlaneConv> p = convOf(kernel);
  if (!p || !prefersPlanes(p->op))
    return success();
  if (failed(Epilogue::create(kernel, p->op.getResult())))
    return failure();
  PlaneCpuConfig config{rowsOfBlock(*p, target)};
  knobs.tune(config, config.rows);
  int64_t rows = config.rows;
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "cpu_plane_conv";
  schedule.parameters = config::print(config);
  schedule.grid = ts::dimOf(p->op.getResult(), 0) *
                  ts::dimOf(p->op.getResult(), 2).ceilDiv(one * rows);
  int64_t flops = 2 * rows * p->paddedWidth() * p->channels *
                  (p->kh * p->kw * p->features + 4);
  schedule.grain = grainOf(400000, one * flops);
  schedule.scratch =
      one * (planesBytes(*p, rows) + 4 * p->features * sumsOfFeature(*p, rows));
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuPlaneConv(BuildContext &context) {
  return buildPlane<PlaneConvBuilder>(context, convOf(context.kernel),
                                      "convolution");
}

} // namespace knapper
