//===- FoldConstants.h - Small constant work, done at compile time --------===//
//
// Replaces an op whose operands are all small constants by the result of the
// reference evaluator. Weights are not folded: larger constant expressions stay
// in the module and are evaluated when constants are packed
// (compiler/constants).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace knapper {

/// What counts as small. A larger op stays.
struct FoldConstantsLimits {
  int64_t resultBytes = 64 << 10;        ///< of each result and operand
  int64_t operations = int64_t(1) << 24; ///< of one op
  int64_t total = int64_t(1) << 28;      ///< of all ops of the function
  int64_t positionBytes = 2 << 20; ///< of integers that come from positions
  int64_t positions = int64_t(1) << 25; ///< bytes of all of these
};

/// Folds in one walk and erases dead ops. Returns the number of replaced ops.
///
/// A result of one repeated element becomes a broadcast of a 0-d constant, the
/// canonical form of a number. Arithmetic on positions (`ts.iota`) is not
/// folded, since other rewrites recognise it, unless all its elements are
/// equal: exporters compute from positions which tokens belong together, and
/// often all do. An op whose evaluation is an error stays; the run reports the
/// error.
int64_t foldConstants(mlir::func::FuncOp function,
                      const FoldConstantsLimits &limits = {});

/// Registers the pass `fold-constants`.
void registerFoldConstantsPass();

} // namespace knapper
