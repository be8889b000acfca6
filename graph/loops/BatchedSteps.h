//===- BatchedSteps.h - Values of a loop's body for all steps at once -----===//
#pragma once

#include "graph/loops/LoopParts.h"
#include "graph/loops/SimplifyLoops.h"
#include "mlir/IR/Builders.h"

namespace knapper {

/// What captures and rows of captures decide, and no earlier step: such values
/// can be computed before the loop, [T, ...] where they differ between steps.
/// Matmuls of rows are among them where one of all steps is faster than one a
/// step; their bytes are charged to the budget as they are found.
class BatchedSteps {
public:
  BatchedSteps(LoopParts &parts, LoopBudget &budget);

  bool isInvariant(mlir::Value value) const;
  /// The order in which a value of rows goes through them; nothing for others.
  std::optional<StepOrder> orderOf(mlir::Value value) const;
  /// The value before the loop; of rows all of them, row `t` of step `t` or of
  /// step T - 1 - t.
  mlir::Value before(mlir::Value value);
  /// Bytes that `before` stores for an operand of rows: none for rows of a
  /// capture, which are there.
  ts::Dim bytesBefore(mlir::Value value) const;
  /// Takes bytes from the budget; false, and none, where they are known to be
  /// too many.
  bool charge(ts::Dim bytes);

private:
  struct Kind {
    bool invariant;
    StepOrder order;
    ts::Dim read; ///< bytes of the captured rows of a step that it is made of
  };
  std::optional<Kind> classify(mlir::Operation *op);
  std::optional<Kind> rowOfCapture(ts::SliceOp op) const;
  std::optional<Kind> kindOf(mlir::Value value) const;
  bool isWorthBatching(ts::DotOp op);
  mlir::Value emit(mlir::Operation *op);
  mlir::Value emitRows(mlir::Operation *op);
  /// A matmul of all steps. Operands are rows [T, ...] or invariant.
  mlir::Value emitDot(ts::DotOp op, mlir::Value lhs, bool lhsRows,
                      mlir::Value rhs, bool rhsRows);

  LoopParts &parts;
  LoopBudget &budget;
  mlir::OpBuilder outer;
  llvm::DenseMap<mlir::Value, Kind> kinds;
  llvm::DenseMap<mlir::Value, mlir::Value> made;
};

} // namespace knapper
