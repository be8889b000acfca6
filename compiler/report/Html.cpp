#include "compiler/report/Html.h"
#include "compiler/report/Sections.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

namespace knapper {
namespace report {
namespace {

/// The figures that people look for first.
void headline(Writer &out, const Json &json) {
  const Json &compile = memberOf(memberOf(json, "report"), "compile");
  const Json &memory = memberOf(json, "memory");
  const Json &example = memberOf(memory, "example");
  double seconds = 0;
  for (const Json &phase : listOf(compile, "phases"))
    seconds += numberOf(phase, "seconds");
  char time[32];
  snprintf(time, sizeof time, "%.2f s", seconds);
  std::string name = textOf(json, "created_from");
  out.raw("<h1>")
      .text(name.empty() ? "Knapper report" : name)
      .raw("</h1><div class=\"cards\">");
  auto card = [&](const std::string &figure, const char *what) {
    out.raw("<div><b>").text(figure).raw("</b>").text(what).raw("</div>");
  };
  card(std::to_string(listOf(json, "launches").size()), "launches");
  card(textOf(compile, "kernels"), "different kernels");
  card(bytesText(numberOf(memory, "constant_bytes")), "constants");
  if (example.is_object())
    card(bytesText(numberOf(example, "arena_bytes")), "arena, for an example");
  card(time, "to compile");
  out.raw("</div>");
}

void summary(Writer &out, const Json &json) {
  out.raw("<h2 id=\"model\">Model</h2><table class=\"facts\">");
  auto fact = [&](const char *name, const std::string &value) {
    out.raw("<tr><th>")
        .text(name)
        .raw("</th><td>")
        .text(value)
        .raw("</td></tr>");
  };
  fact("file", textOf(json, "file"));
  fact("made from", textOf(json, "created_from"));
  fact("by", textOf(json, "producer"));
  fact("runs on", textOf(json, "device") + " " + textOf(json, "isa"));
  fact("size", bytesText(numberOf(json, "file_bytes")));
  for (const char *key : {"inputs", "outputs"})
    for (const Json &tensor : listOf(json, key)) {
      std::string dims;
      for (const Json &dim : listOf(tensor, "shape"))
        dims += (dims.empty() ? "" : ", ") +
                (dim.is_string() ? dim.get<std::string>() : dim.dump());
      fact(key == std::string_view("inputs") ? "input" : "output",
           textOf(tensor, "name") + ": " + textOf(tensor, "dtype") + " [" +
               dims + "]");
    }
  for (const Json &pair : listOf(json, "in_place")) {
    std::string inputs;
    for (const Json &input : listOf(pair, "inputs"))
      inputs += (inputs.empty() ? "" : ", ") +
                (input.is_string() ? input.get<std::string>() : input.dump());
    fact("in place", textOf(pair, "output") + " over " + inputs);
  }
  for (const Json &symbol : listOf(json, "symbols")) {
    std::string range =
        textOf(symbol, "name") + " from " + textOf(symbol, "min");
    if (symbol.contains("max"))
      range += " to " + textOf(symbol, "max");
    if (numberOf(symbol, "divisor") > 1)
      range += ", a multiple of " + textOf(symbol, "divisor");
    fact("size", range);
  }
  for (const Json &target : listOf(json, "targets"))
    fact("code", textOf(target, "device") + " " + textOf(target, "isa") + ", " +
                     bytesText(numberOf(target, "code_bytes")));
  out.raw("</table>");
}

/// Why the launch's results go through memory, by the index of the producer.
std::map<size_t, std::string> boundaryTexts(const Json &fusion,
                                            size_t launches) {
  std::map<size_t, std::string> texts;
  if (listOf(fusion, "kernels").size() != launches)
    return texts; // other phases added or dropped launches
  // Consumers with one reason in one line.
  std::map<size_t, std::vector<std::pair<std::string, std::string>>> grouped;
  for (const Json &boundary : listOf(fusion, "boundaries")) {
    auto &reasons = grouped[size_t(numberOf(boundary, "producer"))];
    std::string reason = textOf(boundary, "reason"),
                consumer = textOf(boundary, "consumer");
    auto known = std::find_if(reasons.begin(), reasons.end(),
                              [&](auto &r) { return r.first == reason; });
    if (known == reasons.end())
      reasons.emplace_back(std::move(reason), std::move(consumer));
    else
      known->second += ", " + consumer;
  }
  for (auto &[producer, reasons] : grouped)
    for (auto &[reason, consumers] : reasons)
      texts[producer] += (texts[producer].empty() ? "" : "\n") +
                         ("with " + consumers) + ": " + reason;
  return texts;
}

void launches(Writer &out, const Json &json) {
  const Json &list = listOf(json, "launches");
  const Json &report = memberOf(json, "report");
  const Json &fusion = memberOf(report, "fusion");
  const Json &fused = listOf(fusion, "kernels");
  bool sameOrder = fused.size() == list.size();
  std::map<std::string, std::string> heroes;
  for (const Json &kernel : listOf(report, "unique_kernels"))
    heroes[textOf(kernel, "signature")] = textOf(kernel, "hero");
  auto boundaries = boundaryTexts(fusion, list.size());
  out.raw("<h2 id=\"launches\">Launches</h2><p>")
      .text(std::to_string(list.size()) +
            " launches, in order. A launch is one kernel over a grid of "
            "programs; the first schedule whose guard holds is taken.")
      .raw("</p><table class=\"rows launches\"><colgroup>"
           "<col style=\"width:2.5em\"><col style=\"width:23%\">"
           "<col style=\"width:5.5em\"><col style=\"width:13%\">"
           "<col style=\"width:13%\"><col style=\"width:13%\">"
           "<col style=\"width:8%\"><col style=\"width:9%\"><col>"
           "</colgroup><thead><tr><th>#</th><th>origin</th>"
           "<th>hero</th><th>operations</th><th>schedule</th><th>kernel</th>"
           "<th>flops</th><th>bytes</th><th>why its results are not fused "
           "further</th></tr></thead><tbody>");
  for (size_t i = 0; i < list.size(); ++i) {
    const Json &launch = list[i];
    std::string schedule, kernels, hero, ops;
    for (const Json &choice : listOf(launch, "choices")) {
      std::string name = textOf(choice, "kernel");
      schedule += (schedule.empty() ? "" : "\n") + textOf(choice, "schedule");
      if (std::string guard = textOf(choice, "guard"); guard != "1")
        schedule += " if " + guard;
      kernels += (kernels.empty() ? "" : "\n") + name;
      for (const auto &[signature, kind] : heroes)
        if (!signature.empty() && name.find(signature) != std::string::npos)
          hero = kind;
    }
    if (sameOrder)
      for (const Json &op : listOf(fused[i], "ops"))
        ops += (ops.empty() ? "" : " ") +
               (op.is_string() ? op.get<std::string>() : op.dump());
    out.raw("<tr class=\"row\">");
    out.cell(std::to_string(i)).cell(textOf(launch, "origin")).cell(hero);
    out.cell(ops).cell(schedule).cell(kernels).cell(textOf(launch, "flops"));
    out.cell(textOf(launch, "bytes")).cell(boundaries[i]).raw("</tr>");
  }
  out.raw("</tbody></table>");
}

std::string nameOfKernel(const Json &kernels, double index) {
  if (index < 0 || index >= double(kernels.size()))
    return "?";
  const Json &kernel = kernels[size_t(index)];
  std::string text =
      std::to_string(size_t(index)) + " " + textOf(kernel, "hero");
  const Json &origins = listOf(kernel, "origins");
  if (!origins.empty() && origins[0].is_string())
    text += " " + origins[0].get<std::string>() +
            (origins.size() > 1 ? " ..." : "");
  return text;
}

void boundaries(Writer &out, const Json &json) {
  const Json &fusion = memberOf(memberOf(json, "report"), "fusion");
  const Json &kernels = listOf(fusion, "kernels");
  const Json &list = listOf(fusion, "boundaries");
  out.raw("<h2 id=\"boundaries\">Boundaries</h2><p>")
      .text("Tensors that one kernel writes and another reads, and why the two "
            "are not one. Time saved is modelled, had they been one; negative "
            "is lost.")
      .raw("</p><table class=\"rows\"><thead><tr><th>producer</th>"
           "<th>consumer</th><th>reason</th><th>saved, us</th></tr></thead>"
           "<tbody>");
  for (const Json &boundary : list) {
    char saved[32];
    snprintf(saved, sizeof saved, "%.2f",
             1e6 * numberOf(boundary, "secondsSaved"));
    out.raw("<tr class=\"row\">")
        .cell(nameOfKernel(kernels, numberOf(boundary, "producer")))
        .cell(nameOfKernel(kernels, numberOf(boundary, "consumer")))
        .cell(textOf(boundary, "reason"))
        .cell(saved)
        .raw("</tr>");
  }
  out.raw("</tbody></table>");
}

/// Live ranges from left to right, places in the arena from top to bottom.
void memory(Writer &out, const Json &json) {
  const Json &memory = memberOf(json, "memory");
  const Json &example = memberOf(memory, "example");
  out.raw("<h2 id=\"memory\">Memory</h2><p>")
      .text("Constants: " + bytesText(numberOf(memory, "constant_bytes")));
  if (!example.is_object()) {
    out.text(". The arena's size is known when the sizes are.").raw("</p>");
    return;
  }
  std::string sizes;
  for (auto &[name, value] : memberOf(example, "symbols").items())
    sizes += (sizes.empty() ? " for " : ", ") + name + " = " + value.dump();
  double arena = numberOf(example, "arena_bytes");
  out.text("; arena" + sizes + ": " + bytesText(arena) +
           ", the most alive at once " +
           bytesText(numberOf(example, "live_bytes")))
      .raw("</p>");
  double last = 1;
  for (const Json &buffer : listOf(example, "buffers"))
    last = std::max(last, numberOf(buffer, "last") + 1);
  if (arena <= 0)
    return;
  out.raw("<svg id=\"timeline\" viewBox=\"0 0 1000 260\" role=\"img\">");
  for (const Json &buffer : listOf(example, "buffers")) {
    double first = numberOf(buffer, "first"),
           width = numberOf(buffer, "last") + 1 - first;
    char box[160];
    snprintf(box, sizeof box,
             "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">",
             1000 * first / last, 260 * numberOf(buffer, "offset") / arena,
             std::max(0.5, 1000 * width / last),
             std::max(0.5, 260 * numberOf(buffer, "bytes") / arena));
    out.raw(box)
        .raw("<title>")
        .text(textOf(buffer, "name") + ": " +
              bytesText(numberOf(buffer, "bytes")) + ", instructions " +
              textOf(buffer, "first") + " to " + textOf(buffer, "last"))
        .raw("</title></rect>");
  }
  out.raw("</svg><p>")
      .text("Left to right: instructions; top to bottom: the arena. Each box "
            "is a buffer; hold the pointer over it for its name.")
      .raw("</p>");
}

void phases(Writer &out, const Json &json) {
  const Json &compile = memberOf(memberOf(json, "report"), "compile");
  double total = 0;
  for (const Json &phase : listOf(compile, "phases"))
    total += numberOf(phase, "seconds");
  out.raw("<h2 id=\"phases\">Compilation</h2><table class=\"facts\">");
  for (const Json &phase : listOf(compile, "phases")) {
    double seconds = numberOf(phase, "seconds");
    char time[32], bar[64];
    snprintf(time, sizeof time, "%.3f s", seconds);
    snprintf(bar, sizeof bar, "<div class=\"bar\" style=\"width:%.1fem\">",
             total > 0 ? 20 * seconds / total : 0);
    out.raw("<tr><th>").text(textOf(phase, "name")).raw("</th><td>");
    out.text(time).raw("</td><td>").raw(bar).raw("</div></td></tr>");
    if (listOf(phase, "passes").size() < 2)
      continue;
    std::string passes;
    for (const Json &pass : listOf(phase, "passes")) {
      snprintf(time, sizeof time, "%.1f ms", numberOf(pass, "seconds") * 1e3);
      passes +=
          (passes.empty() ? "" : ", ") + textOf(pass, "name") + " " + time;
    }
    out.raw("<tr><th></th><td colspan=\"2\">").text(passes).raw("</td></tr>");
  }
  out.raw("</table><p>")
      .text(textOf(compile, "kernels") + " different kernels, " +
            textOf(compile, "variants") +
            " variants (kernels x instruction sets x guards)")
      .raw("</p>");
}

/// What the schedules could choose: "panel 64 by a record, the model takes 48;
/// also 32, 16".
void choices(Writer &out, const Json &kernel) {
  const Json &knobs = listOf(kernel, "knobs");
  if (knobs.empty())
    return;
  out.raw("<table class=\"facts\">");
  if (double gain = numberOf(kernel, "gain"); gain > 0) {
    char text[80];
    snprintf(text, sizeof text,
             "%.2f times as fast as the model's choice, when it was measured",
             gain);
    out.raw("<tr><th>tuning record</th><td>").text(text).raw("</td></tr>");
  }
  for (const Json &user : listOf(kernel, "user_kernels"))
    out.raw("<tr><th>")
        .text("user kernel " + textOf(user, "name"))
        .raw("</th><td>")
        .text((memberOf(user, "taken") == Json(true) ? "taken: "
                                                     : "not taken: ") +
              textOf(user, "why"))
        .raw("</td></tr>");
  for (const Json &vendor : listOf(kernel, "vendor_libraries"))
    out.raw("<tr><th>")
        .text(textOf(vendor, "name"))
        .raw("</th><td>")
        .text((memberOf(vendor, "taken") == Json(true) ? "taken: "
                                                       : "not taken: ") +
              textOf(vendor, "why"))
        .raw("</td></tr>");
  for (const Json &knob : knobs) {
    std::string text = textOf(knob, "value");
    if (memberOf(knob, "value") != memberOf(knob, "model"))
      text += " by a tuning record, the model takes " + textOf(knob, "model");
    std::string others;
    for (const Json &other : listOf(knob, "others"))
      if (other != memberOf(knob, "value"))
        others += (others.empty() ? "; also " : ", ") +
                  other.dump(-1, ' ', false, Json::error_handler_t::replace);
    out.raw("<tr><th>").text(textOf(knob, "name")).raw("</th><td>");
    out.text(text + others).raw("</td></tr>");
  }
  out.raw("</table>");
}

void kernelTexts(Writer &out, const Json &json) {
  out.raw("<h2 id=\"kernels\">Kernels</h2>");
  for (const Json &kernel :
       listOf(memberOf(json, "report"), "unique_kernels")) {
    out.raw("<details class=\"row\"><summary>")
        .text(textOf(kernel, "hero") + " " + textOf(kernel, "signature"));
    for (const Json &schedule : listOf(kernel, "schedules"))
      out.text("; " + textOf(schedule, "label") + " when " +
               textOf(schedule, "guard") + ", grid " +
               textOf(schedule, "grid"));
    out.raw("</summary>");
    choices(out, kernel);
    out.raw("<pre>").text(textOf(kernel, "text")).raw("</pre></details>");
  }
}

} // namespace
} // namespace report

std::string reportHtml(std::string_view descriptionJson) {
  auto json = report::Json::parse(descriptionJson, nullptr,
                                  /*allow_exceptions=*/false);
  report::Writer out;
  out.raw(report::kPageHead);
  if (!json.is_object()) {
    out.raw("<p>")
        .text("The module's description is not readable.")
        .raw("</p>");
  } else {
    report::headline(out, json);
    out.raw("<div class=\"pair\"><section>");
    report::summary(out, json);
    out.raw("</section><section>");
    report::phases(out, json);
    out.raw("</section></div>");
    report::timesSection(out, json);
    report::comparisonSection(out, json);
    report::graphSection(out, json);
    report::memory(out, json);
    report::launches(out, json);
    report::boundaries(out, json);
    report::kernelTexts(out, json);
  }
  out.raw(report::kPageTail);
  return out.take();
}

} // namespace knapper
