//===- Gates.h - The gates of a recurrent cell ----------------------------===//
//
//   g = dot(h [B, K], R [G * K, K]), of which elementwise ops and slices of K
//   columns are read, becomes a matmul for each slice.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace knapper {

/// The matmul of one dot, column by column of a gate.
class Gates {
public:
  /// What the matmul of a gate becomes.
  enum class Form {
    reduction, ///< a sum over a product of broadcasts
    dot,
  };

  explicit Gates(ts::DotOp dot) : dot(dot) {}

  /// Whether the dot is of this form; finds the slices. To be asked before all
  /// else.
  bool match();
  /// Replaces the slices by what the matmuls of their columns make, and erases
  /// them, the dot and what lay between. A dot of one gate stays as it is in
  /// form `dot`.
  void rewrite(Form form);
  /// B.
  ts::Dim rows() { return ts::dimOf(dot.getLhs(), 0); }
  /// Bytes of the matrix, which every row reads.
  int64_t matrixBytes() const { return bytes; }

private:
  bool follow(mlir::Value wide);
  /// Columns [offset, offset + width) of a value with more.
  mlir::Value part(mlir::OpBuilder &b, mlir::Value value, int64_t offset);
  mlir::Value reduction(mlir::OpBuilder &b, int64_t offset);
  mlir::Value matmul(mlir::OpBuilder &b, int64_t offset);

  ts::DotOp dot;
  Form form = Form::reduction;
  int64_t width = 0, bytes = 0;
  mlir::Value state;                     ///< h, once a row of R
  llvm::SmallVector<ts::SliceOp> slices; ///< of `width` columns
  llvm::SmallSetVector<mlir::Operation *, 8> wide;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> parts;
};

/// Of the body's dots those that match.
llvm::SmallVector<Gates> gatesIn(mlir::func::FuncOp body);

} // namespace knapper
