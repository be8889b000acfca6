//===- RunCost.h - What one run of a program costs, told before it --------===//
#pragma once

#include "runtime/execute/Binding.h"

namespace knapper {

/// Operations and bytes of all launches of a run.
struct RunCost {
  double flops = 0, bytes = 0;
};

/// For sizes that are bound. Of branches the dearer one counts, of a loop whose
/// number of turns only the run knows one turn, of sizes that only the run
/// knows nothing.
RunCost runCost(const Program &program, const Binding &binding);

} // namespace knapper
