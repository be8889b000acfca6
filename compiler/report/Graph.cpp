#include "compiler/report/Sections.h"
#include "compiler/report/Times.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace knapper::report {
namespace {

/// A launch, where it is drawn and what it is next to.
struct GraphNode {
  size_t row = 0, column = 0;
  std::vector<size_t> reads, writes;                    ///< buffers
  std::vector<std::pair<size_t, size_t>> before, after; ///< launch, buffer
  double us = -1, roofline = 0;
  std::string bound, hero;
};

struct Graph {
  std::vector<GraphNode> nodes;
  size_t rows = 0, columns = 0;
};

/// How many arguments the function in the kernel's text has; -1: there is none.
int argumentsOf(const Json &kernel) {
  std::string text = textOf(kernel, "text");
  size_t begin = text.find("func.func");
  if (begin == std::string::npos)
    return -1;
  size_t end = text.find('\n', begin);
  int count = 0;
  for (size_t at = begin; (at = text.find("%arg", at)) < end; at += 4)
    ++count;
  return count;
}

/// Arguments are what the kernel's function takes, then what it returns. Where
/// the function is not known, the first launch with a buffer of the module's
/// writes it.
void addBuffers(const Json &description, Graph &graph) {
  const Json &launches = listOf(description, "launches");
  const Json &buffers = listOf(memberOf(description, "memory"), "buffers");
  std::set<size_t> seen;
  for (size_t i = 0; i < launches.size(); ++i) {
    GraphNode &node = graph.nodes[i];
    const Json &choices = listOf(launches[i], "choices");
    const Json &kernel = kernelOf(
        description, choices.empty() ? "" : textOf(choices[0], "kernel"));
    node.hero = textOf(kernel, "hero");
    int taken = argumentsOf(kernel);
    const Json &args = listOf(launches[i], "args");
    for (size_t k = 0; k < args.size(); ++k) {
      if (!args[k].is_number_unsigned() ||
          args[k].get<size_t>() >= buffers.size())
        continue;
      auto buffer = args[k].get<size_t>();
      std::string kind = textOf(buffers[buffer], "kind");
      bool written = taken >= 0 ? k >= size_t(taken)
                                : (kind == "temp" || kind == "output") &&
                                      !seen.count(buffer);
      (written ? node.writes : node.reads).push_back(buffer);
      seen.insert(buffer);
    }
  }
}

/// Edges from the last launch that wrote a buffer; rows by the longest way from
/// the inputs.
Graph graphOf(const Json &description) {
  Graph graph;
  const Json &launches = listOf(description, "launches");
  graph.nodes.resize(launches.size());
  addBuffers(description, graph);
  std::map<size_t, size_t> writer;
  std::vector<size_t> width;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    GraphNode &node = graph.nodes[i];
    for (size_t buffer : node.reads)
      if (auto found = writer.find(buffer); found != writer.end()) {
        node.before.emplace_back(found->second, buffer);
        GraphNode &producer = graph.nodes[found->second];
        producer.after.emplace_back(i, buffer);
        node.row = std::max(node.row, producer.row + 1);
      }
    for (size_t buffer : node.writes)
      writer[buffer] = i;
    if (width.size() <= node.row)
      width.resize(node.row + 1);
    node.column = width[node.row]++;
    graph.columns = std::max(graph.columns, width[node.row]);
  }
  graph.rows = width.size();
  for (const Json &launch :
       listOf(memberOf(description, "profile"), "launches"))
    if (auto i = size_t(numberOf(launch, "index")); i < graph.nodes.size()) {
      graph.nodes[i].us = numberOf(launch, "us");
      graph.nodes[i].roofline = numberOf(launch, "roofline_percent");
      graph.nodes[i].bound = textOf(launch, "bound_by");
    }
  return graph;
}

std::string bufferName(const Json &description, size_t index) {
  const Json &buffer =
      listOf(memberOf(description, "memory"), "buffers")[index];
  std::string kind = textOf(buffer, "kind"), name = textOf(buffer, "name");
  if (kind == "input" || kind == "output") {
    const Json &list =
        listOf(description, kind == "input" ? "inputs" : "outputs");
    auto place = size_t(numberOf(buffer, "index"));
    return kind + " " +
           (place < list.size() ? textOf(list[place], "name") : "");
  }
  return (kind == "temp" ? "" : kind + " ") +
         (name.empty() ? "tensor " + std::to_string(index) : name);
}

std::string shortName(const Json &launch) {
  constexpr size_t most = 22;
  std::string origin = textOf(launch, "origin");
  origin = origin.substr(0, origin.find(", "));
  if (origin.size() <= most)
    return origin;
  size_t begin = origin.size() - most;
  while (begin < origin.size() && (origin[begin] & 0xc0) == 0x80)
    ++begin; // not inside a character
  return "..." + origin.substr(begin);
}

constexpr int kWide = 210, kHigh = 64, kBox = 190, kBoxHigh = 40;

void draw(Writer &out, const Json &description, const Graph &graph) {
  const Json &launches = listOf(description, "launches");
  double most = 0;
  for (const GraphNode &node : graph.nodes)
    most = std::max(most, node.us);
  char text[400];
  snprintf(text, sizeof text,
           "<div id=\"canvas\"><svg style=\"width:%zupx;height:%zupx\" "
           "role=\"img\">",
           graph.columns * kWide + 20, graph.rows * kHigh + 20);
  out.raw(text);
  auto x = [](const GraphNode &node) { return 10 + node.column * kWide; };
  auto y = [](const GraphNode &node) { return 10 + node.row * kHigh; };
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (auto [next, buffer] : graph.nodes[i].after) {
      const GraphNode &a = graph.nodes[i], &b = graph.nodes[next];
      size_t x1 = x(a) + kBox / 2, y1 = y(a) + kBoxHigh, x2 = x(b) + kBox / 2,
             y2 = y(b);
      snprintf(text, sizeof text,
               "<path class=\"edge\" data-from=\"%zu\" data-to=\"%zu\" "
               "d=\"M%zu %zuC%zu %zu %zu %zu %zu %zu\"><title>",
               i, next, x1, y1, x1, y1 + 20, x2, y2 - 20, x2, y2);
      out.raw(text)
          .text(bufferName(description, buffer))
          .raw("</title></path>");
    }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &node = graph.nodes[i];
    // The longer, the warmer.
    double heat = most > 0 && node.us > 0 ? node.us / most : 0;
    snprintf(text, sizeof text,
             "<g class=\"node\" data-launch=\"%zu\" tabindex=\"0\" "
             "transform=\"translate(%zu %zu)\"><rect width=\"%d\" "
             "height=\"%d\" rx=\"5\" style=\"fill:hsl(%.0f 70%% %.0f%%)\">"
             "</rect><text x=\"8\" y=\"16\">",
             i, x(node), y(node), kBox, kBoxHigh, 210 - 190 * heat,
             92 - 22 * heat);
    out.raw(text).text(shortName(launches[i]));
    out.raw("</text><text class=\"small\" x=\"8\" y=\"32\">");
    std::string second = std::to_string(i) + " " + node.hero;
    if (node.us >= 0) {
      snprintf(text, sizeof text, ", %.1f us", node.us);
      second += text;
    }
    out.text(second).raw("</text></g>");
  }
  out.raw("</svg></div>");
}

void neighbours(Writer &out, const Json &description, const char *title,
                const std::vector<std::pair<size_t, size_t>> &list) {
  const Json &launches = listOf(description, "launches");
  if (list.empty())
    return;
  out.raw("<tr><th>").text(title).raw("</th><td>");
  for (auto [launch, buffer] : list) {
    std::string number = std::to_string(launch);
    out.raw("<div><a href=\"#launch" + number + "\" data-go=\"" + number +
            "\">")
        .text(number + " " + shortName(launches[launch]))
        .raw("</a> ")
        .text("(" + bufferName(description, buffer) + ")")
        .raw("</div>");
  }
  out.raw("</td></tr>");
}

std::string joined(const Json &list) {
  std::string text;
  for (const Json &item : list)
    text += (text.empty() ? "" : ", ") +
            (item.is_string() ? item.get<std::string>() : item.dump());
  return text;
}

/// Everything of one launch: shown when it is chosen.
void details(Writer &out, const Json &description, const GraphNode &node,
             size_t i) {
  const Json &launch = listOf(description, "launches")[i];
  const Json &fused =
      listOf(memberOf(memberOf(description, "report"), "fusion"), "kernels");
  bool known = fused.size() == listOf(description, "launches").size();
  auto fact = [&](const char *name, const std::string &value) {
    if (!value.empty())
      out.raw("<tr><th>")
          .text(name)
          .raw("</th><td>")
          .text(value)
          .raw("</td></tr>");
  };
  out.raw("<div class=\"detail\" id=\"launch" + std::to_string(i) + "\"><b>")
      .text(std::to_string(i) + " " + node.hero)
      .raw("</b><table class=\"facts\">");
  if (node.us >= 0) {
    char text[96];
    snprintf(text, sizeof text, "%.1f us, %.0f %% of the roofline%s%s%s",
             node.us, node.roofline, node.bound.empty() ? "" : " (",
             node.bound.c_str(), node.bound.empty() ? "" : ")");
    fact("time", text);
  }
  fact("nodes of the model",
       known ? joined(listOf(fused[i], "origins")) : textOf(launch, "origin"));
  if (known)
    fact("operations", joined(listOf(fused[i], "ops")));
  for (const Json &choice : listOf(launch, "choices")) {
    fact("kernel", textOf(choice, "kernel"));
    fact("schedule", textOf(choice, "schedule"));
  }
  fact("flops", textOf(launch, "flops"));
  fact("bytes", textOf(launch, "bytes"));
  auto names = [&](const std::vector<size_t> &buffers) {
    std::string text;
    for (size_t buffer : buffers)
      text += (text.empty() ? "" : ", ") + bufferName(description, buffer);
    return text;
  };
  fact("reads", names(node.reads));
  fact("writes", names(node.writes));
  neighbours(out, description, "before", node.before);
  neighbours(out, description, "after", node.after);
  out.raw("</table></div>");
}

} // namespace

void graphSection(Writer &out, const Json &description) {
  Graph graph = graphOf(description);
  out.raw("<h2 id=\"graph\">Graph</h2><p>")
      .text("Boxes are launches of kernels, lines are tensors. Choose a box to "
            "see what it computes; up, down, left and right go to its "
            "neighbours.")
      .raw("</p><div id=\"walk\">");
  draw(out, description, graph);
  out.raw("<div id=\"details\">");
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    details(out, description, graph.nodes[i], i);
  out.raw("</div></div>");
}

} // namespace knapper::report
