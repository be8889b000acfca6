#include "frontends/onnx/ExternalFiles.h"
#include "frontends/onnx/Source.h"

namespace knapper {
namespace {

class Visitor {
public:
  explicit Visitor(OnnxFile &file) : file(file) {}

  Status tensor(const onnx::TensorProto &tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL)
      return success();
    // The size by the dims is the importer's to check.
    uint64_t length = 0;
    for (const onnx::StringStringEntryProto &entry : tensor.external_data())
      if (entry.key() == "length" &&
          llvm::StringRef(entry.value()).getAsInteger(10, length))
        length = 0; // regionOf says that it is no number
    ASSIGN_OR_RETURN(auto region, file.regionOf(tensor, length));
    return success();
  }

  Status graph(const onnx::GraphProto &graph, unsigned depth) {
    for (const onnx::TensorProto &initializer : graph.initializer())
      TRY(tensor(initializer));
    for (const onnx::NodeProto &n : graph.node())
      TRY(node(n, depth));
    return success();
  }

  Status node(const onnx::NodeProto &node, unsigned depth) {
    if (depth > 64)
      return success(); // refused by the importer
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_t())
        TRY(tensor(attribute.t()));
      if (attribute.has_g())
        TRY(graph(attribute.g(), depth + 1));
      for (const onnx::GraphProto &inner : attribute.graphs())
        TRY(graph(inner, depth + 1));
    }
    return success();
  }

private:
  OnnxFile &file;
};

} // namespace

Expected<std::vector<std::string>> onnxExternalFiles(const OnnxSource &source) {
  ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::open(source));
  Visitor visitor(file);
  TRY(visitor.graph(file.model().graph(), 0));
  for (const onnx::FunctionProto &function : file.model().functions())
    for (const onnx::NodeProto &node : function.node())
      TRY(visitor.node(node, 0));
  // 0 is the model itself.
  return std::vector<std::string>(file.files().begin() + 1, file.files().end());
}

} // namespace knapper
