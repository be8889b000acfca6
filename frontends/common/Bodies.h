//===- Bodies.h - Functions that subgraphs of an import become -----------===//
#pragma once

#include "frontends/common/NodeBuilder.h"

namespace knapper {

/// A function that a subgraph is imported into. A value that it reads from
/// outside becomes an argument, unless the value is known before the run.
struct GraphBody {
  GraphBody *parent = nullptr; ///< null: the entry is around it
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Value> captures;         ///< values of the parent
  llvm::DenseMap<mlir::Value, mlir::Value> inside; ///< of the parent's values
};

/// An import of graphs that hold graphs.
class BodyGraphBuilder : public GraphBuilder {
public:
  explicit BodyGraphBuilder(mlir::MLIRContext &context)
      : GraphBuilder(context) {}

  /// A new private function; ops are built in it until `endBody`.
  void beginBody(GraphBody &body, llvm::StringRef name, mlir::Location location,
                 GraphBody *parent, llvm::ArrayRef<mlir::Type> arguments);
  /// Returns `results` from it; what follows is built where `at` says.
  void endBody(GraphBody &body, llvm::ArrayRef<mlir::Value> results,
               mlir::OpBuilder::InsertPoint at);
  /// The parent's value as the body sees it.
  mlir::Value capture(GraphBody &body, mlir::Value value);

protected:
  unsigned bodies = 0;
  GraphBody *current = nullptr; ///< where ops are built; null: the entry
  mlir::ModuleOp module;
};

} // namespace knapper
