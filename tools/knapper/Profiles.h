//===- Profiles.h - Profiled runs, for bench and explain ------------------===//
#pragma once

#include "tools/knapper/Session.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace knapper::cli {

/// When profiling ends: after `runs`, or where that is 0 after about `seconds`
/// with at least three and at most fifty.
struct HowLong {
  int64_t runs = 0;
  double seconds = 1;
};

/// The JSON of knapper_profile of each run, of one module or of several in
/// turns, so that all meet the same machine, after a run of each that warms
/// up: by module.
Expected<std::vector<std::vector<nlohmann::ordered_json>>>
profileInTurns(const std::vector<knapper_module *> &modules,
               const std::vector<knapper_tensor> &inputs, HowLong howLong);

/// knapper_module_describe, and knapper_devices with the peaks measured.
Expected<nlohmann::ordered_json> describe(const knapper_module *module);
Expected<nlohmann::ordered_json> measuredDevices();

} // namespace knapper::cli
