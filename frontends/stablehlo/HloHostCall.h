//===- HloHostCall.h - Calls of functions that the program's process has --===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// Whether an op is a custom_call of "knapper.call", whose backend_config is
/// the name of a function that python/knapper/jax/callbacks.py knows.
bool isHloHostCall(HloNode &n);

/// As an operator of the host's: domain "knapper.jax", "Call". Complex arrays
/// are in the border's form.
mlir::LogicalResult importHloHostCall(HloNode &n);

} // namespace knapper
