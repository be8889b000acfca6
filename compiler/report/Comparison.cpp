#include "compiler/report/Comparison.h"
#include "compiler/report/Sections.h"
#include "compiler/report/Times.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace knapper::report {
namespace {

/// A kernel of either module.
struct ComparedKernel {
  const Json *kernel;
  std::string signature;
  std::string origins;         ///< of all its launches, in order
  std::set<std::string> nodes; ///< the same, one by one
};

std::vector<ComparedKernel> entriesOf(const Json &description) {
  const Json &times = memberOf(description, "profile");
  std::map<double, std::string> origins;
  for (const Json &launch : listOf(times, "launches"))
    origins[numberOf(launch, "index")] = textOf(launch, "origin");
  std::vector<ComparedKernel> entries;
  for (const Json &kernel : listOf(times, "kernels")) {
    std::string name = textOf(kernel, "kernel");
    ComparedKernel entry = {
        &kernel, textOf(kernelOf(description, name), "signature"), "", {}};
    if (entry.signature.empty())
      entry.signature = name;
    for (const Json &index : listOf(kernel, "indices")) {
      std::string origin =
          origins[index.is_number() ? index.get<double>() : -1];
      entry.origins += origin + "\n";
      for (size_t begin = 0; begin < origin.size();) {
        size_t end = std::min(origin.find(", ", begin), origin.size());
        if (std::string node = origin.substr(begin, end - begin); node != "...")
          entry.nodes.insert(node);
        begin = end + 2;
      }
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Sets of entries that are one row; those of the second follow the first's.
class ComparedRows {
public:
  explicit ComparedRows(size_t count) : parents(count) {
    std::iota(parents.begin(), parents.end(), size_t(0));
  }
  size_t of(size_t i) const {
    while (parents[i] != i)
      i = parents[i];
    return i;
  }
  void join(size_t a, size_t b) {
    a = of(a), b = of(b);
    parents[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<size_t> parents;
};

bool shareNode(const ComparedKernel &a, const ComparedKernel &b) {
  return std::any_of(a.nodes.begin(), a.nodes.end(),
                     [&](auto &node) { return b.nodes.count(node) != 0; });
}

ComparedRows matched(const std::vector<ComparedKernel> &first,
                     const std::vector<ComparedKernel> &second) {
  ComparedRows rows(first.size() + second.size());
  std::vector<bool> paired(first.size() + second.size());
  auto pass = [&](auto same, bool several) {
    std::vector<bool> now = paired;
    for (size_t i = 0; i < first.size(); ++i)
      for (size_t k = 0; k < second.size(); ++k) {
        const std::vector<bool> &taken = several ? paired : now;
        if (taken[i] || taken[first.size() + k] || !same(first[i], second[k]))
          continue;
        rows.join(i, first.size() + k);
        now[i] = now[first.size() + k] = true;
      }
    paired = now;
  };
  // A signature may have several kernels, of other variants.
  pass([](auto &a, auto &b) { return a.signature == b.signature; }, true);
  pass([](auto &a, auto &b) { return a.origins == b.origins; }, false);
  pass(shareNode, true);
  return rows;
}

void addTo(Json &row, const char *side, const Json &kernel) {
  Json &part = row[side];
  part["kernels"].push_back(textOf(kernel, "kernel"));
  part["launches"] = numberOf(part, "launches") + numberOf(kernel, "launches");
  part["us"] = numberOf(part, "us") + numberOf(kernel, "us");
}

std::string number(const char *pattern, double value) {
  char text[48];
  snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string kernelNames(const Json &side) {
  std::string text;
  for (const Json &name : listOf(side, "kernels"))
    text += (text.empty() ? "" : "\n") +
            (name.is_string() ? name.get<std::string>() : "");
  return text;
}

} // namespace

Json comparisonOf(const Json &first, const Json &second) {
  std::vector<ComparedKernel> a = entriesOf(first), b = entriesOf(second);
  ComparedRows rows = matched(a, b);
  std::map<size_t, Json> byRow;
  const Json none = {{"kernels", Json::array()}, {"launches", 0}, {"us", 0.0}};
  for (size_t i = 0; i < a.size() + b.size(); ++i) {
    const Json &kernel = *(i < a.size() ? a[i] : b[i - a.size()]).kernel;
    auto [row, added] =
        byRow.emplace(rows.of(i), Json{{"origin", textOf(kernel, "origin")},
                                       {"first", none},
                                       {"second", none}});
    addTo(row->second, i < a.size() ? "first" : "second", kernel);
  }
  std::vector<Json> list;
  for (auto &[row, entry] : byRow) {
    double one = numberOf(entry["first"], "us"),
           other = numberOf(entry["second"], "us");
    entry["difference_us"] = other - one;
    bool both = !entry["first"]["kernels"].empty() &&
                !entry["second"]["kernels"].empty();
    entry["ratio"] = both && one > 0 ? Json(other / one) : Json();
    list.push_back(std::move(entry));
  }
  std::sort(list.begin(), list.end(), [](const Json &x, const Json &y) {
    return std::fabs(numberOf(x, "difference_us")) >
           std::fabs(numberOf(y, "difference_us"));
  });
  double one = numberOf(memberOf(first, "profile"), "total_us"),
         other = numberOf(memberOf(second, "profile"), "total_us");
  return {{"first", textOf(first, "file")},
          {"second", textOf(second, "file")},
          {"total_us", {one, other}},
          {"ratio", one > 0 ? Json(other / one) : Json()},
          {"kernels", std::move(list)}};
}

void comparisonSection(Writer &out, const Json &description) {
  const Json &comparison = memberOf(description, "comparison");
  if (!comparison.is_object())
    return;
  const Json &totals = listOf(comparison, "total_us");
  out.raw("<h2 id=\"comparison\">Comparison</h2><p>")
      .text("First: " + textOf(comparison, "first") +
            "; second: " + textOf(comparison, "second") +
            ". Both ran interleaved on the same inputs; times are medians.")
      .raw("</p><table class=\"rows comparison\"><thead><tr><th>first, us</th>"
           "<th>second, us</th><th>second / first</th><th>difference, us</th>"
           "<th>origin</th><th>first's kernels</th><th>second's kernels</th>"
           "</tr></thead><tbody>");
  for (const Json &row : listOf(comparison, "kernels")) {
    const Json &first = memberOf(row, "first"),
               &second = memberOf(row, "second");
    out.raw("<tr class=\"row\">")
        .cell(number("%.1f", numberOf(first, "us")))
        .cell(number("%.1f", numberOf(second, "us")))
        .cell(memberOf(row, "ratio").is_number()
                  ? number("%.2f", numberOf(row, "ratio"))
                  : "")
        .cell(number("%+.1f", numberOf(row, "difference_us")))
        .cell(textOf(row, "origin"))
        .cell(kernelNames(first))
        .cell(kernelNames(second))
        .raw("</tr>");
  }
  auto total = [&](size_t i) {
    return i < totals.size() && totals[i].is_number() ? totals[i].get<double>()
                                                      : 0;
  };
  out.raw("</tbody><tfoot><tr>")
      .cell(number("%.1f", total(0)))
      .cell(number("%.1f", total(1)))
      .cell(number("%.2f", numberOf(comparison, "ratio")))
      .cell(number("%+.1f", total(1) - total(0)))
      .cell("whole runs, with what is outside kernels")
      .raw("<td></td><td></td></tr></tfoot></table>");
}

} // namespace knapper::report
