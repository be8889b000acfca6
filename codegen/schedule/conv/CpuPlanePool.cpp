// Maxima, sums and averages of windows, channels first: the lanes of a register
// are neighbouring pixels.
//
//   program = (image, channel, block of output rows)
//     for some output rows at a time, so that what is stored is not read at
//     once, in other pieces:
//       of each the window's rows are combined, column by column, and go to
//       scratch, the border on both sides
//       of each the window's columns there are combined, for a register of
//       pixels at once: with strides the columns that a register of them sees
//       are loaded together and picked apart, or read one by one if they are
//       far apart
//       an average divides by the rows and the columns that the window counts;
//       where output columns differ in these, scratch has them
//       one epilogue takes them
//
// To a maximum a window row outside of the image is the next one inside, which
// the window sees as well.
//
// Parameters: rows of a block.
#include "codegen/schedule/conv/ConvWindow.h"
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
        rowsCounted(p.averages ? p.rowsEverywhere() : std::nullopt) {}

  LogicalResult build();

private:
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
  Coord at(Value row, Value column, Value valid, int64_t lanes) const {
    Coord coord;
    coord.lanes = lanes;
    coord.valid = valid;
    coord.dims = {{image}, {channel}};
    if (p.hasRows)
      coord.dims.push_back({row});
    coord.dims.push_back({column, 1, {}, lanes});
    return coord;
  }
  /// Input row of the window's first row, for output row `row`.
  Value baseOf(Value row) {
    return e.sub(e.mul(row, e.constant(p.sh)), e.constant(p.lowH));
  }
  /// Window rows at base + i * dh that lie above input row `end`.
  Value rowsBefore(Value end, Value base) {
    Value some = e.max(e.sub(end, base), e.constant(0));
    return e.min(e.div(e.add(some, e.constant(p.dh - 1)), e.constant(p.dh)),
                 e.constant(p.kh));
  }
  void fill(int64_t begin, int64_t end);
  LogicalResult linesOf(Value row);
  /// The window's rows from `base` on combined; `first` .. `end` are inside.
  LogicalResult combineRows(Value base, Value first, Value end);
  LogicalResult combineColumns(Value row);
  /// Columns from `column` on, of the first window column and each further one.
  Value columnsOf(Value first, int64_t lanes);
  /// Writes how many columns the windows of each output column count.
  void writeCounts();
  /// What an average of output row `row` divides by, beside the columns.
  Value countedRows(Value row);
  Value averageOf(Value sum, Value rowCount, Value column, int64_t lanes);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  PlanePool p;
  Epilogue epilogue;
  int64_t rows, registerLanes;
  Type element; ///< of scratch
  bool isMax, isUnsigned;
  std::optional<int64_t> columnsCounted, rowsCounted;

  Value image, channel;
  Value counts; ///< scratch: columns that averages count
  Value lines;  ///< scratch: combined rows, with their border
  Value line;   ///< where the one at hand begins
};

void PlanePoolBuilder::fill(int64_t begin, int64_t end) {
  if (begin < end)
    fillRun(e, nothing(registerLanes), lines, e.add(line, e.constant(begin)),
            e.constant(end - begin));
}

LogicalResult PlanePoolBuilder::combineRows(Value base, Value first,
                                            Value end) {
  int64_t lanes = lanesFor(p.width, mostRegisters);
  Value last = e.sub(end, e.constant(1));
  return forLanes(
      e, e.constant(0), e.constant(p.width), lanes, p.width % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        auto pixels = [&](Value i) -> Value {
          Value row = e.add(base, e.mul(i, e.constant(p.dh)));
          Value x = e.emit(p.op.getInput(), at(row, column, valid, lanes));
          return x ? e.widen(x, lanes) : x;
        };
        auto unrolled = [&](llvm::function_ref<Value(int64_t)> rowAt) {
          Value all;
          for (int64_t i = 0; i < p.kh; ++i) {
            Value x = pixels(rowAt(i));
            if (!x)
              return Value();
            all = all ? combined(all, x) : x;
          }
          return all;
        };
        auto looped = [&]() -> Value {
          LogicalResult status = success();
          Value all = forEach(
              e, first, end, ValueRange{nothing(lanes)},
              [&](Value i, ValueRange now) -> FailureOr<SmallVector<Value>> {
                Value x = pixels(i);
                if (!x)
                  return failure();
                return SmallVector<Value>{combined(now[0], x)};
              },
              status)[0];
          return succeeded(status) ? all : Value();
        };
        auto number = [&](int64_t i) { return e.constant(i); };
        Value all;
        if (p.kh > mostRowsUnrolled) {
          all = looped();
        } else if (isMax) {
          all = unrolled([&](int64_t i) {
            return e.min(e.max(e.constant(i), first), last);
          });
        } else if (p.rowsAreInside()) {
          all = unrolled(number);
        } else {
          Value whole =
              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                    e.sub(end, first), e.constant(p.kh));
          all = e.select(whole, [&] { return unrolled(number); }, looped);
        }
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

Value PlanePoolBuilder::countedRows(Value row) {
  if (rowsCounted)
    return {};
  Value base = baseOf(row), end = e.size(p.height), before = e.constant(0);
  if (p.countsBorder)
    end = e.add(end, e.size(p.highH));
  else
    before = rowsBefore(e.constant(0), base);
  Value count = e.max(e.sub(rowsBefore(end, base), before), e.constant(0));
  Value number = arith::IndexCastOp::create(b, loc, b.getI32Type(), count);
  return arith::SIToFPOp::create(b, loc, element, number);
}

Value PlanePoolBuilder::averageOf(Value sum, Value rowCount, Value column,
                                  int64_t lanes) {
  Value count = rowCount ? e.widen(rowCount, lanes)
                         : e.splat(element, lanes, *rowsCounted);
  if (columnsCounted && rowsCounted) {
    count = e.splat(element, lanes, *rowsCounted * *columnsCounted);
  } else {
    Value columns =
        columnsCounted
            ? e.splat(element, lanes, *columnsCounted)
            : tile::LoadOp::create(b, loc, vectorType(lanes), counts, column)
                  .getResult();
    count = arith::MulFOp::create(b, loc, count, columns);
  }
  return arith::DivFOp::create(b, loc, sum, count);
}

LogicalResult PlanePoolBuilder::combineColumns(Value row) {
  int64_t lanes =
      lanesFor(p.outWidth, std::max<int64_t>(1, mostRegisters / p.sw));
  Value rowCount = p.averages ? countedRows(row) : Value();
  return forLanes(
      e, e.constant(0), e.constant(p.outWidth), lanes, p.outWidth % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        Value all = columnsOf(e.mul(column, e.constant(p.sw)), lanes);
        if (p.averages)
          all = averageOf(all, rowCount, column, lanes);
        return epilogue.store(e, all, at(row, column, valid, lanes));
      });
}

LogicalResult PlanePoolBuilder::linesOf(Value row) {
  Value base = baseOf(row);
  Value first = rowsBefore(e.constant(0), base);
  Value end = rowsBefore(e.size(p.height), base);
  auto branch = scf::IfOp::create(b, loc, e.less(first, end),
                                  /*withElseRegion=*/true);
  LogicalResult status = success();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    status = e.scoped([&] { return combineRows(base, first, end); });
    b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
    e.scoped([&] { fill(p.lowW, p.lowW + p.width); });
  }
  return status;
}

LogicalResult PlanePoolBuilder::build() {
  Dim height = p.outHeight, one = height.like(1);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> index = e.delinearize(id, {ts::dimOf(p.op.getResult(), 0),
                                                ts::dimOf(p.op.getResult(), 1),
                                                height.ceilDiv(one * rows)});
  image = index[0];
  channel = index[1];
  auto buffer = tile::BufferType::get(element);
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  counts = tile::ScratchOp::create(b, loc, buffer, e.constant(0));
  lines = tile::ScratchOp::create(
      b, loc, buffer, e.constant(bytes * countElements(p, registerLanes)));
  if (p.averages && !columnsCounted)
    writeCounts();
  Value each = e.constant(lineElements(p, registerLanes));
  Value first = e.mul(index[2], e.constant(rows));
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
  int64_t height = std::max<int64_t>(1, representative(p.outHeight));
  int64_t rows = std::clamp<int64_t>(pixels / (p.width * p.sh), 1, height);
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
                  ts::dimOf(p->op.getResult(), 1) *
                  p->outHeight.ceilDiv(one * rows);
  schedule.grain =
      grainOf(16000, one * (rows * (p->kh * p->width + p->kw * p->outWidth)));
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
  std::optional<PlanePool> p = poolOf(context.kernel);
  if (!p)
    return context.kernel.emitOpError("is no pool that this schedule knows");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, p->op.getResult());
  auto config = configOf<PlaneCpuConfig>(context);
  if (failed(epilogue) || failed(config))
    return failure();
  return PlanePoolBuilder(context, *config, *p, std::move(*epilogue)).build();
}

} // namespace knapper
