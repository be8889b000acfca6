#include "frontends/stablehlo/InspectStableHlo.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloNode.h"
#include "frontends/stablehlo/HloPartition.h"
#include "frontends/stablehlo/Vhlo.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/Json.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace mlir;

namespace knapper {
namespace {

struct OpUse {
  int64_t version = 0, count = 0;
};

std::string elementName(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

void writeTensor(JsonWriter &json, const std::string &name, Type type,
                 std::optional<bool> donated) {
  json.beginObject().field("name", name);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor)
    json.field("dtype", elementName(tensor.getElementType()));
  else
    json.key("dtype").null();
  json.key("dims");
  if (tensor) {
    json.beginArray();
    for (int64_t size : tensor.getShape()) {
      if (ShapedType::isDynamic(size))
        json.null();
      else
        json.value(size);
    }
    json.endArray();
  } else {
    json.null();
  }
  if (donated)
    json.field("donated", *donated);
  json.endObject();
}

class ProgramUses {
public:
  void count(Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Operation &inner : block) {
          count(&inner);
          note(inner);
        }
  }

  std::map<std::string, OpUse> ops;
  int64_t total = 0, constants = 0, functions = 0;

private:
  void note(Operation &op) {
    StringRef name = hloName(&op);
    if (name == "func") {
      ++functions;
      return;
    }
    if (name == "return" || name == "mesh")
      return;
    ++total;
    constants += name == "constant";
    OpUse &use = ops[name.str()];
    ++use.count;
    StringRef version = op.getName().stripDialect().rsplit("_v").second;
    (void)version.getAsInteger(10, use.version);
  }
};

/// Which part of each argument and result a device has. Nothing where the
/// program cannot be one of parts: compiling says why.
void writeParts(JsonWriter &json, ModuleOp program, int64_t devices) {
  json.field("devices", devices);
  Expected<HloPartition> parts = partitionHlo(program);
  if (!parts)
    return;
  auto write = [&](const char *name, ArrayRef<HloSharding> shardings) {
    json.key(name).beginArray();
    for (const HloSharding &sharding : shardings) {
      json.beginArray();
      for (int64_t number : sharding.tiles())
        json.value(number);
      json.endArray();
    }
    json.endArray();
  };
  write("argument_tiles", parts->arguments);
  write("result_tiles", parts->results);
}

Operation *mainOf(ModuleOp program) {
  for (Operation &op : program.getBody()->getOperations())
    if (auto name = op.getAttrOfType<StringAttr>("sym_name");
        name && name.getValue() == "main" && hloName(&op) == "func" &&
        op.getNumRegions() == 1 && op.getRegion(0).hasOneBlock())
      return &op;
  return nullptr;
}

void writeSignature(JsonWriter &json, Operation *main) {
  Block &block = main->getRegion(0).front();
  json.key("inputs").beginArray();
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    std::string name = "arg" + std::to_string(i);
    if (auto named = dyn_cast<NameLoc>(argument.getLoc()))
      name = named.getName().str();
    writeTensor(json, name, argument.getType(), isHloDonated(main, i));
  }
  json.endArray();
  json.key("outputs").beginArray();
  if (!block.empty())
    for (auto [i, type] : llvm::enumerate(block.back().getOperandTypes())) {
      std::string name = "result" + std::to_string(i);
      if (DictionaryAttr attributes = hloAttributesAt(main, "res_attrs", i))
        if (auto info = attributes.getAs<StringAttr>("jax.result_info");
            info && !info.empty())
          name = info.str();
      writeTensor(json, name, type, std::nullopt);
    }
  json.endArray();
}

} // namespace

Expected<std::string> inspectStableHlo(std::string_view bytes,
                                       const std::string &path) {
  std::string where = path.empty() ? "the model" : path;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ASSIGN_OR_RETURN(HloProgram program, readHloProgram(context, bytes, where));
  Operation *main = mainOf(*program.module);
  if (!main)
    return userError("there is no function main", where,
                     "export the program again");
  ProgramUses uses;
  uses.count(*program.module);
  JsonWriter json;
  json.beginObject().field("producer", "StableHLO");
  json.key("opsets").beginArray().endArray();
  writeSignature(json, main);
  json.field("file_bytes", static_cast<int64_t>(bytes.size()))
      .field("initializers", uses.constants)
      .field("functions", uses.functions)
      .field("nodes", uses.total);
  auto writeOp = [&](const std::string &name, const OpUse &use) {
    json.beginObject()
        .field("domain", "stablehlo")
        .field("op", name)
        .field("opset", use.version);
  };
  json.key("operators").beginArray();
  for (const auto &[name, use] : uses.ops) {
    writeOp(name, use);
    json.field("count", use.count)
        .field("supported", hasHloRow(name))
        .field("registered", false)
        .endObject();
  }
  json.endArray().key("unsupported").beginArray();
  for (const auto &[name, use] : uses.ops) {
    if (hasHloRow(name))
      continue;
    writeOp(name, use);
    json.field("reason", "there is no such op here");
    json.key("nodes").beginArray();
    for (int64_t i = 0; i < use.count; ++i)
      json.value(name);
    json.endArray().endObject();
  }
  json.endArray();
  if (int64_t devices = hloDevices(*program.module); devices > 1)
    writeParts(json, *program.module, devices);
  json.endObject();
  return json.take();
}

} // namespace knapper
