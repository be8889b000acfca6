#include "frontends/onnx/InspectOnnx.h"
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Json.h"
#include "runtime/operators/HostDomain.h"
#include "runtime/operators/Registry.h"

using namespace mlir;

namespace knapper {
namespace {

using Opsets = std::map<std::string, int64_t>;

std::string shownDomain(const std::string &domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

Opsets opsetsOf(const std::vector<onnx::OperatorSetIdProto> &imports) {
  Opsets opsets;
  for (const onnx::OperatorSetIdProto &opset : imports)
    opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  return opsets;
}

class Inspection {
public:
  explicit Inspection(const onnx::ModelProto &model) : model(model) {
    for (const onnx::FunctionProto &function : model.functions())
      functions.insert({function.domain() == "ai.onnx" ? "" : function.domain(),
                        function.name(), function.overload()});
  }

  void nodes(const std::vector<onnx::NodeProto> &list, const Opsets &opsets,
             unsigned depth = 0) {
    if (depth > 64)
      return;
    for (const auto &[index, node] : llvm::enumerate(list)) {
      ++nodeCount;
      std::string domain = domainOf(node);
      auto opset = opsets.find(domain);
      int64_t version = opset == opsets.end() ? 0 : opset->second;
      if (!functions.count({domain, node.op_type(), node.overload()})) {
        Use &use = uses[{domain, node.op_type(), version}];
        ++use.count;
        bool known = false;
        use.custom = !findRow(domain, node.op_type(), version, &known);
        use.supported =
            !use.custom || (domain != kHostDomain &&
                            findOperator(domain, node.op_type()) != nullptr);
        if (!use.supported)
          problem(domain, node.op_type(), version, whyUnknown(domain, known),
                  node.name().empty() ? ("#" + Twine(index)).str()
                                      : node.name());
      }
      for (const onnx::AttributeProto &attribute : node.attribute()) {
        if (attribute.has_t())
          tensor(attribute.t());
        if (attribute.has_g())
          graph(attribute.g(), opsets, depth + 1);
        for (const onnx::GraphProto &inner : attribute.graphs())
          graph(inner, opsets, depth + 1);
      }
    }
  }

  void graph(const onnx::GraphProto &graph, const Opsets &opsets,
             unsigned depth = 0) {
    for (const onnx::TensorProto &initializer : graph.initializer())
      tensor(initializer);
    nodes(graph.node(), opsets, depth);
  }

  void tensor(const onnx::TensorProto &tensor) {
    ++tensorCount;
    if (tensor.data_type() == onnx::TensorProto::STRING) {
      for (const std::string &text : tensor.string_data())
        tensorBytes += text.size();
      return;
    }
    Type element = onnxElementType(&context, tensor.data_type());
    if (!element) {
      problem("", "initializer", 0,
              "element type " + onnxTypeName(tensor.data_type()),
              tensor.name());
      return;
    }
    std::optional<int64_t> bytes = ts::elementBytes(element);
    for (int64_t dim : tensor.dims())
      if (bytes)
        bytes = dim < 0 ? std::nullopt : checkedMul(*bytes, dim);
    tensorBytes += static_cast<uint64_t>(bytes.value_or(0));
  }

  void problem(const std::string &domain, const std::string &op, int64_t opset,
               const std::string &reason, const std::string &node) {
    problems[{domain, op, opset, reason}].push_back(node);
  }

  struct Use {
    int64_t count = 0;
    bool supported = false;
    bool custom = false; // no row: registered, or not supported
  };
  MLIRContext context{MLIRContext::Threading::DISABLED};
  const onnx::ModelProto &model;
  std::set<std::tuple<std::string, std::string, std::string>> functions;
  std::map<std::tuple<std::string, std::string, int64_t>, Use> uses;
  std::map<std::tuple<std::string, std::string, int64_t, std::string>,
           std::vector<std::string>>
      problems;
  int64_t nodeCount = 0, tensorCount = 0;
  uint64_t tensorBytes = 0;
};

void writeSignature(JsonWriter &json, const char *key,
                    const std::vector<onnx::ValueInfoProto> &values,
                    const llvm::StringSet<> &skip) {
  json.key(key).beginArray();
  for (const onnx::ValueInfoProto &value : values) {
    if (skip.contains(value.name()))
      continue;
    const onnx::TypeProto::Tensor &tensor = value.type().tensor_type();
    json.beginObject().field("name", value.name());
    if (value.type().has_tensor_type())
      json.field("dtype", onnxTypeName(tensor.elem_type()));
    else
      json.key("dtype").null();
    if (tensor.has_shape()) {
      json.key("dims").beginArray();
      for (const auto &dim : tensor.shape().dim())
        if (dim.has_dim_value() && dim.dim_value() >= 0)
          json.value(dim.dim_value());
        else if (!dim.dim_param().empty())
          json.value(dim.dim_param());
        else
          json.null();
      json.endArray();
    } else {
      json.key("dims").null();
    }
    json.endObject();
  }
  json.endArray();
}

} // namespace

const char *whyUnknown(StringRef domain, bool known) {
  if (domain == "com.microsoft.nchwc")
    return "a layout of the machine that optimised the model (save it with "
           "ORT_ENABLE_EXTENDED, or give the model as it was)";
  bool custom = llvm::none_of(ArrayRef<StringRef>{"", "ai.onnx.ml",
                                                  "ai.onnx.preview.training",
                                                  "com.microsoft"},
                              [&](StringRef own) { return own == domain; });
  if (custom && !known)
    return "a custom operator that is not registered";
  return known ? "not in this opset version" : "no such operator here";
}

Expected<std::string> inspectOnnx(const OnnxSource &source) {
  ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::open(source));
  const onnx::ModelProto &model = file.model();
  Inspection found(model);
  Opsets opsets = opsetsOf(model.opset_import());
  found.graph(model.graph(), opsets);
  for (const onnx::FunctionProto &function : model.functions()) {
    Opsets inner = opsetsOf(function.opset_import());
    inner.insert(opsets.begin(), opsets.end());
    found.nodes(function.node(), inner);
  }
  llvm::StringSet<> defaults;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    defaults.insert(tensor.name());
  for (const onnx::ValueInfoProto &input : model.graph().input()) {
    if (defaults.contains(input.name()))
      continue;
    if (!input.type().has_tensor_type())
      found.problem("", "input", 0, "not a tensor", input.name());
    else if (int32_t type = input.type().tensor_type().elem_type();
             type != onnx::TensorProto::STRING &&
             !onnxElementType(&found.context, type))
      found.problem("", "input", 0, "element type " + onnxTypeName(type),
                    input.name());
  }

  JsonWriter json;
  json.beginObject();
  std::string producer = model.producer_name();
  if (!model.producer_version().empty())
    producer += (producer.empty() ? "" : " ") + model.producer_version();
  json.field("producer", producer).field("ir_version", model.ir_version());
  json.key("opsets").beginArray();
  for (const auto &[domain, version] : opsets)
    json.beginObject()
        .field("domain", shownDomain(domain))
        .field("version", version)
        .endObject();
  json.endArray();
  writeSignature(json, "inputs", model.graph().input(), defaults);
  writeSignature(json, "outputs", model.graph().output(), {});
  json.field("file_bytes", file.size())
      .field("initializers", found.tensorCount)
      .field("initializer_bytes", found.tensorBytes)
      .field("functions", static_cast<int64_t>(model.functions_size()))
      .field("nodes", found.nodeCount);
  json.key("operators").beginArray();
  for (const auto &[key, use] : found.uses)
    json.beginObject()
        .field("domain", shownDomain(std::get<0>(key)))
        .field("op", std::get<1>(key))
        .field("opset", std::get<2>(key))
        .field("count", use.count)
        .field("supported", use.supported)
        .field("registered", use.custom && use.supported)
        .endObject();
  json.endArray();
  json.key("unsupported").beginArray();
  for (const auto &[key, nodes] : found.problems) {
    json.beginObject()
        .field("domain", shownDomain(std::get<0>(key)))
        .field("op", std::get<1>(key))
        .field("opset", std::get<2>(key))
        .field("reason", std::get<3>(key));
    json.key("nodes").beginArray();
    for (const std::string &node : nodes)
      json.value(node);
    json.endArray().endObject();
  }
  json.endArray().endObject();
  return json.take();
}

} // namespace knapper
