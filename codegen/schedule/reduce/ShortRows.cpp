// Reductions and normalisations of rows of a few elements (CPUs): a row a lane.
//
//   program = a block of rows, as many at a time as a register has lanes: they
//             are read as one run and transposed in registers, so that a value
//             holds an element of every row; what is computed for whole rows is
//             transposed back
//
// Serves elementwise ops and reductions of the last dim over operands of the
// rows' shape, of their reduction's, of one row's or of single elements.
//
// Parameters: rows (of one program).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ReduceConfig.h"
#include "ir/tensor/Decompose.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// The longest row.
constexpr int64_t mostElements = 16;

struct ShortRowsProblem {
  SmallVector<Dim> whole, kept;
  int64_t length;
};

/// Whether dims of rows stay dims of rows and a row's own dim stays that.
bool keepsPlaces(ts::BroadcastOp op, const ShortRowsProblem &rows) {
  if (ts::elementCount(op.getInput().getType()).isConstant(1))
    return true;
  int64_t last = static_cast<int64_t>(rows.kept.size());
  SmallVector<Dim> to = ts::dimsOf(op.getResult());
  auto isAlong = [&](ArrayRef<Dim> dims, int64_t from) {
    return ts::dimsOf(op.getInput()) == dims &&
           llvm::equal(op.getDims(),
                       llvm::seq<int64_t>(from, from + (int64_t)dims.size()));
  };
  if (to == rows.kept)
    return isAlong(rows.kept, 0);
  return to == rows.whole && (isAlong(rows.whole, 0) || isAlong(rows.kept, 0) ||
                              isAlong(rows.whole.back(), last));
}

/// The rows that the kernel reduces, if this schedule serves it.
std::optional<ShortRowsProblem> rowsOf(ts::KernelOp kernel) {
  std::optional<ShortRowsProblem> rows;
  auto reduces = [&](Value input, ArrayRef<int64_t> dims) {
    SmallVector<Dim> whole = ts::dimsOf(input);
    if (whole.size() < 2 || dims.size() != 1 ||
        dims[0] != static_cast<int64_t>(whole.size()) - 1)
      return false;
    int64_t length = whole.back().asConstant().value_or(0);
    if (length < 2 || length > mostElements || (rows && rows->whole != whole))
      return false;
    rows = {whole, SmallVector<Dim>(whole.begin(), whole.end() - 1), length};
    return true;
  };
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator()) {
    if (auto reduce = dyn_cast<ts::ReduceOp>(op)) {
      if (!reduces(reduce.getInput(), reduce.getDims()))
        return std::nullopt;
    } else if (auto softmax = dyn_cast<ts::SoftmaxOp>(op)) {
      if (!reduces(softmax.getInput(),
                   {static_cast<int64_t>(softmax.getDim())}))
        return std::nullopt;
    } else if (auto norm = dyn_cast<ts::LayerNormOp>(op)) {
      if (static_cast<int64_t>(norm.getDim()) + 1 !=
              ts::rankOf(norm.getInput()) ||
          !reduces(norm.getInput(), {static_cast<int64_t>(norm.getDim())}))
        return std::nullopt;
    } else if (!isa<ts::ElementwiseOpInterface, ts::BroadcastOp, ts::ConstantOp,
                    ts::SizeOp>(op)) {
      return std::nullopt;
    }
  }
  if (!rows)
    return std::nullopt;
  auto isKnown = [&](Value value) {
    SmallVector<Dim> dims = ts::dimsOf(value);
    return dims == rows->whole || dims == rows->kept ||
           ts::elementCount(value.getType()).isConstant(1) ||
           dims == ArrayRef<Dim>(rows->whole.back());
  };
  for (Value argument : body.getArguments())
    if (!isKnown(argument) || ts::elementTypeOf(argument).isInteger(1))
      return std::nullopt;
  for (Operation &op : body.without_terminator())
    if (!llvm::all_of(op.getResults(), isKnown))
      return std::nullopt;
  // Where sizes are equal they do not tell what lies along which dim.
  for (auto op : body.getOps<ts::BroadcastOp>())
    if (!keepsPlaces(op, *rows))
      return std::nullopt;
  for (Value value : kernel.yield().getValues())
    if ((ts::dimsOf(value) != rows->whole && ts::dimsOf(value) != rows->kept) ||
        ts::elementTypeOf(value).isInteger(1))
      return std::nullopt;
  return rows;
}

class ShortRowsBuilder {
public:
  ShortRowsBuilder(BuildContext &context, const config::ShortRowsConfig &config,
                   ts::KernelOp kernel, ShortRowsProblem rows)
      : e(context.emitter), b(e.builder), loc(e.location), kernel(kernel),
        rows(std::move(rows)), block(config.rows),
        lanes(context.target.lanes(DType::f32)) {}

  LogicalResult build();

private:
  /// Element `k` of all rows, or with `k` < 0 what there is one of a row.
  Coord place(int64_t k);
  Value provided(Value tensor, const Coord &at);
  Value reduced(ts::ReduceOp op);
  /// Of the current rows, [elements][lanes].
  Value transposed(BlockArgument argument);
  LogicalResult compute();
  LogicalResult store(ArrayRef<Value> elements, unsigned result);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::KernelOp kernel;
  ShortRowsProblem rows;
  int64_t block, lanes;
  SmallVector<Value> elements; ///< the numbers of a row's elements
  // The current rows.
  Value first, valid;
  DenseMap<Value, Value> tiles, finished;
};

Coord ShortRowsBuilder::place(int64_t k) {
  Coord at;
  at.lanes = lanes;
  at.valid = valid;
  // All positions stand in one dim. Not in one of size 1: what is broadcast
  // along such a dim is read without looking at its position.
  at.dims.assign(rows.kept.size(), LaneIndex{e.constant(0)});
  auto positions = llvm::find_if(llvm::reverse(rows.kept),
                                 [](Dim dim) { return !dim.isConstant(1); });
  size_t before = std::distance(positions, rows.kept.rend());
  at.dims[before ? before - 1 : 0] = {first, 1, {}, 1};
  if (k >= 0)
    at.dims.push_back({elements[k]});
  return at;
}

Value ShortRowsBuilder::transposed(BlockArgument argument) {
  Value &known = tiles[argument];
  if (known)
    return known;
  Value buffer = e.inputBuffer(argument);
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  int64_t length = rows.length;
  Value from = e.mul(first, e.constant(length));
  auto type = VectorType::get(lanes * length, stored);
  Value tile =
      tile::LoadOp::create(b, loc, type, buffer, from,
                           valid ? e.mul(valid, e.constant(length)) : valid);
  tile = tile::TransposeOp::create(b, loc, type, tile,
                                   b.getI64IntegerAttr(length));
  return known = vector::ShapeCastOp::create(
             b, loc, VectorType::get({length, lanes}, stored), tile);
}

Value ShortRowsBuilder::reduced(ts::ReduceOp op) {
  if (Value known = finished.lookup(op))
    return known;
  bool isUnsigned = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
  Type type = computeType(ts::elementTypeOf(op.getInput()));
  bool passesNan = op.getKind() == ts::ReduceKind::max && op.getIgnoresNan() &&
                   isa<FloatType>(type);
  SmallVector<Value> values;
  for (int64_t k = 0; k < rows.length; ++k) {
    Value x = e.emit(op.getInput(), place(k));
    if (!x)
      return {};
    values.push_back(e.widen(x, lanes));
  }
  if (passesNan) {
    Value result = neutralElement(e, op.getKind(), type, isUnsigned, lanes);
    for (Value x : values)
      result = e.larger(result, x);
    return finished[op] = result;
  }
  // Pairs, then pairs of these: no long chain.
  for (size_t d = 1; d < values.size(); d *= 2)
    for (size_t i = 0; i + d < values.size(); i += 2 * d)
      values[i] = combineElements(e, op.getKind(), values[i], values[i + d],
                                  isUnsigned);
  return finished[op] = values[0];
}

Value ShortRowsBuilder::provided(Value tensor, const Coord &at) {
  if (!at.lanes)
    return {};
  if (auto op = tensor.getDefiningOp<ts::ReduceOp>())
    return reduced(op);
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(argument);
  // As many rows as a row has elements: it may hold an element of every row.
  bool isOfRow =
      dims.size() == 1 && llvm::is_contained(elements, at.dims.back().start);
  if (dims == rows.kept && !isOfRow) {
    Coord run = at;
    run.dims = {{first, 1, {}, 1}};
    Dim all = product(kernel.getContext(), rows.kept);
    return e.load(
        e.inputBuffer(argument),
        ts::tensorType(kernel.getContext(), {all}, ts::elementTypeOf(argument)),
        run);
  }
  if (dims != rows.whole)
    return {};
  int64_t k = llvm::find(elements, at.dims.back().start) - elements.begin();
  Value element = vector::ExtractOp::create(b, loc, transposed(argument),
                                            ArrayRef<int64_t>{k});
  Type type = computeType(ts::elementTypeOf(argument));
  if (getElementTypeOrSelf(element.getType()) == type)
    return element;
  return arith::ExtFOp::create(b, loc, VectorType::get(lanes, type), element);
}

LogicalResult ShortRowsBuilder::store(ArrayRef<Value> values, unsigned result) {
  Value buffer = e.outputBuffer(result);
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  int64_t length = rows.length;
  Value tile =
      ub::PoisonOp::create(b, loc, VectorType::get({length, lanes}, stored));
  for (int64_t k = 0; k < length; ++k) {
    Value value = values[k];
    if (getElementTypeOrSelf(value.getType()) != stored)
      value = arith::TruncFOp::create(b, loc, VectorType::get(lanes, stored),
                                      value);
    tile = vector::InsertOp::create(b, loc, value, tile, ArrayRef<int64_t>{k});
  }
  auto type = VectorType::get(lanes * length, stored);
  tile = vector::ShapeCastOp::create(b, loc, type, tile);
  tile =
      tile::TransposeOp::create(b, loc, type, tile, b.getI64IntegerAttr(lanes));
  Value from = e.mul(first, e.constant(length));
  tile::StoreOp::create(b, loc, tile, buffer, from,
                        valid ? e.mul(valid, e.constant(length)) : valid);
  return success();
}

LogicalResult ShortRowsBuilder::compute() {
  tiles.clear();
  finished.clear();
  for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
    bool isWhole = ts::dimsOf(value) == rows.whole;
    SmallVector<Value> values;
    for (int64_t k = 0; k < (isWhole ? rows.length : 1); ++k) {
      Value element = e.emit(value, place(isWhole ? k : -1));
      if (!element)
        return failure();
      values.push_back(e.widen(element, lanes));
    }
    if (isWhole) {
      if (failed(store(values, i)))
        return failure();
      continue;
    }
    Coord run;
    run.lanes = lanes;
    run.valid = valid;
    run.dims = {{first, 1, {}, 1}};
    Dim all = product(kernel.getContext(), rows.kept);
    e.store(
        values[0], e.outputBuffer(i),
        ts::tensorType(kernel.getContext(), {all}, ts::elementTypeOf(value)),
        run);
  }
  return success();
}

LogicalResult ShortRowsBuilder::build() {
  Dim all = product(kernel.getContext(), rows.kept);
  Value id = tile::ProgramIdOp::create(b, loc);
  for (int64_t k = 0; k < rows.length; ++k)
    elements.push_back(e.constant(k));
  Value begin = e.mul(id, e.constant(block));
  Value end = e.min(e.add(begin, e.constant(block)), e.size(all));
  e.provide = [&](Value tensor, const Coord &at) {
    return provided(tensor, at);
  };
  LogicalResult status =
      forLanes(e, begin, end, lanes,
               all.knownDivisor() && all.knownDivisor() % lanes == 0,
               [&](Value i, Value rest) {
                 first = i;
                 valid = rest;
                 return compute();
               });
  e.provide = nullptr;
  return status;
}

} // namespace

LogicalResult chooseShortRows(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  std::optional<ShortRowsProblem> rows = rowsOf(kernel);
  if (!rows)
    return success();
  OwningOpRef<ts::KernelOp> copy = kernel.clone();
  ts::decomposeAll(copy->getBody());
  if (!rowsOf(*copy))
    return success();
  // Every element of a row is computed apart: what a long region of long rows
  // keeps at a time would fill the stack. Counted in operations on f32.
  constexpr int64_t mostOperations = 768;
  int64_t operations = 0;
  copy->getBody().walk([&](ts::ElementwiseOpInterface op) {
    Value value = op->getResult(0);
    if (ts::dimsOf(value) == rows->whole)
      operations +=
          rows->length * op.elementFlops() *
          std::max<int64_t>(1, ts::elementBytes(ts::elementTypeOf(value)) / 4);
  });
  if (operations > mostOperations)
    return success();
  Dim all = product(kernel.getContext(), rows->kept), one = all.like(1);
  constexpr int64_t least = 16, elementsOfProgram = 8192;
  if (representative(all) < least)
    return success();
  int64_t flops = 1;
  kernel.getBody().walk(
      [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  int64_t block = elementsOfProgram / rows->length / 16 * 16;
  Schedule schedule;
  schedule.kind = "short_rows";
  schedule.parameters = config::print(config::ShortRowsConfig{block});
  schedule.grid = all.ceilDiv(one * block);
  schedule.grain =
      one * std::max<int64_t>(1, 32000 / (elementsOfProgram * (1 + flops / 8)));
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildShortRows(BuildContext &context) {
  // Composites become the reductions that they are made of, in a copy.
  OwningOpRef<ts::KernelOp> copy = context.kernel.clone();
  ts::decomposeAll(copy->getBody());
  std::optional<ShortRowsProblem> rows = rowsOf(*copy);
  if (!rows)
    return context.kernel.emitOpError("is not what the schedule serves");
  auto config = configOf<config::ShortRowsConfig>(context);
  if (failed(config))
    return failure();
  return ShortRowsBuilder(context, *config, *copy, std::move(*rows)).build();
}

} // namespace knapper
