// The places of true elements on CPUs: a program = one row of the mask, whose
// first place among the results is known. Elements are looked at in groups; one
// without a true element is passed over. In the others each element's index is
// written behind those found before it, and counted if the element is true: no
// branch depends on it.
//
// Parameters: lanes.
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/IrregularConfig.h"
#include "ir/tensor/DataSelection.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

LogicalResult chooseCpuTruePlaces(ts::KernelOp kernel, const TargetDesc &,
                                  Knobs &,
                                  SmallVectorImpl<Schedule> &schedules) {
  ts::TruePlacesOp op = firstOp<ts::TruePlacesOp>(kernel);
  if (!op)
    return success(); // a sort
  SmallVector<Dim> rows = ts::dimsOf(op.getMask());
  Dim length = rows.pop_back_val();
  config::TruePlacesCpuConfig config{/*lanes=*/16};
  Schedule schedule;
  schedule.kind = "cpu_true_places";
  schedule.parameters = config::print(config);
  schedule.grid = ts::product(kernel.getContext(), rows);
  schedule.grain = grainOf(16000, length);
  schedule.scratch = length.like(8 * (config.lanes + 1));
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuTruePlaces(BuildContext &context) {
  auto config = configOf<config::TruePlacesCpuConfig>(context);
  if (failed(config))
    return failure();
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::TruePlacesOp op = firstOp<ts::TruePlacesOp>(context.kernel);
  int64_t lanes = config->lanes;
  SmallVector<Dim> dims = ts::dimsOf(op.getMask());
  Dim length = dims.pop_back_val();
  SmallVector<Value> outer =
      e.delinearize(tile::ProgramIdOp::create(b, loc), dims);
  Coord row;
  for (Value index : outer)
    row.dims.push_back({index});
  Value before = e.emit(op.getBefore(), row);
  if (!before)
    return failure();
  Type i64 = b.getI64Type();
  auto asI64 = [&](Value index) -> Value {
    return arith::IndexCastOp::create(b, loc, i64, index);
  };
  Value count = e.size(Dim(op.getCount())), results = e.outputBuffer(0);
  Value listed = tile::ScratchOp::create(b, loc, tile::BufferType::get(i64),
                                         e.constant(0));
  // Whatever `before` says, nothing is written outside.
  Value first = arith::IndexCastOp::create(b, loc, b.getIndexType(), before);
  first = e.min(e.max(first, e.constant(0)), count);

  LogicalResult status = success();
  /// The indices of the true elements from `i` on, behind each other; how many.
  auto list = [&](Value i, Value end) {
    return forEach(
        e, e.constant(0), end, ValueRange{e.constant(0)},
        [&](Value lane, ValueRange found) -> FailureOr<SmallVector<Value>> {
          Coord at = row;
          at.dims.push_back({e.add(i, lane)});
          Value isTrue = e.emit(op.getMask(), at);
          if (!isTrue)
            return failure();
          tile::StoreOp::create(b, loc, asI64(at.dims.back().start), listed,
                                found[0]);
          return SmallVector<Value>{e.add(
              found[0],
              arith::IndexCastUIOp::create(b, loc, b.getIndexType(), isTrue))};
        },
        status)[0];
  };
  auto give = [&](Value i, Value end, Value place) -> Value {
    Value found = list(i, end);
    Value valid = e.min(found, e.sub(count, place));
    for (auto [dim, index] : llvm::enumerate(outer)) {
      Value to = e.add(e.mul(e.constant(int64_t(dim)), count), place);
      tile::StoreOp::create(b, loc, e.widen(asI64(index), lanes), results, to,
                            valid);
    }
    Value to = e.add(e.mul(e.constant(int64_t(outer.size())), count), place);
    Value all = tile::LoadOp::create(b, loc, VectorType::get(lanes, i64),
                                     listed, e.constant(0));
    tile::StoreOp::create(b, loc, all, results, to, valid);
    return e.min(e.add(place, found), count);
  };
  std::optional<int64_t> known = length.asConstant();
  forLanes(
      e, e.constant(0), e.size(length), lanes, known && *known % lanes == 0,
      ValueRange{first},
      [&](Value i, Value valid,
          ValueRange place) -> FailureOr<SmallVector<Value>> {
        Coord at = row;
        at.lanes = lanes;
        at.dims.push_back({i, 1, {}, lanes});
        at.valid = valid;
        Value mask = e.emit(op.getMask(), at);
        if (!mask)
          return failure();
        mask = e.widen(mask, lanes);
        if (valid)
          mask = arith::AndIOp::create(b, loc, mask, e.laneMask(lanes, valid));
        Value any = vector::ReductionOp::create(
            b, loc, vector::CombiningKind::OR, mask);
        auto branch = scf::IfOp::create(b, loc, place.getTypes(), any,
                                        /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(&branch.getThenRegion().front());
        Value end = valid ? valid : e.constant(lanes);
        Value next = e.scoped([&] { return give(i, end, place[0]); });
        scf::YieldOp::create(b, loc, next);
        b.setInsertionPointToEnd(&branch.getElseRegion().front());
        scf::YieldOp::create(b, loc, place);
        return SmallVector<Value>(branch.getResults());
      },
      status);
  return status;
}

} // namespace knapper
