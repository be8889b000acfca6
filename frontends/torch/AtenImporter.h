//===- AtenImporter.h - One graph's way into tensor IR --------------------===//
#pragma once

#include "frontends/common/Bodies.h"
#include "frontends/torch/ImportTorch.h"
#include "llvm/Support/JSON.h"

namespace knapper {

class AtenNode;

class AtenImporter : public BodyGraphBuilder {
public:
  /// `data`: what constants are read from, `dataOffset` bytes behind the
  /// beginning of the file `path` (empty: of the model in memory).
  AtenImporter(mlir::MLIRContext &context, llvm::StringRef data,
               uint64_t dataOffset, std::string path)
      : BodyGraphBuilder(context), data(data), dataOffset(dataOffset),
        path(std::move(path)) {}

  Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  run(const llvm::json::Object &graph);

  /// The element type of a name as "f32"; null for one that we lack.
  mlir::Type elementType(llvm::StringRef name);
  /// Types whose largest number is what becomes too large for them.
  llvm::DenseSet<mlir::Type> saturating;
  /// A size: a number, or an expression as text. Null where it is neither.
  ts::Dim size(const llvm::json::Value &value);
  /// The value of that name, as the body that is built sees it; null where it
  /// could not be imported.
  mlir::Value lookup(llvm::StringRef name) {
    return seenFrom(current, values.lookup(name));
  }
  bool isKnown(llvm::StringRef name) const { return values.contains(name); }
  /// Sizes that torch named and nothing has bound yet (u0).
  bool isBound(mlir::StringAttr symbol) const {
    return symbols.contains(symbol);
  }

  /// A size of a result that the op there sets.
  void setBound(mlir::StringAttr symbol) { symbols.insert({symbol, 0}); }

  /// A graph that a node holds, built where ops are built now: its inputs are
  /// `inputs`. The results are null where something in it is missing; nothing
  /// after an error of `n`.
  std::optional<llvm::SmallVector<mlir::Value>>
  importGraph(AtenNode &n, const llvm::json::Object &graph,
              llvm::ArrayRef<mlir::Value> inputs);
  /// `beginBody` within the body that is built now.
  void beginBodyHere(GraphBody &body, llvm::StringRef name, mlir::Location loc,
                     llvm::ArrayRef<mlir::Type> arguments) {
    beginBody(body, name, loc, current, arguments);
  }

  /// Gives a symbol that torch named the value of a 0-d i64 tensor; false where
  /// it has one already.
  bool bind(mlir::Value value, llvm::StringRef symbol, mlir::Location loc);

private:
  struct Missing {
    std::string overload, shapes, line, reason;
  };

  Status addInputs(const llvm::json::Array &inputs, mlir::func::FuncOp main);
  Status addConstant(const llvm::json::Object &constant, mlir::Location loc);
  Status addNode(const llvm::json::Object &node);
  /// A value of a body or of what is around it, within the body.
  mlir::Value seenFrom(GraphBody *body, mlir::Value value);
  /// Lets torch compute the node: an operator of the runtime's registry, domain
  /// "torch", whose attribute `call` has the arguments.
  mlir::LogicalResult callTorch(AtenNode &n, const llvm::json::Object &node);
  /// Fits a result to what torch says of it.
  Status claim(AtenNode &n, size_t index, mlir::Value &value);
  Expected<llvm::SmallVector<mlir::Value>>
  outputs(const llvm::json::Array &outputs, mlir::Location loc);
  Error missingError() const;
  mlir::Location locationOf(const llvm::json::Object &node,
                            llvm::StringRef name, llvm::StringRef overload);

  llvm::StringRef data;
  uint64_t dataOffset;
  std::string path;
  bool fallback = false;     ///< torch computes nodes without a row
  llvm::StringSet<> byTorch; ///< random operators: torch has the generator
  llvm::StringMap<mlir::Value> values; ///< null: could not be imported
  std::vector<Missing> missing;
};

} // namespace knapper
