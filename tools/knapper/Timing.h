//===- Timing.h - Modules measured, alone and interleaved --------------------===//
#pragma once

#include "tools/knapper/Session.h"

#include <chrono>
#include <map>
#include <set>
#include <vector>

namespace knapper::cli {

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
};

/// The value that a share `q` of `values`, which are not empty, does not
/// exceed.
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// Seconds of one run; outputs come from the module's reused memory.
Expected<double> timeRun(knapper_module *module,
                         const std::vector<knapper_tensor> &inputs);

/// The kernel's signature in the name of its function, kind_signature[_number];
/// the name where there is none.
std::string signatureOf(const std::string &function);

/// The times of one kernel, of all its launches together.
struct KernelPair {
  std::string origin;
  double first = 0, second = 0; ///< seconds: medians
  double ratio = 0;             ///< median of first over second, turn by turn
  std::set<std::string> schedules; ///< that the second one's launches took
};

struct SideBySide {
  std::map<std::string, KernelPair> kernels; ///< by signature, of both modules
  std::string isa;                           ///< of the first
};

/// Profiles of two modules of one model on the same inputs, interleaved, so that
/// both meet the same machine: for about `seconds`, at least five turns.
Expected<SideBySide> timeSideBySide(knapper_module *first,
                                    knapper_module *second,
                                    const std::vector<knapper_tensor> &inputs,
                                    double seconds);

/// Whole runs of copies of two modules, as many of each, unprofiled, in a
/// circle of one and the other, so that each runs after as many others, whose
/// data is in the caches: for about `seconds`, at least five turns, the median
/// of the first ones' time over the second ones'.
Expected<double> timeCopies(const std::vector<knapper_module *> &first,
                            const std::vector<knapper_module *> &second,
                            const std::vector<knapper_tensor> &inputs,
                            double seconds);

/// A run of each of two modules, one after the other: seconds.
struct RunPair {
  double first = 0, second = 0;
};

/// `rounds` pairs after one that warms up; who goes first alternates.
Expected<std::vector<RunPair>>
timeRounds(knapper_module *first, knapper_module *second,
           const std::vector<knapper_tensor> &inputs, int64_t rounds);

} // namespace knapper::cli
