//===- Prepare.h - Before ops are partitioned ----------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace knapper::fusion {

/// Gives every consumer its own copy of the ops that only move elements
/// (reindexing), so that each can take them along; and a copy of constant
/// expressions that blow data up (broadcasts), which are cheaper to evaluate in
/// a kernel than to store. Returns the constant expressions that stay outside.
llvm::DenseSet<mlir::Operation *> prepare(mlir::func::FuncOp function);

/// Unites equal views that have the same operand, in all of the block.
void uniteViews(mlir::Block &block);

} // namespace knapper::fusion
