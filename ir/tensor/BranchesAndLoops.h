//===- BranchesAndLoops.h - Branches, loops and their functions -----------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace knapper::ts {

/// The function of that name beside the one around `op`; null when missing.
mlir::func::FuncOp bodyOf(mlir::Operation *op, mlir::FlatSymbolRefAttr name);
/// The bodies of a ts.if (two) or a ts.loop (one); none for other ops.
llvm::SmallVector<mlir::func::FuncOp> bodiesOf(mlir::Operation *op);
/// A function and all bodies that its branches and loops reach, each before
/// those inside it, in the order of the ops.
llvm::SmallVector<mlir::func::FuncOp> withBodies(mlir::func::FuncOp entry);
/// The symbols that a bind_size, an external operator, a branch or a loop gives
/// values to.
llvm::SmallVector<mlir::StringAttr> symbolsSetBy(mlir::Operation *op);
/// The symbols in the sizes of an op's results and in its attributes.
llvm::SetVector<mlir::StringAttr> symbolsNamedBy(mlir::Operation *op);
/// Whether the dim is a bare symbol of the list.
bool isNamed(mlir::ArrayAttr symbols, Dim dim);

} // namespace knapper::ts
