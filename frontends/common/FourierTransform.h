// Discrete Fourier transforms as matmuls with matrices of roots of one: no
// butterflies, so that long ones take more operations than a library's.
#pragma once

#include "frontends/common/NodeBuilder.h"

namespace knapper {

/// Complex numbers; no `im`: they are real.
struct FourierPlanes {
  mlir::Value re, im;
};

/// The transform of each row of [rows, length], without a factor: the sum over
/// j of x[j] exp(sign 2 pi i j k / length). Null planes where it failed.
/// Lengths that are known and have a divisor d are taken apart (Cooley and
/// Tukey, Mathematics of Computation 19, 1965): length / d transforms of d
/// elements, a turn, d of length / d.
/// Unsupported: known lengths with a prime factor above 2048.
FourierPlanes fourierTransform(NodeBuilder &n, FourierPlanes x, double sign);

/// The whole of a symmetric spectrum of `length` elements, of which `half` has
/// the first length / 2 + 1: [rows, length].
FourierPlanes mirroredSpectrum(NodeBuilder &n, FourierPlanes half,
                               ts::Dim length);

/// Of real rows [rows, length] the first length / 2 + 1 elements, the others
/// being their mirror: [rows, length / 2 + 1, 2], the parts side by side. Null
/// where it failed.
mlir::Value realTransform(NodeBuilder &n, mlir::Value x, double sign);

} // namespace knapper
