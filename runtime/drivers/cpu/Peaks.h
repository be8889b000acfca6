// What the machine can do at best, measured: the roofline of reports.
#pragma once

#include "runtime/base/Error.h"
#include "runtime/drivers/cpu/CpuInfo.h"

namespace knapper::cpu {

/// GFLOP/s of float32 fused multiply-adds from registers; GB/s of a copy that
/// does not fit caches, read and written bytes counted, the better of memcpy
/// and non-temporal stores. With all available cores, and with one.
struct Peaks {
  double fmaGflops = 0, fmaGflopsOneCore = 0;
  double copyGbps = 0, copyGbpsOneCore = 0;
  bool undisturbed = false; // no other program took the cores meanwhile
};

/// The peaks of this machine: from $XDG_CACHE_HOME/knapper if they are there
/// for this processor, instruction set and number of cores, else measured
/// (about a second) and stored if the measurement was undisturbed. A cache that
/// cannot be used is not an error; a level below x86-64-v3 is the user's.
Expected<Peaks> machinePeaks(IsaLevel level);

} // namespace knapper::cpu
