//===- ChannelsLast.h - Convolutions with channels last -------------------===//
//
//   conv, pool on [N, C, spatial..]  become ones with `channels_last` between
//     two transposes; filters are transposed to [window.., C/groups, F] as
//     constant expressions
//   transposes move down through elementwise ops, broadcasts, reductions,
//     concat, pad, slice, gather (of positions along a dim), repetitions,
//     reshapes of tokens to images and group and instance normalisation
//     (NormChannelsLast.h), and cancel: what is left stands where the graph
//     gives or takes channels first
//   a convolution with window 1, stride 1 and no padding is a ts.dot over
//     [N, spatial.., C] x [F, C]
//   a convolution over patches that do not overlap (stride = window) of an
//     image with up to 4 channels is a ts.dot over rows of patches: runs of so
//     few channels are too short to read well
//   a transposed convolution whose windows do not overlap (input dilation =
//     window, no border cut) is a ts.dot of each pixel with all of the window,
//     then a rearrangement; on CPUs also one whose windows leave gaps, or whose
//     border is cut
//
// On CPUs a convolution with few features keeps channels first, and one of
// several groups with window 1 is a ts.dot of each image and group over
// [F / groups, C / groups] x [C / groups, pixels] (PlaneLayout.h).
//
// A graph without convolutions and pools is not changed. If the target reads
// windows equally fast in both layouts (`onlyMixing`), neither is a graph whose
// convolutions are all depthwise.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper::ts {
class ConvOp;
}

namespace knapper {

/// The patterns of the table above. `keepPlanes`: as of useChannelsLast.
void populateChannelsLastPatterns(mlir::RewritePatternSet &patterns,
                                  bool keepPlanes = false);

/// Applies the patterns, with those of `simplify`, to a fixed point.
/// `onlyMixing`: only if some convolution reads several channels for one
/// feature. `keepPlanes`: convolutions and pools that prefer it (PlaneLayout.h)
/// keep channels first. `keeps`: so do these, as of where they stand in the
/// graph; null: none. Fails if the patterns do not converge.
mlir::LogicalResult
useChannelsLast(mlir::func::FuncOp function, bool onlyMixing = false,
                bool keepPlanes = false,
                llvm::function_ref<bool(ts::ConvOp)> keeps = nullptr);

} // namespace knapper
