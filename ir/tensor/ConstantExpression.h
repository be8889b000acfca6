//===- ConstantExpression.h - Values known before the first run -----------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace knapper::ts {

/// Whether the op's results are known when its operands are: a pure tensor op
/// without a body, of static types, whose attributes hold no symbol.
/// Constants, weights and iotas are, a symbolic size is not.
bool keepsConstant(mlir::Operation *op);

/// Whether a value is computed from weights and constants only. Such values
/// stay outside kernels and are evaluated once, when constants are packed
/// (compiler/constants). Answers are kept: asking for every value of a function
/// is linear. Forget the object when the IR changes.
class ConstantExpressions {
public:
  bool contains(mlir::Value value);

private:
  llvm::DenseMap<mlir::Operation *, bool> known;
};

/// For a single question.
bool isConstantExpression(mlir::Value value);

} // namespace knapper::ts
