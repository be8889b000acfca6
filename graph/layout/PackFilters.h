//===- PackFilters.h - Filters of convolutions in panels ------------------===//
//
//   kernel conv of x and a filter [window.., C, F] that is no constant
//   becomes a kernel that writes the filter as [F / panel, window.., C, panel],
//   with zeros for the features that the last panel has too many, and a kernel
//   conv of x and that.
//
// The schedule of convolutions on CPUs reads filters panel by panel. Those that
// are constants are packed at compile time; weights that are arguments
// (PyTorch, JAX) and gradients are packed by the program, a pass over the
// filter that the convolution earns back. Where the filter comes from a kernel
// that only transposes it, one pass does both. The kernel is a transpose alone
// where features fill the panels: that has a schedule of its own. Runs on
// formed kernels: earlier the transposes would cancel. Numbers do not change.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#include <optional>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void packFilters(mlir::func::FuncOp function);

/// A filter as it is read from the panels that `packFilters` made.
struct PackedFilter {
  mlir::BlockArgument panels; ///< [F / panel, window.., C, panel]
  int64_t panel;
};
std::optional<PackedFilter> packedFilter(mlir::Value filter);

} // namespace knapper
