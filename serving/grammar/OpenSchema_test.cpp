#include "serving/grammar/OpenSchema.h"

#include "gtest/gtest.h"

using namespace knapper::serving;
using Json = OrderedJson;

namespace {

std::string opened(const char *schema) {
  return openSchema(Json::parse(schema)).dump();
}

TEST(OpenSchema, WhereNothingIsSaid) {
  EXPECT_EQ(opened(R"({"type":"object"})"),
            R"({"type":"object","additionalProperties":true})");
  EXPECT_EQ(opened(R"({"type":["null","array"],"prefixItems":[{}]})"),
            R"({"type":["null","array"],"prefixItems":[{}],"items":true})");
  EXPECT_EQ(opened(R"({"type":["null","object"]})"),
            R"({"type":["null","object"],"additionalProperties":true})");
  EXPECT_EQ(
      opened(R"({"anyOf":[{"properties":{"a":{"type":"array"}}},true]})"),
      R"({"anyOf":[{"properties":{"a":{"type":"array","items":true}},"additionalProperties":true},true]})");
}

TEST(OpenSchema, WhereverASchemaStands) {
  auto in = [](const char *name, const char *before, const char *behind) {
    std::string schema = R"({"enum":[],")" + std::string(name) +
                         "\":" + before + R"({"type":"array")";
    EXPECT_EQ(opened((schema + "}" + behind + "}").c_str()),
              schema + R"(,"items":true})" + behind + "}");
  };
  for (const char *list : {"prefixItems", "anyOf", "oneOf", "allOf"})
    in(list, "[", "]");
  for (const char *named :
       {"properties", "patternProperties", "$defs", "definitions"})
    in(named, R"({"a":)", "}");
  for (const char *one : {"items", "additionalProperties",
                          "unevaluatedProperties", "unevaluatedItems"})
    in(one, "", "");
}

TEST(OpenSchema, WhatIsSaidStays) {
  for (const char *schema :
       {R"({"type":"object","additionalProperties":false})",
        R"({"type":"array","items":{"type":"string"}})",
        R"({"type":"object","unevaluatedProperties":false})",
        R"({"enum":[{"a":1}]})", R"({})", R"(true)", R"({"type":"string"})",
        R"({"$ref":"#/$defs/properties"})"})
    EXPECT_EQ(opened(schema), schema);
  // A property whose name is that of a keyword is no keyword.
  EXPECT_EQ(
      opened(
          R"({"type":"object","properties":{"additionalProperties":{"type":"null"}}})"),
      R"({"type":"object","properties":{"additionalProperties":{"type":"null"}},"additionalProperties":true})");
}

} // namespace
