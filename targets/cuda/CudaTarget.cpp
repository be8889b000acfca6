#include "targets/cuda/CudaTarget.h"
#include "targets/cuda/CudaMachine.h"

namespace knapper {

Expected<TargetDesc> cudaTarget(std::string_view isa) {
  std::string names;
  for (const CudaCard &card : cudaCards()) {
    names += (names.empty() ? "" : ", ") + std::string(card.isa);
    if (card.isa != isa)
      continue;
    TargetDesc t;
    static_cast<config::Machine &>(t) = card.machine;
    t.isa = isa;
    t.simt = true;
    t.clusters = t.wgmma = isa == "sm_90a";
    t.vectorAtomics = isa == "sm_90a";
    t.tf32 = true;
    t.vectorBytes = 256 * 16;
    t.vectorRegisters = 48;
    return t;
  }
  return userError("unknown GPU '" + std::string(isa) + "'", "",
                   "one of: " + names);
}

} // namespace knapper
