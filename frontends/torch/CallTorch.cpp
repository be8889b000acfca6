// Nodes that torch computes, as calls from inside of the program.
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// Sizes among the arguments become further operands, tensors of one element:
/// {"s": text} is {"n": name}. `onDevice`: the host does not see elements, and
/// the size is that of a tensor that has none, less another one's: {"n": name,
/// "below": name}. False where a size is not known before the node.
static bool giveSizes(AtenNode &n, llvm::json::Value &value,
                      llvm::json::Array &names, SmallVector<Value> &operands,
                      bool onDevice) {
  if (llvm::json::Array *list = value.getAsArray())
    return llvm::all_of(*list, [&](llvm::json::Value &entry) {
      return giveSizes(n, entry, names, operands, onDevice);
    });
  llvm::json::Object *object = value.getAsObject();
  if (!object)
    return true;
  if (!object->get("s"))
    return llvm::all_of(*object, [&](auto &entry) {
      return giveSizes(n, entry.second, names, operands, onDevice);
    });
  Dim size = n.importer.size(value);
  if (!size)
    return false;
  llvm::SetVector<StringAttr> used;
  size.collectSymbols(used);
  if (!llvm::all_of(used,
                    [&](StringAttr name) { return n.importer.isBound(name); }))
    return false;
  llvm::json::Object made;
  auto give = [&](StringRef key, Value given) {
    std::string name = "size " + std::to_string(names.size());
    names.push_back(name);
    operands.push_back(given);
    made[key] = name;
    return given != nullptr;
  };
  Type i64 = n.b.getI64Type();
  auto empty = [&](Dim rows) {
    return n.broadcastTo(n.integerScalar(0, i64),
                         {rows.max(rows.like(0)), rows.like(0)});
  };
  bool known = onDevice
                   ? give("n", empty(size)) && give("below", empty(size * -1))
                   : give("n", n.sizeScalar(size, i64));
  value = std::move(made);
  return known;
}

LogicalResult AtenImporter::callTorch(AtenNode &n,
                                      const llvm::json::Object &node) {
  SmallVector<Value> operands;
  const llvm::json::Array *given = node.getArray("operands");
  for (const llvm::json::Value &entry : given ? *given : llvm::json::Array()) {
    Value value = lookup(entry.getAsString().value_or(""));
    if (!value)
      return failure();
    operands.push_back(value);
  }
  SmallVector<Type> types;
  SmallVector<std::string> fresh;
  const llvm::json::Array &claims = *node.getArray("results");
  for (size_t i = 0; i < n.resultCount(); ++i) {
    if (!claims[i].getAsObject()) // None
      continue;
    if (!n.element(i))
      return n.unsupported("a result of a dtype that is not supported");
    for (Dim dim : n.dims(i)) {
      llvm::SetVector<StringAttr> used;
      dim.collectSymbols(used);
      for (StringAttr name : used)
        if (!isBound(name)) {
          if (!dim.asSymbol())
            return n.unsupported("a size that only the run knows");
          symbols.insert({name, 0});
          fresh.push_back(name.str());
        }
    }
    types.push_back(n.type(n.dims(i), n.element(i)));
    if (!types.back())
      return failure();
  }
  // What the operator needs to call torch again.
  llvm::json::Array named = given ? *given : llvm::json::Array();
  llvm::json::Value arguments = llvm::json::Object(*node.getObject("args"));
  if (!giveSizes(n, arguments, named, operands,
                 node.getBoolean("on_device").value_or(false)))
    return n.unsupported("a size that only the run knows");
  llvm::json::Object call{{"args", std::move(arguments)},
                          {"operands", std::move(named)},
                          {"line", node.getString("line").value_or("")}};
  if (byTorch.contains(n.overload)) // equal calls draw other numbers
    call["node"] = n.name;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(call));
  DictionaryAttr parameters =
      b.getDictionaryAttr({b.getNamedAttr("call", b.getStringAttr(text))});
  SmallVector<bool> present(operands.size(), true);
  SmallVector<StringRef> names(fresh.begin(), fresh.end());
  Operation *op = n.external("torch", n.overload, 1, parameters, present,
                             operands, names, types);
  if (!op)
    return failure();
  unsigned made = 0;
  for (size_t i = 0; i < n.resultCount(); ++i)
    if (n.element(i))
      n.results[i] = op->getResult(made++);
  return mlir::success();
}

} // namespace knapper
