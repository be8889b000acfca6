//===- Strings.h - Operators on strings -----------------------------------===//
//
// Strings are in memory, and the operators of the runtime work on them there
// (runtime/operators/TextOperators.h). What only moves elements (Gather,
// Transpose, Concat, ...) is done with positions, which are numbers, and one
// StringSelect.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// Strings of a tensor of the file; a UserError when they do not fill its dims.
struct OnnxStrings {
  std::vector<std::string> values;
  llvm::SmallVector<int64_t> shape;
};
Expected<OnnxStrings> readStrings(const onnx::TensorProto &tensor);

/// A constant of strings.
mlir::Value stringConstant(mlir::OpBuilder &b, mlir::Location loc,
                           llvm::ArrayRef<std::string> values,
                           llvm::ArrayRef<int64_t> shape);
mlir::Value stringConstant(Node &n, llvm::ArrayRef<std::string> values);

/// The strings of x, in its row-major order, at i64 positions that the caller
/// knows to be inside.
mlir::Value selectStrings(Node &n, mlir::Value x, mlir::Value positions);
/// The position of each string of x among the keys, as i64; -1 where it is none
/// of them. Of equal keys the last one counts.
mlir::Value lookUpStrings(Node &n, mlir::Value x,
                          llvm::ArrayRef<std::string> keys);

/// Cast of strings to numbers, and of numbers to strings.
mlir::LogicalResult castFromStrings(Node &n, mlir::Type element);
mlir::LogicalResult castToStrings(Node &n);

/// A node with strings among its operands: by `row` itself where it knows about
/// them, else by positions where it only moves elements.
mlir::LogicalResult importOnStrings(Node &n, const OpRow &row);

/// Operators on strings alone.
llvm::ArrayRef<OpRow> stringRows();

} // namespace knapper
