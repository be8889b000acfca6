// All steps of a recurrent cell (LSTM, GRU and their like) in one kernel, whose
// weights stay in registers: persistent RNNs, Diamos et al., ICML 2016.
//
//   CTA       = some rows of the batch, all units; or the CTAs of a cluster
//               share out the units
//   thread    = a unit, and every `slices`-th run of its weights
//   step      = multiply the states in shared memory with the weights, add up
//               the slices by shuffles, apply the cell, hand the new states to
//               all CTAs of the cluster, wait for them
//
// What a step reads of the sequences is read a step ahead.
//
// Parameters: RecurrenceGpuConfig (ir/config/RecurrenceConfig.h).
#include "codegen/schedule/irregular/GpuRecurrence.h"
#include "codegen/math/Math.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/GpuTimes.h"
#include "ir/config/RecurrenceConfig.h"
#include "ir/tile/RecurrenceOps.h"

using namespace mlir;

namespace knapper {

using config::RecurrenceGpuConfig;
using ts::Dim;

namespace {

constexpr int64_t kWarp = 32;

/// Weights that a thread reads at once.
int64_t runOf(int64_t units) { return units % 4 ? 1 : 4; }

/// What the choice depends on.
struct Cell {
  int64_t units = 0, matmuls = 0, states = 0, inputs = 0;
  int64_t multiplied = 0; ///< states that matmuls read
  int64_t rows = 0;       ///< of the batch
  bool narrow = false;    ///< all weights are of one type of 16 bits
};

/// What a step needs of the sequences and weights besides the matmuls: values
/// that depend on no state and are read by some that do, or left as they are.
SmallVector<Value> inputsOf(ts::RecurrenceOp op) {
  llvm::DenseSet<Value> dependent = ts::dependentValues(op);
  llvm::SetVector<Value> inputs;
  for (Operation &inner : op.getBody().front()) {
    auto dot = dyn_cast<ts::DotOp>(inner);
    if (dot && dependent.contains(dot.getResult()))
      continue;
    bool reads =
        isa<ts::NextOp>(inner) || dependent.contains(inner.getResult(0));
    for (Value operand : inner.getOperands())
      if (reads && !dependent.contains(operand))
        inputs.insert(operand);
  }
  return inputs.takeVector();
}

/// Cycles of a step; nothing where registers do not hold the weights.
std::optional<double> cyclesOf(const Cell &cell, const config::Limits &limits,
                               RecurrenceGpuConfig &config) {
  // Addresses, the cell's own values, what the assembler adds.
  constexpr int64_t otherRegisters = 62, unpackRegisters = 20;
  constexpr int64_t mostRegisters = 224, mostPacked = 200;
  int64_t run = runOf(cell.units);
  int64_t units = config.unitsOf(cell.units);
  config.threads = llvm::alignTo(units * config.slices, kWarp);
  if (!config.fits(limits) ||
      config.sharedBytes(cell.multiplied, cell.units, run) >
          config::kStaticSharedBytes)
    return std::nullopt;
  int64_t runs = config.runsOf(cell.units, run);
  int64_t weights = cell.matmuls * runs * run;
  int64_t registers = config.rows * cell.matmuls + cell.states +
                      2 * cell.inputs + otherRegisters;
  registers += config.packed
                   ? weights / 2 + 3 * run * config.rows + unpackRegisters
                   : weights + 2 * run;
  // (Registers are given out to four warps together.)
  int64_t most =
      std::min(config.packed ? mostPacked : mostRegisters,
               limits.registersPerSm /
                   int64_t(llvm::alignTo(config.threads, 128)) / 8 * 8);
  if (registers > most)
    return std::nullopt;
  constexpr config::RecurrenceTimes times = config::kSmRecurrence;
  // A cycle of an SM has 32 words of shared memory or of shuffles.
  double warps = double(config.threads) / kWarp;
  double multiply = warps *
                    double(weights * (config.rows + (config.packed ? 1 : 0))) /
                    times.warpFmas;
  double read = warps * double(runs * config.rows) * std::max<int64_t>(run, 2);
  double add = 0;
  for (int64_t rows = config.rows, left = config.slices; left > 1; left /= 2) {
    rows = std::max<int64_t>(rows / 2, 1);
    add += 2 * warps * double(rows * cell.matmuls);
  }
  // Latencies: the chain of FMAs and reads, shuffles, the cell, the barrier.
  double latency =
      times.step * double(runs * run) + times.first +
      times.shuffle * llvm::Log2_64(config.slices) + times.cell +
      (config.clusterSize > 1 ? times.clusterBarrier : times.barrier);
  return std::max(multiply, read) + add + latency;
}

struct Choice {
  RecurrenceGpuConfig config;
  double cycles = 0; ///< of a step of all rows
};

std::optional<Choice> chooseFor(const Cell &cell, const TargetDesc &target) {
  constexpr int64_t mostRows = 8;
  config::Limits limits = limitsOf(target);
  std::optional<Choice> best;
  for (int64_t clusterSize = 1; clusterSize <= limits.clusterCtas;
       clusterSize *= 2)
    for (int64_t slices = 1; slices <= kWarp; slices *= 2)
      for (int64_t rows = 1; rows <= std::min(slices, mostRows); rows *= 2) {
        Choice choice{{rows, slices, clusterSize}};
        std::optional<double> cycles = cyclesOf(cell, limits, choice.config);
        choice.config.packed = !cycles && cell.narrow && runOf(cell.units) > 1;
        if (choice.config.packed)
          cycles = cyclesOf(cell, limits, choice.config);
        if (!cycles)
          continue;
        // Of its registers an SM has one CTA.
        int64_t ctas = llvm::divideCeil(cell.rows, rows) * clusterSize;
        choice.cycles =
            *cycles * double(llvm::divideCeil(ctas, int64_t(target.cores)));
        if (!best || choice.cycles < best->cycles)
          best = choice;
      }
  return best;
}

/// Nothing where the schedule does not compute it.
std::optional<Cell> cellOf(ts::RecurrenceOp op) {
  SmallVector<Dim> dims = ts::dimsOf(op.getStates()[0]);
  std::optional<int64_t> units = dims[1].asConstant();
  if (!units || *units < 1)
    return std::nullopt;
  auto isComputedInF32 = [](Value v) {
    Type element = ts::elementTypeOf(v);
    return element.isF32() || element.isF16() || element.isBF16();
  };
  if (!llvm::all_of(op.getStates(), isComputedInF32))
    return std::nullopt;
  SmallVector<ts::DotOp> matmuls = op.matmuls();
  for (ts::DotOp dot : matmuls)
    if (!llvm::is_contained(op.weightArguments(), dot.getRhs()) ||
        !isComputedInF32(dot.getRhs()) || !isComputedInF32(dot.getResult()))
      return std::nullopt;
  for (Value value : op.next().getValues())
    if (ts::dimsOf(value) != dims)
      return std::nullopt;
  SmallVector<Value> inputs = inputsOf(op);
  for (Value input : inputs)
    if (ts::dimsOf(input) != dims ||
        !(isComputedInF32(input) || isa<IntegerType>(ts::elementTypeOf(input))))
      return std::nullopt;
  if (matmuls.empty())
    return std::nullopt;
  Cell cell;
  cell.units = *units;
  cell.matmuls = int64_t(matmuls.size());
  cell.states = int64_t(op.getStates().size());
  llvm::SmallDenseSet<Value> multiplied;
  for (ts::DotOp dot : matmuls)
    multiplied.insert(dot.getLhs());
  cell.multiplied = int64_t(multiplied.size());
  cell.inputs = int64_t(inputs.size());
  cell.rows = std::max<int64_t>(representative(dims[0]), 1);
  Type weight = ts::elementTypeOf(matmuls[0].getRhs());
  cell.narrow = !weight.isF32() && llvm::all_of(matmuls, [&](ts::DotOp dot) {
    return ts::elementTypeOf(dot.getRhs()) == weight;
  });
  return cell;
}

} // namespace

bool takesRecurrence(ts::RecurrenceOp op, const TargetDesc &target) {
  std::optional<Cell> cell = cellOf(op);
  if (!cell)
    return false;
  std::optional<Choice> choice = chooseFor(*cell, target);
  // A step of its own costs a launch that waits for the one before, and the
  // latency of reading the weights.
  return choice && choice->cycles < config::kSmRecurrence.ofStep *
                                        target.launchSeconds * target.clock;
}

LogicalResult chooseGpuRecurrence(ts::KernelOp kernel, const TargetDesc &target,
                                  Knobs &,
                                  SmallVectorImpl<Schedule> &schedules) {
  ts::RecurrenceOp op = firstOp<ts::RecurrenceOp>(kernel);
  if (!op)
    return success();
  std::optional<Cell> cell = cellOf(op);
  std::optional<Choice> choice = cell ? chooseFor(*cell, target) : std::nullopt;
  if (!choice)
    return kernel.emitOpError("is no recurrence that registers hold");
  Dim rows = ts::dimOf(op.getStates()[0], 0);
  Schedule schedule;
  schedule.kind = "gpu_recurrence";
  schedule.parameters = config::print(choice->config);
  schedule.grid =
      rows.ceilDiv(rows.like(choice->config.rows)) * choice->config.clusterSize;
  schedule.grain = rows.like(1);
  schedule.scratch = rows.like(0);
  schedules.push_back(std::move(schedule));
  return success();
}

namespace {

struct RecurrenceBuilder {
  BuildContext &context;
  RecurrenceGpuConfig config;
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::RecurrenceOp op = firstOp<ts::RecurrenceOp>(context.kernel);
  SmallVector<ts::DotOp> matmuls = op.matmuls();
  SmallVector<Value> inputs = inputsOf(op);
  Dim steps = Dim(op.getSteps());
  // Of the region that is being built.
  Value step = {};
  llvm::DenseMap<Value, Value> known{}; ///< states, matmuls, inputs

  Type f32 = b.getF32Type();

  Value provide(Value tensor, const Coord &coord);
  /// An element of every state's shape.
  Coord at(Value row, Value unit) {
    Coord coord;
    coord.dims = {{row}, {unit}};
    return coord;
  }
  Value placeOf(bool reversed) {
    return reversed ? e.sub(e.sub(e.size(steps), e.constant(1)), step) : step;
  }
  using Arguments = Block::BlockArgListType;
  /// A region that takes `indices` indices, then values of `types`, and ends
  /// with the values that `body` gives.
  LogicalResult
  region(Region &region, unsigned indices, ArrayRef<Type> types,
         llvm::function_ref<FailureOr<SmallVector<Value>>(Arguments)> body);
  LogicalResult weights(Region &into);
  LogicalResult initial(Region &into);
  FailureOr<SmallVector<Type>> makeInputs(Region &into);
  LogicalResult update(Region &into, ArrayRef<Type> inputTypes);
  LogicalResult last(Region &into);
  /// Of the op's result of that number, which is a kernel's or not.
  void store(unsigned result, Value value, Coord coord);
  FailureOr<SmallVector<Value>> each(ValueRange tensors, const Coord &coord);
  LogicalResult build();
};

} // namespace

Value RecurrenceBuilder::provide(Value tensor, const Coord &coord) {
  if (Value value = known.lookup(tensor))
    return value;
  // A step is as long as its chain of operations.
  auto of = [&](Value operand, auto build) -> Value {
    Value x = coord.lanes == 0 ? e.emit(operand, coord) : Value();
    return x && x.getType() == f32 ? build(b, loc, x) : Value();
  };
  if (auto sigmoid = tensor.getDefiningOp<ts::SigmoidOp>())
    return of(sigmoid.getInput(), buildSigmoidByExp2);
  if (auto tanh = tensor.getDefiningOp<ts::TanhOp>())
    return of(tanh.getInput(), buildTanhByExp2);
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument || argument.getOwner() != &op.getBody().front())
    return {};
  size_t number = argument.getArgNumber(), states = op.getStates().size();
  Coord outside = coord;
  if (number >= states && number < states + op.getSequences().size())
    outside.dims.insert(outside.dims.begin(),
                        {placeOf(op.getReversed()[number - states])});
  return e.emit(op->getOperand(number), outside);
}

LogicalResult RecurrenceBuilder::region(
    Region &into, unsigned indices, ArrayRef<Type> types,
    llvm::function_ref<FailureOr<SmallVector<Value>>(Arguments)> body) {
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&into);
  for (unsigned i = 0; i < indices; ++i)
    block->addArgument(b.getIndexType(), loc);
  for (Type type : types)
    block->addArgument(type, loc);
  return e.scoped([&]() -> LogicalResult {
    known.clear();
    FailureOr<SmallVector<Value>> values = body(block->getArguments());
    if (failed(values))
      return failure();
    tile::ValuesOp::create(b, loc, *values);
    return success();
  });
}

FailureOr<SmallVector<Value>> RecurrenceBuilder::each(ValueRange tensors,
                                                      const Coord &coord) {
  SmallVector<Value> values;
  for (Value tensor : tensors) {
    Value value = e.emit(tensor, coord);
    if (!value)
      return failure();
    values.push_back(value);
  }
  return values;
}

LogicalResult RecurrenceBuilder::weights(Region &into) {
  int64_t run = runOf(*ts::dimOf(op.getStates()[0], 1).asConstant());
  auto body = [&](Arguments arguments) -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> values;
    for (ts::DotOp dot : matmuls) {
      Coord coord;
      coord.lanes = run > 1 ? run : 0;
      coord.dims.resize(2);
      int64_t depth = dot.getRhsContract()[0];
      coord.dims[depth] = {arguments[1], run > 1, {}, run};
      coord.dims[1 - depth] = {arguments[0]};
      Value value = e.emit(dot.getRhs(), coord);
      if (!value)
        return failure();
      if (auto widened = value.getDefiningOp<arith::ExtFOp>();
          widened && config.packed)
        value = widened.getIn();
      values.push_back(run > 1 ? e.widen(value, run) : value);
    }
    return values;
  };
  return region(into, 2, {}, body);
}

LogicalResult RecurrenceBuilder::initial(Region &into) {
  return region(into, 2, {}, [&](Arguments arguments) {
    return each(op.getStates(), at(arguments[0], arguments[1]));
  });
}

FailureOr<SmallVector<Type>> RecurrenceBuilder::makeInputs(Region &into) {
  SmallVector<Type> types;
  auto body = [&](Arguments arguments) -> FailureOr<SmallVector<Value>> {
    step = arguments[0];
    auto values = each(inputs, at(arguments[1], arguments[2]));
    if (failed(values))
      return failure();
    // As it was loaded: what widens it would wait for it here.
    for (Value &value : *values)
      if (auto widened = value.getDefiningOp<arith::ExtFOp>())
        value = widened.getIn();
    llvm::append_range(types, ValueRange(*values).getTypes());
    return values;
  };
  if (failed(region(into, 3, {}, body)))
    return failure();
  return types;
}

void RecurrenceBuilder::store(unsigned result, Value value, Coord coord) {
  size_t states = op.getStates().size();
  for (auto [i, yielded] :
       llvm::enumerate(context.kernel.yield().getValues())) {
    if (cast<OpResult>(yielded).getResultNumber() != result)
      continue;
    if (result >= states)
      coord.dims.insert(coord.dims.begin(),
                        {placeOf(op.getReversedOutputs()[result - states])});
    e.store(value, e.outputBuffer(i), yielded.getType(), coord);
  }
}

LogicalResult RecurrenceBuilder::update(Region &into,
                                        ArrayRef<Type> inputTypes) {
  size_t states = op.getStates().size();
  SmallVector<Type> types(matmuls.size() + states, f32);
  llvm::append_range(types, inputTypes);
  auto body = [&](Arguments arguments) -> FailureOr<SmallVector<Value>> {
    step = arguments[0];
    Coord coord = at(arguments[1], arguments[2]);
    auto values = arguments.drop_front(3);
    for (auto [i, dot] : llvm::enumerate(matmuls))
      known[dot.getResult()] = values[i];
    for (auto [i, state] : llvm::enumerate(op.stateArguments()))
      known[state] = values[matmuls.size() + i];
    for (auto [i, input] : llvm::enumerate(inputs)) {
      Value value = values[matmuls.size() + states + i];
      if (value.getType().isF16() || value.getType().isBF16())
        value = arith::ExtFOp::create(b, loc, f32, value);
      known[input] = value;
    }
    auto next = each(op.next().getValues(), coord);
    if (failed(next))
      return failure();
    for (unsigned i = states; i < next->size(); ++i)
      store(i, (*next)[i], coord);
    next->resize(states);
    return next;
  };
  return region(into, 3, types, body);
}

LogicalResult RecurrenceBuilder::last(Region &into) {
  size_t states = op.getStates().size();
  auto body = [&](Arguments arguments) -> FailureOr<SmallVector<Value>> {
    for (unsigned i = 0; i < states; ++i)
      store(i, arguments[2 + i], at(arguments[0], arguments[1]));
    return SmallVector<Value>();
  };
  return region(into, 2, SmallVector<Type>(states, f32), body);
}

LogicalResult RecurrenceBuilder::build() {
  SmallVector<int64_t> sources;
  for (ts::DotOp dot : matmuls)
    sources.push_back(cast<BlockArgument>(dot.getLhs()).getArgNumber());
  SmallVector<Dim> dims = ts::dimsOf(op.getStates()[0]);
  auto made = tile::RecurrenceOp::create(
      b, loc, e.size(steps), e.size(dims[0]), *dims[1].asConstant(), sources,
      config::attributeOf(config::print(config), b.getContext()));
  e.provide = [this](Value tensor, const Coord &coord) {
    return provide(tensor, coord);
  };
  if (failed(weights(made.getWeights())) || failed(initial(made.getInitial())))
    return failure();
  FailureOr<SmallVector<Type>> types = makeInputs(made.getInputs());
  if (failed(types) || failed(update(made.getUpdate(), *types)) ||
      failed(last(made.getLast())))
    return failure();
  e.provide = nullptr;
  return success();
}

LogicalResult buildGpuRecurrence(BuildContext &context) {
  auto config = configOf<RecurrenceGpuConfig>(context);
  if (failed(config))
    return failure();
  return RecurrenceBuilder{.context = context, .config = *config}.build();
}

} // namespace knapper
