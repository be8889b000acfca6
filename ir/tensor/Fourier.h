//===- Fourier.h - ts.dft -------------------------------------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::ts {

/// A matrix of roots of one has so many rows at most: a length whose prime
/// factors are larger has no transform by matmuls.
constexpr int64_t kLargestFourierPrime = 2048;

} // namespace knapper::ts

#define GET_OP_CLASSES
#include "ir/tensor/Fourier.h.inc"
