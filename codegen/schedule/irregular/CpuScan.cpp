// Running reductions along one dim on CPUs (GPUs: BlockScan.cpp).
//
//   program = one line along the dim; where the dim is not the last one, a tile
//   of neighbouring lines. The running value is carried from element to
//   element, in order, so that results do not depend on how a line is cut. Sums
//   and products of f32 are carried as f64: the roundings of a million steps in
//   one direction reach 1e-5 of the sum.
//
// Parameters: lanes (0: one line, scalars).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/IrregularConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

LogicalResult chooseCpuScan(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  ts::ScanOp op = firstOp<ts::ScanOp>(kernel);
  if (!op)
    return success(); // a transform
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  Dim one = Dim::constant(kernel.getContext(), 1), around = one;
  bool last = op.getDim() + 1 == dims.size();
  int64_t lanes = 0;
  if (!last) {
    constexpr int64_t least = 32, leastPrograms = 8, carriedBytes = 8;
    lanes = least;
    while (lanes > 1 && lanes > representative(dims.back()))
      lanes /= 2;
    // Neighbouring lines are one run of memory in each row: the longer, the
    // better, while half of the registers hold what is carried.
    int64_t most = target.vectorRegisters / 2 *
                   (int64_t(target.vectorBytes) / carriedBytes);
    int64_t others = 1;
    for (auto [i, dim] : llvm::enumerate(ArrayRef<Dim>(dims).drop_back()))
      if (i != op.getDim())
        others *= representative(dim);
    int64_t run = representative(dims.back());
    while (lanes >= least && lanes < run && 2 * lanes <= most &&
           others * llvm::divideCeil(run, 2 * lanes) >= leastPrograms)
      lanes *= 2;
    // Tiles of even size: the last one works on all of its lanes.
    constexpr int64_t whole = 16;
    if (lanes > whole)
      lanes = llvm::alignTo(llvm::divideCeil(run, llvm::divideCeil(run, lanes)),
                            whole);
  }
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != op.getDim())
      around = around *
               (lanes && i + 1 == dims.size() ? dim.ceilDiv(one * lanes) : dim);
  Schedule schedule;
  schedule.kind = "cpu_scan";
  schedule.parameters = config::print(config::ScanCpuConfig{lanes});
  schedule.grid = around;
  schedule.grain = grainOf(8000, dims[op.getDim()]);
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuScan(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::ScanOp op = firstOp<ts::ScanOp>(context.kernel);
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::ScanCpuConfig>(context);
  if (failed(config))
    return failure();
  int64_t lanes = config->lanes;
  unsigned axis = op.getDim();
  SmallVector<Dim> dims = ts::dimsOf(op.getInput()), around;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (i != axis)
      around.push_back(
          lanes && i + 1 == dims.size() ? dim.ceilDiv(dim.like(lanes)) : dim);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> outer = e.delinearize(id, around);
  Coord coord;
  coord.lanes = lanes;
  unsigned next = 0;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (i == axis) {
      coord.dims.push_back({});
    } else if (lanes && i + 1 == dims.size()) {
      Value start = e.mul(outer[next++], e.constant(lanes));
      coord.dims.push_back({start, 1, {}, lanes});
      coord.valid = e.sub(e.size(dim), start);
    } else {
      coord.dims.push_back({outer[next++]});
    }
  }
  Type element = computeType(ts::elementTypeOf(op.getInput()));
  bool isUnsigned = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
  bool isWide = element.isF32() && (op.getKind() == ts::ReduceKind::add ||
                                    op.getKind() == ts::ReduceKind::mul);
  Type carriedType = isWide ? Type(b.getF64Type()) : element;
  auto ofLanes = [&](Type type) -> Type {
    return lanes ? Type(VectorType::get(lanes, type)) : type;
  };
  Value length = e.size(dims[axis]);
  auto scan = [&](const Coord &tile) -> LogicalResult {
    // The neutral element starts the line.
    Value init =
        neutralElement(e, op.getKind(), carriedType, isUnsigned, lanes);
    LogicalResult status = success();
    forEach(
        e, e.constant(0), length, init,
        [&](Value i, ValueRange carried) -> FailureOr<SmallVector<Value>> {
          Coord at = tile;
          at.dims[axis] = {
              op.getReverse() ? e.sub(e.sub(length, e.constant(1)), i) : i};
          Value x = e.emit(op.getInput(), at);
          if (!x)
            return failure();
          x = e.widen(x, lanes);
          if (isWide)
            x = arith::ExtFOp::create(b, loc, ofLanes(carriedType), x);
          Value sum =
              combineElements(e, op.getKind(), carried[0], x, isUnsigned);
          Value result = op.getExclusive() ? carried[0] : sum;
          if (isWide)
            result = arith::TruncFOp::create(b, loc, ofLanes(element), result);
          if (failed(epilogue->store(e, result, at)))
            return failure();
          return SmallVector<Value>{sum};
        },
        status);
    return status;
  };
  if (!coord.valid)
    return scan(coord);
  Coord whole = coord;
  whole.valid = {};
  if (dims.back().knownDivisor() % lanes == 0 && dims.back().knownDivisor())
    return scan(whole);
  // The masks of a wide tile are more than there are registers for them.
  Value isWhole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge,
                                        coord.valid, e.constant(lanes));
  auto branch = scf::IfOp::create(b, loc, isWhole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
  LogicalResult unmasked = e.scoped([&] { return scan(whole); });
  b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
  LogicalResult masked = e.scoped([&] { return scan(coord); });
  return success(succeeded(unmasked) && succeeded(masked));
}

} // namespace knapper
