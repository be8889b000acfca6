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

Status checkTargets(std::span<const Target *const> targets) {
  for (size_t i = 0; i < targets.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (targets[i]->name() == targets[j]->name())
        return internalError("two targets have the name '" +
                                 std::string(targets[i]->name()) + "'",
                             "targets/TargetRegistry.cpp");
  return success();
}

const Target *findTarget(std::string_view name) {
  for (const Target *target : allTargets())
    if (target->name() == name)
      return target;
  return nullptr;
}

} // namespace knapper
