//===- Update.h - Kernels that write a few elements of an operand ---------===//
//
// A kernel whose only result is a scatter into one of its inputs writes the
// updates and nothing else: the result's memory holds the input when the kernel
// starts. Whoever places results either gives it the input's own memory or
// copies the input there first.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include <optional>

namespace knapper::ts {

/// The scatter of a kernel with hero scatter; null if there is none.
mlir::Operation *scatterOf(KernelOp kernel);

/// The input that such a kernel updates; none for kernels of other kinds, and
/// where the scatter's operand is computed inside or read elsewhere too.
std::optional<unsigned> updatedInput(KernelOp kernel);

} // namespace knapper::ts
