// What machineLevel() is in test programs that are linked with
// --wrap=<its name>: with tiles in software the level that has them.
#include "runtime/drivers/cpu/CpuInfo.h"
#include "targets/cpu/testing/Tiles.h"

namespace knapper::cpu {

IsaLevel realLevel() asm("__real__ZN7knapper3cpu12machineLevelEv");
IsaLevel wrappedLevel() asm("__wrap__ZN7knapper3cpu12machineLevelEv");

IsaLevel wrappedLevel() {
  return tiles::areEmulated() ? IsaLevel::v4Amx : realLevel();
}

} // namespace knapper::cpu
