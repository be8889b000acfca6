#include "tools/knapper/TimesTable.h"

#include "tools/knapper/Session.h"

#include <algorithm>

namespace knapper::cli {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kShownKernels = 10, kOriginWidth = 60;

/// Printable, and cut at the end.
std::string originText(const Json &entry) {
  std::string origin = printable(entry["origin"].get<std::string>());
  return origin.size() > kOriginWidth
             ? origin.substr(0, kOriginWidth - 3) + "..."
             : origin;
}

std::string ratioText(const Json &ratio) {
  return ratio.is_number() ? format("%7.2f", ratio.get<double>()) : "      -";
}

std::string adviceLines(const Json &entry, const char *indent) {
  std::string lines;
  for (const Json &advice : entry["advice"])
    lines += indent + printable(advice["kind"].get<std::string>()) + ": " +
             printable(advice["text"].get<std::string>()) + "\n";
  return lines;
}

} // namespace

std::string timesTable(const Json &times) {
  const Json &kernels = times["kernels"];
  std::string sizes;
  for (const auto &[name, value] : times["sizes"].items())
    sizes +=
        (sizes.empty() ? " at " : ", ") + printable(name) + "=" + value.dump();
  std::string text = format(
      "%s (%s)%s: median of %zu runs %.1f us, %.1f of them outside kernels\n"
      "peaks: %.0f GFLOP/s, %.1f GB/s\n\n",
      printable(times["device"].get<std::string>()).c_str(),
      printable(times["isa"].get<std::string>()).c_str(), sizes.c_str(),
      times["runs"].get<size_t>(), times["total_us"].get<double>(),
      times["outside_us"].get<double>(), times["peak_gflops"].get<double>(),
      times["peak_gbps"].get<double>());
  text += "       us    share  launches  roofline, of what    kernel\n";
  size_t count = std::min(kernels.size(), kShownKernels);
  for (size_t i = 0; i < count; ++i) {
    const Json &k = kernels[i];
    text += format("%9.1f %6.1f %% %9lld %7.0f %%  %-11s  %s  %s\n",
                   k["us"].get<double>(), k["share_percent"].get<double>(),
                   static_cast<long long>(k["launches"].get<int64_t>()),
                   k["roofline_percent"].get<double>(),
                   k["bound_by"].get<std::string>().c_str(),
                   printable(k["kernel"].get<std::string>()).c_str(),
                   originText(k).c_str());
    text += adviceLines(k, "          ");
  }
  if (kernels.size() > count) {
    double rest = 0;
    for (size_t i = count; i < kernels.size(); ++i)
      rest += kernels[i]["us"].get<double>();
    text += format("%9.1f in %zu other kernels (all are in the report)\n", rest,
                   kernels.size() - count);
  }
  return text + adviceLines(times, "");
}

std::string comparisonTable(const Json &comparison) {
  const Json &rows = comparison["kernels"];
  std::string text =
      format("first: %s, second: %s, interleaved\n\n"
             "first, us  second, us  second/first  difference, us  kernel\n",
             printable(comparison["first"].get<std::string>()).c_str(),
             printable(comparison["second"].get<std::string>()).c_str());
  size_t count = std::min(rows.size(), kShownKernels);
  for (size_t i = 0; i < count; ++i)
    text += format("%9.1f  %10.1f       %s  %+14.1f  %s\n",
                   rows[i]["first"]["us"].get<double>(),
                   rows[i]["second"]["us"].get<double>(),
                   ratioText(rows[i]["ratio"]).c_str(),
                   rows[i]["difference_us"].get<double>(),
                   originText(rows[i]).c_str());
  if (rows.size() > count)
    text += format("and %zu rows that differ less (all are in the report)\n",
                   rows.size() - count);
  double first = comparison["total_us"][0].get<double>(),
         second = comparison["total_us"][1].get<double>();
  return text + format("%9.1f  %10.1f       %s  %+14.1f  whole runs\n", first,
                       second, ratioText(comparison["ratio"]).c_str(),
                       second - first);
}

} // namespace knapper::cli
