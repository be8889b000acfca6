//===- Distance.h - How far results are from exact ones -------------------===//
#pragma once

#include "ir/tensor/reference/HostTensor.h"

namespace knapper {

class JsonWriter;

/// Of one tensor over all runs: what was got against what is exact.
struct Distance {
  int64_t elements = 0;
  double squaredError = 0, squaredExact = 0, product = 0, squaredGot = 0;
  double largestError = 0, largestExact = 0;
  int64_t unequal = 0; ///< not finite on one side only

  /// Both of one shape and dtype.
  void add(const ts::HostTensor &got, const ts::HostTensor &exact);
  /// Root mean square of the error over that of the exact values.
  double relative() const;
  /// Decibels of signal over error; infinite for equal results.
  double decibels() const;
  double cosine() const;
  /// The members of an object that is begun; what is not finite becomes null.
  void writeTo(JsonWriter &writer) const;

private:
  void add(double got, double exact);
};

} // namespace knapper
