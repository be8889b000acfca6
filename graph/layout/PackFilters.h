//===- PackFilters.h - Filters of convolutions in panels ------------------===//
//
//   before  kernel conv(x, filter [window.., C, F]), the filter is no constant
//   after   kernel pack(filter) -> panels [F / panel, window.., C, panel]
//           kernel conv(x, panels)
//
// The last panel has zeros behind the last feature. The CPU's schedule of
// convolutions reads filters panel by panel. A constant filter is packed at
// compile time. Weights that are arguments (PyTorch, JAX) and gradients are
// packed at run time, by one pass over the filter. If a kernel that only
// transposes makes the filter, that kernel writes the panels. Where the
// features fill the panels, the packing kernel is a transpose, which has a
// schedule of its own. One full panel is the filter as it lies: nothing is
// written.
//
// A large filter that few output pixels read is not written first: it would
// cross memory twice more for one use. The convolution reads it in torch's
// order [F, C, kh, kw], which panels cut where they lie, and transposes a panel
// itself:
//
//           kernel conv(x, filter [F / panel, panel, C, kh, kw])
//
// Runs on formed kernels: earlier the transposes would cancel. Numbers do not
// change.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#include <optional>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// What decides whether a filter stays where it lies.
struct FilterModel {
  /// The second-level cache of a core.
  int64_t l2Bytes = 1 << 20;
  /// Programs that keep the device busy: one program has all pixels of a panel.
  int64_t programs = 8;
};

/// Packs the filters of the function's convolution kernels.
void packFilters(mlir::func::FuncOp function, const FilterModel &model = {});

/// A filter that a kernel reads from the panels that `packFilters` made.
struct PackedFilter {
  mlir::BlockArgument panels; ///< [F / panel, window.., C, panel]
  int64_t panel;              ///< features of a panel
  bool inPlace; ///< instead they are [F / panel, panel, C, window..]
};
/// The packed form of a convolution's operand; nothing if it is not packed.
std::optional<PackedFilter> packedFilter(mlir::Value filter);

} // namespace knapper
