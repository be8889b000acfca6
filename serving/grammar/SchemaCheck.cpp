#include "serving/grammar/SchemaCheck.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace knapper::serving {
namespace {

using Json = OrderedJson;
using Problem = std::optional<SchemaProblem>;

constexpr const char *invalid = "invalid_schema",
                     *unsupported = "unsupported_schema";

/// Keywords that no grammar has.
constexpr std::string_view refused[] = {
    "not",          "if",          "then",          "else",
    "contains",     "minContains", "maxContains",   "dependentRequired",
    "dependencies", "$dynamicRef", "$recursiveRef", "dependentSchemas"};

/// Keywords that say nothing of what is valid, or are read where they stand.
constexpr std::string_view silent[] = {
    "$schema",  "$id",         "$comment",  "$anchor",  "$defs",
    "title",    "definitions", "default",   "examples", "description",
    "readOnly", "writeOnly",   "deprecated"};

/// Keywords of one type, which count only where the type is given.
struct Typed {
  std::string_view keyword, type;
};
constexpr Typed typed[] = {
    {"minLength", "string"},        {"maxLength", "string"},
    {"pattern", "string"},          {"minimum", "number"},
    {"maximum", "number"},          {"exclusiveMinimum", "number"},
    {"multipleOf", "number"},       {"exclusiveMaximum", "number"},
    {"minItems", "array"},          {"maxItems", "array"},
    {"required", "object"},         {"minProperties", "object"},
    {"maxProperties", "object"},    {"propertyNames", "object"},
    {"patternProperties", "object"}};

template <size_t N>
bool isOneOf(std::string_view name, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

std::string step(const std::string &place, const std::string &name) {
  return place + "." + name;
}
std::string step(const std::string &place, size_t index) {
  return place + "[" + std::to_string(index) + "]";
}

/// Whether the keyword's value asks for nothing.
bool isIdle(const std::string &name, const Json &value) {
  return (name == "uniqueItems" && value == false) ||
         (name == "minContains" && value == 0);
}

bool hasType(const Json &schema, std::string_view wanted) {
  auto is = [&](const Json &type) {
    return type == wanted || (wanted == "number" && type == "integer");
  };
  const Json &type = schema["type"];
  return type.is_array() ? std::any_of(type.begin(), type.end(), is) : is(type);
}

Problem check(const Json &schema, const std::string &place);

Problem checkAll(const Json &schemas, const std::string &place) {
  if (schemas.is_object()) {
    for (auto it = schemas.begin(); it != schemas.end(); ++it)
      if (Problem problem = check(it.value(), step(place, it.key())))
        return problem;
    return std::nullopt;
  }
  if (!schemas.is_array())
    return SchemaProblem{place, "must hold schemas", invalid};
  for (size_t i = 0; i < schemas.size(); ++i)
    if (Problem problem = check(schemas[i], step(place, i)))
      return problem;
  return std::nullopt;
}

/// One of these decides alone what is valid: what stands beside it would be
/// forgotten.
Problem checkBeside(const Json &schema, const std::string &place,
                    const std::string &decides) {
  for (auto it = schema.begin(); it != schema.end(); ++it) {
    const std::string &name = it.key();
    bool known =
        std::any_of(std::begin(typed), std::end(typed),
                    [&](const Typed &row) { return row.keyword == name; }) ||
        name == "properties" || name == "items" || name == "anyOf" ||
        name == "oneOf" || name == "allOf" || name == "$ref" ||
        name == "additionalProperties" || name == "prefixItems" ||
        name == "enum" || name == "const" || name == "type" ||
        name == "unevaluatedProperties" || name == "unevaluatedItems";
    if (!known || name == decides || isOneOf(name, silent))
      continue;
    // A type beside values and alternatives repeats theirs, as generators of
    // schemas write it.
    if (name == "type" && (decides == "enum" || decides == "const"))
      continue;
    return SchemaProblem{step(place, name),
                         "is not supported beside '" + decides +
                             "': put it into each alternative",
                         unsupported};
  }
  return std::nullopt;
}

/// Values that are listed must be of the type that stands beside them.
Problem checkValues(const Json &schema, const std::string &place) {
  if (!schema.contains("type"))
    return std::nullopt;
  auto fits = [&](const Json &value) {
    const char *type = value.is_string()    ? "string"
                       : value.is_boolean() ? "boolean"
                       : value.is_null()    ? "null"
                       : value.is_object()  ? "object"
                       : value.is_array()   ? "array"
                                            : "number";
    if (value.is_number_float() && !hasType(schema, "number"))
      return false;
    const Json &wanted = schema["type"];
    auto is = [&](const Json &one) {
      return one == type ||
             (one == "integer" && value.is_number() &&
              std::floor(value.get<double>()) == value.get<double>());
    };
    return wanted.is_array() ? std::any_of(wanted.begin(), wanted.end(), is)
                             : is(wanted);
  };
  if (schema.contains("const") && !fits(schema["const"]))
    return SchemaProblem{step(place, "const"), "is not of the type beside it",
                         invalid};
  if (schema.contains("enum"))
    for (size_t i = 0; i < schema["enum"].size(); ++i)
      if (!fits(schema["enum"][i]))
        return SchemaProblem{step(step(place, "enum"), i),
                             "is not of the type beside it", unsupported};
  return std::nullopt;
}

Problem checkNumbers(const Json &schema, const std::string &place) {
  auto wrong = [&](const char *name, const char *message) {
    return SchemaProblem{step(place, name), message, invalid};
  };
  for (const char *name : {"minLength", "maxLength", "minItems", "maxItems",
                           "minProperties", "maxProperties"})
    if (schema.contains(name) && !schema[name].is_number_unsigned())
      return wrong(name, "must be an integer of 0 or more");
  for (const char *name : {"minimum", "maximum", "exclusiveMinimum",
                           "exclusiveMaximum", "multipleOf"})
    if (schema.contains(name) && !schema[name].is_number())
      return wrong(name, "must be a number");
  if (schema.contains("pattern") && !schema["pattern"].is_string())
    return wrong("pattern", "must be a regular expression");
  if (schema.contains("format") && !schema["format"].is_string())
    return wrong("format", "must be a text");
  if (schema.contains("required")) {
    const Json &names = schema["required"];
    if (!names.is_array() ||
        !std::all_of(names.begin(), names.end(),
                     [](const Json &name) { return name.is_string(); }))
      return wrong("required", "must be a list of texts");
  }
  return std::nullopt;
}

Problem checkKeywords(const Json &schema, const std::string &place) {
  bool open = !schema.contains("type");
  for (auto it = schema.begin(); it != schema.end(); ++it) {
    const std::string &name = it.key();
    if (isIdle(name, it.value()))
      continue;
    if (isOneOf(name, refused) || name == "uniqueItems")
      return SchemaProblem{step(place, name),
                           "is not supported: no grammar enforces it",
                           unsupported};
    auto row =
        std::find_if(std::begin(typed), std::end(typed),
                     [&](const Typed &row) { return row.keyword == name; });
    if (row == std::end(typed) || !open)
      continue;
    // Without a type other values are valid too, and the grammar allows any.
    bool asObject = row->type == "object" && schema.contains("properties");
    bool asArray = row->type == "array" && schema.contains("items");
    if (!asObject && !asArray)
      return SchemaProblem{step(place, name),
                           "needs \"type\": \"" + std::string(row->type) +
                               "\" beside it",
                           unsupported};
  }
  return std::nullopt;
}

Problem check(const Json &schema, const std::string &place) {
  if (schema.is_boolean())
    return std::nullopt;
  if (!schema.is_object())
    return SchemaProblem{place, "must be a schema: an object, true or false",
                         invalid};
  for (const char *name : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"})
    if (schema.contains(name)) {
      if (Problem problem = checkBeside(schema, place, name))
        return problem;
      break;
    }
  if (schema.contains("enum") &&
      (!schema["enum"].is_array() || schema["enum"].empty()))
    return SchemaProblem{step(place, "enum"), "must be a list of values",
                         invalid};
  if (schema.contains("type")) {
    const Json &type = schema["type"];
    constexpr std::string_view types[] = {
        "string", "number", "integer", "boolean", "null", "array", "object"};
    Json list = type.is_array() ? type : Json::array({type});
    for (const Json &one : list)
      if (!one.is_string() || !isOneOf(one.get<std::string>(), types))
        return SchemaProblem{step(place, "type"),
                             "must be string, number, integer, boolean, null, "
                             "array or object, or a list of these",
                             invalid};
  }
  if (Problem problem = checkValues(schema, place))
    return problem;
  if (Problem problem = checkNumbers(schema, place))
    return problem;
  if (Problem problem = checkKeywords(schema, place))
    return problem;
  if (schema.contains("$ref")) {
    const Json &target = schema["$ref"];
    if (!target.is_string() ||
        !target.get_ref<const std::string &>().starts_with("#"))
      return SchemaProblem{step(place, "$ref"),
                           "must be a place in this schema: \"#/...\"",
                           unsupported};
  }
  for (const char *name :
       {"properties", "patternProperties", "$defs", "definitions", "anyOf",
        "oneOf", "allOf", "prefixItems"})
    if (schema.contains(name))
      if (Problem problem = checkAll(schema[name], step(place, name)))
        return problem;
  for (const char *name : {"items", "additionalProperties", "propertyNames",
                           "unevaluatedProperties", "unevaluatedItems"})
    if (schema.contains(name))
      if (Problem problem = check(schema[name], step(place, name)))
        return problem;
  return std::nullopt;
}

} // namespace

Problem checkSchema(const Json &schema) { return check(schema, ""); }

} // namespace knapper::serving
