#include "runtime/base/Json.h"

#include "runtime/base/Checked.h"

#include <gtest/gtest.h>
#include <limits>

using namespace knapper;

TEST(Json, PlacesCommasInNestedValues) {
  JsonWriter json;
  json.beginObject().field("a", 1).key("b").beginArray();
  json.value(true).value("x").beginObject().endObject().endArray();
  json.field("c", 2.5).key("d").raw("{\"e\":0}").endObject();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[true,"x",{}],"c":2.5,"d":{"e":0}})");
}

TEST(Json, EscapesWhatATerminalOrABrowserCouldObey) {
  JsonWriter json;
  json.value(std::string_view("\x1b[2J\"\\</script>\n"));
  EXPECT_EQ(json.text(), "\"\\u001b[2J\\\"\\\\\\u003c/script>\\u000a\"");
}

TEST(Json, ReplacesBrokenUtf8) {
  JsonWriter json;
  json.value(std::string_view("a\xC3\xA9\xFFz\xE2\x82"));
  EXPECT_EQ(json.text(), "\"a\xC3\xA9\\ufffdz\\ufffd\\ufffd\"");
}

TEST(Json, NumbersThatJsonCannotHold) {
  JsonWriter json;
  json.beginArray().value(std::numeric_limits<double>::infinity());
  json.value(std::numeric_limits<int64_t>::min()).endArray();
  EXPECT_EQ(json.text(), "[null,-9223372036854775808]");
}

TEST(Checked, DivisionRoundsAsItsNameSays) {
  EXPECT_EQ(checkedFloorDiv(-7, 2), -4);
  EXPECT_EQ(checkedFloorDiv(7, -2), -4);
  EXPECT_EQ(checkedCeilDiv(-7, 2), -3);
  EXPECT_EQ(checkedCeilDiv(7, 2), 4);
  EXPECT_EQ(checkedMod(-7, 2), 1);
  EXPECT_EQ(checkedMod(7, -2), -1);
  EXPECT_FALSE(checkedFloorDiv(1, 0));
  EXPECT_FALSE(checkedFloorDiv(INT64_MIN, -1));
  EXPECT_FALSE(checkedCeilDiv(INT64_MIN, -1));
  EXPECT_EQ(checkedMod(INT64_MIN, -1), 0);
}
