#include "frontends/onnx/Edit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

using llvm::StringRef;

namespace knapper {
namespace {

/// One field of a message, with its tag.
struct Field {
  uint64_t number = 0, wire = 0;
  StringRef all;     ///< tag and all
  StringRef content; ///< of a length-delimited one
};

uint64_t takeVarint(StringRef &bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    auto byte = static_cast<uint8_t>(bytes.front());
    bytes = bytes.drop_front();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      break;
  }
  return value;
}

/// The next field of a message that `OnnxFile::open` has walked: its lengths
/// are right.
Field takeField(StringRef &bytes) {
  StringRef start = bytes;
  Field field;
  uint64_t tag = takeVarint(bytes);
  field.number = tag >> 3;
  field.wire = tag & 7;
  size_t length = 0;
  if (field.wire == 0)
    takeVarint(bytes);
  else
    length = field.wire == 1 ? 8 : field.wire == 5 ? 4 : takeVarint(bytes);
  length = std::min(length, bytes.size());
  field.content = bytes.take_front(length);
  bytes = bytes.drop_front(length);
  field.all = start.drop_back(bytes.size());
  return field;
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void appendMessage(std::string &out, uint64_t number, StringRef content) {
  appendVarint(out, number << 3 | 2);
  appendVarint(out, content.size());
  out.append(content.data(), content.size());
}

/// The text in field 8, which tensors have their name in.
StringRef nameOfTensor(StringRef bytes) {
  StringRef name;
  while (!bytes.empty())
    if (Field field = takeField(bytes); field.number == 8 && field.wire == 2)
      name = field.content;
  return name;
}

/// Bits of an element in raw data; 0 for strings and unknown types.
unsigned storedBits(int32_t type) {
  using T = onnx::TensorProto;
  switch (type) {
  case T::UINT2:
  case T::INT2:
    return 2;
  case T::UINT4:
  case T::INT4:
  case T::FLOAT4E2M1:
    return 4;
  case T::UINT8:
  case T::INT8:
  case T::BOOL:
  case T::FLOAT8E4M3FN:
  case T::FLOAT8E4M3FNUZ:
  case T::FLOAT8E5M2:
  case T::FLOAT8E5M2FNUZ:
  case T::FLOAT8E8M0:
    return 8;
  case T::UINT16:
  case T::INT16:
  case T::FLOAT16:
  case T::BFLOAT16:
    return 16;
  case T::FLOAT:
  case T::INT32:
  case T::UINT32:
    return 32;
  case T::DOUBLE:
  case T::INT64:
  case T::UINT64:
  case T::COMPLEX64:
    return 64;
  case T::COMPLEX128:
    return 128;
  default:
    return 0;
  }
}

/// Bytes of raw data that the dims need.
Expected<uint64_t> storedBytes(const onnx::TensorProto &tensor) {
  uint64_t bits = storedBits(tensor.data_type());
  bool fits = bits > 0;
  for (int64_t dim : tensor.dims())
    fits = fits && dim >= 0 &&
           !__builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits);
  if (fits)
    return llvm::divideCeil(bits, 8);
  return userError("has no size that can be computed",
                   "tensor '" + tensor.name() + "'", "export the model again");
}

} // namespace

Expected<std::vector<float>> readFloats(OnnxFile &file,
                                        const onnx::TensorProto &tensor) {
  ASSIGN_OR_RETURN(uint64_t bytes, storedBytes(tensor));
  Expected<std::optional<OnnxFile::Region>> region =
      file.regionOf(tensor, bytes);
  if (!region)
    return region.takeError();
  StringRef data = *region                 ? (*region)->data
                   : tensor.has_raw_data() ? StringRef(tensor.raw_data())
                                           : StringRef();
  std::vector<float> values;
  if (*region || tensor.has_raw_data()) {
    values.resize(data.size() / sizeof(float));
    if (!values.empty())
      memcpy(values.data(), data.data(), values.size() * sizeof(float));
  } else {
    values = tensor.float_data();
  }
  if (values.size() * sizeof(float) != bytes)
    return userError("holds " + std::to_string(values.size()) +
                         " numbers, which is not what its dims say",
                     "tensor '" + tensor.name() + "'",
                     "export the model again");
  return values;
}

OnnxEdit::OnnxEdit(OnnxFile &file) : file(file) {
  const onnx::GraphProto &graph = file.model().graph();
  for (const onnx::NodeProto &node : graph.node())
    countReads(node);
  for (const onnx::TensorProto &tensor : graph.initializer())
    names.insert(tensor.name());
  for (const onnx::ValueInfoProto &input : graph.input())
    names.insert(input.name());
  for (const onnx::ValueInfoProto &output : graph.output()) {
    outputs.push_back(output.name());
    ++reads[output.name()];
  }
}

void OnnxEdit::countReads(const onnx::NodeProto &node) {
  for (const std::string &input : node.input()) {
    names.insert(input);
    ++reads[input];
  }
  for (const std::string &output : node.output())
    names.insert(output);
  auto inside = [&](const onnx::GraphProto &graph) {
    for (const onnx::NodeProto &inner : graph.node())
      countReads(inner);
    for (const onnx::TensorProto &tensor : graph.initializer())
      names.insert(tensor.name());
    for (const onnx::ValueInfoProto &input : graph.input())
      names.insert(input.name());
    for (const onnx::ValueInfoProto &output : graph.output())
      ++reads[output.name()];
  };
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      inside(attribute.g());
    for (const onnx::GraphProto &graph : attribute.graphs())
      inside(graph);
  }
}

std::string OnnxEdit::freshName(const std::string &like) {
  std::string name = like;
  for (int i = 1; !names.insert(name).second; ++i)
    name = like + "_" + std::to_string(i);
  return name;
}

void OnnxEdit::setInput(int node, int input, const std::string &name) {
  --reads[file.model().graph().node(node).input(input)];
  ++reads[name];
  inputs[{node, input}] = name;
}

void OnnxEdit::addBefore(int node, onnx::NodeProto made) {
  countReads(made);
  added[node].push_back(std::move(made));
}

void OnnxEdit::addInitializer(onnx::TensorProto tensor) {
  names.insert(tensor.name());
  initializers.push_back(std::move(tensor));
}

void OnnxEdit::removeUnread(const std::string &initializer) {
  if (reads.lookup(initializer) == 0)
    removed.insert(initializer);
}

int OnnxEdit::addOutput(const std::string &name) {
  for (auto [i, output] : llvm::enumerate(outputs))
    if (output == name)
      return static_cast<int>(i);
  outputs.push_back(name);
  addedOutputs.push_back(name);
  return static_cast<int>(outputs.size()) - 1;
}

std::string OnnxEdit::writeNode(int index, StringRef bytes) const {
  std::string out;
  for (int input = 0; !bytes.empty();) {
    Field field = takeField(bytes);
    auto change = field.number == 1 && field.wire == 2
                      ? inputs.find({index, input++})
                      : inputs.end();
    if (change == inputs.end())
      out.append(field.all.data(), field.all.size());
    else
      appendMessage(out, 1, change->second);
  }
  return out;
}

Expected<std::string> OnnxEdit::writeGraph(StringRef bytes) const {
  const onnx::GraphProto &graph = file.model().graph();
  std::string out;
  auto addNodes = [&](int before) {
    if (auto it = added.find(before); it != added.end())
      for (const onnx::NodeProto &node : it->second)
        appendMessage(out, 1, node.SerializeAsString());
  };
  for (int node = 0, tensor = 0; !bytes.empty();) {
    Field field = takeField(bytes);
    if (field.wire == 2 && field.number == 1) {
      addNodes(node);
      appendMessage(out, 1, writeNode(node, field.content));
      ++node;
      continue;
    }
    if (field.wire == 2 && field.number == 5) {
      const onnx::TensorProto &parsed = graph.initializer(tensor++);
      if (removed.contains(nameOfTensor(field.content)))
        continue;
      if (parsed.data_location() == onnx::TensorProto::EXTERNAL) {
        ASSIGN_OR_RETURN(uint64_t size, storedBytes(parsed));
        ASSIGN_OR_RETURN(std::optional<OnnxFile::Region> data,
                         file.regionOf(parsed, size));
        onnx::TensorProto whole = parsed;
        whole.clear_external_data();
        whole.clear_data_location();
        whole.set_raw_data((data)->data.str());
        appendMessage(out, 5, whole.SerializeAsString());
        continue;
      }
    }
    if (field.wire == 2 && field.number == 11) {
      onnx::ValueInfoProto input;
      if (input.ParseFromArray(field.content.data(),
                               static_cast<int>(field.content.size())) &&
          removed.contains(input.name()))
        continue;
    }
    out.append(field.all.data(), field.all.size());
  }
  addNodes(graph.node_size());
  for (const onnx::TensorProto &tensor : initializers)
    appendMessage(out, 5, tensor.SerializeAsString());
  for (const std::string &name : addedOutputs) {
    onnx::ValueInfoProto output;
    output.set_name(name);
    output.mutable_type()->mutable_tensor_type()->set_elem_type(
        onnx::TensorProto::FLOAT);
    appendMessage(out, 12, output.SerializeAsString());
  }
  return out;
}

Expected<std::string> OnnxEdit::write() const {
  std::string out;
  bool graphWritten = false;
  for (StringRef bytes = file.contents(); !bytes.empty();) {
    Field field = takeField(bytes);
    if (field.wire == 2 && field.number == 7) {
      if (graphWritten)
        return userError("has its graph in several parts", file.files()[0],
                         "load and save it with the package onnx");
      graphWritten = true;
      ASSIGN_OR_RETURN(std::string graph, writeGraph(field.content));
      appendMessage(out, 7, graph);
      continue;
    }
    // Before 4, initialisers were inputs too: nothing may make them optional.
    if (int64_t given = file.model().ir_version();
        irVersion && given >= 4 && given < *irVersion && field.wire == 0 &&
        field.number == 1) {
      appendVarint(out, 1 << 3);
      appendVarint(out, static_cast<uint64_t>(*irVersion));
      continue;
    }
    if (opset && field.wire == 2 && field.number == 8) {
      onnx::OperatorSetIdProto set;
      if (set.ParseFromArray(field.content.data(),
                             static_cast<int>(field.content.size())) &&
          (set.domain().empty() || set.domain() == "ai.onnx")) {
        set.set_version(*opset);
        appendMessage(out, 8, set.SerializeAsString());
        continue;
      }
    }
    out.append(field.all.data(), field.all.size());
  }
  return out;
}

} // namespace knapper
