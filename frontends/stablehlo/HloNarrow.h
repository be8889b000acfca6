//===- HloNarrow.h - Arithmetic of elements of eight bits and less --------===//
//
// Tensor IR keeps floats of eight bits and less and integers of two and four,
// and computes with none: operands are widened (exactly), results narrowed, as
// XLA does on CPUs. Integers wrap; a float beyond the largest becomes infinity,
// or NaN where its type has none.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// i8 for i4, f32 for f8E5M2; other types are themselves.
mlir::Type hloWideType(mlir::Type element);
/// Whether an operand or result of the op is of such a type.
bool isHloNarrow(mlir::Operation *op);
/// Whether an op computes with its elements instead of moving them.
bool computesHloWide(llvm::StringRef kind);

mlir::Value hloWidened(HloNode &n, mlir::Value value);
/// To any element type, by the rule of narrow ones.
mlir::Value hloNarrowed(HloNode &n, mlir::Value value, mlir::Type element);

/// Runs the row on widened operands.
mlir::LogicalResult importHloNarrow(HloNode &n, const HloRow &row);

} // namespace knapper
