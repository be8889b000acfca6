//===- Magnitude.h - How large a value's elements can be ------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// A number that no element of the value exceeds in magnitude; nothing when
/// none is known. No element is NaN then. `ofDots`: what the results of dots
/// are taken not to exceed; otherwise it holds whatever the inputs are.
std::optional<double>
largestMagnitude(mlir::Value value,
                 std::optional<double> ofDots = std::nullopt);

} // namespace knapper
