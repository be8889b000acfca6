//===- FoldConv.h - Scales after a convolution go into its filter ---------===//
//
//   conv(x, W) * s            to  conv(x, W * s)
//   (conv(x, W) + b) * s      to  conv(x, W * s) + b * s
//
// for s and b constant along everything but the channels (batch normalisation
// in inference form). The products become constant expressions, evaluated when
// weights are packed. Rounding: W * s rounds once more than the parts.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace knapper {

void populateFoldConvPatterns(mlir::RewritePatternSet &patterns);

} // namespace knapper
