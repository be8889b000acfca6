//===- QuantizeWeights.h - Matmuls whose weights are stored as integers ---===//
//
//   dot(x, w)   becomes   scaled_dot(x, q, scale, zero)
//
// where x is f32 and w a constant f32 matrix of at least `leastElements`. q has
// 8 or 4 bits, with a scale (and, asymmetric, a zero point) for each `group`
// rows of a column. The last group may be shorter. All of it are constant
// expressions, evaluated when constants are packed:
//
//   symmetric    8 bits: scale = largest |w| / 127; 4 bits: the w of the
//   largest
//                |w|, whatever its sign, is -8 steps
//   asymmetric   the range of w with 0 in it is 255 or 15 steps; 0 is exact
//
// Rounding is to nearest even. A group of zeros has the scale 1. What is no
// such matmul (convolutions, activations on both sides, lookups of rows) keeps
// its floats.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct WeightFormat {
  int64_t bits = 8;   ///< 8 or 4
  int64_t group = 64; ///< positive; even for 4 bits
  bool asymmetric = false;
  int64_t leastElements = 4096;
};

/// Run when matmuls have their final form. The number of matmuls changed.
int64_t quantizeWeights(mlir::func::FuncOp function,
                        const WeightFormat &format);

} // namespace knapper
