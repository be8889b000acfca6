// Branches and loops as regions of the program.
#include "compiler/exec/ExecBuilder.h"
#include "compiler/exec/Origin.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/Views.h"
#include "graph/memory/InPlace.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

bool ExecBuilder::canWrite(Value value) {
  if (fusion::isConstantExpression(value))
    return false;
  Dim offset = Dim::constant(value.getContext(), 0);
  Value root = memory::rootOf(value, &offset);
  // A loop's results are read by its next iteration, from memory of the arena;
  // a branch's may be known in size only when it has run.
  Operation *op = root.getDefiningOp();
  bool writes = isa_and_present<ts::KernelOp, ts::ExternalOp>(op);
  if (auto branch = dyn_cast_if_present<ts::IfOp>(op))
    writes = branch.getSymbols().empty();
  return writes && offset.isConstant(0) &&
         ts::byteCount(root.getType()) == ts::byteCount(value.getType());
}

void ExecBuilder::setSymbols(ArrayRef<std::pair<StringAttr, Dim>> list) {
  if (list.empty())
    return;
  fb::SetSymbolsT instruction;
  for (auto [symbol, value] : list) {
    instruction.symbols.push_back(scalars.symbolIndex(symbol));
    instruction.values.push_back(scalars.get(value));
  }
  append(std::move(instruction));
}

/// The symbols of `names` that `types` have as dims, with the sizes that
/// `values` have there.
static SmallVector<std::pair<StringAttr, Dim>>
bindings(TypeRange types, TypeRange values, ArrayAttr names) {
  llvm::MapVector<StringAttr, Dim> found;
  for (auto [type, value] : llvm::zip(types, values))
    for (auto [dim, size] : llvm::zip(ts::dimsOf(type), ts::dimsOf(value)))
      if (ts::isNamed(names, dim))
        found.insert(
            {StringAttr::get(type.getContext(), *dim.asSymbol()), size});
  return found.takeVector();
}

static bool hasNamed(Type type, ArrayAttr names) {
  return llvm::any_of(ts::dimsOf(type),
                      [&](Dim dim) { return ts::isNamed(names, dim); });
}

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

LogicalResult ExecBuilder::addIf(ts::IfOp op) {
  FailureOr<Place> condition = placeOf(op.getCondition());
  if (failed(condition))
    return failure();
  for (OpResult value : op->getResults()) {
    Place place = places[value] = placeOfResult(value);
    touch(place.buffer, next);
  }
  fb::IfT instruction;
  instruction.condition = std::make_unique<fb::BufferRef>(refer(*condition));
  fb::IfT *branch = append(std::move(instruction));
  branch->then_region = program.regions.size();
  if (failed(addBranch(op, ts::bodyOf(op, op.getThenBodyAttr()),
                       op.getThenInputs())))
    return failure();
  branch->else_region = program.regions.size();
  return addBranch(op, ts::bodyOf(op, op.getElseBodyAttr()),
                   op.getElseInputs());
}

LogicalResult ExecBuilder::addBranch(ts::IfOp op, func::FuncOp body,
                                     ValueRange inputs) {
  for (auto [argument, input] : llvm::zip(body.getArguments(), inputs)) {
    FailureOr<Place> place = placeOf(input);
    if (failed(place))
      return failure();
    places[argument] = *place;
  }
  auto outer = std::make_tuple(region, inEntry, std::move(asserted));
  region = program.regions[addRegion()].get();
  inEntry = false;
  asserted = {};
  auto ret = cast<func::ReturnOp>(body.getBody().front().getTerminator());
  SmallVector<bool> direct;
  for (auto [value, result] : llvm::zip(ret.getOperands(), op->getResults())) {
    Value root = memory::rootOf(value);
    direct.push_back(canWrite(value) && !wanted.contains(root) &&
                     !hasNamed(result.getType(), op.getSymbols()));
    if (direct.back())
      wanted[root] = places[result];
  }
  if (failed(addOps(body)))
    return failure();
  setSymbols(
      bindings(op.getResultTypes(), ret.getOperandTypes(), op.getSymbols()));
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    if (direct[i])
      continue;
    FailureOr<Place> from = placeOf(value);
    if (failed(from))
      return failure();
    addCopy(*from, places[op.getResult(i)],
            ts::byteCount(op.getResult(i).getType()));
  }
  std::tie(region, inEntry, asserted) = std::move(outer);
  return success();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// A half of a state that two buffers hold, one after the other. The second one
/// is as aligned as the first.
static Dim halfBytes(Type type) {
  constexpr int64_t alignment = 256;
  Dim bytes = ts::byteCount(type);
  return bytes.ceilDiv(bytes.like(alignment)) * alignment;
}

/// Whether an iteration writes the state beside what it reads of it, and the
/// next iteration reads it there: instead of a copy an iteration, where a
/// kernel makes it and cannot write over what it reads.
bool ExecBuilder::alternates(ts::LoopOp op, func::FuncOp body, size_t index) {
  auto ret = cast<func::ReturnOp>(body.getBody().front().getTerminator());
  BlockArgument argument = body.getArgument(index);
  OperandRange results = ret.getOperands().slice(op.getCondition() ? 1 : 0,
                                                 op.getCarried().size());
  Value value = results[index], root = memory::rootOf(value);
  return op.getTrips() && !op.getCondition() &&
         !hasNamed(argument.getType(), op.getSymbols()) &&
         ts::byteCount(value.getType()) == ts::byteCount(argument.getType()) &&
         root.getDefiningOp<ts::KernelOp>() && canWrite(value) &&
         !mayReplace(body, value, argument) &&
         llvm::count_if(results, [&](Value other) {
           return memory::rootOf(other) == root;
         }) == 1;
}

LogicalResult ExecBuilder::addLoop(ts::LoopOp op) {
  func::FuncOp body = ts::bodyOf(op, op.getBodyAttr());
  MLIRContext *context = op.getContext();
  size_t carried = op.getCarried().size();
  TypeRange inside = body.getArgumentTypes().take_front(carried);
  setSymbols(bindings(inside, TypeRange(op.getCarried()), op.getSymbols()));
  if (op.getCount())
    setSymbols({{op.getCountAttr(), zero}});
  auto begin = [&](Value initial, Type type) -> FailureOr<Place> {
    FailureOr<Place> from = placeOf(initial);
    if (failed(from))
      return failure();
    Place place = addTemp(ts::byteCount(type), op.getLoc());
    addCopy(*from, place, ts::byteCount(initial.getType()));
    return place;
  };
  SmallVector<Place> state;
  for (size_t i = 0; i < carried; ++i) {
    if (alternates(op, body, i)) {
      FailureOr<Place> from = placeOf(op.getCarried()[i]);
      if (failed(from))
        return failure();
      Dim half = halfBytes(inside[i]),
          iteration = Dim::symbol(context, op.getCounter());
      Place place = addTemp(half * 2, op.getLoc());
      addCopy(*from, place, ts::byteCount(inside[i]));
      auto after = [&](Dim iterations) -> Place {
        return {place.buffer,
                place.offset + iterations.mod(iterations.like(2)) * half};
      };
      places[body.getArgument(i)] = after(iteration);
      places[op.getResult(i)] = after(Dim(*op.getTrips()));
      state.push_back(after(iteration + 1));
      continue;
    }
    FailureOr<Place> place = begin(op.getCarried()[i], inside[i]);
    if (failed(place))
      return failure();
    state.push_back(*place);
    places[body.getArgument(i)] = *place;
    places[op.getResult(i)] = *place;
  }
  for (auto [i, capture] : llvm::enumerate(op.getCaptures())) {
    FailureOr<Place> place = placeOf(capture);
    if (failed(place))
      return failure();
    places[body.getArgument(carried + i)] = *place;
  }
  std::optional<Place> condition;
  if (op.getCondition()) {
    FailureOr<Place> place =
        begin(op.getCondition(), op.getCondition().getType());
    if (failed(place))
      return failure();
    condition = *place;
  }
  SmallVector<Place> rows;
  for (OpResult scan : op->getResults().drop_front(carried)) {
    // Rows that grow in number stay out of the caller's memory until they are
    // complete.
    rows.push_back(addTemp(ts::byteCount(scan.getType()), op.getLoc()));
    places[scan] = rows.back();
  }
  fb::RepeatT instruction;
  instruction.counter = scalars.symbolIndex(op.getCounter());
  instruction.trips =
      op.getTrips() ? scalars.get(Dim(*op.getTrips()))
                    : scalars.constant(std::numeric_limits<int64_t>::max());
  if (condition)
    instruction.condition = std::make_unique<fb::BufferRef>(refer(*condition));
  uint32_t number = next;
  for (const Place &place : llvm::concat<const Place>(state, rows))
    touch(place.buffer, number);
  instruction.body_region = program.regions.size();
  append(std::move(instruction));

  auto outer = std::make_tuple(region, inEntry, std::move(asserted));
  region = program.regions[addRegion()].get();
  inEntry = false;
  asserted = {};
  if (op.getCount())
    setSymbols(
        {{op.getCountAttr(), Dim::symbol(context, op.getCounter()) + 1}});
  if (failed(addIteration(op, body, state, condition, rows)))
    return failure();
  std::tie(region, inEntry, asserted) = std::move(outer);
  // What was there before is needed again by the next iteration.
  for (auto &buffer : program.buffers)
    if (buffer->kind == fb::BufferKind::temp && buffer->first <= number &&
        buffer->last >= number)
      buffer->last = std::max(buffer->last, next - 1);
  return success();
}

bool ExecBuilder::mayReplace(func::FuncOp body, Value value,
                             BlockArgument argument) {
  if (!canWrite(value) || ts::byteCount(value.getType()).asConstant() !=
                              ts::byteCount(argument.getType()).asConstant())
    return false;
  Value root = memory::rootOf(value);
  auto kernel = root.getDefiningOp<ts::KernelOp>();
  if (!kernel || !ts::byteCount(argument.getType()).asConstant())
    return false;
  for (Operation &op : body.getBody().front())
    for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
      if (memory::rootOf(operand) != argument || fusion::isView(&op))
        continue;
      if (op.isBeforeInBlock(kernel))
        continue;
      // The kernel itself may read it where it writes.
      if (&op != kernel ||
          !llvm::is_contained(memory::inPlaceInputs(kernel), i) ||
          !(ts::byteCount(operand.getType()) ==
            ts::byteCount(argument.getType())) ||
          llvm::count_if(kernel.getInputs(), [&](Value input) {
            return memory::rootOf(input) == argument;
          }) != 1)
        return false;
    }
  return true;
}

LogicalResult ExecBuilder::addIteration(ts::LoopOp op, func::FuncOp body,
                                        ArrayRef<Place> state,
                                        std::optional<Place> condition,
                                        ArrayRef<Place> rows) {
  MLIRContext *context = op.getContext();
  auto ret = cast<func::ReturnOp>(body.getBody().front().getTerminator());
  size_t first = condition ? 1 : 0, carried = state.size();
  OperandRange results = ret.getOperands();
  ArrayAttr symbols = op.getSymbols();
  // Row `counter`, or from the end.
  SmallVector<Place> rowPlaces;
  for (auto [i, place] : llvm::enumerate(rows)) {
    Dim row = Dim::symbol(context, op.getCounter());
    if (op.getReversed()[i])
      row = Dim(*op.getTrips()) - 1 - row;
    Dim bytes = ts::byteCount(results[first + carried + i].getType());
    rowPlaces.push_back({place.buffer, place.offset + row * bytes});
  }
  SmallVector<bool> direct(results.size(), false);
  for (size_t i = 0; i < carried; ++i) {
    Value value = results[first + i], root = memory::rootOf(value);
    if (wanted.contains(root) ||
        hasNamed(body.getArgumentTypes()[i], symbols) ||
        (!alternates(op, body, i) &&
         !mayReplace(body, value, body.getArgument(i))))
      continue;
    wanted[root] = state[i];
    direct[first + i] = true;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    Value value = results[first + carried + i], root = memory::rootOf(value);
    Dim bytes = ts::byteCount(value.getType());
    // Kernels count on the alignment of what they write.
    if (wanted.contains(root) || !canWrite(value) ||
        bytes.knownDivisor() % 16 != 0)
      continue;
    wanted[root] = rowPlaces[i];
    direct[first + carried + i] = true;
  }
  if (failed(addOps(body)))
    return failure();

  for (size_t i = 0; i < rows.size(); ++i) {
    if (direct[first + carried + i])
      continue;
    Value value = results[first + carried + i];
    FailureOr<Place> from = placeOf(value);
    if (failed(from))
      return failure();
    addCopy(*from, rowPlaces[i], ts::byteCount(value.getType()));
  }
  // Sizes that change: kept apart until all are known.
  TypeRange inside = body.getArgumentTypes().take_front(carried);
  TypeRange becomes = TypeRange(results).slice(first, carried);
  SmallVector<std::pair<StringAttr, Dim>> sizes = bindings(inside, becomes,
                                                           symbols),
                                          later;
  llvm::DenseMap<StringAttr, Dim> upcoming;
  for (auto &[symbol, size] : sizes) {
    std::string name = (symbol.getValue() + "'").str();
    scalars.declare(name, 0, -1, 1, true);
    lateSymbols.insert(name);
    upcoming[symbol] = Dim::symbol(context, name);
    later.push_back({symbol, upcoming[symbol]});
  }
  for (auto [pair, renamed] : llvm::zip(sizes, later))
    pair.first = StringAttr::get(context, *renamed.second.asSymbol());
  setSymbols(sizes);
  SmallVector<std::tuple<Place, Place, Dim>> copies;
  auto isState = [&](uint32_t buffer) {
    return (condition && condition->buffer == buffer) ||
           llvm::any_of(state,
                        [&](const Place &p) { return p.buffer == buffer; });
  };
  for (size_t i = 0; i < first + carried; ++i) {
    if (direct[i])
      continue;
    FailureOr<Place> from = placeOf(results[i]);
    if (failed(from))
      return failure();
    bool isCondition = i < first;
    const Place &to = isCondition ? *condition : state[i - first];
    if (from->buffer == to.buffer && from->offset.isConstant(0) &&
        (isCondition || !hasNamed(inside[i - first], symbols)))
      continue; // unchanged
    Dim bytes = ts::byteCount(results[i].getType());
    if (!isCondition && hasNamed(inside[i - first], symbols)) {
      Dim old = ts::byteCount(inside[i - first]);
      Dim staged = old.substitute([&](StringRef name) {
        return upcoming.lookup(StringAttr::get(context, name));
      });
      Place stage = addTemp(staged, op.getLoc());
      addCopy(*from, stage, staged);
      copies.push_back({stage, to, old});
    } else if (isState(from->buffer)) {
      Place stage = addTemp(bytes, op.getLoc());
      addCopy(*from, stage, bytes);
      copies.push_back({stage, to, bytes});
    } else {
      copies.push_back({*from, to, bytes});
    }
  }
  setSymbols(later);
  for (auto &[from, to, bytes] : copies)
    addCopy(from, to, bytes);
  return success();
}

} // namespace knapper
