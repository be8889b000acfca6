//===- OrderKernels.h - In which order kernels run ------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper::memory {

struct PeakChange {
  double before = 0, after = 0; ///< modelled bytes of kernel results
};

/// Reorders the kernels of a one-block function when that lowers the modelled
/// peak by 1 % or more: at each step the ready kernel that adds least to what
/// is alive, the earliest of equals. Functions that bind symbols from data,
/// branch or loop keep their order.
PeakChange orderKernels(mlir::func::FuncOp function);

} // namespace knapper::memory
