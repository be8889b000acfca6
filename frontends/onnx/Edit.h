//===- Edit.h - An ONNX model with some nodes and tensors changed ---------===//
//
// The classes of onnx.proto hold what the importer reads; a model written from
// them would have lost the rest. So changes are noted here, and `write` copies
// the model's own bytes around them. External data of initialisers becomes part
// of the model: what is written stands alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Source.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace knapper {

/// The float32 elements of a tensor. UserError for data that cannot be read.
Expected<std::vector<float>> readFloats(OnnxFile &file,
                                        const onnx::TensorProto &tensor);

/// Changes of the main graph. Nodes are counted as in `GraphProto::node`.
class OnnxEdit {
public:
  /// `file` outlives the edit.
  explicit OnnxEdit(OnnxFile &file);

  /// A name that no value of the model has; `like` when it is free.
  std::string freshName(const std::string &like);
  /// The node reads `name` as its input `input`.
  void setInput(int node, int input, const std::string &name);
  /// Nodes added before the same one keep their order; before the number of
  /// nodes: at the end.
  void addBefore(int node, onnx::NodeProto added);
  void addInitializer(onnx::TensorProto tensor);
  /// Takes out an initialiser that nothing reads any more (and the graph input
  /// of its name, which old models have).
  void removeUnread(const std::string &initializer);
  /// A value becomes the last output, unless it is one. Its index.
  int addOutput(const std::string &name);
  /// Of the domain "", and the version of the format that goes with it.
  void setOpset(int64_t version, int64_t ir) {
    opset = version;
    irVersion = ir;
  }

  /// The serialised model. UserError when external data cannot be read.
  Expected<std::string> write() const;

private:
  void countReads(const onnx::NodeProto &node);
  std::string writeNode(int index, llvm::StringRef bytes) const;
  Expected<std::string> writeGraph(llvm::StringRef bytes) const;

  OnnxFile &file;
  llvm::StringSet<> names, removed;
  llvm::StringMap<int> reads;
  std::vector<std::string> outputs, addedOutputs;
  std::map<std::pair<int, int>, std::string> inputs; ///< {node, input}
  std::map<int, std::vector<onnx::NodeProto>> added;
  std::vector<onnx::TensorProto> initializers;
  std::optional<int64_t> opset, irVersion;
};

} // namespace knapper
