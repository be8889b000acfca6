#include "compiler/report/Times.h"
#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/Timing.h"

#include <algorithm>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  double seconds = 2;
  int64_t iterations = 0;
  bool json = false;
};

/// Seconds of every run.
Expected<std::vector<double>> timeRuns(const BenchArguments &arguments,
                                       knapper_module *module,
                                       const std::vector<knapper_tensor> &in) {
  std::vector<double> times;
  constexpr int warmUp = 2;
  Stopwatch watch;
  for (int64_t i = 0;; ++i) {
    ASSIGN_OR_RETURN(double taken, timeRun(module, in));
    if (i < warmUp) {
      watch = Stopwatch();
      continue;
    }
    times.push_back(taken);
    auto runs = static_cast<int64_t>(times.size());
    if (arguments.iterations
            ? runs >= arguments.iterations
            : watch.seconds() >= arguments.seconds && runs >= 3)
      return times;
  }
}

/// The kernels' times (compiler/report/Times.h) of `seconds` of profiled runs.
Expected<Json> profile(knapper_module *module,
                       const std::vector<knapper_tensor> &inputs,
                       double seconds) {
  knapper_explain_options options = KNAPPER_EXPLAIN_OPTIONS_INIT;
  options.profile = 1;
  options.inputs = inputs.data();
  options.num_inputs = static_cast<int32_t>(inputs.size());
  options.seconds = std::min(seconds, 3600.0);
  char *json = nullptr;
  if (Status status =
          toStatus(knapper_explain_with(module, &options, nullptr, &json));
      !status)
    return status.takeError();
  return Json::parse(takeString(json))["profile"];
}

std::string cut(const std::string &text, size_t width) {
  std::string shown = printable(text);
  return shown.size() > width ? shown.substr(0, width - 3) + "..." : shown;
}

Status bench(Session &session, BenchArguments &arguments) {
  TRY(arguments.dims.parse());
  ASSIGN_OR_RETURN(ModulePtr opened, arguments.model.open(session));
  knapper_module *module = opened.get();
  ASSIGN_OR_RETURN(std::vector<Array> inputs,
                   arguments.inputs.make(module, arguments.dims));
  std::vector<knapper_tensor> tensors = tensorsOf(inputs);
  session.progress("runs", 0, 2);
  ASSIGN_OR_RETURN(std::vector<double> times,
                   timeRuns(arguments, module, tensors));
  session.progress("kernels", 1, 2);
  ASSIGN_OR_RETURN(Json profiled,
                   profile(module, tensors, arguments.seconds / 2));
  const Json &measured = profiled;
  session.progress("", 2, 2);

  double middle = median(times), p90 = quantile(times, 0.9);
  double flops = 0, bytes = 0;
  for (const Json &kernel : measured["kernels"]) {
    flops += kernel["flops"].get<double>();
    bytes += kernel["bytes"].get<double>();
  }
  double gflops = flops / middle * 1e-9, gbps = bytes / middle * 1e-9;
  Json json = {{"model", arguments.model.path()},
               {"isa", measured["isa"]},
               {"runs", times.size()},
               {"median_ms", middle * 1e3},
               {"p90_ms", p90 * 1e3},
               {"min_ms", quantile(times, 0) * 1e3},
               {"gflops", gflops},
               {"gbps", gbps},
               {"roofline_percent",
                report::rooflinePercent(measured, flops, bytes, middle * 1e6)},
               {"peak_gflops", measured["peak_gflops"]},
               {"peak_gbps", measured["peak_gbps"]},
               {"inputs", Json::array()},
               {"kernels", Json::array()}};
  for (const knapper_tensor &tensor : tensors)
    json["inputs"].push_back(typeText(tensor));
  for (const Json &kernel : measured["kernels"]) {
    Json entry;
    for (const char *key : {"kernel", "schedule", "origin", "launches", "us",
                            "gflops", "gbps", "roofline_percent", "bound_by"})
      entry[key] = kernel[key];
    json["kernels"].push_back(std::move(entry));
  }
  if (arguments.json) {
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return success();
  }
  print(arguments.dims.chosenText());
  print(format("%s: median %.3f ms, p90 %.3f ms of %zu runs (%s)\n",
               printable(arguments.model.path()).c_str(), middle * 1e3,
               p90 * 1e3, times.size(),
               printable(json["isa"].get<std::string>()).c_str()));
  print(format("%.1f GFLOP/s, %.1f GB/s, %.0f %% of the roofline (peaks: %.0f "
               "GFLOP/s, %.1f GB/s)\n\n",
               gflops, gbps, json["roofline_percent"].get<double>(),
               json["peak_gflops"].get<double>(),
               json["peak_gbps"].get<double>()));
  print("    us    share  launches  GFLOP/s    GB/s  roofline  kernel\n");
  for (const Json &k : measured["kernels"])
    print(format("%9.1f %5.1f %% %8lld %9.1f %7.1f %7.0f %%  %s  %s  %s\n",
                 k["us"].get<double>(), k["share_percent"].get<double>(),
                 static_cast<long long>(k["launches"].get<int64_t>()),
                 k["gflops"].get<double>(), k["gbps"].get<double>(),
                 k["roofline_percent"].get<double>(),
                 cut(k["kernel"].get<std::string>(), 40).c_str(),
                 cut(k["schedule"].get<std::string>(), 30).c_str(),
                 cut(k["origin"].get<std::string>(), 60).c_str()));
  double inside = measured["kernels_us"].get<double>();
  print(format("%9.1f in kernels, %.1f outside them\n", inside,
               std::max(0.0, middle * 1e6 - inside)));
  return success();
}

} // namespace

void addBench(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App *command = app.add_subcommand(
      "bench", "Measures a model, and each kernel against the machine's peaks");
  arguments->model.addTo(*command);
  arguments->inputs.addTo(*command);
  arguments->dims.addWithAutoTo(*command);
  command
      ->add_option("--seconds", arguments->seconds, "How long runs are timed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--iterations", arguments->iterations,
                   "How many runs are timed, instead of --seconds")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "The roofline is the least time that the measured peaks allow for the "
      "kernel's\noperations and bytes, as a share of its time. Data that stays "
      "in caches can exceed 100 %.\nFor example:\n"
      "  knapper bench model.knap --dim batch=8 --dim seq=128 --threads 2");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return bench(session, *arguments);
    };
  });
}

} // namespace knapper::cli
