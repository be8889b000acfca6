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

/// Results of kernels and the root (a kernel's result too) whose memory each
/// takes over. Chains: the root may itself be a key.
llvm::DenseMap<mlir::Value, mlir::Value> inPlace(mlir::func::FuncOp function,
                                                 const Liveness &liveness);

/// The inputs in whose memory the kernel's one result may lie, going by the
/// kernel alone: of the result's byte and element size, and read only at the
/// element that is written, or updated. None for kernels of any other kind.
llvm::SmallVector<unsigned> inPlaceInputs(ts::KernelOp kernel);

/// Whether results of the kernel may lie over an operand at all; they may
/// unless this was called: code that is not ours may write before it reads.
void setInPlace(ts::KernelOp kernel, bool isAllowed);

} // namespace knapper::memory
