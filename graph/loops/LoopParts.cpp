#include "graph/loops/LoopParts.h"

#include "graph/simplify/Match.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

std::optional<LoopParts> LoopParts::of(LoopOp loop) {
  if (!loop.getTrips() || loop.getCondition() || loop.getCount() ||
      !loop.getSymbols().empty())
    return std::nullopt;
  func::FuncOp function = bodyOf(loop, loop.getBodyAttr());
  for (func::FuncOp part : withBodies(function))
    for (Operation &op : part.getBody().front().without_terminator())
      if (!isMemoryEffectFree(&op))
        return std::nullopt;
  LoopParts parts;
  parts.loop = loop;
  parts.body = &function.getBody().front();
  parts.trips = Dim(*loop.getTrips());
  parts.counter = Dim::symbol(loop.getContext(), loop.getCounter());
  parts.own.insert(loop.getCounterAttr());
  for (Operation &op : *parts.body)
    for (StringAttr symbol : symbolsSetBy(&op))
      parts.own.insert(symbol);
  OperandRange results = parts.body->getTerminator()->getOperands();
  size_t carried = loop.getCarried().size();
  for (size_t i = 0; i < carried; ++i)
    parts.carried.push_back({loop.getCarried()[i], parts.body->getArgument(i),
                             results[i], loop.getResult(i)});
  for (auto [i, outside] : llvm::enumerate(loop.getCaptures()))
    parts.captures.push_back({outside, parts.body->getArgument(carried + i)});
  for (auto [i, reversed] : llvm::enumerate(loop.getReversed()))
    parts.scans.push_back({results[carried + i],
                           reversed ? StepOrder::reversed : StepOrder::forward,
                           loop.getResult(carried + i)});
  return parts;
}

Value LoopParts::capture(Value outside) {
  for (const Capture &known : captures)
    if (known.outside == outside)
      return known.inside;
  captures.push_back(
      {outside, body->addArgument(outside.getType(), outside.getLoc())});
  return captures.back().inside;
}

Dim LoopParts::row(StepOrder order) const {
  return order == StepOrder::forward ? counter : trips - 1 - counter;
}

std::optional<StepOrder> LoopParts::orderOf(Dim index) {
  for (StepOrder order : {StepOrder::forward, StepOrder::reversed})
    if (index == row(order))
      return order;
  // An index that is clamped, as JAX writes it, counts all the same where each
  // step says so.
  constexpr int64_t mostSteps = 1 << 16;
  std::optional<int64_t> count = trips.asConstant();
  if (!count || *count > mostSteps)
    return std::nullopt;
  auto [found, added] = orders.try_emplace(index.attr(), std::nullopt);
  if (!added)
    return found->second;
  for (StepOrder order : {StepOrder::forward, StepOrder::reversed}) {
    bool same = true;
    for (int64_t step = 0; step < *count && same; ++step)
      same = index.evaluate([&](StringRef name) -> std::optional<int64_t> {
        return name == counter.asSymbol() ? std::optional(step) : std::nullopt;
      }) == (order == StepOrder::forward ? step : *count - 1 - step);
    if (same)
      return found->second = order;
  }
  return std::nullopt;
}

Value LoopParts::readRow(OpBuilder &b, Location loc, Value whole,
                         StepOrder order) const {
  Value slice = makeSlice(b, loc, whole, 0, row(order), trips.like(1));
  return makeReshape(b, loc, slice, ArrayRef<Dim>(dimsOf(whole)).drop_front());
}

bool LoopParts::namesOwnSymbol(Operation *op) const {
  return llvm::any_of(symbolsNamedBy(op),
                      [&](StringAttr name) { return own.contains(name); });
}

void LoopParts::replace(const llvm::DenseMap<Value, Value> &values) {
  for (auto [value, by] : values)
    Value(value).replaceAllUsesWith(by);
  auto renew = [&](Value &value) {
    if (Value by = values.lookup(value))
      value = by;
  };
  for (Carried &each : carried)
    renew(each.next);
  for (Scan &each : scans)
    renew(each.value);
}

void LoopParts::rebuild() {
  auto function = cast<func::FuncOp>(body->getParentOp());
  MLIRContext *context = loop.getContext();
  OpBuilder b(loop);
  unsigned before = body->getNumArguments();
  IRMapping renamed;
  auto renew = [&](Value &inside) {
    Value argument = body->addArgument(inside.getType(), inside.getLoc());
    renamed.map(inside, argument);
    inside = argument;
  };
  SmallVector<Value> initial, outside, returned;
  SmallVector<Type> types;
  SmallVector<bool> reversed;
  for (Carried &each : carried) {
    renew(each.inside);
    initial.push_back(each.initial);
    types.push_back(each.inside.getType());
  }
  for (Capture &each : captures) {
    renew(each.inside);
    outside.push_back(each.outside);
  }
  for (Carried &each : carried)
    returned.push_back(each.next = renamed.lookupOrDefault(each.next));
  for (Scan &each : scans) {
    returned.push_back(each.value = renamed.lookupOrDefault(each.value));
    reversed.push_back(each.order == StepOrder::reversed);
    SmallVector<Dim> dims{trips};
    llvm::append_range(dims, dimsOf(each.value));
    types.push_back(tensorType(context, dims, elementTypeOf(each.value)));
  }
  body->getTerminator()->setOperands(returned);
  for (auto [old, argument] : renamed.getValueMap())
    Value(old).replaceAllUsesWith(argument);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  body->eraseArguments(0, before);
  function->removeAttr(function.getArgAttrsAttrName());
  function->removeAttr(function.getResAttrsAttrName());
  function.setFunctionType(b.getFunctionType(
      body->getArgumentTypes(), body->getTerminator()->getOperandTypes()));

  auto made = LoopOp::create(
      b, loop.getLoc(), types, loop.getBodyAttr(), loop.getCounterAttr(),
      trips.attr(), Value(), initial, outside, StringAttr(),
      b.getStrArrayAttr({}), b.getDenseBoolArrayAttr(reversed));
  made->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  auto replace = [&](Value &old, Value result) {
    if (old)
      old.replaceAllUsesWith(result);
    old = result;
  };
  for (auto [i, each] : llvm::enumerate(carried))
    replace(each.result, made.getResult(i));
  for (auto [i, each] : llvm::enumerate(scans))
    replace(each.result, made.getResult(carried.size() + i));
  loop.erase();
  loop = made;
}
