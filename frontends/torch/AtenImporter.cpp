#include "frontends/torch/AtenImporter.h"

#include "frontends/common/SourceLocation.h"
#include "frontends/torch/AtenNode.h"
#include "ir/tensor/reference/HostTensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/base/Checked.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

constexpr size_t maxNodes = 1 << 18;
constexpr unsigned maxDepth = 32;             // of graphs in nodes
constexpr uint64_t maxInlineBytes = 64 << 10; // of constants that are folded

static Error damaged(const Twine &what) {
  return internalError("the description of the graph is damaged: " + what.str(),
                       "torch front end");
}

//===----------------------------------------------------------------------===//
// Types and sizes
//===----------------------------------------------------------------------===//

Type AtenImporter::elementType(StringRef name) {
  return llvm::StringSwitch<Type>(name)
      .Case("f32", b.getF32Type())
      .Case("f16", b.getF16Type())
      .Case("bf16", b.getBF16Type())
      .Case("f64", b.getF64Type())
      .Case("i1", b.getI1Type())
      .Case("i8", b.getIntegerType(8))
      .Case("i16", b.getIntegerType(16))
      .Case("i32", b.getI32Type())
      .Case("i64", b.getI64Type())
      .Case("u8", b.getIntegerType(8, false))
      .Case("u16", b.getIntegerType(16, false))
      .Case("u32", b.getIntegerType(32, false))
      .Case("u64", b.getIntegerType(64, false))
      .Case("f8e4m3fn", b.getType<Float8E4M3FNType>())
      .Case("f8e4m3fnuz", b.getType<Float8E4M3FNUZType>())
      .Case("f8e5m2", b.getType<Float8E5M2Type>())
      .Case("f8e5m2fnuz", b.getType<Float8E5M2FNUZType>())
      .Default(Type());
}

Dim AtenImporter::size(const llvm::json::Value &value) {
  if (std::optional<int64_t> number = value.getAsInteger())
    return Dim::constant(context, *number);
  std::optional<StringRef> text = value.getAsString();
  if (const llvm::json::Object *object = value.getAsObject())
    text = object->getString("s");
  if (!text || text->size() > 4096)
    return {};
  std::optional<Dim> parsed = ts::parseDim(context, *text);
  return parsed && ts::isModest(*parsed) ? *parsed : Dim();
}

Location AtenImporter::locationOf(const llvm::json::Object &node,
                                  StringRef name, StringRef overload) {
  StringRef kind = overload;
  kind.consume_front("aten.");
  return sourceLocation(context, name, kind.split('.').first,
                        node.getString("line").value_or(""));
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

/// A permutation of `rank` dims, or nothing where it is none.
static std::optional<SmallVector<int64_t>>
orderOf(const llvm::json::Object &tensor, size_t rank) {
  SmallVector<int64_t> order;
  const llvm::json::Array *given = tensor.getArray("order");
  if (!given)
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (const llvm::json::Value &entry : *given)
    order.push_back(entry.getAsInteger().value_or(-1));
  SmallVector<int64_t> sorted = order;
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, rank)))
    return std::nullopt;
  return order;
}

static SmallVector<int64_t> inverse(ArrayRef<int64_t> order) {
  SmallVector<int64_t> back(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    back[dim] = static_cast<int64_t>(i);
  return back;
}

namespace {
/// Builds what belongs to no node: inputs and outputs in memory's order.
class Edge : public NodeBuilder {
public:
  Edge(GraphBuilder &shared, Location loc, std::string name)
      : NodeBuilder(shared, loc), name(std::move(name)) {}
  std::string where() const override { return name; }
  std::string name;
};
} // namespace

Status AtenImporter::addInputs(const llvm::json::Array &inputs,
                               func::FuncOp main) {
  struct Input {
    std::string name;
    SmallVector<Dim> dims;
    SmallVector<int64_t> order;
    StringAttr binds;
    Type element;
  };
  std::vector<Input> read;
  std::vector<const llvm::json::Object *> held;
  SmallVector<Type> types;
  for (const llvm::json::Value &value : inputs) {
    const llvm::json::Object *input = value.getAsObject();
    const llvm::json::Array *shape = input ? input->getArray("shape") : nullptr;
    if (!shape)
      return damaged("an input has no shape");
    if (input->get("offset")) {
      held.push_back(input);
      continue;
    }
    Input made;
    made.name = input->getString("name").value_or("").str();
    Type element = elementType(input->getString("dtype").value_or(""));
    if (!element)
      return userError("has dtype " +
                           input->getString("dtype").value_or("?").str() +
                           ", which is not supported",
                       "input '" + made.name + "'",
                       "convert it before the compiled function");
    for (const llvm::json::Value &entry : *shape) {
      made.dims.push_back(size(entry));
      if (!made.dims.back())
        return damaged("a size of input '" + made.name + "'");
    }
    std::optional<SmallVector<int64_t>> order =
        orderOf(*input, made.dims.size());
    if (!order)
      return damaged("the order of input '" + made.name + "'");
    made.order = *order;
    if (std::optional<StringRef> symbol = input->getString("binds"))
      made.binds = StringAttr::get(context, *symbol);
    made.element = element;
    read.push_back(std::move(made));
  }
  for (const Input &input : read) {
    if (input.binds)
      continue;
    for (Dim dim : input.dims)
      if (std::optional<StringRef> symbol = dim.asSymbol())
        symbols.insert({StringAttr::get(context, *symbol), 0});
  }
  for (const Input &input : read) {
    SmallVector<Dim> inMemory;
    for (int64_t at : input.order) {
      Dim dim = input.dims[at];
      llvm::SetVector<StringAttr> used;
      dim.collectSymbols(used);
      // A symbol that an input's value binds is not known when shapes are.
      bool known = llvm::all_of(
          used, [&](StringAttr symbol) { return isBound(symbol); });
      inMemory.push_back(
          known ? dim : freshSymbol(input.name + "_dim" + std::to_string(at)));
    }
    types.push_back(ts::tensorType(context, inMemory, input.element));
  }
  main.setType(b.getFunctionType(types, {}));
  Block *body = main.addEntryBlock();
  b.setInsertionPointToEnd(body);
  for (auto [i, input] : llvm::enumerate(read)) {
    main.setArgAttr(i, "ts.name", b.getStringAttr(input.name));
    if (!input.binds)
      continue;
    symbols.insert({input.binds, 0});
    OperationState state(main.getLoc(), ts::BindSizeOp::getOperationName());
    ts::BindSizeOp::build(b, state, body->getArgument(i), input.binds);
    b.create(state);
  }
  for (auto [i, input] : llvm::enumerate(read)) {
    Edge edge(*this, main.getLoc(), "input '" + input.name + "'");
    Value value = edge.castDims(
        edge.transpose(body->getArgument(i), inverse(input.order)), input.dims);
    if (edge.error)
      return *edge.error;
    values[input.name] = value;
  }
  for (const llvm::json::Object *constant : held)
    if (Status status = addConstant(*constant, main.getLoc()); !status)
      return status;
  return success();
}

Status AtenImporter::addConstant(const llvm::json::Object &constant,
                                 Location loc) {
  std::string name = constant.getString("name").value_or("").str();
  Type element = elementType(constant.getString("dtype").value_or(""));
  int64_t offset = constant.getInteger("offset").value_or(-1);
  if (!element || offset < 0)
    return damaged("constant '" + name + "' has no dtype or offset");
  SmallVector<int64_t> shape;
  std::optional<int64_t> bytes = ts::elementBytes(element);
  for (const llvm::json::Value &entry : *constant.getArray("shape")) {
    shape.push_back(entry.getAsInteger().value_or(-1));
    if (bytes && shape.back() >= 0)
      bytes = checkedMul(*bytes, shape.back());
    else
      bytes.reset();
  }
  if (!bytes || static_cast<uint64_t>(*bytes) > data.size() ||
      static_cast<uint64_t>(offset) > data.size() - *bytes)
    return damaged("constant '" + name + "' lies outside of the data");
  Edge edge(*this, loc, "constant '" + name + "'");
  auto type = RankedTensorType::get(shape, element);
  // A byte each, where MLIR would have a bit.
  bool fits =
      static_cast<uint64_t>(*bytes) <= maxInlineBytes && !element.isInteger(1);
  if (shape.size() > 32) {
    return damaged("constant '" + name + "' has more than 32 dims");
  } else if (*bytes == 0) {
    values[name] =
        edge.constant(DenseElementsAttr::get(type, ArrayRef<Attribute>()));
  } else if (fits) {
    values[name] = edge.constant(DenseElementsAttr::getFromRawBuffer(
        type, ArrayRef<char>(data.data() + offset, *bytes)));
  } else {
    auto weight = ts::WeightAttr::get(
        context, 0, dataOffset + static_cast<uint64_t>(offset), *bytes,
        b.getStringAttr(constant.getString("of").value_or(name)));
    values[name] = edge.makeAs<ts::WeightOp>(type, weight);
  }
  if (edge.error)
    return *edge.error;
  return success();
}

Expected<SmallVector<Value>>
AtenImporter::outputs(const llvm::json::Array &outputs, Location loc) {
  SmallVector<Value> results;
  for (const llvm::json::Value &entry : outputs) {
    const llvm::json::Object *output = entry.getAsObject();
    StringRef name = output ? output->getString("value").value_or("") : "";
    if (!isKnown(name))
      return damaged("output '" + name + "' is no value");
    Value value = lookup(name);
    if (!value) {
      results.push_back({});
      continue;
    }
    std::optional<SmallVector<int64_t>> order =
        orderOf(*output, ts::rankOf(value));
    if (!order)
      return damaged("the order of output '" + name + "'");
    Edge edge(*this, loc, "output '" + name.str() + "'");
    if (const llvm::json::Array *narrow = output->getArray("narrow"))
      for (const llvm::json::Value &entry : *narrow) {
        int64_t dim = entry.getAsInteger().value_or(-1);
        if (!value || dim < 0 || dim >= ts::rankOf(value))
          return damaged("the dims of output '" + name + "'");
        value = edge.sliceDim(value, dim, edge.dim(0), edge.dim(1));
      }
    results.push_back(edge.transpose(value, *order));
    if (edge.error)
      return *edge.error;
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

bool AtenImporter::bind(Value value, StringRef symbol, Location loc) {
  auto name = StringAttr::get(context, symbol);
  if (!symbols.insert({name, 0}).second)
    return false;
  OperationState state(loc, ts::BindSizeOp::getOperationName());
  ts::BindSizeOp::build(b, state, value, name);
  b.create(state);
  return true;
}

Status AtenImporter::claim(AtenNode &n, size_t index, Value &value) {
  std::string where = n.where();
  if (!value || !n.element(index))
    return success();
  if (ts::elementTypeOf(value) != n.element(index)) {
    std::string given, wanted;
    llvm::raw_string_ostream(given) << ts::elementTypeOf(value);
    llvm::raw_string_ostream(wanted) << n.element(index);
    return internalError("gives " + given + " where torch gives " + wanted,
                         where);
  }
  if (ts::rankOf(value) != static_cast<int64_t>(n.dims(index).size()))
    return internalError("gives " + ts::shapeText(value.getType()) +
                             " where torch has rank " +
                             std::to_string(n.dims(index).size()),
                         where);
  // Symbols that nothing has bound yet name the sizes of this result.
  SmallVector<Dim> dims = ts::dimsOf(value);
  for (auto [mine, torchs] : llvm::zip(dims, n.dims(index))) {
    llvm::SetVector<StringAttr> used;
    torchs.collectSymbols(used);
    if (llvm::all_of(used, [&](StringAttr name) { return isBound(name); }))
      mine = torchs;
  }
  value = n.castDims(value, dims);
  if (n.error)
    return *n.error;
  return success();
}

Status AtenImporter::addNode(const llvm::json::Object &node) {
  std::string name = node.getString("name").value_or("").str();
  std::string overload = node.getString("op").value_or("").str();
  const llvm::json::Array *results = node.getArray("results");
  if (name.empty() || overload.empty() || !results)
    return damaged("a node has no name, operator or results");
  AtenNode n(*this, node, name, overload, locationOf(node, name, overload));
  auto finish = [&](ArrayRef<Value> made) {
    for (size_t i = 0; i < results->size(); ++i) {
      std::string key = i ? name + "#" + std::to_string(i) : name;
      values[key] = i < made.size() ? made[i] : Value();
    }
  };
  const bool holdsGraphs = node.getArray("graphs");
  const size_t before = missing.size();
  // What hangs on something missing is skipped: the cause is reported.
  std::vector<std::string> reads;
  if (const llvm::json::Array *given = node.getArray("operands"))
    for (const llvm::json::Value &entry : *given) {
      StringRef read = entry.getAsString().value_or("");
      if (!isKnown(read))
        return damaged("'" + read + "' is read before it is made");
      if (!lookup(read)) {
        finish({});
        return success();
      }
    }
  const AtenRow *row = findAtenRow(overload);
  LogicalResult built = failure();
  if (!n.failed()) {
    if (row)
      built = row->import(n);
    else
      (void)n.unsupported("no row");
  }
  if (missing.size() > before && !n.error) { // inside of its graphs
    finish({});
    return success();
  }
  if (n.missing && (fallback || byTorch.contains(overload)) && !holdsGraphs &&
      node.getObject("args")) {
    AtenNode again(*this, node, name, overload, n.loc);
    built = again.failed() ? failure() : callTorch(again, node);
    n.results = again.results;
    n.error = again.error;
    n.missing = mlir::succeeded(built) ? std::nullopt : n.missing;
  }
  if (n.error && !n.missing) {
    Error error = *n.error;
    if (error.where.empty())
      error.where = n.where();
    return error;
  }
  if (n.missing || mlir::failed(built)) {
    if (!n.missing && row)
      return internalError("the row gives no result and no reason", n.where());
    std::string shapes;
    for (const llvm::json::Value &entry : node.getArray("operands")
                                              ? *node.getArray("operands")
                                              : llvm::json::Array())
      if (Value value = lookup(entry.getAsString().value_or("")))
        shapes += (shapes.empty() ? "" : ", ") + ts::shapeText(value.getType());
    missing.push_back({overload, shapes,
                       node.getString("line").value_or("").str(),
                       n.missing.value_or("cannot be imported")});
    finish({});
    return success();
  }
  for (size_t i = 0; i < n.results.size(); ++i) {
    if (!n.results[i] && n.wants(i))
      return internalError("the row gives no result " + std::to_string(i),
                           n.where());
    if (Status status = claim(n, i, n.results[i]); !status)
      return status;
  }
  finish(n.results);
  return success();
}

Value AtenImporter::seenFrom(GraphBody *body, Value value) {
  if (!body || !value || value.getParentRegion() == &body->function.getBody())
    return value;
  return capture(*body, seenFrom(body->parent, value));
}

std::optional<SmallVector<Value>>
AtenImporter::importGraph(AtenNode &n, const llvm::json::Object &graph,
                          ArrayRef<Value> inputs) {
  auto wrong = [&](const Twine &what) {
    n.error = damaged(what + " of " + n.where());
    return std::nullopt;
  };
  const llvm::json::Array *names = graph.getArray("inputs"),
                          *nodes = graph.getArray("nodes"),
                          *outputs = graph.getArray("outputs");
  unsigned depth = 0;
  for (GraphBody *body = current; body; body = body->parent)
    ++depth;
  if (!names || !nodes || !outputs || names->size() != inputs.size() ||
      depth > maxDepth)
    return wrong("a graph");
  for (auto [name, value] : llvm::zip(*names, inputs))
    values[name.getAsString().value_or("")] = value;
  for (const llvm::json::Value &entry : *nodes) {
    const llvm::json::Object *node = entry.getAsObject();
    if (!node)
      return wrong("a graph's node");
    if (Status status = addNode(*node); !status) {
      n.error = status.takeError();
      return std::nullopt;
    }
  }
  SmallVector<Value> results;
  for (const llvm::json::Value &entry : *outputs) {
    StringRef name = entry.getAsString().value_or("");
    if (!isKnown(name))
      return wrong("a graph's result");
    results.push_back(lookup(name));
  }
  return results;
}

Error AtenImporter::missingError() const {
  std::string text = "the graph needs what is not supported yet:";
  for (const Missing &each : missing) {
    text += "\n  " + each.overload + "(" + each.shapes + ")";
    if (each.reason != "no row")
      text += ": " + each.reason;
    if (!each.line.empty())
      text += "\n    " + each.line;
  }
  return userError(
      text, "knapper.torch",
      fallback ? "leave the function that does this out with "
                 "torch.compiler.disable"
               : "options={\"fallback\": \"allow\"} lets torch compute these");
}

Expected<OwningOpRef<ModuleOp>>
AtenImporter::run(const llvm::json::Object &graph) {
  const llvm::json::Array *inputs = graph.getArray("inputs"),
                          *nodes = graph.getArray("nodes"),
                          *results = graph.getArray("outputs");
  if (graph.getInteger("version") != 1 || !inputs || !nodes || !results)
    return damaged("it has no version 1, inputs, nodes or outputs");
  if (nodes->size() > maxNodes)
    return userError("the graph has more than " + std::to_string(maxNodes) +
                         " nodes",
                     "knapper.torch", "compile parts of the model");
  fallback = graph.getBoolean("fallback").value_or(false);
  if (const llvm::json::Array *given = graph.getArray("random"))
    for (const llvm::json::Value &entry : *given)
      byTorch.insert(entry.getAsString().value_or(""));
  if (const llvm::json::Array *given = graph.getArray("saturating"))
    for (const llvm::json::Value &entry : *given)
      if (Type type = elementType(entry.getAsString().value_or("")))
        saturating.insert(type);
  OwningOpRef<ModuleOp> made(
      ModuleOp::create(FileLineColLoc::get(context, "torch", 0, 0)));
  module = *made;
  b.setInsertionPointToEnd(module.getBody());
  auto main = func::FuncOp::create(b, module.getLoc(), "main",
                                   b.getFunctionType({}, {}));
  if (Status status = addInputs(*inputs, main); !status)
    return status.takeError();
  for (const llvm::json::Value &value : *nodes) {
    const llvm::json::Object *node = value.getAsObject();
    if (!node)
      return damaged("a node is no object");
    if (Status status = addNode(*node); !status)
      return status.takeError();
  }
  Expected<SmallVector<Value>> given = outputs(*results, main.getLoc());
  if (!given)
    return given.takeError();
  if (!missing.empty())
    return missingError();
  func::ReturnOp::create(b, main.getLoc(), *given);
  main.setType(b.getFunctionType(main.getArgumentTypes(),
                                 ValueRange(*given).getTypes()));
  for (auto [i, value] : llvm::enumerate(*results))
    main.setResultAttr(
        i, "ts.name",
        b.getStringAttr(value.getAsObject()->getString("name").value_or("")));
  valueCache.clear();
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : llvm::make_early_inc_range(
             llvm::reverse(function.getBody().front().getOperations())))
      if (isOpTriviallyDead(&op))
        op.erase();
  module->setAttr("ts.symbols", symbolsAttr());
  SmallVector<StringRef> files;
  if (!data.empty())
    files.push_back(path);
  module->setAttr("ts.files", b.getStrArrayAttr(files));
  diagnostic.clear();
  if (mlir::failed(verify(module)))
    return internalError("the imported graph is not valid: " + diagnostic,
                         "torch front end");
  return made;
}

} // namespace knapper
