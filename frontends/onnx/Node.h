//===- Node.h - What an operator's row sees of its node -------------------===//
//
// A row of an operator family is {domain, name, since, inputs, function}:
//
//   static LogicalResult importRelu(Node &n) {
//     return n.out(n.make<ts::MaxOp>(n[0], n.splatLike(0, n[0])));
//   }
//   {"", "Relu", 13, 1, 1, importRelu},
//
// What it builds with is in NodeBuilder.h, where errors are sticky; what `out`
// returns carries the failure.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/NodeBuilder.h"
#include "frontends/onnx/Importer.h"
#include "runtime/operators/Operator.h"

namespace knapper {

/// One node of an ONNX graph while its row imports it. One thread at a time.
class Node : public NodeBuilder {
public:
  Node(Importer &importer, OnnxScope &scope, const onnx::NodeProto &proto,
       std::string name, std::string domain, int64_t opset);

  //===--------------------------------------------------------------------===//
  // Operands and results
  //===--------------------------------------------------------------------===//
  size_t size() const { return operands.size(); }
  /// Operand `index`; null if it is absent.
  mlir::Value operator[](size_t index) const {
    return index < operands.size() ? operands[index] : mlir::Value();
  }
  bool has(size_t index) const { return bool((*this)[index]); }
  llvm::ArrayRef<mlir::Value> all() const { return operands; }
  llvm::SmallVector<mlir::Value> operands;

  /// Sets result `index`. Fails if `value` is null: an error was reported.
  mlir::LogicalResult out(mlir::Value value, size_t index = 0);
  /// Whether the node has a name for result `index`, so that it may be read.
  bool wants(size_t index) const;
  size_t resultCount() const { return proto.output_size(); }
  /// The model's name of a result; the node's where it has none.
  const std::string &resultName(size_t index) const {
    const std::string &given = proto.output(static_cast<int>(index));
    return given.empty() ? name : given;
  }
  llvm::SmallVector<mlir::Value> results;

  //===--------------------------------------------------------------------===//
  // Attributes, by name. Without the attribute they return `otherwise`, an
  // empty list or null. An attribute of another kind is an error of the node.
  //===--------------------------------------------------------------------===//
  bool hasAttr(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  /// An integer attribute that must be 0 or 1.
  bool flag(llvm::StringRef name, bool otherwise);
  double real(llvm::StringRef name, double otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  llvm::SmallVector<std::string> texts(llvm::StringRef name);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  llvm::SmallVector<double> reals(llvm::StringRef name);
  const onnx::TensorProto *tensor(llvm::StringRef name);
  const onnx::GraphProto *graph(llvm::StringRef name);
  /// Attribute `name`, made non-negative by `rank`.
  int64_t axis(llvm::StringRef name, int64_t otherwise, int64_t rank);
  /// Attribute "axes" in its order, non-negative; all axes without it.
  llvm::SmallVector<int64_t> axesOrAll(int64_t rank);
  /// The element type that attribute "output_datatype" names; f32 without it.
  /// Null, with an error of the node, if the compiler has no such type.
  mlir::Type outputDatatype();
  /// All attributes in the form of ts.external. Null, with an error of the
  /// node, if one has a kind that knapper_attribute has not.
  mlir::DictionaryAttr parameters();

  std::string where() const override;

  /// `NodeBuilder::external` with the version that the model's domain has.
  mlir::Operation *external(llvm::StringRef domain, llvm::StringRef op,
                            mlir::DictionaryAttr parameters,
                            llvm::ArrayRef<bool> present,
                            mlir::ValueRange inputs,
                            llvm::ArrayRef<llvm::StringRef> symbols,
                            mlir::TypeRange types) {
    return NodeBuilder::external(domain, op, opset, parameters, present, inputs,
                                 symbols, types);
  }

  Importer &importer;
  OnnxScope &scope;
  const onnx::NodeProto &proto;
  std::string name, domain;
  int64_t opset;

private:
  const onnx::AttributeProto *
  attribute(llvm::StringRef name, onnx::AttributeProto::AttributeType type);
};

/// How one operator is imported, for opsets `since` to `until` of its domain.
struct OpRow {
  const char *domain, *name;
  int since;
  int minInputs, maxInputs; ///< maxInputs -1: any number
  mlir::LogicalResult (*import)(Node &);
  int until = INT32_MAX;
};

inline constexpr int anyNumber = -1;

// The rows of each family; a family is a file.
llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> activationRows();
llvm::ArrayRef<OpRow> matMulRows();
llvm::ArrayRef<OpRow> convRows();
llvm::ArrayRef<OpRow> poolRows();
llvm::ArrayRef<OpRow> normalizationRows();
llvm::ArrayRef<OpRow> softmaxRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> shapeRows();
llvm::ArrayRef<OpRow> sliceRows();
llvm::ArrayRef<OpRow> gatherRows();
llvm::ArrayRef<OpRow> constantRows();
llvm::ArrayRef<OpRow> attentionRows();
llvm::ArrayRef<OpRow> lossRows();
llvm::ArrayRef<OpRow> quantizeRows();
llvm::ArrayRef<OpRow> resizeRows();
llvm::ArrayRef<OpRow> controlRows();
llvm::ArrayRef<OpRow> oldOpsetRows();
llvm::ArrayRef<OpRow> flexAttentionRows();
llvm::ArrayRef<OpRow> linearAttentionRows();
llvm::ArrayRef<OpRow> classicalRows();
llvm::ArrayRef<OpRow> treeRows();
llvm::ArrayRef<OpRow> textRows();
llvm::ArrayRef<OpRow> randomRows();
llvm::ArrayRef<OpRow> samplingRows();
llvm::ArrayRef<OpRow> selectionRows();
llvm::ArrayRef<OpRow> suppressionRows();
llvm::ArrayRef<OpRow> spectralRows();
llvm::ArrayRef<OpRow> trainingRows();
llvm::ArrayRef<OpRow> recurrentRows();
llvm::ArrayRef<OpRow> sequenceRows();
llvm::ArrayRef<OpRow> contribAttentionRows();
llvm::ArrayRef<OpRow> contribLayerRows();
llvm::ArrayRef<OpRow> contribMatmulRows();
llvm::ArrayRef<OpRow> contribQuantizedRows();
llvm::ArrayRef<OpRow> contribOtherRows();

/// Whether the operator's inputs may be sequences or absent optionals. Those
/// exist while a model is imported only: a sequence is a value of tuple type
/// whose producer's operands are the elements, an absent optional one of type
/// none.
bool takesSequences(llvm::StringRef op);
mlir::Value makeSequence(Node &n, llvm::ArrayRef<mlir::Value> elements);
/// The elements, or nothing (and an error) when the value is no sequence.
std::optional<llvm::SmallVector<mlir::Value>> elementsOf(Node &n,
                                                         mlir::Value value);

/// The scope of a subgraph that is an attribute of the node.
OnnxScope innerScope(Node &n, llvm::StringRef part);

/// Imports a node whose operator the user registered. Its shape function gives
/// the types of the results.
mlir::LogicalResult importExternal(Node &n, const Operator &op);

/// The row of an operator in this opset, or null. `known` is set to whether
/// some opset has the operator.
const OpRow *findRow(llvm::StringRef domain, llvm::StringRef name,
                     int64_t opset, bool *known = nullptr);

} // namespace knapper
