//===- Constants.h - What is known before the first run -------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir {
class Block;
}

namespace knapper::fusion {

/// Depends on constants and weights only, through pure ops of static types.
/// Such values stay outside kernels and are evaluated when constants are
/// packed.
bool isConstantExpression(mlir::Value value);

/// The ops of a block whose results are constant expressions (constants and
/// weights too), found in one walk.
llvm::DenseSet<mlir::Operation *> constantExpressions(mlir::Block &block);

/// A constant of one repeated element: an immediate of the kernel.
bool isSplatConstant(mlir::Value value);

} // namespace knapper::fusion
