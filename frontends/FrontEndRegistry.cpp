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

Status checkFrontEnds(std::span<const FrontEnd *const> frontEnds) {
  for (size_t i = 0; i < frontEnds.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (frontEnds[i]->name() == frontEnds[j]->name())
        return internalError("two front ends have the name '" +
                                 std::string(frontEnds[i]->name()) + "'",
                             "frontends/FrontEndRegistry.cpp");
  return success();
}

Expected<const FrontEnd *> frontEndFor(const ModelInput &input,
                                       std::span<const FrontEnd *const> among) {
  for (const FrontEnd *frontEnd : among) {
    ASSIGN_OR_RETURN(
        bool accepted,
        guarded(*frontEnd, "was asked whether it accepts it", input,
                [&]() -> Expected<bool> { return frontEnd->accepts(input); }));
    if (accepted)
      return frontEnd;
  }
  return among.back();
}

} // namespace knapper
