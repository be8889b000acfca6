#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/Timing.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  double seconds = 2;
  int64_t iterations = 0;
  bool json = false;
};

/// Seconds of every run.
Expected<std::vector<double>> timeRuns(const Arguments &arguments,
                                       knapper_module *module,
                                       const std::vector<knapper_tensor> &in) {
  std::vector<double> times;
  constexpr int warmUp = 2;
  Stopwatch watch;
  for (int64_t i = 0;; ++i) {
    Expected<double> taken = timeRun(module, in);
    if (!taken)
      return taken.takeError();
    if (i < warmUp) {
      watch = Stopwatch();
      continue;
    }
    times.push_back(*taken);
    auto runs = static_cast<int64_t>(times.size());
    if (arguments.iterations
            ? runs >= arguments.iterations
            : watch.seconds() >= arguments.seconds && runs >= 3)
      return times;
  }
}

struct KernelTime {
  std::string kernel, schedule, origin;
  double seconds = 0, flops = 0, bytes = 0;
  int64_t launches = 0;
};

struct Profile {
  std::vector<KernelTime> kernels; ///< the longest first
  double seconds = 0, flops = 0, bytes = 0;
  std::string isa;
};

/// Medians of every launch, summed by kernel.
Expected<Profile> profile(const Arguments &arguments, knapper_module *module,
                          const std::vector<knapper_tensor> &in) {
  std::vector<Json> runs;
  Stopwatch watch;
  do {
    char *text = nullptr;
    if (Status status = toStatus(knapper_profile(
            module, in.data(), static_cast<int32_t>(in.size()), &text));
        !status)
      return status.takeError();
    runs.push_back(Json::parse(takeString(text)));
  } while (runs.size() < 3 ||
           (runs.size() < 50 && watch.seconds() < arguments.seconds / 2));

  Profile result;
  result.isa = runs[0].value("isa", "");
  std::map<std::string, size_t> byName;
  const Json &first = runs[0]["launches"];
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<double> times;
    for (const Json &run : runs)
      if (i < run["launches"].size())
        times.push_back(run["launches"][i].value("ns", 0.0) * 1e-9);
    const Json &launch = first[i];
    std::string name = launch.value("kernel", "");
    auto [entry, added] = byName.emplace(name, result.kernels.size());
    if (added)
      result.kernels.push_back(
          {name, launch.value("schedule", ""), launch.value("origin", "")});
    KernelTime &kernel = result.kernels[entry->second];
    kernel.seconds += median(times);
    kernel.flops += launch.value("flops", 0.0);
    kernel.bytes += launch.value("bytes", 0.0);
    kernel.launches += launch.value("executions", int64_t(1));
  }
  for (const KernelTime &kernel : result.kernels) {
    result.seconds += kernel.seconds;
    result.flops += kernel.flops;
    result.bytes += kernel.bytes;
  }
  std::sort(result.kernels.begin(), result.kernels.end(),
            [](const KernelTime &a, const KernelTime &b) {
              return a.seconds > b.seconds;
            });
  return result;
}

struct Peaks {
  double gflops = 0, gbps = 0;
};

/// Of the device that the module runs on.
Expected<Peaks> measuredPeaks(knapper_module *module, int threads) {
  const char *about = nullptr;
  if (Status status = toStatus(knapper_module_describe(module, &about));
      !status)
    return status.takeError();
  std::string kind = Json::parse(about).value("device", "cpu");
  char *text = nullptr;
  if (Status status = toStatus(knapper_devices(1, &text)); !status)
    return status.takeError();
  Json device;
  for (const Json &each : Json::parse(takeString(text)))
    if (device.is_null() && each.value("device", "") == kind)
      device = each;
  std::string suffix = kind == "cpu" && threads == 1 ? "_one_core" : "";
  return Peaks{device.value("fma_gflops" + suffix, 0.0),
               device.value("copy_gbps" + suffix, 0.0)};
}

/// The least time that the peaks allow, as a share of the time taken.
double roofline(double flops, double bytes, double seconds,
                const Peaks &peaks) {
  double least = std::max(peaks.gflops > 0 ? flops / peaks.gflops : 0,
                          peaks.gbps > 0 ? bytes / peaks.gbps : 0) *
                 1e-9;
  return seconds > 0 ? 100 * least / seconds : 0;
}

std::string cut(const std::string &text, size_t width) {
  std::string shown = printable(text);
  return shown.size() > width ? shown.substr(0, width - 3) + "..." : shown;
}

Status bench(Session &session, Arguments &arguments) {
  if (Status status = arguments.dims.parse(); !status)
    return status;
  Expected<ModulePtr> opened = arguments.model.open(session);
  if (!opened)
    return opened.takeError();
  knapper_module *module = opened->get();
  Expected<std::vector<Array>> inputs =
      arguments.inputs.make(module, arguments.dims);
  if (!inputs)
    return inputs.takeError();
  std::vector<knapper_tensor> tensors = tensorsOf(*inputs);
  session.progress("peaks of the machine", 0, 3);
  Expected<Peaks> peaks = measuredPeaks(module, arguments.model.threads());
  if (!peaks)
    return peaks.takeError();
  session.progress("runs", 1, 3);
  Expected<std::vector<double>> times = timeRuns(arguments, module, tensors);
  if (!times)
    return times.takeError();
  session.progress("kernels", 2, 3);
  Expected<Profile> kernels = profile(arguments, module, tensors);
  if (!kernels)
    return kernels.takeError();
  session.progress("", 3, 3);

  double middle = median(*times), p90 = quantile(*times, 0.9);
  double gflops = kernels->flops / middle * 1e-9,
         gbps = kernels->bytes / middle * 1e-9;
  Json json = {{"model", arguments.model.path()},
               {"isa", kernels->isa},
               {"runs", times->size()},
               {"median_ms", middle * 1e3},
               {"p90_ms", p90 * 1e3},
               {"min_ms", quantile(*times, 0) * 1e3},
               {"gflops", gflops},
               {"gbps", gbps},
               {"roofline_percent",
                roofline(kernels->flops, kernels->bytes, middle, *peaks)},
               {"peak_gflops", peaks->gflops},
               {"peak_gbps", peaks->gbps},
               {"inputs", Json::array()},
               {"kernels", Json::array()}};
  for (const knapper_tensor &tensor : tensors)
    json["inputs"].push_back(typeText(tensor));
  for (const KernelTime &k : kernels->kernels)
    json["kernels"].push_back(
        {{"kernel", k.kernel},
         {"schedule", k.schedule},
         {"origin", k.origin},
         {"launches", k.launches},
         {"us", k.seconds * 1e6},
         {"gflops", k.seconds > 0 ? k.flops / k.seconds * 1e-9 : 0},
         {"gbps", k.seconds > 0 ? k.bytes / k.seconds * 1e-9 : 0},
         {"roofline_percent", roofline(k.flops, k.bytes, k.seconds, *peaks)}});
  if (arguments.json) {
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return success();
  }
  print(arguments.dims.chosenText());
  print(format("%s: median %.3f ms, p90 %.3f ms of %zu runs (%s)\n",
               printable(arguments.model.path()).c_str(), middle * 1e3,
               p90 * 1e3, times->size(), printable(kernels->isa).c_str()));
  print(format("%.1f GFLOP/s, %.1f GB/s, %.0f %% of the roofline (peaks: %.0f "
               "GFLOP/s, %.1f GB/s)\n\n",
               gflops, gbps, json["roofline_percent"].get<double>(),
               peaks->gflops, peaks->gbps));
  print("    us    share  launches  GFLOP/s    GB/s  roofline  kernel\n");
  for (const KernelTime &k : kernels->kernels)
    print(format("%9.1f %5.1f %% %8lld %9.1f %7.1f %7.0f %%  %s  %s  %s\n",
                 k.seconds * 1e6, 100 * k.seconds / kernels->seconds,
                 static_cast<long long>(k.launches), k.flops / k.seconds * 1e-9,
                 k.bytes / k.seconds * 1e-9,
                 roofline(k.flops, k.bytes, k.seconds, *peaks),
                 cut(k.kernel, 40).c_str(), cut(k.schedule, 30).c_str(),
                 cut(k.origin, 60).c_str()));
  print(format("%9.1f in kernels, %.1f outside them\n", kernels->seconds * 1e6,
               std::max(0.0, middle - kernels->seconds) * 1e6));
  return success();
}

} // namespace

void addBench(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<Arguments>();
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
