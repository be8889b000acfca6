// Depthwise convolutions, channels first: the lanes of a register are
// neighbouring pixels.
//
//   program = (image, feature, block of output rows)
//     the input rows of the block go to scratch, with their border; with
//     strides the columns of each phase lie side by side, so that what the
//     lanes of a tap read always does
//     for some output rows and a run of columns, a sum each:
//       each run of pixels there is loaded once and added to the sums of all
//       output rows whose windows see it
//     one epilogue takes them
//
// The filter [F, 1, kh, kw] is read where it lies, once a program.
//
// Parameters: rows of a block.
#include "codegen/schedule/conv/ConvWindow.h"
#include "codegen/schedule/conv/PlaneBuild.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "graph/layout/PlaneLayout.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using config::PlaneCpuConfig;
using ts::Dim;

namespace {

/// How the results of a program are computed.
struct PlaneTiling {
  int64_t registerLanes = 0;
  int64_t lanes = 0; ///< of a run of columns
  int64_t rows = 0;  ///< output rows computed together
  int64_t pitch = 0; ///< elements of a phase of a line of scratch
  Type element;      ///< of scratch

  PlaneTiling(PlaneDepthwise p, const TargetDesc &target)
      : element(computeType(ts::elementTypeOf(p.op.getInput()))) {
    bool many = target.vectorRegisters >= 32;
    unsigned bits = element.getIntOrFloatBitWidth();
    registerLanes = std::max<int64_t>(1, target.lanes(DType::f32) * 32 / bits);
    int64_t height = std::max<int64_t>(1, representative(p.outHeight));
    int64_t sums = many ? 8 : 4;
    rows = llvm::divideCeil(height, llvm::divideCeil(height, sums / 2));
    int64_t registers = llvm::divideCeil(p.outWidth, registerLanes),
            most = std::min<int64_t>(sums / rows, 4),
            runs = llvm::divideCeil(registers, most);
    lanes = registerLanes * llvm::divideCeil(registers, runs);
    int64_t read = llvm::alignTo(p.outWidth, lanes) + (p.kw - 1) * p.dw / p.sw;
    int64_t written = llvm::divideCeil(p.lowW + p.width, p.sw);
    pitch = std::max(read, written) + 1;
  }
  int64_t lineElements(const PlaneDepthwise &p) const { return p.sw * pitch; }
  int64_t elementBytes() const { return element.getIntOrFloatBitWidth() / 8; }
};

class PlaneDepthwiseBuilder {
public:
  PlaneDepthwiseBuilder(BuildContext &context, const PlaneCpuConfig &config,
                        PlaneDepthwise conv, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location), p(conv),
        epilogue(std::move(epilogue)), rows(config.rows),
        tiling(conv, context.target) {}

  LogicalResult build();

private:
  VectorType vectorType(int64_t lanes) const {
    return VectorType::get(lanes, tiling.element);
  }
  Coord at(Value plane, Value row, Value column, Value valid,
           int64_t lanes) const {
    Coord coord;
    coord.lanes = lanes;
    coord.valid = valid;
    coord.dims = {{image}, {plane}};
    if (p.hasRows)
      coord.dims.push_back({row});
    coord.dims.push_back({column, 1, {}, lanes});
    return coord;
  }
  /// Whether the window's weights do, beside the sums.
  bool staysInRegisters() const { return p.kh * p.kw <= 16; }
  Value weightAt(Value i, int64_t j);
  LogicalResult readFilter();
  LogicalResult copyRows();
  /// Input row `row` to the line of scratch at `line`, between its borders.
  LogicalResult copyRow(Value row, Value line);
  void zeros(Value line, int64_t begin, int64_t end) {
    if (begin < end)
      fillRun(e, e.splat(tiling.element, tiling.registerLanes, 0), lines,
              e.add(line, e.constant(begin)), e.constant(end - begin));
  }
  /// The pixels that tap column `j` sees in a line below that of `run`.
  Value pixelsAt(Value run, int64_t line, int64_t j);
  /// All taps of the windows of some output rows, each run of pixels loaded
  /// once, or those of window row `i`.
  void addWindow(Value run, MutableArrayRef<Value> sums);
  FailureOr<SmallVector<Value>> addRow(Value run, Value i, ValueRange before);
  /// Results of `together` output rows from row `first` of the block on.
  LogicalResult compute(Value first, int64_t together);
  /// The rows of a block that `together` leaves over, where that is one number;
  /// else one at a time.
  int64_t rowsOfRest(int64_t together) const {
    int64_t height = p.outHeight.asConstant().value_or(0);
    if (height < 1 || (height > rows && rows % together))
      return std::min<int64_t>(together - 1, 1);
    return height <= rows ? height % together : height % rows % together;
  }

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  PlaneDepthwise p;
  Epilogue epilogue;
  int64_t rows;
  PlaneTiling tiling;

  Value image, feature, channel;
  Value firstRow, count; ///< of the block: output rows
  Value lines;           ///< scratch: input rows
  SmallVector<Value> weights;
};

Value PlaneDepthwiseBuilder::weightAt(Value i, int64_t j) {
  Coord tap;
  tap.dims = {{feature}, {e.constant(0)}};
  if (p.hasRows)
    tap.dims.push_back({i});
  tap.dims.push_back({e.constant(j)});
  return e.emit(p.op.getFilter(), tap);
}

LogicalResult PlaneDepthwiseBuilder::readFilter() {
  if (!staysInRegisters())
    return success();
  for (int64_t i = 0; i < p.kh; ++i)
    for (int64_t j = 0; j < p.kw; ++j) {
      weights.push_back(weightAt(e.constant(i), j));
      if (!weights.back())
        return failure();
    }
  return success();
}

LogicalResult PlaneDepthwiseBuilder::copyRow(Value row, Value line) {
  if (p.sw > 1)
    zeros(line, 0, tiling.lineElements(p));
  constexpr int64_t mostRegisters = 4;
  int64_t registers = llvm::divideCeil(p.width, tiling.registerLanes);
  int64_t lanes =
      tiling.registerLanes *
      (p.sw > 1 ? p.sw
                : llvm::divideCeil(registers,
                                   llvm::divideCeil(registers, mostRegisters)));
  return forLanes(
      e, e.constant(0), e.constant(p.width), lanes, p.width % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        Value pixels =
            e.emit(p.op.getInput(), at(channel, row, column, valid, lanes));
        if (!pixels)
          return failure();
        pixels = e.widen(pixels, lanes);
        Value run = e.add(line, e.div(column, e.constant(p.sw)));
        for (int64_t q = 0; q < p.sw; ++q) {
          Value picked = pixels, inside = valid;
          if (p.sw > 1) {
            SmallVector<int64_t> places;
            for (int64_t l = 0; l < lanes / p.sw; ++l)
              places.push_back(l * p.sw + q);
            picked = vector::ShuffleOp::create(b, loc, pixels, pixels, places);
            if (valid)
              inside = e.div(e.add(valid, e.constant(p.sw - 1 - q)),
                             e.constant(p.sw));
          }
          int64_t place = q + p.lowW;
          int64_t to = place % p.sw * tiling.pitch + place / p.sw;
          tile::StoreOp::create(b, loc, picked, lines,
                                e.add(run, e.constant(to)), inside);
        }
        return success();
      });
}

LogicalResult PlaneDepthwiseBuilder::copyRows() {
  Value needed = e.add(e.mul(e.sub(count, e.constant(1)), e.constant(p.sh)),
                       e.constant((p.kh - 1) * p.dh + 1));
  Value top = e.sub(e.mul(firstRow, e.constant(p.sh)), e.constant(p.lowH));
  return forEach(e, e.constant(0), needed, [&](Value r) -> LogicalResult {
    Value row = e.add(top, r),
          line = e.mul(r, e.constant(tiling.lineElements(p)));
    Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, row,
                                         e.size(p.height));
    auto branch = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    LogicalResult status = e.scoped([&] {
      if (p.sw == 1) {
        zeros(line, 0, p.lowW);
        zeros(line, p.lowW + p.width, p.paddedWidth());
      }
      return copyRow(row, line);
    });
    b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
    e.scoped([&] { zeros(line, 0, tiling.lineElements(p)); });
    return status;
  });
}

Value PlaneDepthwiseBuilder::pixelsAt(Value run, int64_t line, int64_t j) {
  int64_t place = j * p.dw;
  int64_t from = line * tiling.lineElements(p) + place % p.sw * tiling.pitch +
                 place / p.sw;
  return tile::LoadOp::create(b, loc, vectorType(tiling.lanes), lines,
                              e.add(run, e.constant(from)));
}

void PlaneDepthwiseBuilder::addWindow(Value run, MutableArrayRef<Value> sums) {
  int64_t together = sums.size();
  int64_t seen = (together - 1) * p.sh + (p.kh - 1) * p.dh + 1;
  for (int64_t u = 0; u < seen; ++u)
    for (int64_t j = 0; j < p.kw; ++j) {
      Value pixels;
      for (int64_t r = 0; r < together; ++r) {
        int64_t distance = u - r * p.sh;
        if (distance < 0 || distance % p.dh || distance / p.dh >= p.kh)
          continue;
        if (!pixels)
          pixels = pixelsAt(run, u, j);
        Value weight =
            e.widen(weights[distance / p.dh * p.kw + j], tiling.lanes);
        sums[r] = vector::FMAOp::create(b, loc, pixels, weight, sums[r]);
      }
    }
}

FailureOr<SmallVector<Value>> PlaneDepthwiseBuilder::addRow(Value run, Value i,
                                                            ValueRange before) {
  SmallVector<Value> sums(before);
  Value below = e.mul(i, e.constant(p.dh * tiling.lineElements(p)));
  run = e.add(run, below);
  for (int64_t j = 0; j < p.kw; ++j) {
    Value weight = weightAt(i, j);
    if (!weight)
      return failure();
    weight = e.widen(weight, tiling.lanes);
    for (int64_t r = 0; r < static_cast<int64_t>(sums.size()); ++r)
      sums[r] = vector::FMAOp::create(b, loc, pixelsAt(run, r * p.sh, j),
                                      weight, sums[r]);
  }
  return sums;
}

LogicalResult PlaneDepthwiseBuilder::compute(Value first, int64_t together) {
  int64_t lanes = tiling.lanes;
  Value top =
      e.mul(e.mul(first, e.constant(p.sh)), e.constant(tiling.lineElements(p)));
  return forLanes(
      e, e.constant(0), e.constant(p.outWidth), lanes, p.outWidth % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        Value zero = e.splat(tiling.element, lanes, 0);
        SmallVector<Value> sums(together, zero);
        Value run = e.add(top, column);
        LogicalResult status = success();
        if (staysInRegisters())
          addWindow(run, sums);
        else
          sums = forEach(
              e, e.constant(0), e.constant(p.kh), sums,
              [&](Value i, ValueRange now) { return addRow(run, i, now); },
              status);
        if (failed(status))
          return failure();
        for (int64_t r = 0; r < together; ++r) {
          Value row = e.add(firstRow, e.add(first, e.constant(r)));
          if (failed(epilogue.store(e, sums[r],
                                    at(feature, row, column, valid, lanes))))
            return failure();
        }
        return success();
      });
}

LogicalResult PlaneDepthwiseBuilder::build() {
  Dim one = p.outHeight.like(1);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> index = e.delinearize(
      id, {ts::dimOf(p.op.getResult(), 0), ts::dimOf(p.op.getResult(), 1),
           p.outHeight.ceilDiv(one * rows)});
  image = index[0];
  feature = index[1];
  channel = e.div(feature, e.constant(p.perChannel));
  firstRow = e.mul(index[2], e.constant(rows));
  count = e.min(e.constant(rows), e.sub(e.size(p.outHeight), firstRow));
  lines = tile::ScratchOp::create(b, loc, tile::BufferType::get(tiling.element),
                                  e.constant(0));
  if (failed(readFilter()) || failed(copyRows()))
    return failure();
  int64_t together = std::min(tiling.rows, rows), rest = rowsOfRest(together);
  Value whole = e.mul(e.div(count, e.constant(together)), e.constant(together));
  if (failed(forEach(
          e, e.constant(0), whole,
          [&](Value row) { return compute(row, together); }, together)))
    return failure();
  return rest == 0 ? success()
                   : forEach(
                         e, whole, count,
                         [&](Value row) { return compute(row, rest); }, rest);
}

std::optional<PlaneDepthwise> convOf(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (!llvm::hasSingleElement(ops))
    return std::nullopt;
  return planeDepthwiseOf(*ops.begin());
}

/// As many rows as the nearest cache holds the input of, in blocks of about one
/// size that leave no rows over but in the last.
int64_t rowsOfBlock(PlaneDepthwise p, const PlaneTiling &tiling) {
  constexpr int64_t bytes = 32 << 10;
  int64_t height = std::max<int64_t>(1, representative(p.outHeight));
  int64_t lines = bytes / (tiling.elementBytes() * tiling.lineElements(p));
  int64_t most = (lines - (p.kh - 1) * p.dh - 1) / p.sh + 1;
  int64_t rows = std::clamp<int64_t>(most, tiling.rows, height);
  rows = llvm::divideCeil(height, llvm::divideCeil(height, rows));
  return rows == height ? rows : llvm::alignTo(rows, tiling.rows);
}

} // namespace

LogicalResult chooseCpuPlaneDepthwise(ts::KernelOp kernel,
                                      const TargetDesc &target, Knobs &knobs,
                                      SmallVectorImpl<Schedule> &schedules) {
  std::optional<PlaneDepthwise> p = convOf(kernel);
  if (!p)
    return success();
  if (failed(Epilogue::create(kernel, p->op.getResult())))
    return failure();
  PlaneTiling tiling(*p, target);
  PlaneCpuConfig config{rowsOfBlock(*p, tiling)};
  knobs.tune(config, config.rows);
  int64_t rows = config.rows;
  Dim one = p->outHeight.like(1);
  Schedule schedule;
  schedule.kind = "cpu_plane_depthwise";
  schedule.parameters = config::print(config);
  schedule.grid = ts::dimOf(p->op.getResult(), 0) *
                  ts::dimOf(p->op.getResult(), 1) *
                  p->outHeight.ceilDiv(one * rows);
  int64_t lines = (rows - 1) * p->sh + (p->kh - 1) * p->dh + 1;
  int64_t flops = 2 * rows * p->outWidth * p->kh * p->kw + lines * p->width;
  schedule.grain = grainOf(100000, one * flops);
  schedule.scratch =
      one * (tiling.elementBytes() * lines * tiling.lineElements(*p));
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuPlaneDepthwise(BuildContext &context) {
  return buildPlane<PlaneDepthwiseBuilder>(context, convOf(context.kernel),
                                           "convolution");
}

} // namespace knapper
