#include "serving/http/OpenApi.h"

#include "serving/http/Embeddings.h"
#include "serving/http/GenerationRequest.h"
#include "serving/sampling/SamplingBounds.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace knapper::serving {

using Json = FieldReader::Json;

namespace {

/// What each field may be but those of `samplingBounds`; the readers check the
/// same.
const std::map<std::string_view, const char *> schemas = {
    {"messages",
     R"({"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}})"},
    {"prompt",
     R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer", "minimum": 0}},
         {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}}]})"},
    {"input",
     R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer", "minimum": 0}},
         {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}}]})"},
    {"model", R"({"type": "string"})"},
    {"max_tokens", R"({"type": "integer", "minimum": 0})"},
    {"max_completion_tokens", R"({"type": "integer", "minimum": 1})"},
    {"seed", R"({"type": "integer"})"},
    {"n", R"({"type": "integer", "minimum": 1, "maximum": 128})"},
    {"best_of", R"({"type": "integer", "minimum": 1, "maximum": 128})"},
    {"stop",
     R"({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1}}]})"},
    {"stop_token_ids",
     R"({"type": "array", "items": {"type": "integer", "minimum": 0}})"},
    {"include_stop_str_in_output", R"({"type": "boolean"})"},
    {"ignore_eos", R"({"type": "boolean"})"},
    {"skip_special_tokens", R"({"type": "boolean"})"},
    {"add_special_tokens", R"({"type": "boolean"})"},
    {"add_generation_prompt", R"({"type": "boolean"})"},
    {"separate_reasoning", R"({"type": "boolean"})"},
    {"parallel_tool_calls", R"({"type": "boolean"})"},
    {"echo", R"({"type": "boolean"})"},
    {"stream", R"({"type": "boolean"})"},
    {"stream_options",
     R"({"type": "object", "properties": {"include_usage": {"type": "boolean"}}, "additionalProperties": false})"},
    {"logprobs",
     R"({"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 20}]})"},
    {"top_logprobs", R"({"type": "integer", "minimum": 0, "maximum": 20})"},
    {"priority", R"({"type": "integer"})"},
    {"timeout", R"({"type": "number", "minimum": 0, "maximum": 86400})"},
    {"speculate", R"({"type": "boolean"})"},
    {"truncate_prompt_tokens", R"({"type": "integer", "minimum": 1})"},
    {"user", R"({"type": "string"})"},
    {"safety_identifier", R"({"type": "string"})"},
    {"chat_template_kwargs", R"({"type": "object"})"},
    {"documents", R"({})"},
    {"reasoning_effort", R"({})"},
    {"modalities", R"({"const": ["text"]})"},
    {"service_tier", R"({"enum": ["auto", "default"]})"},
    {"store", R"({"const": false})"},
    {"tools",
     R"({"type": "array", "maxItems": 128, "items": {"type": "object", "required": ["type", "function"], "additionalProperties": false,
         "properties": {"type": {"const": "function"}, "function": {"type": "object", "required": ["name"], "additionalProperties": false,
         "properties": {"name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,64}$"}, "description": {"type": "string"}, "parameters": {"type": "object"}, "strict": {"type": "boolean"}}}}}})"},
    {"tool_choice",
     R"({"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object", "required": ["type", "function"],
         "properties": {"type": {"const": "function"}, "function": {"type": "object", "required": ["name"]}}}]})"},
    {"response_format",
     R"({"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object", "json_schema"]},
         "json_schema": {"type": "object", "required": ["schema"], "properties": {"name": {"type": "string"}, "schema": {"type": "object"}, "strict": {"type": "boolean"}, "description": {"type": "string"}}}}})"},
    {"structured_outputs",
     R"({"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
         "properties": {"json": {}, "regex": {"type": "string"}, "choice": {"type": "array", "items": {"type": "string"}}, "grammar": {"type": "string"}, "json_object": {"const": true}}})"},
    {"guided_json", R"({"type": ["object", "string", "boolean"]})"},
    {"guided_regex", R"({"type": "string", "minLength": 1})"},
    {"guided_grammar", R"({"type": "string", "minLength": 1})"},
    {"guided_choice",
     R"({"type": "array", "minItems": 1, "maxItems": 1024, "items": {"type": "string", "minLength": 1}})"},
    {"encoding_format", R"({"enum": ["float", "base64"]})"},
    {"dimensions", R"({"type": "integer", "minimum": 1})"},
    {"role",
     R"({"enum": ["system", "developer", "user", "assistant", "tool"]})"},
    {"content",
     R"({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {"type": "object", "required": ["type", "text"],
         "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}]})"},
    {"name", R"({"type": "string"})"},
    {"tool_calls", R"({"type": "array", "items": {"type": "object"}})"},
    {"tool_call_id", R"({"type": "string"})"},
    {"reasoning_content", R"({"type": "string"})"},
    {"reasoning", R"({"type": "string"})"},
    {"annotations", R"({})"},
    {"refusal", R"({"type": ["string", "null"]})"},
    {"tokens",
     R"({"type": "array", "items": {"type": "integer", "minimum": 0}})"},
    {"return_token_strs", R"({"type": "boolean"})"},
};

Json samplingSchema(const SamplingBound &bound) {
  Json schema = {{"type", bound.isWhole ? "integer" : "number"}};
  for (auto [key, value] :
       {std::pair("minimum", bound.least), std::pair("maximum", bound.most),
        std::pair("default", bound.otherwise)}) {
    schema[key] = value;
    if (value == std::floor(value))
      schema[key] = static_cast<int64_t>(value);
  }
  return schema;
}

Json fieldSchema(std::string_view name) {
  for (const SamplingBound &bound : samplingBounds)
    if (bound.field == name && name == samplingBound("logit_bias").field)
      return {{"type", "object"},
              {"additionalProperties", samplingSchema(bound)}};
    else if (bound.field == name)
      return samplingSchema(bound);
  auto found = schemas.find(name);
  return found == schemas.end() ? Json() : Json::parse(found->second);
}

/// A field that is null is as good as none.
Json orNull(Json schema) {
  if (auto type = schema.find("type"); type != schema.end()) {
    if (!type->is_array())
      *type = Json::array({*type});
    if (std::find(type->begin(), type->end(), "null") == type->end())
      type->push_back("null");
  }
  if (auto only = schema.find("const"); only != schema.end()) {
    schema["enum"] = Json::array({*only});
    schema.erase("const");
  }
  if (schema.contains("enum"))
    schema["enum"].push_back(nullptr);
  if (schema.contains("anyOf"))
    schema["anyOf"].push_back({{"type", "null"}});
  return schema;
}

Json objectSchema(const std::vector<FieldRow> &table,
                  std::vector<std::string> required) {
  Json properties = Json::object();
  for (const FieldRow &row : table) {
    if (!row.refusal.empty())
      continue;
    std::string name(row.name);
    bool must =
        std::find(required.begin(), required.end(), name) != required.end();
    properties[name] =
        must ? fieldSchema(row.name) : orNull(fieldSchema(row.name));
  }
  Json made = {{"type", "object"},
               {"properties", properties},
               {"additionalProperties", false}};
  if (!required.empty())
    made["required"] = required;
  return made;
}

Json answerOf(const char *what, const char *type) {
  return {{"description", what},
          {"content", Json{{type, Json{{"schema", Json::object()}}}}}};
}

Json pathOf(const char *method, const char *summary, const char *schema,
            const char *type = "application/json", bool streams = false) {
  Json operation = {{"summary", summary}};
  if (schema)
    operation["requestBody"] = {
        {"required", true},
        {"content",
         Json{{"application/json",
               Json{{"schema",
                     Json{{"$ref", std::string("#/components/schemas/") +
                                       schema}}}}}}}};
  Json responses = {{"200", answerOf("the answer", type)}};
  if (streams)
    responses["200"]["content"]["text/event-stream"] = {
        {"schema", Json{{"type", "string"}}}};
  if (schema)
    for (const char *status :
         {"400", "401", "403", "404", "413", "415", "429", "500", "503"})
      responses[status] = {{"$ref", "#/components/responses/Error"}};
  operation["responses"] = responses;
  return {{method, operation}};
}

} // namespace

std::string openApi(const std::string &version) {
  const std::vector<FieldRow> tokenize = {{"model", {}},
                                          {"prompt", {}},
                                          {"messages", {}},
                                          {"add_special_tokens", {}},
                                          {"add_generation_prompt", {}},
                                          {"chat_template_kwargs", {}},
                                          {"return_token_strs", {}}};
  const std::vector<FieldRow> detokenize = {
      {"model", {}}, {"tokens", {}}, {"skip_special_tokens", {}}};
  Json error = {
      {"type", "object"},
      {"required", Json::array({"error"})},
      {"properties",
       Json{{"error", Json{{"type", "object"},
                           {"required", Json::array({"message", "type", "param",
                                                     "code"})}}}}}};
  Json document = {
      {"openapi", "3.1.0"},
      {"info", Json{{"title", "Knapper"}, {"version", version}}},
      {"paths",
       Json{{"/v1/chat/completions",
             pathOf("post", "An answer to a conversation", "ChatRequest",
                    "application/json", true)},
            {"/v1/completions",
             pathOf("post", "A text that goes on", "CompletionRequest",
                    "application/json", true)},
            {"/v1/embeddings",
             pathOf("post", "Vectors of texts", "EmbeddingRequest")},
            {"/v1/models", pathOf("get", "The model", nullptr)},
            {"/tokenize", pathOf("post", "Text to tokens", "TokenizeRequest")},
            {"/detokenize",
             pathOf("post", "Tokens to text", "DetokenizeRequest")},
            {"/health/live", pathOf("get", "The process answers", nullptr)},
            {"/health/ready", pathOf("get", "Requests are taken", nullptr)},
            {"/health/progress", pathOf("get", "What runs", nullptr)},
            {"/metrics",
             pathOf("get", "Prometheus' text", nullptr, "text/plain")},
            {"/version", pathOf("get", "The version", nullptr)},
            {"/openapi.json", pathOf("get", "This document", nullptr)},
            {"/", pathOf("get", "The chat page", nullptr, "text/html")}}},
      {"components",
       Json{{"schemas",
             Json{{"ChatRequest", objectSchema(chatFields(), {"messages"})},
                  {"CompletionRequest",
                   objectSchema(completionFields(), {"prompt"})},
                  {"EmbeddingRequest",
                   objectSchema(embeddingFields(), {"input"})},
                  {"TokenizeRequest", objectSchema(tokenize, {})},
                  {"DetokenizeRequest", objectSchema(detokenize, {"tokens"})},
                  {"Message", objectSchema(messageFields(), {"role"})},
                  {"Error", error}}},
            {"responses",
             Json{{"Error",
                   Json{{"description", "what is wrong"},
                        {"content",
                         Json{{"application/json",
                               Json{{"schema",
                                     Json{{"$ref", "#/components/schemas/"
                                                   "Error"}}}}}}}}}}}}}};
  return document.dump();
}

} // namespace knapper::serving
