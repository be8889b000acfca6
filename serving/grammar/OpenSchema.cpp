#include "serving/grammar/OpenSchema.h"

#include <algorithm>

namespace knapper::serving {

using Json = OrderedJson;

static bool isOf(const Json &schema, const char *type) {
  auto it = schema.find("type");
  if (it == schema.end())
    return false;
  return it->is_array() ? std::find(it->begin(), it->end(), type) != it->end()
                        : *it == type;
}

static bool hasAny(const Json &schema,
                   std::initializer_list<const char *> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char *name) { return schema.contains(name); });
}

static void openIn(Json &schema) {
  if (!schema.is_object())
    return;
  for (const char *name :
       {"properties", "patternProperties", "$defs", "definitions"})
    if (auto it = schema.find(name); it != schema.end() && it->is_object())
      for (Json &inner : *it)
        openIn(inner);
  for (const char *name : {"prefixItems", "anyOf", "oneOf", "allOf"})
    if (auto it = schema.find(name); it != schema.end() && it->is_array())
      for (Json &inner : *it)
        openIn(inner);
  for (const char *name : {"items", "additionalProperties",
                           "unevaluatedProperties", "unevaluatedItems"})
    if (auto it = schema.find(name); it != schema.end())
      openIn(*it);
  if (hasAny(schema, {"$ref", "const", "enum"}))
    return;
  if ((isOf(schema, "object") ||
       hasAny(schema, {"properties", "patternProperties"})) &&
      !hasAny(schema, {"additionalProperties", "unevaluatedProperties"}))
    schema["additionalProperties"] = true;
  if ((isOf(schema, "array") || schema.contains("prefixItems")) &&
      !hasAny(schema, {"items", "unevaluatedItems"}))
    schema["items"] = true;
}

Json openSchema(Json schema) {
  openIn(schema);
  return schema;
}

} // namespace knapper::serving
