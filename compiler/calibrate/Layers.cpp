#include "compiler/calibrate/Layers.h"
#include "frontends/onnx/Edit.h"
#include "frontends/onnx/Tensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace knapper {
namespace {

/// As `--weights` (QuantizeWeights.h): what is smaller gains nothing.
constexpr int64_t leastElements = 4096;
/// u8 times i8 summed in i32.
constexpr int64_t mostRows = INT32_MAX / (255 * 128);

const onnx::AttributeProto *attributeOf(const onnx::NodeProto &node,
                                        llvm::StringRef name) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}
int64_t integerOf(const onnx::NodeProto &node, llvm::StringRef name) {
  const onnx::AttributeProto *attribute = attributeOf(node, name);
  return attribute ? attribute->i() : 0;
}

/// The tensors that are the same in every run, by name.
llvm::StringMap<const onnx::TensorProto *> constantsOf(const OnnxFile &file) {
  const onnx::GraphProto &graph = file.model().graph();
  llvm::StringMap<const onnx::TensorProto *> constants;
  for (const onnx::TensorProto &tensor : graph.initializer())
    constants[tensor.name()] = &tensor;
  // What a caller may give instead is no constant; old models list all.
  if (file.model().ir_version() >= 4)
    for (const onnx::ValueInfoProto &input : graph.input())
      constants.erase(input.name());
  for (const onnx::NodeProto &node : graph.node())
    if (node.op_type() == "Constant" && node.output_size() == 1)
      if (const onnx::AttributeProto *value = attributeOf(node, "value"))
        if (value->has_t())
          constants[node.output(0)] = &value->t();
  return constants;
}

} // namespace

Expected<Layers> findLayers(OnnxFile &file, bool isStatic,
                            const std::vector<std::string> &keep) {
  const onnx::GraphProto &graph = file.model().graph();
  llvm::StringMap<const onnx::TensorProto *> constants = constantsOf(file);
  std::vector<bool> met(keep.size());
  Layers found;
  for (auto [index, node] : llvm::enumerate(graph.node())) {
    const std::string &op = node.op_type();
    bool isConv = isStatic && op == "Conv";
    if ((!node.domain().empty() && node.domain() != "ai.onnx") ||
        (op != "MatMul" && op != "Gemm" && !isConv) || node.input_size() < 2 ||
        node.output_size() < 1)
      continue;
    std::string name =
        node.name().empty() ? op + " of '" + node.output(0) + "'" : node.name();
    bool named = false;
    for (auto [i, text] : llvm::enumerate(keep))
      if (text == node.name() || text == node.output(0))
        named = met[i] = true;
    auto stays = [&](std::string why) {
      found.kept.push_back({name, op, std::move(why)});
    };
    const onnx::TensorProto *weight = constants.lookup(node.input(1));
    if (!weight) {
      stays("its right side is computed");
      continue;
    }
    if (isConv ? weight->dims_size() < 3 : weight->dims_size() != 2) {
      stays(isConv ? "its weights are no filter" : "its weights are no matrix");
      continue;
    }
    bool transposed = isConv || (op == "Gemm" && integerOf(node, "transB"));
    Layer layer{static_cast<int>(index),
                name,
                op,
                node.input(0),
                node.output(0),
                node.input(1),
                weight,
                weight->dims(transposed),
                weight->dims(!transposed),
                transposed ? 0 : 1};
    for (int i = 2; i < weight->dims_size(); ++i)
      if (llvm::MulOverflow<int64_t>(layer.rows, weight->dims(i), layer.rows))
        layer.rows = INT64_MAX; // more than there are
    if (named)
      stays("asked for");
    else if (weight->data_type() != onnx::TensorProto::FLOAT)
      stays("its weights are " + onnxTypeName(weight->data_type()));
    else if (constants.contains(node.input(0)))
      stays("its left side is constant");
    else if (op == "Gemm" && integerOf(node, "transA"))
      stays("its left side is transposed");
    else if (layer.rows < 1 || layer.columns < 1)
      stays("it has no weights");
    else if (!isConv &&
             layer.rows < (leastElements + layer.columns - 1) / layer.columns)
      stays("it has fewer than 4096 weights");
    else if (isStatic && layer.rows > mostRows)
      stays("32 bits cannot hold the sums of " + std::to_string(layer.rows) +
            " rows");
    else {
      ASSIGN_OR_RETURN(std::vector<float> values, readFloats(file, *weight));
      if (llvm::all_of(values, [](float x) { return std::isfinite(x); }))
        found.layers.push_back(std::move(layer));
      else
        stays("its weights are not all finite");
    }
  }
  for (auto [i, text] : llvm::enumerate(keep))
    if (!met[i])
      return userError("no matmul of the model is called '" + text + "'",
                       "option keep",
                       "name a MatMul, Gemm or Conv node, or its result");
  return found;
}

} // namespace knapper
