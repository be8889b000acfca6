//===- QuantizeWeights.h - Matmuls whose weights are stored as integers ---===//
//
//   dot(x, w)   becomes   scaled_dot(x, q, scale, zero)
//
// x is f32. w is a constant f32 matrix of at least `leastElements` elements. q
// has 8 or 4 bits. Each `group` rows of a column have one scale and, if
// asymmetric, one zero point. The last group may be shorter. q, scale and zero
// are constant expressions, evaluated when constants are packed:
//
//   symmetric, 8 bits   scale = largest |w| / 127
//   symmetric, 4 bits   the w of the largest |w| is -8 steps, whatever its sign
//   asymmetric          255 or 15 steps cover the range of w, extended to
//                       contain 0; 0 is exact
//
// Rounding is to nearest even. A group of zeros has the scale 1. Convolutions,
// matmuls of two activations and embedding lookups keep their floats.
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
  int64_t group = 64; ///< rows of one scale; positive, even for 4 bits
  bool asymmetric = false;
  int64_t leastElements = 4096;
};

/// Quantises the matmuls of `function`; runs when they have their final form.
/// Returns how many were changed.
int64_t quantizeWeights(mlir::func::FuncOp function,
                        const WeightFormat &format);

} // namespace knapper
