//===- Matrices.h - Dense linear algebra of the runtime -------------------===//
//
// Matrices lie in the last two dims and are f64 between these functions, which
// call operators of the runtime (runtime/numeric/NumericOperators.h). Null
// operands give null results.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/torch/AtenNode.h"

namespace knapper {

/// The dims in front of the matrix.
llvm::SmallVector<ts::Dim> batchOf(mlir::Value a);
ts::Dim rowsOf(mlir::Value a);
ts::Dim columnsOf(mlir::Value a);
/// [batch.., tail..].
llvm::SmallVector<ts::Dim> withTail(llvm::ArrayRef<ts::Dim> batch,
                                    llvm::ArrayRef<ts::Dim> tail);
/// min(rows, columns).
ts::Dim leastOf(mlir::Value a);

/// An operand as f64.
mlir::Value fine(AtenNode &n, llvm::StringRef name);
/// Sets a result, converted to its type and seen with its dims.
mlir::LogicalResult outAs(AtenNode &n, mlir::Value value, size_t index = 0);

mlir::Value transposed(AtenNode &n, mlir::Value a);
/// a [.., m, k] times b [.., k, n], of one batch.
mlir::Value multiplyMatrices(AtenNode &n, mlir::Value a, mlir::Value b);
/// 1 where row == column.
mlir::Value identity(AtenNode &n, llvm::ArrayRef<ts::Dim> batch, ts::Dim size);
/// What lies below the diagonal (`lower`) or above it, with the diagonal where
/// `diagonal`, else 0.
mlir::Value triangleOf(AtenNode &n, mlir::Value a, bool lower, bool diagonal);
/// The diagonal [.., min(m, n)].
mlir::Value diagonalOf(AtenNode &n, mlir::Value a);

struct LuFactors {
  mlir::Value lu, pivots, info;
};
LuFactors factorLu(AtenNode &n, mlir::Value a, bool swaps = true);
/// X of A X = b; `adjoint`: of A^T X = b.
mlir::Value solveLu(AtenNode &n, mlir::Value lu, mlir::Value pivots,
                    mlir::Value b, bool adjoint = false);
/// The [m, m] matrix P of A = P L U.
mlir::Value permutationOf(AtenNode &n, mlir::Value pivots, ts::Dim m);
/// X of T X = b.
mlir::Value solveTriangular(AtenNode &n, mlir::Value a, mlir::Value b,
                            bool upper, bool unit);
/// Both with the dims in front that they broadcast to.
void broadcastBatch(AtenNode &n, mlir::Value &a, mlir::Value &b);

} // namespace knapper
