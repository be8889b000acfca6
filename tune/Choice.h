//===- Choice.h - Decisions of a kernel, and what was decided -------------===//
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace knapper::tune {

/// A decision of a kernel's schedules.
struct Knob {
  std::string name;
  int64_t model = 0;           ///< what the analytic model takes
  std::vector<int64_t> others; ///< what else may be, the likeliest first
  int64_t value = 0;           ///< what was taken
  /// Another value than the model's makes all other decisions of the kernel
  /// void: code that is not ours.
  bool isAlone = false;
};

/// Values by name of the knob; what is missing is the model's.
using Choice = std::map<std::string, int64_t>;

} // namespace knapper::tune
