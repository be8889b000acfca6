//===- Standard.h - Operators through the rows of others ------------------===//
//
// Operators outside the standard are mostly several standard ones in one node.
// Their rows are made of those:
//
//   Value y = Standard(n, "Conv").keep({"strides", "pads"})({n[0], n[1]});
//
// An error of the row is an error of `n`. Threads: as the node.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

class Standard {
public:
  /// `op` of the default domain as `opset` has it.
  Standard(Node &n, llvm::StringRef op, int64_t opset = 24);

  /// The node's own attributes, under their names there, where it has them.
  Standard &keep(llvm::ArrayRef<llvm::StringRef> names);
  /// Replaces what was kept.
  Standard &set(llvm::StringRef name, int64_t value);
  Standard &set(llvm::StringRef name, double value);
  Standard &set(llvm::StringRef name, llvm::StringRef value);
  Standard &set(llvm::StringRef name, llvm::ArrayRef<int64_t> values);

  /// Result 0. Operands may be null where the operator has them optional; null
  /// comes out where `n` has failed.
  mlir::Value operator()(llvm::ArrayRef<mlir::Value> operands);
  /// The first `count` results.
  llvm::SmallVector<mlir::Value> results(llvm::ArrayRef<mlir::Value> operands,
                                         size_t count);

private:
  onnx::AttributeProto &attribute(llvm::StringRef name);

  Node &n;
  int64_t opset;
  onnx::NodeProto proto;
};

/// Fails where one of these inputs is absent: for operators whose required
/// inputs stand behind optional ones.
mlir::LogicalResult require(Node &n, llvm::ArrayRef<size_t> inputs);

/// The activation that fused operators name in `name`; `parameters` are theirs
/// in the order of the operator's attributes. Null and an error for an unknown
/// one.
mlir::Value fusedActivation(Node &n, mlir::Value x, llvm::StringRef name,
                            llvm::ArrayRef<double> parameters);

} // namespace knapper
