//===- FoldConstants.h - Small constant work, done at compile time --------===//
//
// An op whose operands are all small constants is replaced by what the
// reference evaluator gives for it. Weights are never touched: larger constant
// work stays in the module and runs when constants are packed
// (compiler/constants).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace knapper {

struct FoldConstantsLimits {
  int64_t resultBytes = 64 << 10;        ///< of each result and operand
  int64_t operations = int64_t(1) << 24; ///< of one op
  int64_t total = int64_t(1) << 28;      ///< of all ops of the function
  int64_t positionBytes = 2 << 20; ///< of integers that come from positions
  int64_t positions = int64_t(1) << 25; ///< bytes of all of these
};

/// Folds in one walk; returns how many ops were replaced. A result of one
/// repeated element becomes a broadcast of a 0-d constant, the canonical form
/// of a number. Arithmetic on positions (`ts.iota`) stays, since it says more
/// than its values, unless it gives one number: exporters derive from positions
/// which tokens belong together, and mostly all do. An op whose evaluation is
/// an error stays, and the run reports it. What is dead afterwards is erased.
int64_t foldConstants(mlir::func::FuncOp function,
                      const FoldConstantsLimits &limits = {});

/// Registers the pass `fold-constants`.
void registerFoldConstantsPass();

} // namespace knapper
