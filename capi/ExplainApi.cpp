// Reports of modules, and the measured runs that they show.
#include "capi/Handles.h"
#include "compiler/report/Comparison.h"
#include "compiler/report/Html.h"
#include "compiler/report/Times.h"
#include "runtime/base/Text.h"

#include <chrono>
#include <vector>

using namespace knapper;

namespace {

using Json = nlohmann::ordered_json;
constexpr const char *kFunction = "knapper_explain_with";

Status toStatus(knapper_error *error) {
  if (!error)
    return success();
  Error copy = error->error;
  knapper_error_release(error);
  return copy;
}

/// Parses and releases.
Json takeJson(char *text) {
  std::unique_ptr<char, void (*)(char *)> held(text, knapper_string_release);
  return Json::parse(text);
}

Expected<Json> describe(const knapper_module *module) {
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(module, &text)));
  return Json::parse(text);
}

/// The JSON of knapper_profile of each run, by module: interleaved, so that all
/// meet the same machine, after a run of each that warms up.
Expected<std::vector<std::vector<Json>>>
profileInterleaved(const std::vector<knapper_module *> &modules,
               const knapper_explain_options &options) {
  constexpr size_t least = 3, most = 50;
  using Clock = std::chrono::steady_clock;
  double seconds = options.seconds > 0 ? options.seconds : 1;
  std::vector<std::vector<Json>> profiles(modules.size());
  auto began = Clock::now();
  for (bool warm = false;; warm = true) {
    for (size_t i = 0; i < modules.size(); ++i) {
      char *text = nullptr;
      TRY(toStatus(knapper_profile(modules[i], options.inputs,
                                   options.num_inputs, &text)));
      Json profile = takeJson(text);
      if (warm)
        profiles[i].push_back(std::move(profile));
    }
    size_t runs = profiles[0].size();
    std::chrono::duration<double> passed = Clock::now() - began;
    if (options.runs
            ? runs >= static_cast<size_t>(options.runs)
            : runs >= most || (runs >= least && passed.count() >= seconds))
      return profiles;
  }
}

/// Both must take the same arrays.
Status sameInputs(const Json &first, const Json &second, std::string where) {
  auto types = [](const Json &description) {
    std::string text;
    for (const Json &input : description["inputs"])
      text += input["name"].get<std::string>() + " " +
              input["dtype"].get<std::string>() + " of rank " +
              std::to_string(input["shape"].size()) + ", ";
    return text.empty() ? "none" : text.substr(0, text.size() - 2);
  };
  std::string one = types(first), other = types(second);
  if (one == other)
    return success();
  return userError(
      cat("the two models have other inputs: ", one, "; and ", other),
      std::move(where), "give two artefacts of one model");
}

Status check(const knapper_explain_options &options) {
  if (!options.profile && (options.other || options.num_inputs || options.runs))
    return userError("inputs, runs and another module are for profiled runs",
                     kFunction, "set profile to 1");
  if (options.num_inputs < 0 || (options.num_inputs > 0 && !options.inputs))
    return userError("inputs is NULL or their number negative", kFunction);
  if (options.runs < 0 || options.runs > 1000)
    return userError(cat("runs is ", options.runs), kFunction,
                     "give 1 to 1000 runs, or 0 for a second of them");
  if (!(options.seconds >= 0 && options.seconds <= 3600))
    return userError(cat("seconds is ", options.seconds), kFunction,
                     "give at most 3600 seconds, or 0 for one");
  return success();
}

/// Adds "profile" (compiler/report/Times.h) to the description, and where there
/// is another module "comparison" (compiler/report/Comparison.h).
Status measure(knapper_module *module, const knapper_explain_options &options,
               Json &description) {
  auto progress = [&](const char *phase, int32_t done) {
    if (options.progress)
      options.progress(options.progress_user, phase, done, 2);
  };
  std::vector<knapper_module *> modules = {module};
  Json second;
  if (options.other) {
    modules.push_back(options.other);
    ASSIGN_OR_RETURN(Json about, describe(options.other));
    second = std::move(about);
    if (Status status =
            sameInputs(description, second,
                       options.other_name ? options.other_name : "other");
        !status)
      return status;
  }
  progress("peaks of the machine", 0);
  char *text = nullptr;
  TRY(toStatus(knapper_devices(1, &text)));
  Json devices = takeJson(text);
  progress("runs", 1);
  ASSIGN_OR_RETURN(auto profiles, profileInterleaved(modules, options));
  progress("", 2);
  description["profile"] =
      report::timesOf(description, profiles.front(), devices);
  if (!options.other)
    return success();
  second["profile"] = report::timesOf(second, profiles.back(), devices);
  Json &comparison = description["comparison"];
  comparison = report::comparisonOf(description, second);
  if (options.name)
    comparison["first"] = options.name;
  if (options.other_name)
    comparison["second"] = options.other_name;
  return success();
}

} // namespace

knapper_error *knapper_explain(const knapper_module *module, char **html) {
  return capi::guarded([&]() -> Status {
    if (!module || !html)
      return userError("an argument is NULL", "knapper_explain");
    *html = nullptr;
    const char *description = nullptr;
    TRY(toStatus(knapper_module_describe(module, &description)));
    return capi::copyString(reportHtml(description), html);
  });
}

knapper_error *knapper_explain_with(knapper_module *module,
                                    const knapper_explain_options *given,
                                    char **html, char **json) {
  return capi::guarded([&]() -> Status {
    for (char **out : {html, json})
      if (out)
        *out = nullptr;
    if (!module || (!html && !json))
      return userError(module ? "html and json are NULL" : "module is NULL",
                       kFunction);
    ASSIGN_OR_RETURN(knapper_explain_options options,
                     capi::readOptions<knapper_explain_options>(
                         given, KNAPPER_EXPLAIN_OPTIONS_INIT, kFunction));
    TRY(check(options));
    ASSIGN_OR_RETURN(Json description, describe(module));
    if (options.profile)
      TRY(measure(module, options, description));
    std::string text =
        description.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string page = html ? reportHtml(text) : "";
    if (json)
      TRY(capi::copyString(text, json));
    if (!html)
      return success();
    Status status = capi::copyString(page, html);
    if (!status && json) {
      knapper_string_release(*json);
      *json = nullptr;
    }
    return status;
  });
}
