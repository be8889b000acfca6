// Updates of single elements or slices: a copy of the input, then the updates
// in row-major order, so that of equal indices the last one stays.
//
//   one program does everything: updates may meet anywhere, and order counts
#include "codegen/schedule/Emitter.h"
#include "codegen/schedule/Lanes.h"
#include "codegen/schedule/Schedules.h"
#include "runtime/base/KernelAbi.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static Operation *scatterOf(ts::KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isa<ts::ScatterElementsOp, ts::ScatterNdOp>(op))
      return &op;
  return nullptr;
}

LogicalResult chooseScatter(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  if (!scatterOf(kernel))
    return kernel.emitOpError("has hero scatter and none inside");
  Schedule schedule;
  schedule.kind = "scatter";
  schedule.grid = schedule.grain = Dim::constant(kernel.getContext(), 1);
  schedule.scratch = schedule.grid * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildScatter(BuildContext &context) {
  Emitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Operation *op = scatterOf(context.kernel);
  Value input = op->getOperand(0), indices = op->getOperand(1),
        updates = op->getOperand(2);
  if (context.kernel.yield().getValues().size() != 1 ||
      context.kernel.yield().getValues()[0] != op->getResult(0))
    return context.kernel.emitOpError("stores something else than the updates");
  auto elements = dyn_cast<ts::ScatterElementsOp>(op);
  auto slices = dyn_cast<ts::ScatterNdOp>(op);
  std::optional<ts::ReduceKind> reduction =
      elements ? elements.getReduction() : slices.getReduction();
  Type type = op->getResult(0).getType();
  SmallVector<Dim> dims = ts::dimsOf(type);
  Value output = e.outputBuffer(0);
  // The copy, element position by element position.
  if (failed(forEach(e, e.constant(0), e.size(ts::elementCount(type)),
                     [&](Value i) -> LogicalResult {
                       Coord at;
                       for (Value index : e.delinearize(i, dims))
                         at.dims.push_back({index});
                       Value x = e.emit(input, at);
                       if (!x)
                         return failure();
                       e.store(x, output, type, at);
                       return success();
                     })))
    return failure();

  /// An index as one into a dim; outside, the run fails and 0 is used.
  auto checked = [&](Value value, Dim extent) -> Value {
    Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
    Value n = e.size(extent);
    Value wrapped = arith::SelectOp::create(
        b, loc, e.less(index, e.constant(0)), e.add(index, n), index);
    Value outside =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, wrapped, n);
    tile::SetStatusOp::create(b, loc, kernelIndexOutOfRange, outside);
    return arith::SelectOp::create(b, loc, outside, e.constant(0), wrapped);
  };
  bool isUnsigned = ts::elementTypeOf(input).isUnsignedInteger();
  SmallVector<Dim> updateDims = ts::dimsOf(updates);
  int64_t depth = slices ? *ts::dimsOf(indices).back().asConstant() : 0;
  unsigned indexRank = ts::rankOf(indices);
  return forEach(
      e, e.constant(0), e.size(ts::elementCount(updates.getType())),
      [&](Value i) -> LogicalResult {
        Coord from, to;
        for (Value index : e.delinearize(i, updateDims))
          from.dims.push_back({index});
        if (elements) {
          Value index = e.emit(indices, from);
          if (!index)
            return failure();
          to = from;
          unsigned dim = elements.getDim();
          to.dims[dim] = {checked(index, dims[dim])};
        } else {
          for (int64_t k = 0; k < depth; ++k) {
            Coord at;
            at.dims.assign(from.dims.begin(),
                           from.dims.begin() + indexRank - 1);
            at.dims.push_back({e.constant(k)});
            Value index = e.emit(indices, at);
            if (!index)
              return failure();
            to.dims.push_back({checked(index, dims[k])});
          }
          to.dims.append(from.dims.begin() + indexRank - 1, from.dims.end());
        }
        Value x = e.emit(updates, from);
        if (!x)
          return failure();
        if (reduction)
          x = combineElements(e, *reduction, e.load(output, type, to), x,
                              isUnsigned);
        e.store(x, output, type, to);
        return success();
      });
}

} // namespace knapper
