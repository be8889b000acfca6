#include "targets/cuda/CudaTarget.h"

namespace knapper {

namespace {

/// What kinds of GPUs differ in. Rates are of one card of each: A100 (80 GB),
/// RTX 3090, L40S, H200.
struct CudaArch {
  std::string_view isa;
  unsigned processors;
  int64_t sharedBytes, l2Bytes;
  double fmaFlops, copyBandwidth, cacheBandwidth;
};

constexpr CudaArch kGpus[] = {
    {"sm_80", 108, 164 << 10, 40 << 20, 19e12, 1.75e12, 5e12},
    {"sm_86", 82, 100 << 10, 6 << 20, 30e12, 0.85e12, 3e12},
    {"sm_89", 142, 100 << 10, 96 << 20, 80e12, 0.75e12, 5e12},
    {"sm_90a", 132, 228 << 10, 50 << 20, 60e12, 4.2e12, 10e12},
};

} // namespace

Expected<TargetDesc> cudaTarget(std::string_view isa) {
  std::string names;
  for (const CudaArch &gpu : kGpus) {
    names += (names.empty() ? "" : ", ") + std::string(gpu.isa);
    if (gpu.isa != isa)
      continue;
    TargetDesc t;
    t.isa = isa;
    t.simt = true;
    t.clusters = t.wgmma = isa == "sm_90a";
    t.vectorAtomics = isa == "sm_90a";
    t.tf32 = true;
    t.vectorBytes = 256 * 16;
    t.vectorRegisters = 48;
    t.maskedAccess = false;
    t.l1Bytes = gpu.sharedBytes;
    t.l2Bytes = gpu.l2Bytes;
    t.l3Bytes = 0;
    t.fmaFlops = gpu.fmaFlops;
    t.copyBandwidth = gpu.copyBandwidth;
    t.cacheBandwidth = gpu.cacheBandwidth;
    t.launchSeconds = 3e-6;
    t.cores = gpu.processors;
    return t;
  }
  return userError("unknown GPU '" + std::string(isa) + "'", "",
                   "one of: " + names);
}

} // namespace knapper
