#include "serving/http/StructuredOutput.h"

#include "serving/chat/ModelTexts.h"
#include "serving/grammar/SchemaCheck.h"

#include <algorithm>

namespace knapper::serving {

using Json = FieldReader::Json;

namespace {

constexpr size_t mostChoices = 1024;
const size_t longestSpec = GrammarLimits().specBytes;

std::optional<GrammarSpec> textGrammar(FieldReader &fields,
                                       std::string_view name,
                                       const std::string &at, const Json &json,
                                       GrammarKind kind) {
  std::string place = std::string(name) + at;
  if (!json.is_string() || json.get_ref<const std::string &>().empty() ||
      json.get_ref<const std::string &>().size() > longestSpec) {
    fields.fail(place, "must be a text of 1 byte to 1 MiB");
    return std::nullopt;
  }
  return GrammarSpec{kind, json.get<std::string>(), false,
                     fields.placeOf(place)};
}

std::optional<GrammarSpec> choicesGrammar(FieldReader &fields,
                                          std::string_view name,
                                          const std::string &at,
                                          const Json &json) {
  std::string place = std::string(name) + at;
  std::vector<std::string> choices;
  if (json.is_array())
    for (const Json &item : json)
      if (item.is_string() && !item.get_ref<const std::string &>().empty())
        choices.push_back(item.get<std::string>());
  if (!json.is_array() || choices.empty() || choices.size() != json.size() ||
      choices.size() > mostChoices) {
    fields.fail(place, "must be a list of 1 to 1024 texts that are not empty");
    return std::nullopt;
  }
  return GrammarSpec{GrammarKind::ebnf, choiceGrammar(choices), false,
                     fields.placeOf(place)};
}

/// Any JSON object.
GrammarSpec objectGrammar(std::string place) {
  return {GrammarKind::schema,
          R"({"type": "object", "additionalProperties": true})", false,
          std::move(place)};
}

std::optional<GrammarSpec> readResponseFormat(FieldReader &fields,
                                              const Json &format) {
  constexpr const char *name = "response_format";
  std::string type = format.is_object() && format.contains("type") &&
                             format["type"].is_string()
                         ? format["type"].get<std::string>()
                         : std::string();
  FieldReader reader(format, name);
  auto take = [&]() -> std::optional<GrammarSpec> {
    if (type == "text" || type == "json_object") {
      reader.checkNames({{"type", {}}});
      if (type == "json_object" && reader.ok())
        return objectGrammar(name);
      return std::nullopt;
    }
    if (type != "json_schema") {
      reader.fail("type", "must be \"text\", \"json_object\" or "
                          "\"json_schema\"");
      return std::nullopt;
    }
    reader.checkNames({{"type", {}}, {"json_schema", {}}});
    const Json *given = reader.find("json_schema");
    if (!given || !given->is_object()) {
      reader.fail("json_schema", "must be an object");
      return std::nullopt;
    }
    FieldReader inner(*given, reader.placeOf("json_schema"));
    inner.checkNames(
        {{"name", {}}, {"schema", {}}, {"strict", {}}, {"description", {}}});
    inner.text("name");
    inner.text("description");
    bool closed = inner.flag("strict", false);
    std::optional<GrammarSpec> made;
    if (const Json *schema = inner.find("schema"))
      made = schemaGrammar(inner, "schema", "", *schema, closed);
    else
      inner.fail("schema", "is missing");
    if (inner.failure())
      reader.fail(*inner.failure());
    return made;
  };
  if (!format.is_object()) {
    fields.fail(name, "must be an object");
    return std::nullopt;
  }
  std::optional<GrammarSpec> made = take();
  if (reader.failure())
    fields.fail(*reader.failure());
  return made;
}

/// A schema may come as its text.
std::optional<GrammarSpec> readSchema(FieldReader &fields,
                                      std::string_view name, const Json &json) {
  if (!json.is_string())
    return schemaGrammar(fields, name, "", json, false);
  ApiError error;
  std::optional<Json> parsed = parseBody(json.get<std::string>(), error);
  if (!parsed) {
    std::string why = std::move(error.message);
    if (constexpr std::string_view body = "the body"; why.starts_with(body))
      why.replace(0, body.size(), "its text");
    fields.fail(name, "is not a JSON schema: " + why);
    return std::nullopt;
  }
  return schemaGrammar(fields, name, "", *parsed, false);
}

struct FormRow {
  const char *name, *guided; ///< in `structured_outputs`, and alone
  std::optional<GrammarSpec> (*read)(FieldReader &, std::string_view,
                                     const Json &);
};

const FormRow rows[] = {
    {"json", "guided_json", readSchema},
    {"regex", "guided_regex",
     [](FieldReader &fields, std::string_view name, const Json &json) {
       return textGrammar(fields, name, "", json, GrammarKind::regex);
     }},
    {"choice", "guided_choice",
     [](FieldReader &fields, std::string_view name, const Json &json) {
       return choicesGrammar(fields, name, "", json);
     }},
    {"grammar", "guided_grammar",
     [](FieldReader &fields, std::string_view name, const Json &json) {
       return textGrammar(fields, name, "", json, GrammarKind::ebnf);
     }},
};

std::optional<GrammarSpec> readStructuredOutputs(FieldReader &fields,
                                                 const Json &given) {
  constexpr const char *name = "structured_outputs";
  if (!given.is_object()) {
    fields.fail(name, "must be an object");
    return std::nullopt;
  }
  FieldReader reader(given, name);
  std::vector<FieldRow> names = {{"json_object", {}}};
  for (const FormRow &row : rows)
    names.push_back({row.name, {}});
  reader.checkNames(names);
  std::optional<GrammarSpec> made;
  size_t found = 0;
  for (const FormRow &row : rows)
    if (const Json *json = reader.find(row.name); json && ++found == 1)
      made = row.read(reader, row.name, *json);
  if (reader.flag("json_object", false) && ++found == 1)
    made = objectGrammar(reader.placeOf("json_object"));
  if (reader.failure())
    fields.fail(*reader.failure());
  else if (found != 1)
    fields.fail(name, "must hold one of 'json', 'regex', 'choice', 'grammar' "
                      "and 'json_object'");
  return made;
}

} // namespace

std::optional<GrammarSpec> schemaGrammar(FieldReader &fields,
                                         std::string_view name,
                                         const std::string &at,
                                         const Json &schema, bool closed) {
  std::string place = std::string(name) + at;
  if (auto problem = checkSchema(schema)) {
    fields.fail(place + problem->place, problem->message, problem->code);
    return std::nullopt;
  }
  std::string text = schema.dump();
  if (text.size() > longestSpec) {
    fields.fail(place, "must not be larger than 1 MiB");
    return std::nullopt;
  }
  return GrammarSpec{GrammarKind::schema, std::move(text), closed,
                     fields.placeOf(place)};
}

std::optional<GrammarSpec> readGrammar(FieldReader &fields) {
  std::optional<GrammarSpec> made;
  std::string first;
  auto take = [&](const char *name, auto &&read) {
    const Json *json = fields.find(name);
    if (!json || !fields.ok())
      return;
    std::optional<GrammarSpec> grammar = read(*json);
    if (!grammar)
      return;
    if (!first.empty())
      return fields.fail(name, "and '" + first +
                                   "' both say what the answer looks like");
    first = name;
    made = std::move(grammar);
  };
  take("response_format",
       [&](const Json &json) { return readResponseFormat(fields, json); });
  take("structured_outputs",
       [&](const Json &json) { return readStructuredOutputs(fields, json); });
  for (const FormRow &row : rows)
    take(row.guided,
         [&](const Json &json) { return row.read(fields, row.guided, json); });
  return made;
}

ApiError grammarError(const Error &error, const std::string &place) {
  ApiError made = ApiError::from(error, place);
  if (made.status == 400) {
    made.message = "'" + place + "' " + made.message;
    made.code = "invalid_grammar";
  }
  return made;
}

Expected<std::unique_ptr<GrammarCompiler>>
startGrammars(const ModelTexts &texts, const GrammarLimits &limits) {
  const Tokenizer &tokenizer = texts.tokenizer();
  GrammarVocabulary vocabulary;
  vocabulary.ends = texts.endTokens();
  for (int32_t id = 0; id < tokenizer.size(); ++id)
    vocabulary.texts.push_back(
        tokenizer.isSpecial(id)
            ? std::string()
            : tokenizer.decoder().part(tokenizer.tokenText(id), false).text);
  for (int32_t id : texts.markTokens())
    vocabulary.texts[id] = tokenizer.tokenText(id);
  return GrammarCompiler::start(std::move(vocabulary), limits);
}

} // namespace knapper::serving
