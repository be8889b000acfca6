//===- Match.h - Questions that patterns on tensor ops ask ----------------===//
//
// Looking through the ops that only move elements, and making values in the
// canonical form (a number is a 0-d constant, broadcast).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/IR/PatternMatch.h"

namespace knapper {

/// The number that every element of the value is, through broadcasts,
/// reshapes, transposes, slices and conversions. i1 true is 1.
std::optional<double> splatOf(mlir::Value value);
bool isSplat(mlir::Value value, double number);
/// Within a relative error of 1e-6: constants that went through float32.
bool isAbout(double a, double b);
inline bool isAbout(std::optional<double> a, double b) {
  return a && isAbout(*a, b);
}

/// As ts::isConstantExpression, for expressions of at most 64 ops: patterns ask
/// of every operand, and a static graph would be walked to its inputs.
bool isPackedConstant(mlir::Value value);

/// Moves the ops of a constant expression before `op` (same block) where they
/// come after it.
void hoistConstantExpression(mlir::Value value, mlir::Operation *op);

/// A tensor filled with a number.
mlir::Value makeSplat(mlir::OpBuilder &builder, mlir::Location location,
                      mlir::RankedTensorType type, double number);
/// A splat value's element as a 0-d tensor; null for other values.
mlir::Value scalarOf(mlir::OpBuilder &builder, mlir::Value value);
/// The value with other dims of the same count; itself when they are equal.
mlir::Value makeReshape(mlir::OpBuilder &builder, mlir::Location location,
                        mlir::Value value, llvm::ArrayRef<ts::Dim> dims);
/// The value with its dims permuted; itself for the identity.
mlir::Value makeTranspose(mlir::OpBuilder &builder, mlir::Location location,
                          mlir::Value value,
                          llvm::ArrayRef<int64_t> permutation);
/// A broadcast; the value itself when nothing changes.
mlir::Value makeBroadcast(mlir::OpBuilder &builder, mlir::Location location,
                          mlir::Value value, llvm::ArrayRef<ts::Dim> dims,
                          llvm::ArrayRef<int64_t> map);
/// A contiguous range along one dim.
mlir::Value makeSlice(mlir::OpBuilder &builder, mlir::Location location,
                      mlir::Value value, int64_t dim, ts::Dim start,
                      ts::Dim size);
/// An elementwise op on operands of other dims: same op, attributes, element
/// types.
mlir::Value cloneElementwise(mlir::OpBuilder &builder, mlir::Operation *op,
                             mlir::ValueRange operands);
bool isElementwise(mlir::Operation *op);

/// One step of a reshape: input dims [inBegin, inEnd) and result dims
/// [outBegin, outEnd) have the same product. Dims of size 1 may stand alone on
/// one side (the other side is empty).
struct DimGroup {
  unsigned inBegin, inEnd, outBegin, outEnd;
  unsigned inSize() const { return inEnd - inBegin; }
  unsigned outSize() const { return outEnd - outBegin; }
  /// One dim stays one dim.
  bool isSame() const { return inSize() == 1 && outSize() == 1; }
};
/// The finest groups; nothing when sizes cannot be compared.
std::optional<llvm::SmallVector<DimGroup>>
reshapeGroups(llvm::ArrayRef<ts::Dim> in, llvm::ArrayRef<ts::Dim> out);

/// For a reshape that only adds and removes dims of size 1: for every input
/// dim the result dim, -1 for a removed one.
std::optional<llvm::SmallVector<int64_t>>
unitReshapeMap(llvm::ArrayRef<ts::Dim> in, llvm::ArrayRef<ts::Dim> out);

/// Of a transpose, or a reshape that only adds and removes dims of size 1: for
/// every dim of its operand the dim of its result, -1 for one that is gone.
std::optional<llvm::SmallVector<int64_t>> movedDims(mlir::Operation *op);

/// A value behind such transposes and reshapes, and for each of its dims the
/// dim that it is; -1 for one that is gone.
struct Moved {
  mlir::Value value;
  llvm::SmallVector<int64_t> dims;
};
Moved behindMovement(mlir::Value value);

/// reshape(transpose(x)) to transpose(reshape(x)), if every group of dims that
/// the reshape merges or splits lies together in x (graph/simplify/Movement.cpp).
mlir::LogicalResult reshapeFirst(ts::ReshapeOp op,
                                 mlir::PatternRewriter &rewriter);

llvm::SmallVector<int64_t>
inversePermutation(llvm::ArrayRef<int64_t> permutation);
llvm::SmallVector<ts::Dim> permuted(llvm::ArrayRef<ts::Dim> dims,
                                    llvm::ArrayRef<int64_t> permutation);

} // namespace knapper
