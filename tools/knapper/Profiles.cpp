#include "tools/knapper/Profiles.h"

#include "tools/knapper/Timing.h"

namespace knapper::cli {

using Json = nlohmann::ordered_json;

Expected<std::vector<std::vector<Json>>>
profileInTurns(const std::vector<knapper_module *> &modules,
               const std::vector<knapper_tensor> &inputs, HowLong howLong) {
  constexpr size_t least = 3, most = 50;
  std::vector<std::vector<Json>> profiles(modules.size());
  Stopwatch watch;
  for (bool warm = false;; warm = true) {
    for (size_t i = 0; i < modules.size(); ++i) {
      char *text = nullptr;
      if (Status status = toStatus(
              knapper_profile(modules[i], inputs.data(),
                              static_cast<int32_t>(inputs.size()), &text));
          !status)
        return status.takeError();
      Json profile = Json::parse(takeString(text));
      if (warm)
        profiles[i].push_back(std::move(profile));
    }
    size_t runs = profiles[0].size();
    bool enough = howLong.runs
                      ? runs >= size_t(howLong.runs)
                      : runs >= most || (runs >= least &&
                                         watch.seconds() >= howLong.seconds);
    if (enough)
      return profiles;
  }
}

Expected<Json> describe(const knapper_module *module) {
  const char *text = nullptr;
  if (Status status = toStatus(knapper_module_describe(module, &text)); !status)
    return status.takeError();
  return Json::parse(text);
}

Expected<Json> measuredDevices() {
  char *text = nullptr;
  if (Status status = toStatus(knapper_devices(1, &text)); !status)
    return status.takeError();
  return Json::parse(takeString(text));
}

} // namespace knapper::cli
