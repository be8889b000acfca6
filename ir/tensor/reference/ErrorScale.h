//===- ErrorScale.h - What errors of a result are relative to -------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include <algorithm>
#include <cmath>

namespace knapper::ts {

/// The largest finite magnitude of what is expected; 0 if there is none. The
/// comparisons of kernels divide the error of each element by it: sums that
/// cancel leave small elements with errors of the size of large ones.
inline double errorScale(llvm::ArrayRef<double> expected) {
  double scale = 0;
  for (double value : expected)
    if (std::isfinite(value))
      scale = std::max(scale, std::fabs(value));
  return scale;
}

} // namespace knapper::ts
