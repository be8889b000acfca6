//===- Constants.h - What is known before the first run -------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir {
class Block;
}

namespace knapper::fusion {

/// Whether the value depends on constants and weights only, through ops without
/// side effects and with static types. Such values stay outside kernels and are
/// evaluated when constants are packed (compiler/constants).
bool isConstantExpression(mlir::Value value);

/// The ops of a block whose results are constant expressions (constants and
/// weights too), found in one walk.
llvm::DenseSet<mlir::Operation *> constantExpressions(mlir::Block &block);

/// Whether the value is a constant of one repeated element. A kernel has it as
/// an immediate.
bool isSplatConstant(mlir::Value value);

} // namespace knapper::fusion
