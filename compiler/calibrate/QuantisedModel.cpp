#include "compiler/calibrate/QuantisedModel.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace knapper {
namespace {

using T = onnx::TensorProto;

template <typename Element>
T tensorOf(const std::string &name, T::DataType type,
           const std::vector<int64_t> &dims,
           const std::vector<Element> &values) {
  T tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (int64_t dim : dims)
    tensor.add_dims(dim);
  std::string data(values.size() * sizeof(Element), '\0');
  if (!data.empty())
    memcpy(data.data(), values.data(), data.size());
  tensor.set_raw_data(std::move(data));
  return tensor;
}

/// Two a byte, the first in the low bits.
std::vector<int8_t> inNibbles(const std::vector<int8_t> &values) {
  std::vector<int8_t> packed((values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i)
    packed[i / 2] = static_cast<int8_t>(packed[i / 2] |
                                        ((values[i] & 15) << (i % 2 ? 4 : 0)));
  return packed;
}

onnx::NodeProto nodeOf(const std::string &op,
                       const std::vector<std::string> &inputs,
                       const std::string &output) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
  return node;
}

void setInteger(onnx::NodeProto &node, const std::string &name, int64_t value) {
  onnx::AttributeProto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

/// round(w / scale) + zero, as QuantizeWeights.cpp makes it.
int8_t stepOf(float w, float scale, float zero, float lowest, float highest) {
  float q = std::nearbyintf(w / scale) + zero;
  return static_cast<int8_t>(std::min(std::max(q, lowest), highest));
}

/// A weight tensor as rows and columns, whichever way it lies.
struct Matrix {
  std::vector<float> values;
  int64_t downStep, acrossStep;

  float at(int64_t row, int64_t column) const {
    return values[row * downStep + column * acrossStep];
  }
};

Expected<Matrix> matrixOf(OnnxFile &file, const Layer &layer) {
  ASSIGN_OR_RETURN(std::vector<float> values, readFloats(file, *layer.weight));
  bool transposed = layer.columnAxis == 0;
  return Matrix{std::move(values), transposed ? 1 : layer.columns,
                transposed ? layer.rows : 1};
}

} // namespace

std::string QuantisedOperands::activation(const Layer &layer, StepChoice steps,
                                          bool isSigned) {
  std::string &result = activations[layer.input];
  if (!result.empty())
    return result;
  std::string scale = edit.freshName(layer.input + "/scale");
  std::string zero = edit.freshName(layer.input + "/zero_point");
  std::string bytes = edit.freshName(layer.input + "/quantized");
  result = edit.freshName(layer.input + "/dequantized");
  edit.addInitializer(tensorOf<float>(scale, T::FLOAT, {}, {steps.scale}));
  edit.addInitializer(tensorOf<uint8_t>(zero, isSigned ? T::INT8 : T::UINT8, {},
                                        {static_cast<uint8_t>(steps.zero)}));
  edit.addBefore(layer.node,
                 nodeOf("QuantizeLinear", {layer.input, scale, zero}, bytes));
  edit.addBefore(layer.node,
                 nodeOf("DequantizeLinear", {bytes, scale, zero}, result));
  return result;
}

Expected<std::string> QuantisedOperands::columns(const Layer &layer) {
  // A matrix that lies the other way for another layer is written twice.
  std::string &result =
      weights[layer.weightName + "/" + std::to_string(layer.columnAxis)];
  if (!result.empty())
    return result;
  ASSIGN_OR_RETURN(Matrix matrix, matrixOf(file, layer));
  std::vector<float> scales(layer.columns);
  std::vector<int8_t> bytes(matrix.values.size());
  for (int64_t column = 0; column < layer.columns; ++column) {
    float most = 0;
    for (int64_t row = 0; row < layer.rows; ++row)
      most = std::max(most, std::abs(matrix.at(row, column)));
    // A scale that float32 cannot hold well would make infinities of steps.
    float scale = most / 127 < 1e-37f ? 1 : most / 127;
    scales[column] = scale;
    for (int64_t row = 0; row < layer.rows; ++row)
      bytes[row * matrix.downStep + column * matrix.acrossStep] =
          stepOf(matrix.at(row, column), scale, 0, -127, 127);
  }
  std::string name = edit.freshName(layer.weightName + "/quantized");
  std::string scale = edit.freshName(layer.weightName + "/scale");
  result = edit.freshName(layer.weightName + "/dequantized");
  std::vector<int64_t> dims(layer.weight->dims().begin(),
                            layer.weight->dims().end());
  edit.addInitializer(tensorOf<int8_t>(name, T::INT8, dims, bytes));
  edit.addInitializer(
      tensorOf<float>(scale, T::FLOAT, {layer.columns}, scales));
  onnx::NodeProto node = nodeOf("DequantizeLinear", {name, scale}, result);
  setInteger(node, "axis", layer.columnAxis);
  edit.addBefore(layer.node, std::move(node));
  return result;
}

Expected<std::string> QuantisedOperands::blocks(const Layer &layer,
                                                const BlockFormat &format) {
  std::string &result =
      weights[layer.weightName + "/" + std::to_string(layer.columnAxis)];
  if (!result.empty())
    return result;
  ASSIGN_OR_RETURN(Matrix matrix, matrixOf(file, layer));
  int64_t group = std::min(format.group, layer.rows);
  int64_t groups = (layer.rows + group - 1) / group;
  bool transposed = layer.columnAxis == 0;
  std::vector<int64_t> dims = transposed
                                  ? std::vector<int64_t>{layer.columns, groups}
                                  : std::vector<int64_t>{groups, layer.columns};
  float steps = static_cast<float>(1 << format.bits);
  float lowest = -steps / 2, highest = steps / 2 - 1;
  std::vector<float> scales(groups * layer.columns);
  std::vector<int8_t> zeros(scales.size()), bytes(matrix.values.size());
  for (int64_t column = 0; column < layer.columns; ++column)
    for (int64_t block = 0; block < groups; ++block) {
      int64_t begin = block * group, end = std::min(begin + group, layer.rows);
      float high = matrix.at(begin, column), low = high;
      for (int64_t row = begin; row < end; ++row) {
        high = std::max(high, matrix.at(row, column));
        low = std::min(low, matrix.at(row, column));
      }
      if (end - begin < format.group || format.asymmetric) {
        // The rows that are missing are zeros in QuantizeWeights.
        high = std::max(high, 0.0f);
        low = std::min(low, 0.0f);
      }
      float scale = format.asymmetric  ? (high - low) / (steps - 1)
                    : format.bits == 4 ? (high > -low ? high : low) / lowest
                                       : std::max(high, -low) / highest;
      scale = scale == 0 ? 1 : scale;
      float zero =
          format.asymmetric ? lowest - std::nearbyintf(low / scale) : 0;
      size_t at =
          transposed ? column * groups + block : block * layer.columns + column;
      scales[at] = scale;
      zeros[at] = static_cast<int8_t>(zero);
      for (int64_t row = begin; row < end; ++row)
        bytes[row * matrix.downStep + column * matrix.acrossStep] =
            stepOf(matrix.at(row, column), scale, zero, lowest, highest);
    }
  auto integers = [&](const std::string &name, const std::vector<int64_t> &dims,
                      const std::vector<int8_t> &values) {
    edit.addInitializer(
        format.bits == 8
            ? tensorOf<int8_t>(name, T::INT8, dims, values)
            : tensorOf<int8_t>(name, T::INT4, dims, inNibbles(values)));
  };
  std::string name = edit.freshName(layer.weightName + "/quantized");
  std::string scale = edit.freshName(layer.weightName + "/scale");
  result = edit.freshName(layer.weightName + "/dequantized");
  integers(name, {layer.weight->dims(0), layer.weight->dims(1)}, bytes);
  edit.addInitializer(tensorOf<float>(scale, T::FLOAT, dims, scales));
  std::vector<std::string> inputs = {name, scale};
  if (format.asymmetric) {
    inputs.push_back(edit.freshName(layer.weightName + "/zero_point"));
    integers(inputs.back(), dims, zeros);
  }
  onnx::NodeProto node = nodeOf("DequantizeLinear", inputs, result);
  setInteger(node, "axis", transposed ? 1 : 0);
  setInteger(node, "block_size", group);
  edit.addBefore(layer.node, std::move(node));
  return result;
}

Status raiseOpset(const OnnxFile &file, OnnxEdit &edit, bool hasBlocks) {
  int64_t version = 0, needed = hasBlocks ? 21 : 13;
  for (const onnx::OperatorSetIdProto &set : file.model().opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      version = set.version();
  if (version >= needed)
    return success();
  std::string why = "is of opset " + std::to_string(version) + "; " +
                    (hasBlocks ? "scales of blocks" : "scales of columns") +
                    " need opset " + std::to_string(needed);
  std::string hint = "onnx.version_converter.convert_version(model, " +
                     std::to_string(needed) + ")";
  hint += hasBlocks ? ", or write a .knap" : "";
  // From 18 to 21 no other operator changed its meaning for what it accepted.
  constexpr llvm::StringRef changed[] = {"DFT", "GridSample",
                                         "GroupNormalization"};
  if (version < 18)
    return userError(why, "the model", hint);
  for (const onnx::NodeProto &node : file.model().graph().node())
    if (llvm::is_contained(changed, llvm::StringRef(node.op_type())) ||
        llvm::any_of(node.attribute(), [](const onnx::AttributeProto &a) {
          return a.has_g() || a.graphs_size() > 0;
        }))
      return userError(why + ", where the meaning of " + node.op_type() +
                           " may be another",
                       "the model", hint);
  edit.setOpset(needed, 10);
  return success();
}

} // namespace knapper
