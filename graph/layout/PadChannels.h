//===- PadChannels.h - Channels of convolutions by eights -----------------===//
//
//   conv of x [N, .., C] and a filter [.., C, F] of 16 bits
//   becomes a conv of x and the filter with zeros up to multiples of eight,
//   and a slice of its result.
//
// Tensor cores take a convolution whose accesses of 16 bytes are channels of one
// tap; others multiply in f32, several times slower. What makes x (a transpose
// of an image, mostly) writes the zeros as well (GPUs).
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Of one group, channels last, sizes that are numbers where they count.
void padChannels(mlir::func::FuncOp function);

} // namespace knapper
