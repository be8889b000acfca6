//===- HloQuantised.h - Ops of quantised numbers -------------------------===//
//
// A tensor of quantised numbers is one of its storage type: i8 for
// !quant.uniform<i8:f32, 0.5:3>, also at the program's border. A number is
// (stored - zero point) * scale; scale and zero point are one for the tensor or
// one for each slice of a dim. Ops that move elements move what is stored;
// products of 8-bit numbers are summed as integers; all others run on the
// numbers themselves, and their results are quantised.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

bool isHloQuantised(mlir::Type type);
/// Whether an operand or result of the op is of quantised numbers.
bool isHloQuantised(mlir::Operation *op);
/// What a quantised number is stored in; null for what we cannot read.
mlir::Type hloStorage(mlir::Type quantised);

mlir::LogicalResult importHloQuantised(HloNode &n, const HloRow &row);
llvm::ArrayRef<HloRow> hloQuantisedRows();

} // namespace knapper
