// What a compile did, as the JSON section of the artefact: `knapper explain`
// and the HTML report read nothing else.
#include "compiler/exec/Origin.h"
#include "compiler/pipeline/Pack.h"
#include <nlohmann/json.hpp>

using namespace mlir;

namespace knapper {

std::string reportJson(const CompileState &state) {
  nlohmann::ordered_json report;
  const CompileStats &stats = *state.stats;
  report["launches"] = stats.launches;
  report["kernels"] = stats.kernels;
  report["variants"] = stats.variants;
  report["variant_cpu_seconds"] = stats.variantCpuSeconds;
  report["pack_seconds"] = stats.packSeconds;
  for (const PhaseTime &phase : stats.phases)
    report["phases"].push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  for (auto [i, unique] : llvm::enumerate(state.kernels.kernels)) {
    nlohmann::ordered_json kernel;
    kernel["signature"] = unique.signature;
    kernel["hero"] = ts::stringifyHero(ts::KernelOp(unique.kernel).getHero()).str();
    kernel["text"] = unique.text;
    for (const Schedule &schedule : unique.schedules)
      kernel["schedules"].push_back({{"label", schedule.label()},
                                     {"guard", schedule.guard.str()},
                                     {"grid", schedule.grid.str()}});
    report["unique_kernels"].push_back(std::move(kernel));
  }
  report["fusion"] = nlohmann::json::parse(state.fusionReport.json(), nullptr,
                                           /*allow_exceptions=*/false);
  return report.dump(-1, ' ', false,
                     nlohmann::json::error_handler_t::replace);
}

} // namespace knapper
