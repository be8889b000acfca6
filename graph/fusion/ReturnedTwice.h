//===- ReturnedTwice.h - One value, two results of its kernel -------------===//
//
// A function may return a value twice: a step of an LSTM gives h as the next
// state and as a row of the output. The kernel that makes it writes both; a
// copy behind it would be a launch of its own.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper::fusion {

/// Of kernels of elementwise ops and reductions; the others store tiles in ways
/// that are chosen for one result. Kernels are formed already.
void writeReturnedTwice(mlir::func::FuncOp function);

} // namespace knapper::fusion
