// What a compile did, as the JSON section of the artefact: `knapper explain`
// and the HTML report read nothing else.
#include "compiler/exec/Origin.h"
#include "compiler/pipeline/Pack.h"
#include <nlohmann/json.hpp>

using namespace mlir;

namespace knapper {

static nlohmann::ordered_json statsJson(const CompileStats &stats) {
  nlohmann::ordered_json json;
  json["launches"] = stats.launches;
  json["kernels"] = stats.kernels;
  json["variants"] = stats.variants;
  json["variant_cpu_seconds"] = stats.variantCpuSeconds;
  json["records_used"] = stats.recordsUsed;
  json["records_stale"] = stats.recordsStale;
  json["pack_seconds"] = stats.packSeconds;
  json["artefact_bytes"] = stats.artefactBytes;
  json["from_cache"] = stats.fromCache;
  json["phases"] = nlohmann::json::array();
  for (const PhaseTime &phase : stats.phases) {
    auto passes = nlohmann::ordered_json::array();
    for (const PassTime &pass : phase.passes)
      passes.push_back({{"name", pass.name}, {"seconds", pass.seconds}});
    json["phases"].push_back({{"name", phase.name},
                              {"seconds", phase.seconds},
                              {"passes", std::move(passes)}});
  }
  return json;
}

std::string CompileStats::json() const { return statsJson(*this).dump(); }

std::string reportJson(const CompileState &state) {
  nlohmann::ordered_json report;
  const CompileStats &stats = *state.stats;
  report["compile"] = statsJson(stats);
  report["target"] = state.target->tuningKey(state.targets.front());
  for (auto [i, unique] : llvm::enumerate(state.kernels.kernels)) {
    nlohmann::ordered_json kernel;
    kernel["signature"] = unique.signature;
    kernel["hero"] =
        ts::stringifyHero(ts::KernelOp(unique.kernel).getHero()).str();
    kernel["text"] = unique.text;
    for (auto [index, schedule] : llvm::enumerate(unique.schedules))
      kernel["schedules"].push_back({{"label", unique.label(index)},
                                     {"guard", schedule.guard.str()},
                                     {"grid", schedule.grid.str()}});
    kernel["recorded"] = unique.recorded;
    if (unique.recorded)
      kernel["gain"] = unique.gain;
    for (const UserKernelOffer &offer : unique.offers)
      kernel["user_kernels"].push_back({{"name", offer.name},
                                        {"taken", offer.isTaken()},
                                        {"why", offer.why()}});
    for (const VendorOffer &offer : unique.vendorOffers)
      kernel["vendor_libraries"].push_back(
          {{"name", offer.name}, {"taken", offer.taken}, {"why", offer.why}});
    kernel["knobs"] = nlohmann::json::array();
    for (const tune::Knob &knob : unique.knobs)
      kernel["knobs"].push_back(
          {{"name", knob.name},
           {"model", knob.model},
           {"value", knob.value},
           {"alone", knob.isAlone},
           {"others",
            std::vector<int64_t>(knob.others.begin(), knob.others.end())}});
    report["unique_kernels"].push_back(std::move(kernel));
  }
  std::string text =
      report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Text already: to read and to write it again takes longer than all else.
  text.back() = ',';
  return text + "\"fusion\":" + state.fusionReport.json() + "}";
}

} // namespace knapper
