//===- NormChannelsLast.h - Normalisations of images, channels last -------===//
//
//   layer_norm(reshape(transpose(x))), with or without the reshape, over rows
//   that are whole groups of channels with their pixels (group and instance
//   normalisation), where x has channels last: statistics of x as it lies, then
//   x - mean, times 1/deviation
//
// A group's rows do not lie together in x. Each image row (a line, for one
// spatial dim: a run of it) gives a mean and a sum of squares around that mean
// for every channel; a group's variance is put together from them:
//
//   count * variance = sum of squares + width * sum of (mean - group's mean)^2
//
// which cancels nothing, and reads x once for both statistics. A mean is the
// quotient of a sum plus the mean of what is left when that is subtracted:
// where values lie close around a large mean, the rounding of a long sum would
// be many of the last bits of the result, all with one sign. Sums are formed in
// another order, which a normalisation does not promise; 16-bit ones are
// computed in f32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace knapper {

void populateNormChannelsLastPatterns(mlir::RewritePatternSet &patterns);

} // namespace knapper
