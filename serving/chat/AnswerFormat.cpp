#include "serving/chat/AnswerFormat.h"

namespace knapper::serving {

using Json = OrderedJson;

namespace {

using enum ToolFormat::Body;
constexpr ToolFormat formats[] = {
#define FORMAT(name, marks, begin, end, body, key, separator, id)              \
  {name, marks, begin, end, body, key, separator, id},
#include "serving/chat/ToolFormats.def"
#undef FORMAT
};

constexpr ReasoningFormat reasonings[] = {{"<think>", "</think>"},
                                          {"[THINK]", "[/THINK]"}};

bool hasAll(std::string_view source, std::string_view marks) {
  while (!marks.empty()) {
    size_t length = std::min(marks.find('|'), marks.size());
    if (source.find(marks.substr(0, length)) == std::string_view::npos)
      return false;
    marks.remove_prefix(std::min(length + 1, marks.size()));
  }
  return true;
}

/// A call of one tool: what begins it and ends it, and what its arguments are.
Json tagOf(const ToolFormat &format, const Json &function, bool bound) {
  std::string name = Json(function["name"]).dump();
  std::string begin(format.begin), end(format.end);
  Json content = {{"type", "json_schema"},
                  {"json_schema",
                   Json{{"type", "object"}, {"additionalProperties", true}}}};
  if (bound && function.contains("parameters"))
    content["json_schema"] = function["parameters"];
  switch (format.body) {
  case parameters:
    begin += "\n<function=" + function["name"].get<std::string>() + ">\n";
    end = "\n</function>\n" + end;
    content["style"] = "qwen_xml";
    break;
  case list:
    begin += "[";
    end = "]" + end;
    [[fallthrough]];
  case json:
    if (format.body == json && !begin.empty())
      begin += "\n", end = "\n" + end;
    begin += "{\"name\": " + name + ", \"" + std::string(format.argumentsKey) +
             "\": ";
    end = "}" + end;
    break;
  }
  return {
      {"type", "tag"}, {"begin", begin}, {"content", content}, {"end", end}};
}

} // namespace

std::span<const ToolFormat> toolFormats() { return formats; }

const ToolFormat *findToolFormat(std::string_view source) {
  for (const ToolFormat &format : formats)
    if (hasAll(source, format.marks))
      return &format;
  return nullptr;
}

const ReasoningFormat *findReasoningFormat(std::string_view source) {
  for (const ReasoningFormat &format : reasonings)
    if (source.find(format.end) != std::string_view::npos)
      return &format;
  return nullptr;
}

ReasoningState reasoningAfter(std::string_view prompt,
                              const ReasoningFormat *format) {
  if (!format)
    return ReasoningState::closed;
  size_t end = prompt.find_last_not_of(" \n");
  prompt = prompt.substr(0, end == std::string_view::npos ? 0 : end + 1);
  return prompt.ends_with(format->begin) ? ReasoningState::open
         : prompt.ends_with(format->end) ? ReasoningState::closed
                                         : ReasoningState::free;
}

Json toolStructure(const ToolFormat &format, const Json &tools, bool forced,
                   bool parallel) {
  Json tags = Json::array();
  for (const Json &tool : tools) {
    const Json &function = tool["function"];
    bool strict = function.value("strict", Json(false)) == true;
    tags.push_back(tagOf(format, function, forced || strict));
  }
  if (forced)
    return {{"type", "tags_with_separator"},
            {"tags", tags},
            {"separator", format.separator},
            {"at_least_one", true},
            // Formats without a separator have one call, or a list in it.
            {"stop_after_first", !parallel || format.separator.empty()}};
  std::string trigger(format.begin.empty() ? "{\"name\": " : format.begin);
  return {{"type", "triggered_tags"},
          {"triggers", Json::array({trigger})},
          {"tags", tags},
          {"at_least_one", false},
          {"stop_after_first", !parallel}};
}

} // namespace knapper::serving
