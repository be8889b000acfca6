#include "serving/http/ToolFields.h"

#include "serving/chat/ModelTexts.h"
#include "serving/grammar/OpenSchema.h"
#include "serving/grammar/SchemaCheck.h"

#include <algorithm>

namespace knapper::serving {

using Json = FieldReader::Json;

namespace {

constexpr size_t mostTools = 128;

bool isName(const std::string &name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return isalnum(c) || c == '_' || c == '-' || c == '.';
         });
}

/// One of `tools`; keeps its schema.
void readTool(FieldReader &fields, const Json &given, const std::string &place,
              ToolSchemas &schemas) {
  auto fail = [&](const FieldReader &reader) {
    if (reader.failure())
      fields.fail(*reader.failure());
    return reader.failure().has_value();
  };
  if (!given.is_object())
    return fields.fail(place, "must be an object");
  FieldReader tool(given, place);
  tool.checkNames({{"type", {}}, {"function", {}}});
  if (tool.text("type").value_or("") != "function")
    tool.fail("type", "must be \"function\"");
  const Json *function = tool.find("function");
  if (!function || !function->is_object())
    tool.fail("function", "must be an object");
  if (fail(tool))
    return;
  FieldReader inner(*function, place + ".function");
  inner.checkNames(
      {{"name", {}}, {"description", {}}, {"parameters", {}}, {"strict", {}}});
  std::string name = inner.text("name").value_or("");
  inner.text("description");
  bool strict = inner.flag("strict", false);
  const Json *parameters = inner.find("parameters");
  if (!isName(name))
    inner.fail("name", "must be 1 to 64 letters, digits, '_', '-' and '.'");
  else if (schemas.contains(name))
    inner.fail("name", "is another tool's too");
  if (parameters && !parameters->is_object())
    inner.fail("parameters", "must be a JSON schema");
  if (parameters && strict)
    if (auto problem = checkSchema(*parameters))
      inner.fail("parameters" + problem->place, problem->message,
                 problem->code);
  if (!fail(inner))
    schemas[name] = parameters ? *parameters : Json::object();
}

/// "none", "auto", "required", or (with `name`) one function's.
std::string readChoice(FieldReader &fields, bool any, std::string &name) {
  const Json *choice = fields.find("tool_choice");
  if (!choice)
    return any ? "auto" : "none";
  if (choice->is_string()) {
    std::string text = choice->get<std::string>();
    if (text == "none" || text == "auto" || text == "required") {
      if (!any && text == "required")
        fields.fail("tool_choice", "needs 'tools'");
      return text;
    }
  } else if (choice->is_object()) {
    FieldReader reader(*choice, "tool_choice");
    reader.checkNames({{"type", {}}, {"function", {}}});
    const Json *function = reader.find("function");
    if (reader.text("type").value_or("") != "function")
      reader.fail("type", "must be \"function\"");
    else if (!function || !function->is_object() ||
             !function->contains("name") || !(*function)["name"].is_string())
      reader.fail("function", "must be {\"name\": ...}");
    if (reader.failure())
      fields.fail(*reader.failure());
    else
      name = (*function)["name"].get<std::string>();
    return "function";
  }
  fields.fail("tool_choice", "must be \"none\", \"auto\", \"required\" or "
                             "{\"type\": \"function\", \"function\": "
                             "{\"name\": ...}}");
  return "none";
}

} // namespace

ToolRequest readTools(FieldReader &fields, const ModelTexts &texts) {
  ToolRequest made;
  made.parallel = fields.flag("parallel_tool_calls", true);
  const Json *tools = fields.find("tools");
  if (tools && (!tools->is_array() || tools->size() > mostTools)) {
    fields.fail("tools", "must be a list of at most 128 tools");
    return made;
  }
  bool any = tools && !tools->empty();
  std::string name;
  std::string choice = readChoice(fields, any, name);
  ToolSchemas schemas;
  for (size_t i = 0; any && i < tools->size() && fields.ok(); ++i)
    readTool(fields, (*tools)[i], "tools[" + std::to_string(i) + "]", schemas);
  if (!fields.ok())
    return made;
  if (choice == "function" && !schemas.contains(name)) {
    fields.fail("tool_choice.function.name", "is none of 'tools'");
    return made;
  }
  if (!any || choice == "none")
    return made;
  const ToolFormat *format = texts.toolFormat();
  if (!format) {
    std::string known;
    for (const ToolFormat &row : toolFormats())
      known += (known.empty() ? "" : ", ") + std::string(row.name);
    fields.fail("tools",
                "is not supported: the model's chat template has no form of "
                "calls that is known (" +
                    known + ")",
                "unsupported_field");
    return made;
  }
  made.rendered = *tools;
  Json callable = Json::array();
  bool strict = false;
  for (const Json &tool : *tools) {
    if (choice == "function" && tool["function"]["name"] != name)
      continue;
    callable.push_back(tool);
    strict |= tool["function"].value("strict", Json(false)) == true;
  }
  made.forced = choice == "required" || choice == "function";
  if (choice == "function")
    made.parallel = false;
  if (made.forced || strict) {
    // What cannot be enforced for a tool that is not strict is left to it.
    for (Json &tool : callable) {
      Json &function = tool["function"];
      if (function.value("strict", Json(false)) != true)
        if (!function.contains("parameters") ||
            checkSchema(function["parameters"]))
          function.erase("parameters");
    }
    made.structure =
        toolStructure(*format, callable, made.forced, made.parallel);
    made.place = made.forced ? "tool_choice" : "tools";
  }
  made.schemas = std::make_shared<ToolSchemas>(std::move(schemas));
  return made;
}

/// A grammar as a part of a structure.
static Json partOf(const GrammarSpec &grammar) {
  switch (grammar.kind) {
  case GrammarKind::schema: {
    // As a part it is read as closed.
    Json schema = Json::parse(grammar.text);
    if (!grammar.closed)
      schema = openSchema(std::move(schema));
    return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
  }
  case GrammarKind::regex:
    return {{"type", "regex"}, {"pattern", grammar.text}};
  case GrammarKind::ebnf:
    return {{"type", "grammar"}, {"grammar", grammar.text}};
  case GrammarKind::structure:
    break;
  }
  return Json::parse(grammar.text)["format"];
}

void constrainAnswer(FieldReader &fields, const ToolRequest &tools,
                     const ReasoningFormat *reasoning, ReasoningState state,
                     std::optional<GrammarSpec> &grammar) {
  if (grammar && !tools.structure.is_null()) {
    fields.fail(grammar->place, "and '" + tools.place +
                                    "' both say what the answer looks like");
    return;
  }
  bool mayReason = reasoning && state != ReasoningState::closed;
  if (tools.structure.is_null() && !(grammar && mayReason))
    return;
  Json part = grammar ? partOf(*grammar) : tools.structure;
  if (mayReason) {
    bool open = state == ReasoningState::open;
    Json thought = {{"type", "tag"},
                    {"begin", open ? "" : reasoning->begin},
                    {"content", Json{{"type", "any_text"}}},
                    {"end", std::string(reasoning->end) + "\n\n"}};
    if (!open)
      thought = {{"type", "optional"}, {"content", thought}};
    part = {{"type", "sequence"}, {"elements", Json::array({thought, part})}};
  }
  std::string place = grammar ? grammar->place : tools.place;
  grammar = GrammarSpec{
      GrammarKind::structure,
      Json{{"type", "structural_tag"}, {"format", part}}.dump(), false, place};
}

} // namespace knapper::serving
