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
    auto region = file.regionOf(tensor, length);
    if (!region)
      return region.takeError();
    return success();
  }

  Status graph(const onnx::GraphProto &graph, unsigned depth) {
    for (const onnx::TensorProto &initializer : graph.initializer())
      if (Status status = tensor(initializer); !status)
        return status;
    for (const onnx::NodeProto &n : graph.node())
      if (Status status = node(n, depth); !status)
        return status;
    return success();
  }

  Status node(const onnx::NodeProto &node, unsigned depth) {
    if (depth > 64)
      return success(); // refused by the importer
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_t())
        if (Status status = tensor(attribute.t()); !status)
          return status;
      if (attribute.has_g())
        if (Status status = graph(attribute.g(), depth + 1); !status)
          return status;
      for (const onnx::GraphProto &inner : attribute.graphs())
        if (Status status = graph(inner, depth + 1); !status)
          return status;
    }
    return success();
  }

private:
  OnnxFile &file;
};

} // namespace

Expected<std::vector<std::string>> onnxExternalFiles(const OnnxSource &source) {
  Expected<OnnxFile> file = OnnxFile::open(source);
  if (!file)
    return file.takeError();
  Visitor visitor(*file);
  if (Status status = visitor.graph(file->model().graph(), 0); !status)
    return status.takeError();
  for (const onnx::FunctionProto &function : file->model().functions())
    for (const onnx::NodeProto &node : function.node())
      if (Status status = visitor.node(node, 0); !status)
        return status.takeError();
  // 0 is the model itself.
  return std::vector<std::string>(file->files().begin() + 1,
                                  file->files().end());
}

} // namespace knapper
