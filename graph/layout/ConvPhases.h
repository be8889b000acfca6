//===- ConvPhases.h - Transposed convolutions as ordinary ones -----------===//
//
//   conv of x spread by s and a filter of k taps
//   becomes a conv of x itself and a filter of about k / s taps with s times
//   the features, whose results are interleaved.
//
// Output s * q + r (phase r) meets every s-th tap alone: those congruent to
// low - r. The taps of all phases are one filter, padded where a phase has a
// tap less, with the phase as the outer part of the feature. So no tap is
// multiplied by the zeros between the input's elements. Up to s - 1 outputs
// before the first are computed and cut off, so that all phases begin at the
// same input. For targets whose schedules of convolutions read a spread input
// as it stands (GPUs), and for few features on CPUs (PlaneLayout.h).
//
// This is the sub-pixel convolution of Shi et al., "Is the deconvolution layer
// the same as a convolutional layer?", arXiv:1609.07009.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper::ts {
class ConvOp;
}

namespace knapper {

/// Floats in one group with constant borders and without strides or dilations;
/// others stay, and so does what would have no fewer taps.
/// `takes`: which ones; null: all.
void splitConvPhases(mlir::func::FuncOp function,
                     llvm::function_ref<bool(ts::ConvOp)> takes = nullptr);

} // namespace knapper
