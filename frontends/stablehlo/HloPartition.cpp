#include "frontends/stablehlo/HloPartition.h"
#include "frontends/stablehlo/HloElastic.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloNode.h"
#include "frontends/stablehlo/HloPartitioner.h"
#include <map>

using namespace mlir;

namespace knapper {

static uint64_t countOf(ModuleOp program, StringRef name) {
  auto count = program->getAttrOfType<IntegerAttr>(name);
  return count ? count.getValue().getLimitedValue(1 << 20) : 1;
}

int64_t hloDevices(ModuleOp program) {
  return static_cast<int64_t>(
      std::max<uint64_t>(countOf(program, "mhlo.num_partitions"), 1));
}

/// Results are the operands.
static bool isPassing(StringRef kind) {
  return kind == "unrealized_conversion_cast" || kind == "optimization_barrier";
}

void HloPartitioner::note(Operation *op, const Twine &reason) {
  problems += ("\n  " + hloName(op) + "(").str();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    llvm::raw_string_ostream text(problems);
    text << (i ? ", " : "") << operand.getType();
    if (isCut(operand)) {
      text << " in parts ";
      llvm::interleave(of(operand).parts, text, "x");
    }
  }
  problems += ("): " + reason).str();
  std::string line = hloSourceLine(op->getLoc());
  if (line.empty() && !lines.empty())
    line = lines.back();
  if (!line.empty())
    problems += "\n    " + line;
}

Value HloPartitioner::make(StringRef name, Value operand, Type type,
                           Operation *before,
                           ArrayRef<NamedAttribute> attributes) {
  b.setInsertionPoint(before);
  OperationState state(operand.getLoc(), name);
  state.addOperands(operand);
  state.addTypes(type);
  state.addAttributes(attributes);
  return b.create(state)->getResult(0);
}

bool HloPartitioner::setParts(Value value, const HloSharding &sharding) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  std::optional<SmallVector<int64_t>> shape;
  if (type && type.hasStaticShape() && sharding.rank() == shapeOf(value).size())
    shape = sharding.local(type.getShape());
  if (!shape)
    return sharding.isWhole();
  value.setType(type.clone(*shape));
  if (!sharding.isWhole())
    cut[value] = sharding;
  return true;
}

//===----------------------------------------------------------------------===//
// Other parts
//===----------------------------------------------------------------------===//

Value HloPartitioner::gathered(Value value, const HloSharding &from, size_t dim,
                               Operation *before) {
  // Groups of devices that differ in this dim alone.
  SmallVector<int64_t> copies = from.copies();
  std::map<std::vector<int64_t>, SmallVector<int64_t>> groups;
  for (size_t device = 0; device < devices; ++device) {
    std::vector<int64_t> key{copies[device]};
    for (size_t i = 0; i < from.rank(); ++i)
      key.push_back(i == dim ? 0 : from.place(device, i));
    SmallVector<int64_t> &group = groups[key];
    group.resize(from.parts[dim]);
    group[from.place(device, dim)] = static_cast<int64_t>(device);
  }
  SmallVector<int64_t> members;
  for (const auto &[key, group] : groups)
    llvm::append_range(members, group);
  auto table = RankedTensorType::get(
      {static_cast<int64_t>(groups.size()), from.parts[dim]}, b.getI64Type());
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] *= from.parts[dim];
  return make("vhlo.all_gather_v1", value, type.clone(shape), before,
              {b.getNamedAttr("all_gather_dim",
                              b.getI64IntegerAttr(static_cast<int64_t>(dim))),
               b.getNamedAttr(
                   "replica_groups",
                   DenseElementsAttr::get(table, ArrayRef<int64_t>(members)))});
}

Value HloPartitioner::moved(Value value, const HloSharding &to,
                            Operation *before) {
  HloSharding from = of(value);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (from == to || !type)
    return value;
  for (size_t dim = 0; dim < from.rank(); ++dim) {
    if (from.parts[dim] == 1 || from.isAlike(to, dim))
      continue;
    value = gathered(value, from, dim, before);
    from.parts[dim] = 1;
    for (size_t device = 0; device < devices; ++device)
      from.places[device * from.rank() + dim] = 0;
  }
  if (from == to) {
    if (!to.isWhole())
      cut[value] = to;
    return value;
  }
  // What is still to be cut, of what the device has.
  HloSharding further = to;
  for (size_t dim = 0; dim < from.rank(); ++dim)
    if (from.parts[dim] > 1) {
      further.parts[dim] = 1;
      for (size_t device = 0; device < devices; ++device)
        further.places[device * from.rank() + dim] = 0;
    }
  type = cast<RankedTensorType>(value.getType());
  std::optional<SmallVector<int64_t>> shape = further.local(type.getShape());
  if (!shape)
    return {};
  Operation *maker = value.getDefiningOp();
  bool isSame = maker && hloName(maker) == "broadcast_in_dim" &&
                shapeOf(maker->getOperand(0)).empty();
  Value result;
  if (auto data = maker && hloName(maker) == "constant"
                      ? maker->getAttrOfType<DenseElementsAttr>("value")
                      : DenseElementsAttr();
      data && data.isSplat()) {
    b.setInsertionPoint(before);
    Operation *copy = b.clone(*maker);
    copy->setAttr("value", data.resizeSplat(type.clone(*shape)));
    result = copy->getResult(0);
    result.setType(type.clone(*shape));
  } else if (isSame) {
    b.setInsertionPoint(before);
    result = b.clone(*maker)->getResult(0);
    result.setType(type.clone(*shape));
  } else {
    SmallVector<int64_t> starts;
    for (size_t device = 0; device < devices; ++device)
      for (size_t dim = 0; dim < from.rank(); ++dim)
        starts.push_back(further.place(device, dim) * (*shape)[dim]);
    result = make("sdy.part", value, type.clone(*shape), before,
                  b.getNamedAttr("starts", b.getI64TensorAttr(starts)));
  }
  cut[result] = to;
  return result;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void HloPartitioner::writeGroups() {
  program.walk([&](Operation *op) {
    Attribute named = op->getAttr("replica_groups");
    if (!named || isa<DenseElementsAttr>(named))
      return;
    if (auto groups = meshes.groups(named)) {
      auto &[members, size] = *groups;
      auto count = static_cast<int64_t>(members.size()) / size;
      op->setAttr("replica_groups",
                  DenseElementsAttr::get(
                      RankedTensorType::get({count, size}, b.getI64Type()),
                      ArrayRef<int64_t>(members)));
    }
  });
}

void HloPartitioner::stripRegions() {
  program.walk([&](Operation *op) {
    if (!op->getParentOp())
      return;
    StringRef kind = hloName(op), around = hloName(op->getParentOp());
    for (StringRef each : {"func", "manual_computation", "while", "case", "if"})
      if (around == each)
        return;
    bool says = kind == "sharding_constraint" || kind == "reshard" ||
                kind == "unrealized_conversion_cast";
    if (!says || op->getNumOperands() != 1 || op->getNumResults() != 1 ||
        op->getOperand(0).getType() != op->getResult(0).getType())
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

void HloPartitioner::constrained(Operation *op) {
  Value value = op->getOperand(0);
  std::optional<HloSharding> to =
      meshes.sharding(op->getAttr("sharding"), shapeOf(value).size());
  Value made = to ? moved(value, *to, op) : Value();
  if (!made)
    return note(op, "a sharding that leaves a rest, or of a kind that is not "
                    "known");
  op->getResult(0).replaceAllUsesWith(made);
  op->erase();
}

void HloPartitioner::elementwise(Operation *op) {
  std::optional<HloSharding> to;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  for (Value operand : op->getOperands())
    if (isCut(operand) && of(operand).rank() == shape.size() && !to)
      to = of(operand);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (shapeOf(value).empty() && !shape.empty())
      continue;
    if (to && isCut(value) && of(value) != *to)
      return note(op, "its operands lie in different parts, which takes the "
                      "partitioner for automatic shardings");
  }
  if (to)
    for (OpOperand &operand : op->getOpOperands())
      if (!isCut(operand.get()) &&
          shapeOf(operand.get()).size() == shape.size())
        if (Value value = moved(operand.get(), *to, op))
          operand.set(value);
  if (!to || !setParts(op->getResult(0), *to))
    note(op, "its shapes differ");
}

/// Dim i of the operand is dim at[i] of the result.
void HloPartitioner::placed(Operation *op, ArrayRef<int64_t> at) {
  HloSharding from = of(op->getOperand(0));
  Value result = op->getResult(0);
  HloSharding to = wholeHloSharding(shapeOf(result).size(), devices);
  std::optional<SmallVector<int64_t>> local = to.local(shapeOf(result));
  for (size_t i = 0; i < from.rank(); ++i) {
    if (i >= at.size() || at[i] < 0 ||
        at[i] >= static_cast<int64_t>(to.rank()) ||
        (from.parts[i] > 1 && shapeOf(op->getOperand(0))[i] * from.parts[i] !=
                                  shapeOf(result)[at[i]]))
      return note(op, "its dims are not its operand's");
    to.parts[at[i]] = from.parts[i];
    for (size_t device = 0; device < devices; ++device)
      to.places[device * to.rank() + at[i]] = from.place(device, i);
  }
  if (!setParts(result, to))
    note(op, "its shapes differ");
}

Status HloPartitioner::visit(Operation *op) {
  StringRef kind = hloName(op);
  if (kind == "manual_computation")
    return manual(op);
  if ((kind == "sharding_constraint" || kind == "reshard") &&
      op->getNumOperands() == 1 && op->getNumResults() == 1) {
    // In a region it speaks of axes that are not cut there.
    if (regions == 0)
      constrained(op);
    return success();
  }
  bool reads = llvm::any_of(op->getOperands(),
                            [&](Value value) { return isCut(value); });
  if (Block *body = callee(op))
    return reads || hasManual(op) ? inlined(op, *body) : success();
  bool nests = false;
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      nests |= llvm::any_of(inner->getOperands(),
                            [&](Value value) { return isCut(value); });
    });
  if ((kind == "while" || kind == "case" || kind == "if") &&
      (reads || nests || hasManual(op)))
    return control(op);
  if (!reads && !nests) {
    if (regions == 0 && devices > 1 &&
        (kind == "partition_id" || kind == "replica_id"))
      note(op, "outside of a shard_map");
    return success();
  }
  if (nests) {
    note(op, "its function reads a tensor that lies in parts");
  } else if (isPassing(kind) && op->getNumOperands() == op->getNumResults()) {
    for (auto [operand, result] :
         llvm::zip(op->getOperands(), op->getResults())) {
      result.setType(operand.getType());
      if (isCut(operand))
        cut[result] = of(operand);
    }
  } else if (isHloElementwise(kind) && op->getNumResults() == 1) {
    elementwise(op);
  } else if ((kind == "broadcast_in_dim" || kind == "transpose") &&
             op->getNumOperands() == 1 && op->getNumResults() == 1) {
    bool transposes = kind == "transpose";
    SmallVector<int64_t> at;
    if (auto data = op->getAttrOfType<DenseIntElementsAttr>(
            transposes ? "permutation" : "broadcast_dimensions");
        data && data.getElementType().isInteger(64))
      at.assign(data.value_begin<int64_t>(), data.value_end<int64_t>());
    SmallVector<int64_t> where(at.size(), -1);
    for (auto [i, dim] : llvm::enumerate(at))
      if (transposes && dim >= 0 && dim < static_cast<int64_t>(at.size()))
        where[dim] = static_cast<int64_t>(i);
    placed(op, transposes ? where : at);
  } else {
    note(op, "of a tensor in parts, outside of a shard_map: this takes the "
             "partitioner for automatic shardings");
  }
  // What reads the results of what was noted is not looked at: they count as
  // whole.
  return success();
}

Status HloPartitioner::block(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::drop_end(block))
    ops.push_back(&op);
  for (Operation *op : ops)
    TRY(visit(op));
  return success();
}

std::optional<HloSharding> HloPartitioner::argument(Operation *main,
                                                    BlockArgument value) {
  size_t rank = shapeOf(value).size();
  DictionaryAttr given =
      hloAttributesAt(main, "arg_attrs", value.getArgNumber());
  if (Attribute sharding = given ? given.get("sdy.sharding") : Attribute())
    return meshes.sharding(sharding, rank);
  std::optional<HloSharding> wanted;
  for (OpOperand &use : value.getUses()) {
    ArrayAttr in = dyn_cast_if_present<ArrayAttr>(
        sdyField(use.getOwner()->getAttr("in_shardings"), kPerValue, 0));
    std::optional<HloSharding> each;
    if (in && use.getOperandNumber() < in.size())
      each = meshes.sharding(in[use.getOperandNumber()], rank);
    if (!each || (wanted && *wanted != *each))
      return wholeHloSharding(rank, devices);
    wanted = each;
  }
  return wanted ? wanted : wholeHloSharding(rank, devices);
}

Expected<HloPartition> HloPartitioner::run() {
  Operation *main = nullptr;
  for (Operation &op : program.getBody()->getOperations()) {
    auto name = op.getAttrOfType<StringAttr>("sym_name");
    if (hloName(&op) == "func" && name)
      functions[name.getValue()] = &op;
    else if (hloName(&op) == "mesh" && !meshes.add(&op))
      return userError("the program has a mesh that is damaged or of another "
                       "number of devices than its " +
                           std::to_string(devices),
                       "the StableHLO program", "export it again");
  }
  main = functions.lookup("main");
  if (!main || main->getNumRegions() != 1 ||
      !main->getRegion(0).hasOneBlock() || main->getRegion(0).front().empty())
    return damagedProgram("there is no function main");
  stripRegions();
  writeGroups();
  Block &body = main->getRegion(0).front();
  HloPartition result;
  for (BlockArgument value : body.getArguments()) {
    std::optional<HloSharding> sharding = argument(main, value);
    if (!sharding || !setParts(value, *sharding))
      return userError("argument " + std::to_string(value.getArgNumber()) +
                           " lies in parts of different sizes, or that are "
                           "not known",
                       "the StableHLO program",
                       "give sizes that the mesh divides");
    result.arguments.push_back(*sharding);
  }
  TRY(block(body));
  Operation *end = &body.back();
  for (unsigned i = 0; problems.empty() && i < end->getNumOperands(); ++i) {
    Value value = end->getOperand(i);
    DictionaryAttr given = hloAttributesAt(main, "res_attrs", i);
    if (Attribute sharding = given ? given.get("sdy.sharding") : Attribute()) {
      std::optional<HloSharding> to =
          meshes.sharding(sharding, shapeOf(value).size());
      value = to ? moved(value, *to, end) : Value();
      if (!value)
        return userError("result " + std::to_string(i) +
                             " is wanted in parts of different sizes, or that "
                             "are not known",
                         "the StableHLO program",
                         "give sizes that the mesh divides");
      end->setOperand(i, value);
    }
    result.results.push_back(of(value));
  }
  if (!problems.empty())
    return userError(
        "the program lies in parts on " + std::to_string(devices) +
            " devices and needs what there is not, a partitioner for "
            "automatic shardings:" +
            problems,
        "the StableHLO program",
        "write this as jax.shard_map or jax.pmap, or put the arrays on one "
        "device: jax.device_put(x, jax.devices()[0])");
  return result;
}

Expected<HloPartition> partitionHlo(ModuleOp program) {
  int64_t devices = hloDevices(program);
  if (devices > hloMostDevices)
    return userError("the program is for " + std::to_string(devices) +
                         " devices, more than " +
                         std::to_string(hloMostDevices),
                     "the StableHLO program", "use fewer");
  if (uint64_t copies = countOf(program, "mhlo.num_replicas"); copies > 1)
    return userError("the program is for several devices: mhlo.num_replicas "
                     "is " +
                         std::to_string(copies),
                     "the StableHLO program",
                     "use jax.shard_map, or jax.pmap of JAX 0.8 and later, "
                     "which cut into partitions");
  bool cuts = devices > 1;
  program.walk(
      [&](Operation *op) { cuts |= hloName(op) == "manual_computation"; });
  if (!cuts)
    return HloPartition();
  return HloPartitioner(program, devices).run();
}

} // namespace knapper
