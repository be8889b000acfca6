//===- Importer.h - One model's way into tensor IR ------------------------===//
//
// Walks graphs in topological order, inlines model-local functions, and keeps
// what several nodes share: names in scope, symbols, the list of what is
// missing. What one node needs is in Node.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/Bodies.h"
#include "frontends/onnx/Source.h"

namespace knapper {

/// Something that a model needs and we lack.
struct OnnxProblem {
  std::string domain, op;
  int64_t opset;
  std::string reason; ///< "no such operator here", "element type UINT16"...
  std::string node;
};

/// One UserError for all problems: a line a (operator, opset, reason).
Error problemsError(llvm::ArrayRef<OnnxProblem> problems,
                    const std::string &where);

using OnnxBody = GraphBody;

/// Names and settings that nodes of one graph or function body see.
struct OnnxScope {
  const OnnxScope *parent = nullptr;   ///< for a subgraph: the graph around it
  OnnxBody *body = nullptr;            ///< null: the entry
  llvm::StringMap<mlir::Value> values; ///< null: could not be imported
  llvm::StringMap<const onnx::TensorProto *> initializers;
  /// What `ref_attr_name` means inside a function body.
  llvm::StringMap<const onnx::AttributeProto *> attributes;
  llvm::StringMap<int64_t> opsets;
  std::string prefix; ///< "caller/" for node names inside a function
  unsigned depth = 0; ///< of nesting
};

/// Branches that were taken on trust, in the order in which they are met: where
/// two branches differ in rank, only one of them can be compiled, and the run
/// checks that it was the right one. An import that fails is tried again with
/// the last guess inverted.
using OnnxGuesses = std::vector<bool>;

class Importer : public BodyGraphBuilder {
public:
  Importer(mlir::MLIRContext &context, OnnxFile &file,
           const OnnxImportOptions &options, OnnxGuesses &guesses);

  Expected<mlir::OwningOpRef<mlir::ModuleOp>> run();

  /// Makes the run refuse bindings where `dim` is below `value`, if that can be
  /// said as a bound of one symbol. False when it cannot.
  bool assumeAtLeast(ts::Dim dim, int64_t value);

  /// Imports a subgraph in place. Its inputs are already in `scope`.
  Expected<llvm::SmallVector<mlir::Value>>
  importGraph(const onnx::GraphProto &graph, OnnxScope &scope);

  /// What an attempt at importing a subgraph changes besides building ops.
  struct Mark {
    llvm::MapVector<mlir::StringAttr, int64_t> symbols;
    size_t problems;
    mlir::Operation *lastFunction;
    mlir::OpBuilder::InsertPoint at;
  };
  Mark mark();
  /// Forgets problems, symbols and functions since then.
  void rewind(const Mark &mark);
  /// The next guess; true the first time.
  bool guess();

  OnnxFile &file;
  std::vector<OnnxProblem> problems;

private:
  using FunctionKey = std::tuple<std::string, std::string, std::string>;

  Status importNodes(const std::vector<onnx::NodeProto> &nodes,
                     OnnxScope &scope);
  Status importNode(const onnx::NodeProto &node, size_t index,
                    OnnxScope &scope);
  Status inlineFunction(const onnx::FunctionProto &function,
                        const onnx::NodeProto &node, const std::string &name,
                        OnnxScope &scope);
  /// Null: known, but could not be imported. Error: no such name.
  Expected<mlir::Value> lookup(const std::string &name, OnnxScope &scope);
  Expected<mlir::Value> initializer(const onnx::TensorProto &tensor);
  Status addInitializers(const onnx::GraphProto &graph, OnnxScope &scope);
  /// Without default values. Collects the names of dims, and refuses options
  /// for others.
  Expected<llvm::SmallVector<const onnx::ValueInfoProto *>>
  graphInputs(const onnx::GraphProto &graph, const OnnxScope &scope);
  Expected<mlir::Type> inputType(const onnx::ValueInfoProto &input);
  Expected<ts::Dim> inputDim(const onnx::TensorShapeProto::Dimension &dim,
                             const std::string &fresh);
  const onnx::FunctionProto *functionOf(const onnx::NodeProto &node) const;

  const OnnxImportOptions &options;
  OnnxGuesses &guesses;
  size_t guessed = 0;
  std::map<FunctionKey, const onnx::FunctionProto *> functions;
  size_t nodesImported = 0;
};

/// "" for the default domain, which models also spell "ai.onnx".
std::string domainOf(const onnx::NodeProto &node);

} // namespace knapper
