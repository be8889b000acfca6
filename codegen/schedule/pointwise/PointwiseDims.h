// The dims that a pointwise kernel's schedule sees on a GPU.
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/IR/OwningOpRef.h"

namespace knapper {

/// A copy of a kernel of slices and elementwise ops in which the innermost dims
/// that no slice cuts are merged with the dim before them. The kernel then
/// reads and writes long runs, and the runs of the result are aligned. Example:
/// [4, 537, 4545] without its first row becomes [4, 536 * 4545], read from
/// element 4545 of [4, 537 * 4545] on. Null if no dims can be merged, or sizes
/// are symbols.
mlir::OwningOpRef<ts::KernelOp> withJoinedDims(ts::KernelOp kernel);

} // namespace knapper
