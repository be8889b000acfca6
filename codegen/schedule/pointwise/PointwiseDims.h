// The dims that a pointwise kernel's schedule sees on a GPU.
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/IR/OwningOpRef.h"

namespace knapper {

/// A copy of a kernel of slices and elementwise ops, in which the last dims
/// that no slice cuts are one with the one before them, as all of it lies in
/// memory: what is read and written are then long runs, and where the result's
/// begin is aligned. Of [4, 537, 4545] without its first rows it is [4, 536 *
/// 4545] from element 4545 of [4, 537 * 4545] on. Null where there are none,
/// or sizes are no numbers.
mlir::OwningOpRef<ts::KernelOp> withJoinedDims(ts::KernelOp kernel);

} // namespace knapper
