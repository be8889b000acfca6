//===- Sign.h - Which values have no negative elements --------------------===//
#pragma once

#include "mlir/IR/Value.h"

namespace knapper {

/// Whether each element is +0, positive or NaN, whatever the inputs are. False
/// where that is not known.
bool isNeverNegative(mlir::Value value);

} // namespace knapper
