// The front ends of this build: one line each.
#include "frontends/common/FrontEnd.h"

namespace knapper {

const FrontEnd &onnxFrontEnd();
const FrontEnd &stableHloFrontEnd();
const FrontEnd &torchFrontEnd();

std::span<const FrontEnd *const> allFrontEnds() {
  // ONNX has no mark of its own at the beginning of a file: it comes last.
  static const FrontEnd *const frontEnds[] = {
      &stableHloFrontEnd(),
      &torchFrontEnd(),
      &onnxFrontEnd(),
  };
  return frontEnds;
}

const FrontEnd *findFrontEnd(std::string_view name) {
  for (const FrontEnd *frontEnd : allFrontEnds())
    if (frontEnd->name() == name)
      return frontEnd;
  return nullptr;
}

const FrontEnd &frontEndFor(const ModelInput &input) {
  std::span<const FrontEnd *const> all = allFrontEnds();
  for (const FrontEnd *frontEnd : all)
    if (frontEnd->accepts(input))
      return *frontEnd;
  return *all.back();
}

} // namespace knapper
