#include "targets/cpu/CpuMachine.h"

namespace knapper {

// Each figure with its source. Estimates stay as they are until a measurement
// on several machines says otherwise: everything that is compiled depends on
// them.
config::Machine cpuMachine(unsigned registerBytes) {
  config::Machine m;
  m.cores = 2;           // the machine of docs/performance
  m.l1Bytes = 32 << 10;  // the least from Skylake to Zen 4 (data sheets)
  m.l2Bytes = 1 << 20;   // of Skylake-SP and Zen 4 (data sheets)
  m.l3Bytes = 16 << 20;  // estimate: what two cores have for themselves
  m.keptBytes = 4 << 20; // estimate: a quarter of l3Bytes
  // Estimate: beyond the share that one core gets of any last-level cache.
  m.streamBytes = 24 << 20;
  // One core of a Zen 4 read 16 GB/s, 31 GB/s of huge pages
  // (docs/decisions/weights-in-huge-pages.md).
  m.copyBandwidth = 20e9;
  m.cacheBandwidth = 1e11; // estimate: 16 bytes a cycle and core
  m.coreBandwidth = 20e9;  // estimate: one core takes all there is
  m.clock = 3.1e9;         // estimate: servers, all cores in vector code
  m.launchSeconds = 2e-6;  // estimate: workers that spin wake, and a barrier
  // Two FMA units a core at `clock` (Intel's and AMD's manuals), rounded.
  m.fmaFlops = registerBytes == 64 ? 4e11 : 2e11;
  return m;
}

} // namespace knapper
