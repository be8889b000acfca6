//===- Accuracy.h - How far results are from those of another module ------===//
#pragma once

#include "tools/knapper/Array.h"

#include <nlohmann/json_fwd.hpp>

namespace knapper::cli {

/// Of one output over all runs: what was got against what is exact.
struct Distance {
  std::string name;
  int64_t elements = 0;
  double squaredError = 0, squaredExact = 0, product = 0, squaredGot = 0;
  double largestError = 0, largestExact = 0;
  int64_t unequal = 0; ///< not finite on one side only

  /// Both of one shape and dtype.
  void add(const knapper_tensor &got, const knapper_tensor &exact);
  /// Root mean square of the error over that of the exact values.
  double relative() const;
  /// Decibels of signal over error; infinite for equal results.
  double decibels() const;
  double cosine() const;
};

/// Columns, a line each; the names are printed with control characters shown.
std::string tableOf(const std::vector<Distance> &distances);
nlohmann::ordered_json jsonOf(const std::vector<Distance> &distances);

} // namespace knapper::cli
