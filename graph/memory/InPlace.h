//===- InPlace.h - Kernels that write over an operand ---------------------===//
//
// A pointwise kernel with one result may write it where an operand lay when
//   - the operand's memory is a kernel's result of the same byte count, wholly
//     covered by the operand, and not needed afterwards;
//   - the kernel reads that operand only at the index that it writes (through
//     elementwise ops and reshapes that undo each other's effect on order), or
//     writes some of its elements and reads none (`ir/tensor/Update.h`);
//   - no other operand lies in the same memory;
//   - neither of the two is returned: outputs have memory of their own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "graph/memory/Liveness.h"

namespace knapper::memory {

/// Maps a kernel's result to the root whose memory it takes over. That root is
/// a kernel's result too, and may itself be a key (a chain).
llvm::DenseMap<mlir::Value, mlir::Value> inPlace(mlir::func::FuncOp function,
                                                 const Liveness &liveness);

/// The inputs whose memory the kernel's one result may take, judged by the
/// kernel alone. Such an input has the result's number of bytes and its element
/// size, and the kernel reads it only at the index that it writes, or updates
/// it. Empty for other kernels.
llvm::SmallVector<unsigned> inPlaceInputs(ts::KernelOp kernel);

/// Says whether results of the kernel may take an operand's memory; by default
/// they may. Kernels of the user's code may write before they read, so that
/// they must not.
void setInPlace(ts::KernelOp kernel, bool isAllowed);

} // namespace knapper::memory
