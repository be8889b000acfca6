// The functions under test with their references and bounds, and the comparison
// of all, or a part of, the float32 arguments.
#pragma once

#include "targets/cpu/testing/math/Kernels.h"

#include <cstdint>

namespace knapper::vecmath::testing {

/// A function of one argument.
struct Unary {
  Function function;
  double (*reference)(double);
  long double (*precise)(long double);
  /// Bounds of the error, in units in the last place of the result.
  double boundF32, boundF64;
  /// Results below this are held to the ulp of this: for functions whose small
  /// results come of a cancellation that does not matter.
  double smallest = 0;
};

const std::vector<Unary> &unaryFunctions();
std::vector<Function> functionsOf(const std::vector<Unary> &unary);

struct Report {
  double worst = 0; // ulp
  float at = 0;     // where
  float got = 0;    // what came there
  uint64_t checked = 0;
  /// Arguments where the instruction sets differ; NaN results count as equal.
  uint64_t differing = 0;
  float differsAt = 0;
};

/// Compares the function in several instruction sets (the first against the
/// reference, the others with the first, bit by bit) on every `stride`th float,
/// on all hardware threads.
Report check(const Unary &unary,
             llvm::ArrayRef<std::unique_ptr<Kernels>> kernels, uint64_t stride);

/// The error of `got` in ulps of float32 at the exact `want`.
double ulpsF32(float got, double want, double smallest = 0);
/// The same for float64.
double ulpsF64(double got, long double want, double smallest = 0);

} // namespace knapper::vecmath::testing
