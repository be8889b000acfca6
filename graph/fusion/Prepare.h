//===- Prepare.h - Before ops are partitioned ----------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace knapper::fusion {

/// Gives every consumer its own copy of each op that only moves elements, so
/// that every consumer's kernel can contain it. The same for constant
/// expressions whose result is larger than their operands (broadcasts):
/// evaluating those in a kernel is cheaper than storing them. Returns the
/// constant expressions that stay outside kernels.
llvm::DenseSet<mlir::Operation *> prepare(mlir::func::FuncOp function);

/// Replaces equal views of one operand by the first of them, in all of the
/// block.
void uniteViews(mlir::Block &block);

} // namespace knapper::fusion
