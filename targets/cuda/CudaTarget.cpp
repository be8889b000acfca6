#include "targets/cuda/CudaTarget.h"

namespace knapper {

Expected<TargetDesc> cudaTarget(std::string_view isa) {
  if (isa != "sm_90a")
    return userError("unknown GPU '" + std::string(isa) + "'", "", "sm_90a");
  TargetDesc t;
  t.kind = DeviceKind::cuda;
  t.isa = isa;
  t.vectorBytes = 256 * 16;
  t.vectorRegisters = 48;
  t.maskedAccess = false;
  t.l1Bytes = 228 << 10;
  t.l2Bytes = 50 << 20;
  t.l3Bytes = 0;
  t.fmaFlops = 60e12;
  t.copyBandwidth = 4.2e12;
  t.cacheBandwidth = 10e12;
  t.launchSeconds = 3e-6;
  t.cores = 132;
  return t;
}

} // namespace knapper
