// Functions are put in place of their calls where shard_map is in them, the
// regions of shard_map in place of their ops; loops and branches keep theirs.
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloNode.h"
#include "frontends/stablehlo/HloPartitioner.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace knapper {

constexpr int64_t kManualAxes = 0;
/// Ops after functions are put in, and calls in calls.
constexpr size_t kMostOps = 1 << 18;
constexpr unsigned kMostDepth = 100;

Block *HloPartitioner::callee(Operation *op) {
  StringRef kind = hloName(op);
  if (kind != "call" && kind != "composite")
    return nullptr;
  Attribute named = op->getAttr(kind == "call" ? "callee" : "decomposition");
  StringRef name;
  if (auto text = dyn_cast_if_present<StringAttr>(named))
    name = text.getValue();
  else if (auto symbol = dyn_cast_if_present<FlatSymbolRefAttr>(named))
    name = symbol.getValue();
  Operation *function = functions.lookup(name);
  return function ? hloBlock(function, 0, op->getNumOperands()) : nullptr;
}

bool HloPartitioner::hasManual(Operation *op, unsigned nested) {
  if (hloName(op) == "manual_computation" || nested > kMostDepth)
    return true;
  if (Block *body = callee(op)) {
    Operation *function = body->getParentOp();
    StringRef name = function->getAttrOfType<StringAttr>("sym_name").getValue();
    if (auto known = manualFunctions.find(name); known != manualFunctions.end())
      return known->second;
    bool has = llvm::any_of(
        *body, [&](Operation &inner) { return hasManual(&inner, nested + 1); });
    manualFunctions[name] = has;
    return has;
  }
  for (Region &region : op->getRegions())
    for (Block &inner : region)
      for (Operation &each : inner)
        if (hasManual(&each, nested + 1))
          return true;
  return false;
}

Status HloPartitioner::inlined(Operation *op, Block &body) {
  if (++depth > kMostDepth)
    return damagedProgram("functions call each other without an end");
  IRMapping map;
  for (auto [inner, outer] : llvm::zip(body.getArguments(), op->getOperands()))
    map.map(inner, outer);
  b.setInsertionPoint(op);
  SmallVector<Operation *> ops;
  for (Operation &each : llvm::drop_end(body))
    ops.push_back(b.clone(each, map));
  copied += ops.size();
  if (copied > kMostOps)
    return userError("the program has more than " + std::to_string(kMostOps) +
                         " ops after its functions are put in",
                     "the StableHLO program", "compile parts of the model");
  Operation &end = body.back();
  if (end.getNumOperands() != op->getNumResults())
    return damagedProgram("a call gives other results than its function");
  SmallVector<Value> results;
  for (Value value : end.getOperands())
    results.push_back(map.lookupOrDefault(value));
  // So ops that are replaced while they are visited replace them here too.
  SmallVector<Operation *> keep;
  for (auto [i, value] : llvm::enumerate(results)) {
    b.setInsertionPoint(op);
    OperationState state(op->getLoc(), "builtin.unrealized_conversion_cast");
    state.addOperands(value);
    state.addTypes(value.getType());
    keep.push_back(b.create(state));
    op->getResult(static_cast<unsigned>(i))
        .replaceAllUsesWith(keep.back()->getResult(0));
  }
  std::string line = hloSourceLine(op->getLoc());
  lines.push_back(line.empty() && !lines.empty() ? lines.back() : line);
  op->erase();
  for (Operation *each : ops)
    TRY(visit(each));
  for (Operation *each : keep)
    TRY(visit(each));
  lines.pop_back();
  --depth;
  return success();
}

Status HloPartitioner::manual(Operation *op) {
  Block *body = hloBlock(op, 0, op->getNumOperands());
  auto list = [&](StringRef name, ArrayRef<int64_t> codes) {
    return dyn_cast_if_present<ArrayAttr>(
        sdyField(op->getAttr(name), codes, 0));
  };
  ArrayAttr in = list("in_shardings", kPerValue),
            out = list("out_shardings", kPerValue),
            named = list("manual_axes", kManualAxes);
  if (!body || !in || !out || !named || in.size() != op->getNumOperands() ||
      out.size() != op->getNumResults() ||
      body->back().getNumOperands() != op->getNumResults())
    return damagedProgram("manual_computation has no region for its operands");
  if (regions > 0 && !meshes.isOrdered()) {
    note(op, "a shard_map in another over a mesh of devices in another order "
             "than they are numbered");
    return success();
  }
  SmallVector<StringRef> axes;
  for (Attribute axis : named)
    if (auto text = dyn_cast<StringAttr>(axis))
      axes.push_back(text.getValue());
  for (auto [i, argument] : llvm::enumerate(body->getArguments())) {
    Value value = op->getOperand(static_cast<unsigned>(i));
    std::optional<HloSharding> to =
        meshes.sharding(in[i], shapeOf(value).size(), &axes);
    if (to)
      value = moved(value, *to, op);
    if (!to || !value || value.getType() != argument.getType())
      return damagedProgram("manual_computation takes operand " + Twine(i) +
                            " in parts that its sharding does not give");
    // In the region it is whole.
    argument.replaceAllUsesWith(
        make("builtin.unrealized_conversion_cast", value, value.getType(), op));
  }
  ++regions;
  TRY(block(*body));
  --regions;
  Operation *end = &body->back();
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Value value = whole(end->getOperand(static_cast<unsigned>(i)), end);
    std::optional<HloSharding> from =
        meshes.sharding(out[i], shapeOf(result).size(), &axes);
    Value made =
        make("builtin.unrealized_conversion_cast", value, value.getType(), end);
    if (!from || !setParts(result, *from) || result.getType() != made.getType())
      return damagedProgram("manual_computation gives result " + Twine(i) +
                            " in parts that its sharding does not give");
    cut.erase(result);
    result.replaceAllUsesWith(made);
    if (!from->isWhole())
      cut[made] = *from;
  }
  end->erase();
  op->getBlock()->getOperations().splice(Block::iterator(op),
                                         body->getOperations());
  op->erase();
  return success();
}

/// Carried values keep the parts that they begin with.
Status HloPartitioner::control(Operation *op) {
  bool loops = hloName(op) == "while";
  unsigned count = loops ? op->getNumOperands() : 0;
  if (loops && op->getNumResults() != count)
    return damagedProgram("while gives other values than its operands");
  for (unsigned r = 0; r < op->getNumRegions(); ++r) {
    Block *body = hloBlock(op, r, count);
    if (!body)
      return damagedProgram(hloName(op) + " has no regions of its operands");
    for (unsigned i = 0; i < count; ++i) {
      body->getArgument(i).setType(op->getOperand(i).getType());
      if (isCut(op->getOperand(i)))
        cut[body->getArgument(i)] = of(op->getOperand(i));
    }
    TRY(block(*body));
    Operation *end = &body->back();
    bool carries = loops && r == 1;
    if (carries && end->getNumOperands() != count)
      return damagedProgram("while carries other values than its operands");
    for (unsigned i = 0; i < end->getNumOperands(); ++i) {
      Value value = carries
                        ? moved(end->getOperand(i), of(op->getOperand(i)), end)
                        : whole(end->getOperand(i), end);
      if (!value)
        return damagedProgram("while carries values that change their shape");
      end->setOperand(i, value);
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    op->getResult(i).setType(op->getOperand(i).getType());
    if (isCut(op->getOperand(i)))
      cut[op->getResult(i)] = of(op->getOperand(i));
  }
  return success();
}

} // namespace knapper
