// The targets of this build: one line each.
#include "targets/Target.h"

namespace knapper {

const Target &cpuTargetPlugin();
const Target &cudaTargetPlugin();
const Target &nullTargetPlugin();

std::span<const Target *const> allTargets() {
  static const Target *const targets[] = {
      &cpuTargetPlugin(),
      &cudaTargetPlugin(),
      &nullTargetPlugin(),
  };
  return targets;
}

const Target *findTarget(std::string_view name) {
  for (const Target *target : allTargets())
    if (target->name() == name)
      return target;
  return nullptr;
}

} // namespace knapper
