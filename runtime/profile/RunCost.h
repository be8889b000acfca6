//===- RunCost.h - What one run of a program costs, told before it --------===//
#pragma once

#include "runtime/execute/Binding.h"

namespace knapper {

/// Floating-point operations, and bytes read and written, of the launches and
/// copies of a run.
struct RunCost {
  double flops = 0, bytes = 0;
};

/// For sizes that are bound. Of two branches the one with more operations
/// counts; a loop whose number of iterations is known during the run only
/// counts once; sizes that are known during the run only count as 0.
RunCost runCost(const Program &program, const Binding &binding);

} // namespace knapper
