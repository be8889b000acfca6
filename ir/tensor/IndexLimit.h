// Which values of an integer tensor every run takes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Value.h"

#include <optional>

namespace knapper::ts {

/// Elements of 0 .. limit-1 are inside of everything that `value` indexes:
/// tables of gathers and scatters, also behind what moves, converts or shifts
/// the elements by a constant. Dims that are symbolic count by their least.
/// Nothing where no index comes of it: other uses take any integer, or are not
/// followed. At least 1.
std::optional<int64_t> indexLimit(mlir::Value value);

/// The attribute of an argument that keeps it once the ops are in kernels: i64.
inline constexpr llvm::StringLiteral kIndexLimit = "ts.index_limit";
/// Gives each integer argument that has a limit the attribute.
void markIndexLimits(mlir::func::FuncOp function);

} // namespace knapper::ts
