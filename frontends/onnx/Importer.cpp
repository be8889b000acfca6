#include "frontends/onnx/Importer.h"
#include "frontends/onnx/InspectOnnx.h"
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/base/Log.h"
#include "runtime/operators/HostDomain.h"
#include "runtime/operators/Registry.h"
#include <queue>

using namespace mlir;

namespace knapper {

using ts::Dim;

constexpr unsigned maxNesting = 64;
constexpr size_t maxNodes = 1 << 18;

std::string domainOf(const onnx::NodeProto &node) {
  return node.domain() == "ai.onnx" ? "" : node.domain();
}

static std::string nodeName(const onnx::NodeProto &node, size_t index,
                            const OnnxScope &scope) {
  return scope.prefix +
         (node.name().empty() ? "#" + std::to_string(index) : node.name());
}

Importer::Importer(MLIRContext &context, OnnxFile &file,
                   const OnnxImportOptions &options, OnnxGuesses &guesses)
    : BodyGraphBuilder(context), file(file), options(options),
      guesses(guesses) {}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

Expected<Value> Importer::initializer(const onnx::TensorProto &tensor) {
  if (tensor.data_type() == onnx::TensorProto::STRING) {
    ASSIGN_OR_RETURN(OnnxStrings strings, readStrings(tensor));
    return stringConstant(b,
                          NameLoc::get(StringAttr::get(context, tensor.name())),
                          strings.values, strings.shape);
  }
  if (!onnxElementType(context, tensor.data_type())) {
    problems.push_back({"", "initializer", 0,
                        "element type " + onnxTypeName(tensor.data_type()),
                        tensor.name()});
    return Value();
  }
  ASSIGN_OR_RETURN(OnnxTensor data, readTensor(context, file, tensor));
  Location loc =
      NameLoc::get(StringAttr::get(context, tensor.name()),
                   NameLoc::get(StringAttr::get(context, "initializer")));
  if (data.constant) {
    Value value = ts::ConstantOp::create(b, loc, data.type, data.constant);
    (void)sizes(value);
    return value;
  }
  return Value(ts::WeightOp::create(b, loc, data.type, data.weight));
}

Expected<Value> Importer::lookup(const std::string &name, OnnxScope &scope) {
  if (auto it = scope.values.find(name); it != scope.values.end())
    return it->second;
  if (auto it = scope.initializers.find(name); it != scope.initializers.end()) {
    Expected<Value> value = initializer(*it->second);
    if (value)
      scope.values[name] = *value;
    return value;
  }
  for (const OnnxScope *outer = scope.parent; outer; outer = outer->parent) {
    if (auto it = outer->values.find(name); it != outer->values.end()) {
      SmallVector<OnnxBody *> between;
      for (OnnxBody *body = scope.body; body != outer->body;
           body = body->parent)
        between.push_back(body);
      Value value = it->second;
      for (OnnxBody *body : llvm::reverse(between))
        value = capture(*body, value);
      return value;
    }
    if (auto it = outer->initializers.find(name);
        it != outer->initializers.end())
      return initializer(*it->second);
  }
  return userError("'" + name + "' is defined nowhere", "the graph",
                   "check the model with onnx.checker.check_model");
}

/// Whether the model's input is a tensor of elements that are not supported.
static bool hasUnsupportedElements(const onnx::ValueInfoProto &input,
                                   MLIRContext *context) {
  return input.type().has_tensor_type() &&
         !onnxAnyElementType(context, input.type().tensor_type().elem_type());
}

static bool isKnown(const std::string &name, const OnnxScope &scope) {
  for (const OnnxScope *at = &scope; at; at = at->parent)
    if (at->values.contains(name) || at->initializers.contains(name))
      return true;
  return false;
}

Status Importer::addInitializers(const onnx::GraphProto &graph,
                                 OnnxScope &scope) {
  if (graph.sparse_initializer_size())
    problems.push_back({"", "sparse_initializer", 0,
                        "sparse tensors are not supported",
                        graph.sparse_initializer(0).values().name()});
  for (const onnx::TensorProto &tensor : graph.initializer())
    if (!scope.initializers.insert({tensor.name(), &tensor}).second)
      return userError("is defined twice",
                       "initializer '" + tensor.name() + "'",
                       "export the model again");
  return success();
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Names that a node reads: its inputs, and what its subgraphs take from
/// outside.
static void collectReads(const onnx::NodeProto &node,
                         SmallVectorImpl<const std::string *> &reads,
                         unsigned depth = 0) {
  for (const std::string &input : node.input())
    if (!input.empty())
      reads.push_back(&input);
  if (depth > maxNesting)
    return;
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    auto inGraph = [&](const onnx::GraphProto &graph) {
      llvm::StringSet<> own;
      for (const onnx::ValueInfoProto &input : graph.input())
        own.insert(input.name());
      for (const onnx::TensorProto &tensor : graph.initializer())
        own.insert(tensor.name());
      for (const onnx::NodeProto &inner : graph.node())
        for (const std::string &output : inner.output())
          own.insert(output);
      SmallVector<const std::string *> inside;
      for (const onnx::NodeProto &inner : graph.node())
        collectReads(inner, inside, depth + 1);
      for (const onnx::ValueInfoProto &output : graph.output())
        inside.push_back(&output.name());
      for (const std::string *name : inside)
        if (!own.contains(*name))
          reads.push_back(name);
    };
    if (attribute.has_g())
      inGraph(attribute.g());
    for (const onnx::GraphProto &graph : attribute.graphs())
      inGraph(graph);
  }
}

Status Importer::importNodes(const std::vector<onnx::NodeProto> &nodes,
                             OnnxScope &scope) {
  if (scope.depth > maxNesting)
    return userError("functions or subgraphs are nested more than " +
                         std::to_string(maxNesting) + " deep",
                     "node '" + scope.prefix + "'",
                     "inline the model's functions before export");
  // Topological order that keeps the file's order where it can.
  llvm::StringMap<int> producer;
  for (const auto &[i, node] : llvm::enumerate(nodes))
    for (const std::string &output : node.output()) {
      if (output.empty())
        continue;
      if (scope.values.contains(output) ||
          scope.initializers.contains(output) ||
          !producer.insert({output, static_cast<int>(i)}).second)
        return userError("defines '" + output + "' a second time",
                         "node '" + nodeName(node, i, scope) + "' (" +
                             node.op_type() + ")",
                         "every name may be defined once; export again");
    }
  size_t count = nodes.size();
  std::vector<int> waiting(count, 0);
  std::vector<SmallVector<int, 2>> readers(count);
  for (const auto &[i, node] : llvm::enumerate(nodes)) {
    SmallVector<const std::string *> reads;
    collectReads(node, reads);
    for (const std::string *name : reads) {
      if (auto it = producer.find(*name); it != producer.end()) {
        readers[it->second].push_back(static_cast<int>(i));
        ++waiting[i];
      } else if (!isKnown(*name, scope)) {
        return userError("reads '" + *name + "', which nothing defines",
                         "node '" + nodeName(node, i, scope) + "' (" +
                             node.op_type() + ")",
                         "check the model with onnx.checker.check_model");
      }
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (size_t i = 0; i < count; ++i)
    if (!waiting[i])
      ready.push(static_cast<int>(i));
  size_t done = 0;
  while (!ready.empty()) {
    int i = ready.top();
    ready.pop();
    ++done;
    TRY(importNode(nodes[i], i, scope));
    for (int reader : readers[i])
      if (--waiting[reader] == 0)
        ready.push(reader);
  }
  if (done == count)
    return success();
  size_t stuck =
      llvm::find_if(waiting, [](int w) { return w; }) - waiting.begin();
  const onnx::NodeProto &node = nodes[stuck];
  return userError("is part of a cycle: it waits for its own result",
                   "node '" + nodeName(node, stuck, scope) + "' (" +
                       node.op_type() + ")",
                   "a graph must have no cycles; export again");
}

const onnx::FunctionProto *
Importer::functionOf(const onnx::NodeProto &node) const {
  auto it = functions.find({domainOf(node), node.op_type(), node.overload()});
  return it == functions.end() ? nullptr : it->second;
}

/// Fails where a node has other inputs than its operator takes.
static LogicalResult checkInputs(Node &n, const OpRow &row,
                                 const onnx::NodeProto &node,
                                 ArrayRef<Value> inputs) {
  auto given = static_cast<int>(inputs.size());
  bool complete = given >= row.minInputs &&
                  (row.maxInputs == anyNumber || given <= row.maxInputs);
  for (int i = 0; complete && i < row.minInputs; ++i)
    complete = bool(inputs[i]);
  // Of any number all are there; where the first may be absent, the row looks.
  if (complete && row.maxInputs == anyNumber && row.minInputs > 0 &&
      llvm::is_contained(node.input(), std::string()))
    return n.fail("an input is absent", "remove the empty input");
  if (complete)
    return llvm::success();
  for (int i = 0; i < std::min(given, row.minInputs); ++i)
    if (node.input(i).empty())
      return n.fail("its input " + Twine(i) + " is absent, and the first " +
                        Twine(row.minInputs) + " must be there",
                    "give every one of them");
  return n.fail("has " + Twine(given) + " inputs where it takes " +
                    Twine(row.minInputs) +
                    (row.maxInputs == anyNumber ? " or more"
                     : row.maxInputs != row.minInputs
                         ? " to " + std::to_string(row.maxInputs)
                         : ""),
                "check the model with onnx.checker.check_model");
}

Status Importer::importNode(const onnx::NodeProto &node, size_t index,
                            OnnxScope &scope) {
  std::string name = nodeName(node, index, scope);
  std::string where = "node '" + name + "' (" + node.op_type() + ")";
  if (++nodesImported > maxNodes)
    return userError("the model has more than " + std::to_string(maxNodes) +
                         " nodes once its functions are inlined",
                     where, "split the model");
  // What hangs on something missing is skipped: the cause is reported.
  auto poison = [&]() {
    for (const std::string &output : node.output())
      if (!output.empty())
        scope.values[output] = Value();
    return success();
  };
  std::string domain = domainOf(node);
  auto opset = scope.opsets.find(domain);
  const onnx::FunctionProto *function = functionOf(node);
  if (opset == scope.opsets.end() && !function)
    return userError("domain '" + (domain.empty() ? "ai.onnx" : domain) +
                         "' is in no opset_import",
                     where, "export the model again");
  int64_t version = opset == scope.opsets.end() ? 1 : opset->second;
  const OpRow *row = nullptr;
  std::shared_ptr<const Operator> registered;
  if (!function) {
    bool known = false;
    row = findRow(domain, node.op_type(), version, &known);
    if (!row && domain != kHostDomain) // those are no operators of models
      registered = findOperator(domain, node.op_type());
    if (!row && !registered) {
      problems.push_back(
          {domain, node.op_type(), version, whyUnknown(domain, known), name});
      return poison();
    }
  }
  SmallVector<Value> inputs;
  for (const std::string &input : node.input()) {
    if (input.empty()) {
      inputs.push_back({});
      continue;
    }
    Expected<Value> value = lookup(input, scope);
    if (!value) {
      Error error = value.takeError();
      if (error.where == "the graph")
        error.where = where;
      else
        error.where = where + ", " + error.where;
      return error;
    }
    if (!*value) {
      for (const onnx::ValueInfoProto &given : file.model().graph().input())
        if (given.name() == input && hasUnsupportedElements(given, context))
          problems.push_back(
              {domain, node.op_type(), version,
               "its input '" + input + "' has element type " +
                   onnxTypeName(given.type().tensor_type().elem_type()),
               name});
      return poison();
    }
    inputs.push_back(*value);
  }
  while (!inputs.empty() && !inputs.back())
    inputs.pop_back();
  // Which of its inputs: what comes before or after is a tensor.
  auto takesSequence = [&](size_t input) {
    StringRef op = node.op_type();
    return takesSequences(op) && op != "SequenceConstruct" &&
           (op == "Loop" ? input >= 2 : input == 0 || op == "SequenceMap");
  };
  bool fits = llvm::all_of(llvm::enumerate(inputs), [&](auto input) {
    return !input.value() || isa<RankedTensorType>(input.value().getType()) ||
           takesSequence(input.index());
  });
  if (!fits && !function) {
    problems.push_back({domain, node.op_type(), version,
                        "an input is a sequence or an absent optional", name});
    return poison();
  }
  if (function)
    return inlineFunction(*function, node, name, scope);

  Node n(*this, scope, node, name, domain, version);
  n.operands = inputs;
  if (row && failed(checkInputs(n, *row, node, inputs)))
    return *n.error;
  auto import = [&] {
    if (!row)
      return importExternal(n, *registered);
    return llvm::any_of(inputs, isString) ? importOnStrings(n, *row)
                                          : row->import(n);
  };
  bool built = llvm::succeeded(import()) && !n.failed();
  if (n.error) // an error in the graph beats something missing
    return *n.error;
  if (!built) {
    problems.push_back({domain, node.op_type(), version,
                        n.missing.value_or("cannot be imported"), name});
    return poison();
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    if (!n.results[i]) {
      problems.push_back({domain, node.op_type(), version,
                          "its result " + std::to_string(i), name});
      return poison();
    }
    scope.values[node.output(i)] = n.results[i];
  }
  return success();
}

Status Importer::inlineFunction(const onnx::FunctionProto &function,
                                const onnx::NodeProto &node,
                                const std::string &name, OnnxScope &scope) {
  std::string where = "node '" + name + "' (" + node.op_type() + ")";
  if (node.input_size() > function.input_size() ||
      node.output_size() > function.output_size())
    return userError("has more inputs or outputs than its function", where,
                     "export the model again");
  OnnxScope inner;
  inner.body = scope.body;
  inner.prefix = name + "/";
  inner.depth = scope.depth + 1;
  for (const onnx::OperatorSetIdProto &opset : function.opset_import())
    inner.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] =
        opset.version();
  for (auto &entry : scope.opsets)
    inner.opsets.insert({entry.first(), entry.second});
  for (const onnx::AttributeProto &attribute : function.attribute_proto())
    inner.attributes[attribute.name()] = &attribute;
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    const onnx::AttributeProto *bound = &attribute;
    if (attribute.has_ref_attr_name())
      bound = scope.attributes.lookup(attribute.ref_attr_name());
    if (bound)
      inner.attributes[attribute.name()] = bound;
  }
  llvm::StringSet<> absent;
  for (int i = 0; i < function.input_size(); ++i) {
    if (i >= node.input_size() || node.input(i).empty()) {
      absent.insert(function.input(i));
      continue;
    }
    ASSIGN_OR_RETURN(Value value, lookup(node.input(i), scope));
    inner.values[function.input(i)] = value;
  }
  // An absent optional input is the empty name inside.
  std::vector<onnx::NodeProto> edited;
  if (!absent.empty()) {
    edited = function.node();
    for (onnx::NodeProto &body : edited)
      for (std::string &input : *body.mutable_input())
        if (absent.contains(input))
          input.clear();
  }
  if (Status status =
          importNodes(absent.empty() ? function.node() : edited, inner);
      !status)
    return status;
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    Expected<Value> value = lookup(function.output(i), inner);
    if (!value)
      return userError("its function does not define the output '" +
                           function.output(i) + "'",
                       where, "export the model again");
    scope.values[node.output(i)] = *value;
  }
  return success();
}

Expected<SmallVector<Value>>
Importer::importGraph(const onnx::GraphProto &graph, OnnxScope &scope) {
  TRY(addInitializers(graph, scope));
  TRY(importNodes(graph.node(), scope));
  SmallVector<Value> results;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    Expected<Value> value = lookup(output.name(), scope);
    if (!value) {
      Error error = value.takeError();
      if (error.where == "the graph")
        error.where = "output '" + output.name() + "'";
      return error;
    }
    results.push_back(*value);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

/// Names of the signature go through C.
static Status checkName(const char *what, const std::string &name) {
  if (name.find('\0') == std::string::npos)
    return success();
  return userError("has a null character in its name",
                   what + (" '" + name + "'"), "rename it before export");
}

Expected<OwningOpRef<ModuleOp>> Importer::run() {
  const onnx::ModelProto &model = file.model();
  const onnx::GraphProto &graph = model.graph();
  OnnxScope scope;
  for (const onnx::OperatorSetIdProto &opset : model.opset_import()) {
    std::string domain = opset.domain() == "ai.onnx" ? "" : opset.domain();
    scope.opsets[domain] = opset.version();
  }
  for (const onnx::FunctionProto &function : model.functions())
    functions[{function.domain() == "ai.onnx" ? "" : function.domain(),
               function.name(), function.overload()}] = &function;

  auto module = OwningOpRef<ModuleOp>(ModuleOp::create(FileLineColLoc::get(
      context, file.files()[0].empty() ? "model" : file.files()[0], 0, 0)));
  this->module = *module;
  TRY(addInitializers(graph, scope));

  ASSIGN_OR_RETURN(SmallVector<const onnx::ValueInfoProto *> inputs,
                   graphInputs(graph, scope));
  SmallVector<Type> types;
  SmallVector<const onnx::ValueInfoProto *> arguments;
  llvm::StringSet<> seen;
  for (const onnx::ValueInfoProto *input : inputs) {
    if (input->name().empty() || !seen.insert(input->name()).second)
      return userError("has no name of its own",
                       "input '" + input->name() + "'",
                       "give every input another name");
    TRY(checkName("input", input->name()));
    if (hasUnsupportedElements(*input, context)) {
      scope.values[input->name()] = Value(); // its readers are reported
      continue;
    }
    ASSIGN_OR_RETURN(Type type, inputType(*input));
    types.push_back(type);
    arguments.push_back(input);
  }
  b.setInsertionPointToEnd(module->getBody());
  auto main = func::FuncOp::create(b, module->getLoc(), "main",
                                   b.getFunctionType(types, {}));
  Block *body = main.addEntryBlock();
  b.setInsertionPointToEnd(body);
  for (const auto &[i, input] : llvm::enumerate(arguments)) {
    scope.values[input->name()] = body->getArgument(i);
    main.setArgAttr(i, "ts.name", b.getStringAttr(input->name()));
  }
  TRY(importNodes(graph.node(), scope));

  SmallVector<Value> results;
  if (!graph.output_size())
    return userError("has no outputs", "the graph", "export the model again");
  for (const onnx::ValueInfoProto &output : graph.output()) {
    std::string where = "output '" + output.name() + "'";
    TRY(checkName("output", output.name()));
    if (!isKnown(output.name(), scope))
      return userError("is defined nowhere", where, "export the model again");
    Expected<Value> value = lookup(output.name(), scope);
    if (!value)
      return value.takeError();
    if (*value && !isa<RankedTensorType>((*value).getType()))
      return userError("is a sequence or an optional", where,
                       "give its elements as outputs, or join them with "
                       "ConcatFromSequence");
    results.push_back(*value);
    const onnx::TypeProto::Tensor &declared = output.type().tensor_type();
    if (!*value || !declared.elem_type())
      continue;
    Type element = ts::elementTypeOf(*value);
    if (element != onnxAnyElementType(context, declared.elem_type())) {
      std::string text;
      llvm::raw_string_ostream(text) << element;
      return userError("is declared as " + onnxTypeName(declared.elem_type()) +
                           " but the graph gives " + text,
                       where, "export the model again");
    }
    // Exporters get this wrong, and nothing depends on it.
    if (declared.has_shape() &&
        declared.shape().dim_size() != ts::rankOf(*value))
      log(LogLevel::warning, where + " is declared with rank " +
                                 std::to_string(declared.shape().dim_size()) +
                                 " but the graph gives " +
                                 ts::shapeText(value->getType()));
  }
  if (!problems.empty())
    return problemsError(problems, file.files()[0].empty() ? "the model"
                                                           : file.files()[0]);
  for (const onnx::ValueInfoProto *input : inputs)
    if (hasUnsupportedElements(*input, context)) // and no node reads it
      return inputType(*input).takeError();
  b.setInsertionPointToEnd(body);
  func::ReturnOp::create(b, main.getLoc(), results);
  main.setType(b.getFunctionType(types, ValueRange(results).getTypes()));
  for (const auto &[i, output] : llvm::enumerate(graph.output()))
    main.setResultAttr(i, "ts.name", b.getStringAttr(output.name()));

  // Shape arithmetic and unread results leave dead ops behind.
  valueCache.clear();
  for (auto function : module->getOps<func::FuncOp>())
    for (Operation &op : llvm::make_early_inc_range(
             llvm::reverse(function.getBody().front().getOperations())))
      if (isOpTriviallyDead(&op))
        op.erase();
  (*module)->setAttr("ts.symbols", symbolsAttr());
  SmallVector<StringRef> paths(file.files().begin(), file.files().end());
  (*module)->setAttr("ts.files", b.getStrArrayAttr(paths));
  diagnostic.clear();
  if (failed(mlir::verify(*module)))
    return internalError("the imported module is not valid: " + diagnostic,
                         "import");
  return module;
}

} // namespace knapper
