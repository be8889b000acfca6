// Maxima of windows, channels first: the lanes of a register are neighbouring
// pixels.
//
//   program = (image, channel, block of output rows)
//     for some output rows at a time, so that what is stored is not read at
//     once, in other pieces:
//       of each the maxima of the window's rows, column by column, go to
//       scratch, the border on both sides
//       of each the maxima of the window's columns there, for a register of
//       pixels at once: with strides the columns that a register of them sees
//       are loaded together and picked apart
//       one epilogue takes them
//
// A window row outside of the image counts as the next one inside, which the
// window sees as well.
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

/// Elements of a line of scratch: a row with its border, and what the last tile
/// reads beyond it, at most `mostRegisters` registers for each stride.
int64_t lineElements(const PlanePool &p, int64_t lanes) {
  return llvm::alignTo(std::max(p.paddedWidth(), p.lowW + p.width), lanes) +
         mostRegisters * lanes * p.sw;
}

class PlanePoolBuilder {
public:
  PlanePoolBuilder(BuildContext &context, const PlaneCpuConfig &config,
                   PlanePool pool, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location), p(pool),
        epilogue(std::move(epilogue)), rows(config.rows),
        registerLanes(context.target.lanes(DType::f32)) {}

  LogicalResult build();

private:
  /// For runs of `width`: as few tiles as hold them, of even size.
  int64_t lanesFor(int64_t width, int64_t registers) const {
    int64_t tiles = llvm::divideCeil(width, registers * registerLanes);
    return llvm::alignTo(llvm::divideCeil(width, tiles), registerLanes);
  }
  VectorType vectorType(int64_t lanes) const {
    return VectorType::get(lanes, b.getF32Type());
  }
  Value nothing(int64_t lanes) {
    return neutralElement(e, ts::ReduceKind::max, b.getF32Type(),
                          /*isUnsigned=*/false, lanes);
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
  void fill(int64_t begin, int64_t end);
  LogicalResult linesOf(Value row);
  /// Maxima of the window's rows from `base` on; `first` .. `end` are inside.
  LogicalResult rowMaxima(Value base, Value first, Value end);
  LogicalResult columnMaxima(Value row);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  PlanePool p;
  Epilogue epilogue;
  int64_t rows, registerLanes;

  Value image, channel;
  Value lines; ///< scratch: rows of maxima, with their border
  Value line;  ///< where the one at hand begins
};

void PlanePoolBuilder::fill(int64_t begin, int64_t end) {
  if (begin < end)
    fillRun(e, nothing(registerLanes), lines, e.add(line, e.constant(begin)),
            e.constant(end - begin));
}

LogicalResult PlanePoolBuilder::rowMaxima(Value base, Value first, Value end) {
  int64_t lanes = lanesFor(p.width, mostRegisters);
  Value last = e.sub(end, e.constant(1));
  return forLanes(
      e, e.constant(0), e.constant(p.width), lanes, p.width % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        auto pixels = [&](Value i) -> Value {
          Coord at;
          at.lanes = lanes;
          at.valid = valid;
          Value row = e.add(base, e.mul(i, e.constant(p.dh)));
          at.dims = {{image}, {channel}, {row}, {column, 1, {}, lanes}};
          Value x = e.emit(p.op.getInput(), at);
          return x ? e.widen(x, lanes) : x;
        };
        constexpr int64_t mostUnrolled = 8;
        LogicalResult status = success();
        Value most;
        if (p.kh <= mostUnrolled) {
          for (int64_t i = 0; i < p.kh; ++i) {
            Value x = pixels(e.min(e.max(e.constant(i), first), last));
            if (!x)
              return failure();
            most = most ? maximumOfAnyZero(most, x) : x;
          }
        } else {
          most = forEach(
              e, first, end, ValueRange{nothing(lanes)},
              [&](Value i, ValueRange now) -> FailureOr<SmallVector<Value>> {
                Value x = pixels(i);
                if (!x)
                  return failure();
                return SmallVector<Value>{maximumOfAnyZero(now[0], x)};
              },
              status)[0];
        }
        tile::StoreOp::create(b, loc, most, lines,
                              e.add(e.add(line, column), e.constant(p.lowW)),
                              valid);
        return status;
      });
}

LogicalResult PlanePoolBuilder::columnMaxima(Value row) {
  int64_t lanes =
      lanesFor(p.outWidth, std::max<int64_t>(1, mostRegisters / p.sw));
  return forLanes(
      e, e.constant(0), e.constant(p.outWidth), lanes, p.outWidth % lanes == 0,
      [&](Value column, Value valid) -> LogicalResult {
        Value first = e.mul(column, e.constant(p.sw)), most, loaded;
        // Taps that one load of neighbouring columns gives lie side by side.
        int64_t from = -1;
        for (int64_t j = 0; j < p.kw; ++j) {
          int64_t place = j * p.dw, rest = place % p.sw;
          if (place - rest != from) {
            from = place - rest;
            loaded = tile::LoadOp::create(
                b, loc, vectorType(lanes * p.sw), lines,
                e.add(e.add(line, first), e.constant(from)));
          }
          Value x = loaded;
          if (p.sw > 1) {
            SmallVector<int64_t> picked;
            for (int64_t l = 0; l < lanes; ++l)
              picked.push_back(l * p.sw + rest);
            x = vector::ShuffleOp::create(b, loc, loaded, loaded, picked);
          }
          most = most ? maximumOfAnyZero(most, x) : x;
        }
        Coord at;
        at.lanes = lanes;
        at.valid = valid;
        at.dims = {{image}, {channel}, {row}, {column, 1, {}, lanes}};
        return epilogue.store(e, most, at);
      });
}

LogicalResult PlanePoolBuilder::linesOf(Value row) {
  Value base = e.sub(e.mul(row, e.constant(p.sh)), e.constant(p.lowH));
  Value height = e.size(ts::dimOf(p.op.getInput(), 2));
  // Window rows at base + i * dh, 0 <= that < height.
  auto before = [&](Value distance) {
    Value some = e.max(distance, e.constant(0));
    return e.div(e.add(some, e.constant(p.dh - 1)), e.constant(p.dh));
  };
  Value first = before(e.sub(e.constant(0), base));
  Value end = e.min(before(e.sub(height, base)), e.constant(p.kh));
  auto branch = scf::IfOp::create(b, loc, e.less(first, end),
                                  /*withElseRegion=*/true);
  LogicalResult status = success();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    status = e.scoped([&] { return rowMaxima(base, first, end); });
    b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
    e.scoped([&] { fill(p.lowW, p.lowW + p.width); });
  }
  return status;
}

LogicalResult PlanePoolBuilder::build() {
  Dim one = ts::dimOf(p.op.getResult(), 0).like(1);
  Dim height = ts::dimOf(p.op.getResult(), 2);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> index = e.delinearize(id, {ts::dimOf(p.op.getResult(), 0),
                                                ts::dimOf(p.op.getResult(), 1),
                                                height.ceilDiv(one * rows)});
  image = index[0];
  channel = index[1];
  lines = tile::ScratchOp::create(b, loc, tile::BufferType::get(b.getF32Type()),
                                  e.constant(0));
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
                        [&](Value i) { return columnMaxima(e.add(row, i)); });
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
  int64_t height =
      std::max<int64_t>(1, representative(ts::dimOf(p.op.getResult(), 2)));
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
                  ts::dimOf(p->op.getResult(), 2).ceilDiv(one * rows);
  schedule.grain =
      grainOf(16000, one * (rows * (p->kh * p->width + p->kw * p->outWidth)));
  schedule.scratch = one * (4 * std::min(rows, rowsAtOnce) *
                            lineElements(*p, target.lanes(DType::f32)));
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
