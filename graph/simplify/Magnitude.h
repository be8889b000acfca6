//===- Magnitude.h - How large a value's elements can be ------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// A number that no element of the value exceeds in magnitude, whatever the
/// inputs are; nothing when none is known. No element is NaN then.
std::optional<double> largestMagnitude(mlir::Value value);

} // namespace knapper
