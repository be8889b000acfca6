#include "compiler/report/Times.h"
#include "compiler/report/Advice.h"

#include <algorithm>
#include <map>

namespace knapper::report {
namespace {

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Microseconds that the peaks allow at best for the operations, and for the
/// bytes.
struct Least {
  double arithmetic = 0, memory = 0;
};

Least leastOf(const Json &times, double flops, double bytes) {
  double gflops = numberOf(times, "peak_gflops"),
         gbps = numberOf(times, "peak_gbps");
  return {gflops > 0 ? flops / gflops * 1e-3 : 0,
          gbps > 0 ? bytes / gbps * 1e-3 : 0};
}

/// Adds what follows from "us", "flops" and "bytes".
void rate(const Json &times, Json &entry) {
  double us = numberOf(entry, "us"), flops = numberOf(entry, "flops"),
         bytes = numberOf(entry, "bytes");
  Least least = leastOf(times, flops, bytes);
  entry["gflops"] = us > 0 ? flops / us * 1e-3 : 0;
  entry["gbps"] = us > 0 ? bytes / us * 1e-3 : 0;
  entry["roofline_percent"] = rooflinePercent(times, flops, bytes, us);
  entry["bound_by"] = least.arithmetic <= 0 && least.memory <= 0 ? ""
                      : least.memory >= least.arithmetic         ? "memory"
                                                                 : "arithmetic";
}

/// Of the device that the module runs on.
void addPeaks(const Json &description, const Json &devices, Json &times) {
  std::string kind = textOf(description, "device");
  bool single = numberOf(description, "threads") == 1;
  times["peak_gflops"] = times["peak_gbps"] = 0.0;
  if (!devices.is_array())
    return;
  for (const Json &device : devices)
    if (textOf(device, "device") == kind) {
      // Of a device whose threads are cores.
      const char *suffix =
          single && device.contains("fma_gflops_one_core") ? "_one_core" : "";
      times["peak_gflops"] =
          numberOf(device, (std::string("fma_gflops") + suffix).c_str());
      times["peak_gbps"] =
          numberOf(device, (std::string("copy_gbps") + suffix).c_str());
      return;
    }
}

/// Medians over the runs of each launch, by its place in the description.
Json launchesOf(const std::vector<Json> &profiles, const Json &times) {
  std::map<size_t, std::vector<double>> taken;
  for (const Json &profile : profiles)
    for (const Json &launch : listOf(profile, "launches"))
      taken[size_t(numberOf(launch, "index"))].push_back(
          numberOf(launch, "ns") * 1e-3);
  Json launches = Json::array();
  for (const Json &launch : listOf(profiles.front(), "launches")) {
    auto index = size_t(numberOf(launch, "index"));
    Json entry = {{"index", index},
                  {"kernel", textOf(launch, "kernel")},
                  {"schedule", textOf(launch, "schedule")},
                  {"origin", textOf(launch, "origin")},
                  {"executions", numberOf(launch, "executions")},
                  {"us", medianOf(taken[index])},
                  {"flops", numberOf(launch, "flops")},
                  {"bytes", numberOf(launch, "bytes")}};
    rate(times, entry);
    launches.push_back(std::move(entry));
  }
  return launches;
}

Json kernelsOf(const Json &times) {
  std::vector<Json> kernels;
  std::map<std::string, size_t> byName;
  double total = 0;
  for (const Json &launch : listOf(times, "launches")) {
    std::string name = textOf(launch, "kernel");
    auto [place, added] = byName.emplace(name, kernels.size());
    if (added)
      kernels.push_back({{"kernel", name},
                         {"schedule", textOf(launch, "schedule")},
                         {"origin", textOf(launch, "origin")},
                         {"launches", 0},
                         {"indices", Json::array()},
                         {"us", 0.0},
                         {"share_percent", 0.0},
                         {"flops", 0.0},
                         {"bytes", 0.0}});
    Json &kernel = kernels[place->second];
    kernel["launches"] = kernel["launches"].get<int64_t>() +
                         int64_t(numberOf(launch, "executions"));
    kernel["indices"].push_back(launch["index"]);
    for (const char *key : {"us", "flops", "bytes"})
      kernel[key] = numberOf(kernel, key) + numberOf(launch, key);
    total += numberOf(launch, "us");
  }
  std::sort(kernels.begin(), kernels.end(), [](const Json &a, const Json &b) {
    return numberOf(a, "us") > numberOf(b, "us");
  });
  for (Json &kernel : kernels) {
    kernel["share_percent"] =
        total > 0 ? 100 * numberOf(kernel, "us") / total : 0;
    rate(times, kernel);
  }
  return kernels;
}

} // namespace

double rooflinePercent(const Json &times, double flops, double bytes,
                       double us) {
  Least least = leastOf(times, flops, bytes);
  return us > 0 ? 100 * std::max(least.arithmetic, least.memory) / us : 0;
}

const Json &kernelOf(const Json &description, const std::string &function) {
  static const Json nothing;
  for (const Json &kernel :
       listOf(memberOf(description, "report"), "unique_kernels")) {
    std::string signature = textOf(kernel, "signature");
    if (!signature.empty() && function.find(signature) != std::string::npos)
      return kernel;
  }
  return nothing;
}

Json timesOf(const Json &description, const std::vector<Json> &profiles,
             const Json &devices) {
  std::vector<double> totals;
  for (const Json &profile : profiles)
    totals.push_back(numberOf(profile, "total_ns") * 1e-3);
  Json times = {{"device", textOf(description, "device")},
                {"isa", textOf(profiles.front(), "isa")},
                {"runs", profiles.size()},
                {"sizes", memberOf(profiles.front(), "sizes")}};
  addPeaks(description, devices, times);
  times["launches"] = launchesOf(profiles, times);
  double inKernels = 0;
  for (const Json &launch : listOf(times, "launches"))
    inKernels += numberOf(launch, "us");
  times["total_us"] = medianOf(totals);
  times["kernels_us"] = inKernels;
  times["outside_us"] = std::max(0.0, medianOf(totals) - inKernels);
  times["kernels"] = kernelsOf(times);
  addAdvice(description, devices, times);
  return times;
}

} // namespace knapper::report
