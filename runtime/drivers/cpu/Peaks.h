// What the machine can do at best, measured: the roofline of reports.
#pragma once

#include "runtime/base/Error.h"

namespace knapper::cpu {

/// GFLOP/s of float32 fused multiply-adds from registers; GB/s of a copy that
/// does not fit caches, read and written bytes counted, the better of memcpy
/// and non-temporal stores. With all available cores, and with one.
struct Peaks {
  double fmaGflops = 0, fmaGflopsOneCore = 0;
  double copyGbps = 0, copyGbpsOneCore = 0;
  bool undisturbed = false; // no other program took the cores meanwhile
};

/// Measures for about a second with `threads` threads.
Expected<Peaks> measurePeaks(int threads);

/// The peaks of this machine: from $XDG_CACHE_HOME/knapper if they are there
/// for this processor, instruction set and number of cores, else measured and
/// stored if the measurement was undisturbed. A cache that
/// cannot be used is not an error.
Expected<Peaks> machinePeaks();

} // namespace knapper::cpu
