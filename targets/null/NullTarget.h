// The target that emits nothing: copied to begin a new one.
#pragma once

#include "codegen/TargetDesc.h"

namespace knapper {

/// A device that runs no code; schedules for it are never lowered.
inline TargetDesc nullTarget() {
  TargetDesc t;
  t.kind = DeviceKind::null;
  t.isa = "null";
  t.vectorBytes = 16;
  t.vectorRegisters = 16;
  t.fmaFlops = t.copyBandwidth = t.cacheBandwidth = 1e9;
  t.l1Bytes = t.l2Bytes = t.l3Bytes = 32 << 10;
  return t;
}

} // namespace knapper
