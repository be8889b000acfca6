// Maxima, sums and averages of windows, channels first: the lanes of a register
// are neighbouring pixels.
//
//   program = (image, channel, output plane, block of output rows)
//     for some output rows at a time, so that what is stored is not read at
//     once, in other pieces:
//       of each the window's rows, of all of its planes, are combined, column
//       by column, and go to scratch, the border on both sides
//       of each the window's columns there are combined, for a register of
//       pixels at once: with strides the columns that a register of them sees
//       are loaded together and picked apart, or read one by one if they are
//       far apart
//       an average divides by the planes, the rows and the columns that the
//       window counts; where output columns differ in these, scratch has them
//       one epilogue takes them
//
// To a maximum a window row or plane outside of the image is the next one
// inside, which the window sees as well.
//
// Parameters: rows of a block.
#include "codegen/schedule/conv/ConvWindow.h"
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

/// Registers of pixels at once.
constexpr int64_t mostRegisters = 4;
/// Output rows at a time.
constexpr int64_t rowsAtOnce = 8;

/// A result register is picked from so many of columns, at most.
constexpr int64_t mostPicked = 4;
/// Window rows or columns that are no loop in the generated code, at most.
constexpr int64_t mostRowsUnrolled = 8, mostColumnsUnrolled = 32;
/// The same of the rows of all planes.
constexpr int64_t mostPlaneRowsUnrolled = 16;

/// Elements of a line of scratch: a row with its border, and what the last tile
/// reads beyond it.
int64_t lineElements(const PlanePool &p, int64_t lanes) {
  return llvm::alignTo(std::max(p.paddedWidth(), p.lowW + p.width), lanes) +
         std::max(mostRegisters, p.sw) * lanes;
}

/// Elements of scratch for the columns that averages count, before the lines.
int64_t countElements(const PlanePool &p, int64_t lanes) {
  if (!p.averages || p.columnsEverywhere())
    return 0;
  return llvm::alignTo(p.outWidth, lanes) + mostRegisters * lanes;
}

int64_t lanesOf(PlanePool p, const TargetDesc &target) {
  Type element = computeType(ts::elementTypeOf(p.op.getInput()));
  unsigned bits = element.getIntOrFloatBitWidth();
  return std::max<int64_t>(1, target.lanes(DType::f32) * 32 / bits);
}

class PlanePoolBuilder {
public:
  PlanePoolBuilder(BuildContext &context, const PlaneCpuConfig &config,
                   PlanePool pool, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location), p(pool),
        epilogue(std::move(epilogue)), rows(config.rows),
        registerLanes(lanesOf(pool, context.target)),
        element(computeType(ts::elementTypeOf(p.op.getInput()))),
        isMax(p.op.getKind() == ts::PoolKind::max),
        isUnsigned(ts::elementTypeOf(p.op.getInput()).isUnsignedInteger()),
        columnsCounted(p.averages ? p.columnsEverywhere() : std::nullopt),
        rowsCounted(countedOf(p.rows)), planesCounted(countedOf(p.planes)) {}

  LogicalResult build();

private:
  using Taps = PlanePool::Taps;
  /// Of one output row or plane: the input's where the window's first tap lies,
  /// and the taps that are inside.
  struct Inside {
    Value base, first, end;
  };
  /// A register of columns.
  struct Run {
    Value column, valid;
    int64_t lanes;
  };

  std::optional<int64_t> countedOf(const Taps &taps) const {
    return p.averages ? taps.everywhere(p.countsBorder) : std::nullopt;
  }
  /// For runs of `width`: as few tiles as hold them, of even size.
  int64_t lanesFor(int64_t width, int64_t registers) const {
    int64_t tiles = llvm::divideCeil(width, registers * registerLanes);
    return llvm::alignTo(llvm::divideCeil(width, tiles), registerLanes);
  }
  VectorType vectorType(int64_t lanes) const {
    return VectorType::get(lanes, element);
  }
  ts::ReduceKind kind() const {
    return isMax ? ts::ReduceKind::max : ts::ReduceKind::add;
  }
  Value nothing(int64_t lanes) {
    return neutralElement(e, kind(), element, isUnsigned, lanes);
  }
  Value combined(Value a, Value x) {
    return isMax && isa<FloatType>(element)
               ? maximumOfAnyZero(a, x)
               : combineElements(e, kind(), a, x, isUnsigned);
  }
  /// `a` if it is NaN, else the larger; of zeros the second, which a register
  /// of 32 bytes takes half the instructions for (docs/numerics.md).
  Value maximumOfAnyZero(Value a, Value x) {
    using P = arith::CmpFPredicate;
    Value isLarger = arith::CmpFOp::create(b, loc, P::OGT, a, x),
          isNan = arith::CmpFOp::create(b, loc, P::UNO, a, a);
    Value most = arith::SelectOp::create(b, loc, isLarger, a, x);
    return arith::SelectOp::create(b, loc, isNan, a, most);
  }
  /// Coordinate of a run of the input or the result.
  Coord at(Value plane, Value row, Run run) const {
    Coord coord;
    coord.lanes = run.lanes;
    coord.valid = run.valid;
    coord.dims = {{image}, {channel}};
    if (p.spatial > 2)
      coord.dims.push_back({plane});
    if (p.spatial > 1)
      coord.dims.push_back({row});
    coord.dims.push_back({run.column, 1, {}, run.lanes});
    return coord;
  }
  /// Taps from `base` on that lie before `end`.
  Value tapsBefore(const Taps &t, Value end, Value base) {
    Value some = e.max(e.sub(end, base), e.constant(0));
    return e.min(
        e.div(e.add(some, e.constant(t.dilation - 1)), e.constant(t.dilation)),
        e.constant(t.taps));
  }
  Value baseOf(const Taps &t, Value place) {
    return e.sub(e.mul(place, e.constant(t.stride)), e.constant(t.low));
  }
  Inside insideOf(const Taps &t, Value place) {
    Value base = baseOf(t, place);
    return {base, tapsBefore(t, e.constant(0), base),
            tapsBefore(t, e.size(t.size), base)};
  }
  void fill(int64_t begin, int64_t end);
  LogicalResult linesOf(Value row);
  /// What `at` gives for each tap inside, combined; null: it gives none.
  Value combineTaps(const Taps &taps, Inside inside, bool unrolls,
                    int64_t lanes, llvm::function_ref<Value(Value at)> at);
  /// The rows of all planes.
  LogicalResult combineRows(Inside planes, Inside rows);
  LogicalResult combineColumns(Value row);
  /// Columns from `column` on, of the first window column and each further one.
  Value columnsOf(Value first, int64_t lanes);
  /// Writes how many columns the windows of each output column count.
  void writeCounts();
  /// How many taps an average at `place` counts.
  Value countedAt(const Taps &taps, Value place);
  /// `rowCount`: rows times planes; null: the same everywhere.
  Value averageOf(Value sum, Value rowCount, Value column, int64_t lanes);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  PlanePool p;
  Epilogue epilogue;
  int64_t rows, registerLanes;
  Type element; ///< of scratch
  bool isMax, isUnsigned;
  std::optional<int64_t> columnsCounted, rowsCounted, planesCounted;

  Value image, channel, plane;
  Inside planes; ///< of that output plane
  Value counts; ///< scratch: columns that averages count
  Value lines;  ///< scratch: combined rows, with their border
  Value line;   ///< where the one at hand begins
};

void PlanePoolBuilder::fill(int64_t begin, int64_t end) {
  if (begin < end)
    fillRun(e, nothing(registerLanes), lines, e.add(line, e.constant(begin)),
            e.constant(end - begin));
}

Value PlanePoolBuilder::combineTaps(const Taps &taps, Inside inside,
                                    bool unrolls, int64_t lanes,
                                    llvm::function_ref<Value(Value at)> at) {
  auto tapAt = [&](Value i) {
    return at(e.add(inside.base, e.mul(i, e.constant(taps.dilation))));
  };
  auto unrolled = [&](llvm::function_ref<Value(int64_t)> tap) {
    Value all;
    for (int64_t i = 0; i < taps.taps; ++i) {
      Value x = tapAt(tap(i));
      if (!x)
        return Value();
      all = all ? combined(all, x) : x;
    }
    return all;
  };
  auto looped = [&]() -> Value {
    LogicalResult status = success();
    Value all = forEach(
        e, inside.first, inside.end, ValueRange{nothing(lanes)},
        [&](Value i, ValueRange now) -> FailureOr<SmallVector<Value>> {
          Value x = tapAt(i);
          if (!x)
            return failure();
          return SmallVector<Value>{combined(now[0], x)};
        },
        status)[0];
    return succeeded(status) ? all : Value();
  };
  auto number = [&](int64_t i) { return e.constant(i); };
  if (!unrolls)
    return looped();
  if (taps.areInside())
    return unrolled(number);
  if (isMax) {
    Value last = e.sub(inside.end, e.constant(1));
    return unrolled([&](int64_t i) {
      return e.min(e.max(e.constant(i), inside.first), last);
    });
  }
  Value whole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                      e.sub(inside.end, inside.first),
                                      e.constant(taps.taps));
  return e.select(whole, [&] { return unrolled(number); }, looped);
}

LogicalResult PlanePoolBuilder::combineRows(Inside planes, Inside rows) {
  int64_t lanes = lanesFor(p.width, mostRegisters);
  bool unrollsRows = p.rows.taps <= mostRowsUnrolled,
       unrollsPlanes =
           unrollsRows && p.planes.taps <= mostPlaneRowsUnrolled / p.rows.taps;
  return forLanes(
      e, e.constant(0), e.constant(p.width), lanes, p.width % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        auto rowsOf = [&](Value plane) {
          return combineTaps(
              p.rows, rows, unrollsRows, lanes, [&](Value row) -> Value {
                Value x = e.emit(p.op.getInput(),
                                 at(plane, row, {column, valid, lanes}));
                return x ? e.widen(x, lanes) : x;
              });
        };
        Value all = p.spatial > 2 ? combineTaps(p.planes, planes, unrollsPlanes,
                                                lanes, rowsOf)
                                  : rowsOf({});
        if (!all)
          return failure();
        tile::StoreOp::create(b, loc, all, lines,
                              e.add(e.add(line, column), e.constant(p.lowW)),
                              valid);
        return success();
      });
}

Value PlanePoolBuilder::columnsOf(Value first, int64_t lanes) {
  auto apart = [&](Value place) -> Value {
    Value from = e.add(e.add(line, first), place);
    if (p.sw == 1)
      return tile::LoadOp::create(b, loc, vectorType(lanes), lines, from);
    return tile::LoadStridedOp::create(b, loc, vectorType(lanes), lines, from,
                                       e.constant(p.sw));
  };
  if (p.kw > mostColumnsUnrolled) {
    LogicalResult never = success();
    return forEach(
        e, e.constant(0), e.constant(p.kw), ValueRange{nothing(lanes)},
        [&](Value j, ValueRange now) -> FailureOr<SmallVector<Value>> {
          Value x = apart(e.mul(j, e.constant(p.dw)));
          return SmallVector<Value>{combined(now[0], x)};
        },
        never)[0];
  }
  Value all, loaded;
  // Taps that one load of neighbouring columns gives lie side by side.
  int64_t from = -1;
  for (int64_t j = 0; j < p.kw; ++j) {
    int64_t place = j * p.dw, rest = place % p.sw;
    Value x;
    if (p.sw > mostPicked) {
      x = apart(e.constant(place));
    } else {
      if (place - rest != from) {
        from = place - rest;
        loaded =
            tile::LoadOp::create(b, loc, vectorType(lanes * p.sw), lines,
                                 e.add(e.add(line, first), e.constant(from)));
      }
      x = loaded;
      if (p.sw > 1) {
        SmallVector<int64_t> picked;
        for (int64_t l = 0; l < lanes; ++l)
          picked.push_back(l * p.sw + rest);
        x = vector::ShuffleOp::create(b, loc, loaded, loaded, picked);
      }
    }
    all = all ? combined(all, x) : x;
  }
  return all;
}

void PlanePoolBuilder::writeCounts() {
  Type number = b.getI32Type();
  auto vectorOf = [&](int64_t value) {
    return e.splat(number, registerLanes, value);
  };
  SmallVector<int32_t> lane;
  for (int64_t l = 0; l < registerLanes; ++l)
    lane.push_back(static_cast<int32_t>(l));
  Value lanes = arith::ConstantOp::create(b, loc, b.getI32VectorAttr(lane));
  LogicalResult never = forLanes(
      e, e.constant(0), e.constant(p.outWidth), registerLanes, false,
      [&](Value column, Value valid) {
        Value start = e.widen(
            arith::IndexCastOp::create(b, loc, number, column), registerLanes);
        Value first = arith::SubIOp::create(
            b, loc,
            arith::MulIOp::create(b, loc,
                                  arith::AddIOp::create(b, loc, start, lanes),
                                  vectorOf(p.sw)),
            vectorOf(p.lowW));
        auto before = [&](int64_t end) -> Value {
          Value far =
              arith::SubIOp::create(b, loc, vectorOf(end + p.dw - 1), first);
          Value taps = arith::DivUIOp::create(
              b, loc, arith::MaxSIOp::create(b, loc, far, vectorOf(0)),
              vectorOf(p.dw));
          return arith::MinSIOp::create(b, loc, taps, vectorOf(p.kw));
        };
        Value columns = arith::SubIOp::create(b, loc, before(p.countedTo),
                                              before(p.countedFrom));
        tile::StoreOp::create(
            b, loc,
            arith::SIToFPOp::create(b, loc, vectorType(registerLanes), columns),
            counts, column, valid);
        return success();
      });
  assert(succeeded(never));
  (void)never;
}

Value PlanePoolBuilder::countedAt(const Taps &taps, Value place) {
  Value base = baseOf(taps, place), end = e.size(taps.size),
        before = e.constant(0);
  if (p.countsBorder)
    end = e.add(end, e.size(taps.high));
  else
    before = tapsBefore(taps, e.constant(0), base);
  return e.max(e.sub(tapsBefore(taps, end, base), before), e.constant(0));
}

Value PlanePoolBuilder::averageOf(Value sum, Value rowCount, Value column,
                                  int64_t lanes) {
  int64_t rows = rowCount ? 1 : *rowsCounted * *planesCounted;
  Value count;
  if (columnsCounted)
    count = e.splat(element, lanes, rows * *columnsCounted);
  else
    count = tile::LoadOp::create(b, loc, vectorType(lanes), counts, column);
  if (rowCount || (!columnsCounted && rows != 1)) {
    Value factor =
        rowCount ? e.widen(rowCount, lanes) : e.splat(element, lanes, rows);
    count = arith::MulFOp::create(b, loc, factor, count);
  }
  return arith::DivFOp::create(b, loc, sum, count);
}

LogicalResult PlanePoolBuilder::combineColumns(Value row) {
  int64_t lanes =
      lanesFor(p.outWidth, std::max<int64_t>(1, mostRegisters / p.sw));
  Value rowCount;
  if (p.averages && !(rowsCounted && planesCounted)) {
    auto countOf = [&](const Taps &taps, std::optional<int64_t> everywhere,
                       Value place) {
      return everywhere ? e.constant(*everywhere) : countedAt(taps, place);
    };
    Value count = e.mul(countOf(p.rows, rowsCounted, row),
                        countOf(p.planes, planesCounted, plane));
    rowCount = arith::SIToFPOp::create(
        b, loc, element,
        arith::IndexCastOp::create(b, loc, b.getI32Type(), count));
  }
  return forLanes(
      e, e.constant(0), e.constant(p.outWidth), lanes, p.outWidth % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        Value all = columnsOf(e.mul(column, e.constant(p.sw)), lanes);
        if (p.averages)
          all = averageOf(all, rowCount, column, lanes);
        return epilogue.store(e, all, at(plane, row, {column, valid, lanes}));
      });
}

LogicalResult PlanePoolBuilder::linesOf(Value row) {
  Inside rows = insideOf(p.rows, row);
  Value some = e.less(rows.first, rows.end);
  if (p.spatial > 2)
    some =
        arith::AndIOp::create(b, loc, some, e.less(planes.first, planes.end));
  auto branch = scf::IfOp::create(b, loc, some, /*withElseRegion=*/true);
  LogicalResult status = success();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    status = e.scoped([&] { return combineRows(planes, rows); });
    b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
    e.scoped([&] { fill(p.lowW, p.lowW + p.width); });
  }
  return status;
}

LogicalResult PlanePoolBuilder::build() {
  Dim height = p.rows.outSize, one = height.like(1);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> index = e.delinearize(
      id, {ts::dimOf(p.op.getResult(), 0), ts::dimOf(p.op.getResult(), 1),
           p.planes.outSize, height.ceilDiv(one * rows)});
  image = index[0];
  channel = index[1];
  plane = index[2];
  planes = insideOf(p.planes, plane);
  auto buffer = tile::BufferType::get(element);
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  counts = tile::ScratchOp::create(b, loc, buffer, e.constant(0));
  lines = tile::ScratchOp::create(
      b, loc, buffer, e.constant(bytes * countElements(p, registerLanes)));
  if (p.averages && !columnsCounted)
    writeCounts();
  Value each = e.constant(lineElements(p, registerLanes));
  Value first = e.mul(index[3], e.constant(rows));
  Value end = e.min(e.add(first, e.constant(rows)), e.size(height));
  auto forLines = [&](Value count,
                      llvm::function_ref<LogicalResult(Value i)> body) {
    return forEach(e, e.constant(0), count, [&](Value i) {
      line = e.mul(i, each);
      return body(i);
    });
  };
  Value all = e.min(e.constant(rowsAtOnce), e.sub(end, first));
  if (failed(forLines(all, [&](Value) -> LogicalResult {
        fill(0, p.lowW);
        fill(p.lowW + p.width, p.paddedWidth());
        return success();
      })))
    return failure();
  return forEach(
      e, first, end,
      [&](Value row) -> LogicalResult {
        Value count = e.min(e.constant(rowsAtOnce), e.sub(end, row));
        if (failed(forLines(count,
                            [&](Value i) { return linesOf(e.add(row, i)); })))
          return failure();
        return forLines(count,
                        [&](Value i) { return combineColumns(e.add(row, i)); });
      },
      rowsAtOnce);
}

std::optional<PlanePool> poolOf(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::PoolOp>();
  if (!llvm::hasSingleElement(ops))
    return std::nullopt;
  return planePoolOf(*ops.begin());
}

/// Enough to make up for the begin of a program, few enough for threads.
int64_t rowsOfBlock(PlanePool p) {
  constexpr int64_t pixels = 1 << 14;
  int64_t height = std::max<int64_t>(1, representative(p.rows.outSize));
  int64_t rows = std::clamp<int64_t>(
      pixels / p.width / p.rows.stride / p.planes.stride, 1, height);
  return llvm::divideCeil(height, llvm::divideCeil(height, rows));
}

} // namespace

LogicalResult chooseCpuPlanePool(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  std::optional<PlanePool> p = poolOf(kernel);
  if (!p)
    return success();
  if (failed(Epilogue::create(kernel, p->op.getResult())))
    return failure();
  PlaneCpuConfig config{rowsOfBlock(*p)};
  knobs.tune(config, config.rows);
  int64_t rows = config.rows;
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "cpu_plane_pool";
  schedule.parameters = config::print(config);
  schedule.grid = ts::dimOf(p->op.getResult(), 0) *
                  ts::dimOf(p->op.getResult(), 1) * p->planes.outSize *
                  p->rows.outSize.ceilDiv(one * rows);
  int64_t taps = p->planes.taps * p->rows.taps;
  schedule.grain =
      grainOf(16000, one * (rows * (taps * p->width + p->kw * p->outWidth)));
  int64_t lanes = lanesOf(*p, target);
  Type element = computeType(ts::elementTypeOf(p->op.getInput()));
  schedule.scratch =
      one * (element.getIntOrFloatBitWidth() / 8 *
             (countElements(*p, lanes) +
              std::min(rows, rowsAtOnce) * lineElements(*p, lanes)));
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuPlanePool(BuildContext &context) {
  return buildPlane<PlanePoolBuilder>(context, poolOf(context.kernel), "pool");
}

} // namespace knapper
