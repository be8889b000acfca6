//===- Gates.h - The gates of a recurrent cell ----------------------------===//
//
//   g = dot(h [B, K], R [G * K, K]), which elementwise ops and slices of K
//   columns read, becomes one matmul for each slice. As dots, R may also be
//   [K, G * K].
//
// Callers: GateDots.h (slices as reductions) and Recurrences.h (slices as
// dots).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace knapper {

/// One dot that computes all gates of a cell, and the slices that take one gate
/// each.
class Gates {
public:
  /// What computes one gate after the rewrite.
  enum class Form {
    reduction, ///< sum over K of h * R, both broadcast to [B, K, K]
    dot,       ///< a ts.dot
  };

  Gates(ts::DotOp dot, Form form) : dot(dot), form(form) {}

  /// Whether the dot can be rewritten. Finds the slices; the other functions
  /// need that.
  bool match();
  /// Replaces each slice by the matmul of its columns. Erases the slices, the
  /// dot and the ops between them. With form `dot`, a dot of one gate is left
  /// as it is.
  void rewrite();
  /// B, the rows of h.
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
  Form form;
  int64_t width = 0, bytes = 0;
  mlir::Value state;                     ///< h, once a row of R
  llvm::SmallVector<ts::SliceOp> slices; ///< of `width` columns
  llvm::SmallSetVector<mlir::Operation *, 8> wide;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> parts;
};

/// The dots of the body for which `match` holds.
llvm::SmallVector<Gates> gatesIn(mlir::func::FuncOp body, Gates::Form form);

} // namespace knapper
