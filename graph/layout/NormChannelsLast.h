//===- NormChannelsLast.h - Normalisations of images, channels last -------===//
//
//   before  layer_norm(reshape(transpose(x))), x with channels last; a row is a
//           group of channels with all their pixels (group and instance
//           normalisation); the reshape may be absent
//   after   statistics of x in its own layout, then (x - mean) / deviation
//
// The elements of a group are not contiguous in x. Each image row (with one
// spatial dim: a part of the line) gives every channel's mean and sum of
// squared deviations from that mean. Both statistics take one read of x. The
// variance of a group follows from them without cancellation (the parallel
// algorithm of Chan, Golub and LeVeque, 1979):
//
//   count * variance = sum of squares + width * sum of (mean - group's mean)^2
//
// A mean is computed twice: sum / count, then plus the mean of the remainders
// after subtracting it. If values lie close around a large mean, the rounding
// errors of a long sum have one sign and reach many of the result's last bits.
//
// Sums are formed in another order, which a normalisation permits. 16-bit
// values are computed in f32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace knapper {

void populateNormChannelsLastPatterns(mlir::RewritePatternSet &patterns);

} // namespace knapper
