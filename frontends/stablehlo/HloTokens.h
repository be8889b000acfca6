//===- HloTokens.h - What orders effects in StableHLO ---------------------===//
#pragma once

#include "mlir/IR/Types.h"

namespace knapper {

/// A token: a tuple of nothing for the readers, else an array of no booleans,
/// as JAX passes it. Effects keep the program's order without.
bool isHloToken(mlir::Type type);

} // namespace knapper
