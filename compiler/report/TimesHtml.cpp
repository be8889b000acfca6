#include "compiler/report/Sections.h"

#include <algorithm>
#include <cstdio>

namespace knapper::report {
namespace {

std::string number(double value, const char *pattern) {
  char text[48];
  snprintf(text, sizeof text, pattern, value);
  return text;
}

void adviceList(Writer &out, const Json &entry) {
  for (const Json &advice : listOf(entry, "advice"))
    out.raw("<div class=\"advice\"><b>")
        .text(textOf(advice, "kind"))
        .raw("</b> ")
        .text(textOf(advice, "text"))
        .raw("</div>");
}

} // namespace

void timesSection(Writer &out, const Json &description) {
  const Json &times = memberOf(description, "profile");
  if (!times.is_object())
    return;
  std::string sizes;
  for (auto &[name, value] : memberOf(times, "sizes").items())
    sizes += (sizes.empty() ? " at " : ", ") + name + " = " +
             value.dump(-1, ' ', false, Json::error_handler_t::replace);
  out.raw("<h2 id=\"times\">Times</h2><p>")
      .text(
          "Median of " + textOf(times, "runs") + " runs" + sizes + " on " +
          textOf(times, "device") + " " + textOf(times, "isa") + ": " +
          number(numberOf(times, "total_us"), "%.1f us, ") +
          number(numberOf(times, "outside_us"),
                 "%.1f of them outside kernels. ") +
          "The roofline is the least time that the peaks of the machine allow, "
          "as a share of the time taken: " +
          number(numberOf(times, "peak_gflops"),
                 "%.0f GFLOP/s (arithmetic), ") +
          number(numberOf(times, "peak_gbps"), "%.1f GB/s (memory). ") +
          "Data that stays in caches can exceed 100 %.")
      .raw("</p>");
  adviceList(out, times);
  out.raw("<table class=\"rows times\"><thead><tr><th>us</th><th>share</th>"
          "<th>launches</th><th>roofline</th><th>of</th><th>kernel</th>"
          "<th>origin</th><th>what would make it faster</th></tr></thead>"
          "<tbody>");
  for (const Json &kernel : listOf(times, "kernels")) {
    out.raw("<tr class=\"row\">")
        .cell(number(numberOf(kernel, "us"), "%.1f"))
        .cell(number(numberOf(kernel, "share_percent"), "%.1f %%"))
        .cell(textOf(kernel, "launches"))
        .cell(number(numberOf(kernel, "roofline_percent"), "%.0f %%"))
        .cell(textOf(kernel, "bound_by"))
        .raw("<td>");
    const Json &indices = listOf(kernel, "indices");
    if (!indices.empty() && indices[0].is_number_unsigned() &&
        indices[0].get<size_t>() < listOf(description, "launches").size())
      out.raw("<a href=\"#launch" + std::to_string(indices[0].get<size_t>()) +
              "\">")
          .text(textOf(kernel, "kernel"))
          .raw("</a>");
    else
      out.text(textOf(kernel, "kernel"));
    out.raw("</td>").cell(textOf(kernel, "origin")).raw("<td>");
    adviceList(out, kernel);
    out.raw("</td></tr>");
  }
  out.raw("</tbody></table>");
}

} // namespace knapper::report
