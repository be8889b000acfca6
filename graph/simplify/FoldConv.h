//===- FoldConv.h - What a convolution takes from around it ---------------===//
//
//   conv(x, W) * s            to  conv(x, W * s)
//   (conv(x, W) + b) * s      to  conv(x, W * s) + b * s
//   conv(pad(x, 0), W)        to  conv(x, W) with that border
//
// The first two for s and b constant along everything but the channels (batch
// normalisation in inference form). The products become constant expressions,
// evaluated when weights are packed. Rounding: W * s rounds once more than the
// parts. The third where the padding is of spatial dims alone, by constants,
// and windows are more than one element and overlap.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace knapper {

void populateFoldConvPatterns(mlir::RewritePatternSet &patterns);

} // namespace knapper
