#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static Location locationOf(MLIRContext *context, const std::string &name,
                           const std::string &op) {
  return NameLoc::get(StringAttr::get(context, name),
                      NameLoc::get(StringAttr::get(context, op)));
}

Node::Node(Importer &importer, OnnxScope &scope, const onnx::NodeProto &proto,
           std::string nodeName, std::string domain, int64_t opset)
    : NodeBuilder(importer,
                  locationOf(importer.context, nodeName, proto.op_type())),
      importer(importer), scope(scope), proto(proto), name(std::move(nodeName)),
      domain(std::move(domain)), opset(opset) {
  results.resize(proto.output_size());
}

std::string Node::where() const {
  return "node '" + name + "' (" + proto.op_type() + ")";
}

bool Node::wants(size_t index) const {
  return index < resultCount() &&
         !proto.output(static_cast<int>(index)).empty();
}

LogicalResult Node::out(Value value, size_t index) {
  if (!value || failed()) {
    if (!failed())
      error = internalError("a result could not be built", where());
    return failure();
  }
  if (index < results.size())
    results[index] = value;
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const onnx::AttributeProto *
Node::attribute(StringRef name, onnx::AttributeProto::AttributeType type) {
  for (const onnx::AttributeProto &found : proto.attribute()) {
    if (found.name() != name)
      continue;
    const onnx::AttributeProto *attribute = &found;
    if (found.has_ref_attr_name()) {
      // Bound by the caller, who may leave it out.
      attribute = scope.attributes.lookup(found.ref_attr_name());
      if (!attribute)
        return nullptr;
    }
    if (type != onnx::AttributeProto::UNDEFINED && attribute->type() != type) {
      (void)fail("attribute '" + name + "' has the wrong kind",
                 "export the model again");
      return nullptr;
    }
    return attribute;
  }
  return nullptr;
}

bool Node::hasAttr(StringRef name) {
  return attribute(name, onnx::AttributeProto::UNDEFINED);
}
int64_t Node::integer(StringRef name, int64_t otherwise) {
  const auto *found = attribute(name, onnx::AttributeProto::INT);
  return found ? found->i() : otherwise;
}
bool Node::flag(StringRef name, bool otherwise) {
  int64_t value = integer(name, otherwise);
  if (value != 0 && value != 1)
    (void)fail(name + " is " + Twine(value), "set it to 0 or 1");
  return value != 0;
}
double Node::real(StringRef name, double otherwise) {
  const auto *found = attribute(name, onnx::AttributeProto::FLOAT);
  return found ? found->f() : otherwise;
}
std::string Node::text(StringRef name, StringRef otherwise) {
  const auto *found = attribute(name, onnx::AttributeProto::STRING);
  return found ? found->s() : otherwise.str();
}
SmallVector<std::string> Node::texts(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::STRINGS);
  if (!found)
    return {};
  return SmallVector<std::string>(found->strings().begin(),
                                  found->strings().end());
}
SmallVector<int64_t> Node::integers(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::INTS);
  if (!found)
    return {};
  return SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}
SmallVector<double> Node::reals(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::FLOATS);
  if (!found)
    return {};
  return SmallVector<double>(found->floats().begin(), found->floats().end());
}
const onnx::TensorProto *Node::tensor(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::TENSOR);
  return found ? &found->t() : nullptr;
}
const onnx::GraphProto *Node::graph(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::GRAPH);
  return found ? &found->g() : nullptr;
}

int64_t Node::axis(StringRef name, int64_t otherwise, int64_t rank) {
  return normalAxis(integer(name, otherwise), rank);
}
SmallVector<int64_t> Node::axesOrAll(int64_t rank) {
  if (!hasAttr("axes"))
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  return llvm::map_to_vector(
      integers("axes"), [&](int64_t axis) { return normalAxis(axis, rank); });
}
Type Node::outputDatatype() {
  auto dtype = static_cast<int32_t>(
      integer("output_datatype", onnx::TensorProto::FLOAT));
  Type element = onnxElementType(importer.context, dtype);
  if (!element)
    (void)unsupported("element type " + onnxTypeName(dtype));
  return element;
}
} // namespace knapper
