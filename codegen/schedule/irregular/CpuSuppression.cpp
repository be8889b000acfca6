// Boxes of the highest scores that do not overlap much, on CPUs: a program =
// one class of one batch.
//
//   1  Scores are copied; of each group of `lanes` the highest is kept apart.
//   2  The highest of these names the group in which the next box stands. Its
//      score is taken away, and the group's highest found again. So a box costs
//      1 / lanes of the scores, and no more boxes are looked at than decide the
//      result: nothing is sorted.
//   3  The box is compared with those taken before, `lanes` at once, until one
//      overlaps it.
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
#include <limits>

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr int64_t floatBytes = 4;
constexpr int64_t borders = 4; ///< top, left, bottom, right

Dim groupsOf(Dim boxes, int64_t lanes) {
  return boxes.ceilDiv(boxes.like(lanes));
}
/// Elements of a part of scratch: with a register more than is used.
Dim padded(Dim elements, int64_t lanes) {
  return (elements.ceilDiv(elements.like(lanes)) + 1) * lanes;
}

} // namespace

LogicalResult chooseCpuSuppression(ts::KernelOp kernel, const TargetDesc &,
                                   Knobs &,
                                   SmallVectorImpl<Schedule> &schedules) {
  ts::NonMaxSuppressionOp op = firstOp<ts::NonMaxSuppressionOp>(kernel);
  if (!op)
    return success(); // a sort
  SmallVector<Dim> dims = ts::dimsOf(op.getScores());
  Dim boxes = dims[2], most(op.getMost());
  config::SuppressionCpuConfig config{/*lanes=*/16};
  Schedule schedule;
  schedule.kind = "cpu_suppression";
  schedule.parameters = config::print(config);
  schedule.grid = dims[0] * dims[1];
  schedule.grain = grainOf(8000, boxes + most * 32);
  schedule.scratch = (padded(boxes, config.lanes) +
                      padded(groupsOf(boxes, config.lanes), config.lanes) +
                      padded(most, config.lanes) * (borders + 1)) *
                     floatBytes;
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

class Suppression {
public:
  Suppression(BuildContext &context, ts::NonMaxSuppressionOp op, int64_t lanes)
      : e(context.emitter), b(e.builder), loc(e.location), op(op), lanes(lanes),
        f32(b.getF32Type()), i32(b.getI32Type()) {
    Dim boxes = ts::dimOf(op.getScores(), 2), most(op.getMost());
    n = e.size(boxes);
    groups = e.size(groupsOf(boxes, lanes));
    Dim at = boxes.like(0);
    auto part = [&](Dim elements) -> Value {
      Value buffer = tile::ScratchOp::create(b, loc, tile::BufferType::get(f32),
                                             e.size(at * floatBytes));
      at = at + padded(elements, lanes);
      return buffer;
    };
    scores = part(boxes);
    maxima = part(groupsOf(boxes, lanes));
    for (Value &border : taken)
      border = part(most);
    areas = part(most);
  }

  LogicalResult build();

private:
  using F = arith::CmpFPredicate;

  Value infinity(int64_t width) {
    return e.splat(f32, width, -std::numeric_limits<double>::infinity());
  }
  Value load(Value buffer, Value at) {
    return tile::LoadOp::create(b, loc, VectorType::get(lanes, f32), buffer,
                                at);
  }
  void store(Value x, Value buffer, Value at) {
    tile::StoreOp::create(b, loc, x, buffer, at);
  }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value compare(F predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value all(vector::CombiningKind kind, Value tile) {
    return vector::ReductionOp::create(b, loc, kind, tile);
  }
  /// The least of the numbers (i32) whose lane is set, as an index.
  Value firstOf(Value numbers, Value isSet) {
    Value none = e.splat(i32, lanes, std::numeric_limits<int32_t>::max());
    Value first = all(vector::CombiningKind::MINSI,
                      arith::SelectOp::create(b, loc, isSet, numbers, none));
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), first);
  }
  Value numbersFrom(Value i) {
    return arith::IndexCastOp::create(b, loc, VectorType::get(lanes, i32),
                                      e.lanePositions({i, 1, {}, 1}, lanes));
  }
  /// The highest of a register.
  Value highest(Value tile) {
    return all(vector::CombiningKind::MAXNUMF, tile);
  }

  LogicalResult copyScores();
  /// The highest score that is left, and the first group with it.
  SmallVector<Value> best();
  /// The box with the score in the group, whose score is taken away.
  Value take(Value score, Value group);
  /// Whether one of the first `count` taken boxes overlaps the box.
  Value isOverlapped(ArrayRef<Value> box, Value area, Value count);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::NonMaxSuppressionOp op;
  int64_t lanes;
  Type f32, i32;
  Value n, groups;
  Value scores, maxima, taken[borders], areas;
  SmallVector<Value> line; ///< batch, class
  LogicalResult status = success();
};

LogicalResult Suppression::copyScores() {
  std::optional<int64_t> known = ts::dimOf(op.getScores(), 2).asConstant();
  if (failed(forLanes(e, e.constant(0), n, lanes, known && *known % lanes == 0,
                      [&](Value i, Value valid) -> LogicalResult {
                        Coord at;
                        at.lanes = lanes;
                        at.dims = {{line[0]}, {line[1]}, {i, 1, {}, lanes}};
                        at.valid = valid;
                        Value x = e.emit(op.getScores(), at);
                        if (!x)
                          return failure();
                        x = e.widen(x, lanes);
                        Value counts = compare(F::ORD, x, x);
                        if (valid)
                          counts = both(counts, e.laneMask(lanes, valid));
                        x = arith::SelectOp::create(b, loc, counts, x,
                                                    infinity(lanes));
                        store(x, scores, i);
                        store(highest(x), maxima, e.div(i, e.constant(lanes)));
                        return success();
                      })))
    return failure();
  store(infinity(lanes), maxima, groups);
  return success();
}

SmallVector<Value> Suppression::best() {
  SmallVector<Value> found = forEach(
      e, e.constant(0), groups,
      ValueRange{infinity(lanes), e.splat(i32, lanes, 0)},
      [&](Value i, ValueRange now) -> FailureOr<SmallVector<Value>> {
        Value x = load(maxima, i);
        Value above = compare(F::OGT, x, now[0]);
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, above, x, now[0]),
            arith::SelectOp::create(b, loc, above, numbersFrom(i), now[1])};
      },
      status, lanes);
  Value score = highest(found[0]);
  Value isBest = compare(F::OEQ, found[0], e.widen(score, lanes));
  return {score, firstOf(found[1], isBest)};
}

Value Suppression::take(Value score, Value group) {
  Value start = e.mul(group, e.constant(lanes)), left = load(scores, start);
  Value isIt = compare(F::OEQ, left, e.widen(score, lanes));
  Value place = firstOf(numbersFrom(start), isIt);
  isIt = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::eq, numbersFrom(start),
      e.widen(arith::IndexCastOp::create(b, loc, i32, place), lanes));
  left = arith::SelectOp::create(b, loc, isIt, infinity(lanes), left);
  store(left, scores, start);
  store(highest(left), maxima, group);
  return place;
}

Value Suppression::isOverlapped(ArrayRef<Value> box, Value area, Value count) {
  Value limit = e.emit(op.getLimit(), Coord());
  if (!limit) {
    status = failure();
    return {};
  }
  limit = e.widen(limit, lanes);
  auto lesser = [&](Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, compare(F::OLT, x, y), x, y);
  };
  auto greater = [&](Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, compare(F::OGT, x, y), x, y);
  };
  Value no = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0);
  Value zero = e.splat(f32, lanes, 0);
  return repeatWhile(
      e, ValueRange{e.constant(0), no},
      [&](ValueRange now) -> Value {
        Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
        return both(e.less(now[0], count),
                    arith::XOrIOp::create(b, loc, now[1], yes));
      },
      [&](ValueRange now) -> FailureOr<SmallVector<Value>> {
        Value i = now[0];
        auto own = [&](unsigned border) { return e.widen(box[border], lanes); };
        auto other = [&](unsigned border) { return load(taken[border], i); };
        Value height = sub(lesser(own(2), other(2)), greater(own(0), other(0)));
        Value width = sub(lesser(own(3), other(3)), greater(own(1), other(1)));
        Value shared = mul(height, width), first = load(areas, i);
        Value second = e.widen(area, lanes);
        Value whole = sub(arith::AddFOp::create(b, loc, second, first), shared);
        Value part = arith::DivFOp::create(b, loc, shared, whole);
        Value overlaps = compare(F::OGT, part, limit);
        for (Value positive : {height, width, first, second})
          overlaps = both(overlaps, compare(F::OGT, positive, zero));
        overlaps = both(overlaps, e.laneMask(lanes, e.sub(count, i)));
        return SmallVector<Value>{e.add(i, e.constant(lanes)),
                                  all(vector::CombiningKind::OR, overlaps)};
      },
      status)[1];
}

LogicalResult Suppression::build() {
  SmallVector<Dim> dims = ts::dimsOf(op.getScores());
  dims.pop_back();
  line = e.delinearize(tile::ProgramIdOp::create(b, loc), dims);
  if (failed(copyScores()))
    return failure();
  Value most = e.size(Dim(op.getMost()));
  SmallVector<Value> carried{e.constant(0)};
  llvm::append_range(carried, best());
  Type i64 = b.getI64Type();
  Value result = e.outputBuffer(0);
  auto placeOf = [&](Value k) {
    Coord at;
    at.dims = {{line[0]}, {line[1]}, {k}};
    return at;
  };
  Value count = repeatWhile(
      e, carried,
      [&](ValueRange now) {
        return both(e.less(now[0], most), compare(F::OGT, now[1], infinity(0)));
      },
      [&](ValueRange now) -> FailureOr<SmallVector<Value>> {
        Value k = now[0], index = take(now[1], now[2]);
        auto corner = [&](int64_t i) {
          Coord at;
          at.dims = {{line[0]}, {index}, {e.constant(i)}};
          return e.emit(op.getBoxes(), at);
        };
        Value corners[] = {corner(0), corner(1), corner(2), corner(3)};
        if (llvm::is_contained(corners, Value()))
          return failure();
        SmallVector<Value> box;
        for (int i : {0, 1})
          box.push_back(
              arith::MinimumFOp::create(b, loc, corners[i], corners[i + 2]));
        for (int i : {0, 1})
          box.push_back(
              arith::MaximumFOp::create(b, loc, corners[i], corners[i + 2]));
        Value area = mul(sub(box[2], box[0]), sub(box[3], box[1]));
        Value overlapped = isOverlapped(box, area, k);
        if (failed(status))
          return failure();
        auto branch = scf::IfOp::create(b, loc, TypeRange{b.getIndexType()},
                                        overlapped, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(&branch.getThenRegion().front());
        scf::YieldOp::create(b, loc, k);
        b.setInsertionPointToEnd(&branch.getElseRegion().front());
        e.scoped([&] {
          for (int i = 0; i < borders; ++i)
            store(box[i], taken[i], k);
          store(area, areas, k);
          e.store(arith::IndexCastOp::create(b, loc, i64, index), result,
                  op.getType(), placeOf(k));
          scf::YieldOp::create(b, loc, e.add(k, e.constant(1)));
        });
        b.setInsertionPointAfter(branch);
        SmallVector<Value> next{branch.getResult(0)};
        llvm::append_range(next, best());
        return next;
      },
      status)[0];
  if (failed(status))
    return failure();
  return forLanes(e, count, most, lanes, /*divides=*/false,
                  [&](Value i, Value valid) -> LogicalResult {
                    Coord at = placeOf(i);
                    at.lanes = lanes;
                    at.dims.back().step = 1;
                    at.valid = valid;
                    e.store(e.splat(i64, lanes, -1), result, op.getType(), at);
                    return success();
                  });
}

} // namespace

LogicalResult buildCpuSuppression(BuildContext &context) {
  auto config = configOf<config::SuppressionCpuConfig>(context);
  if (failed(config))
    return failure();
  return Suppression(context, firstOp<ts::NonMaxSuppressionOp>(context.kernel),
                     config->lanes)
      .build();
}

} // namespace knapper
