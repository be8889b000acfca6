#include "compiler/report/Html.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using knapper::reportHtml;

namespace {

bool has(const std::string &page, const std::string &part) {
  return page.find(part) != std::string::npos;
}

/// A description as a module gives it; `name` stands wherever a model's author
/// chooses the text.
std::string description(const std::string &name) {
  std::string text = R"json({
    "file": NAME, "created_from": NAME,
    "inputs": [{"name": NAME, "dtype": "f32", "shape": [NAME, 4]}],
    "outputs": [],
    "symbols": [{"name": NAME, "min": 1, "divisor": 1}],
    "launches": [
      {"origin": NAME, "flops": "8*n", "bytes": "16*n",
       "choices": [{"kernel": "pointwise_abc", "schedule": "v16",
                    "guard": "1"}]},
      {"origin": "second", "choices": []}],
    "memory": {
      "constant_bytes": 2000000,
      "example": {
        "symbols": {NAME: 8}, "arena_bytes": 1000, "live_bytes": 900,
        "buffers": [{"name": NAME, "bytes": 500, "offset": 0, "first": 0,
                     "last": 1}]}},
    "report": {
      "compile": {"kernels": 1, "variants": 2,
                  "phases": [{"name": "fuse", "seconds": 0.25}]},
      "unique_kernels": [{"signature": "abc", "hero": "elementwise",
                          "text": NAME, "gain": 1.25,
                          "user_kernels": [{"name": NAME, "taken": true,
                                            "why": NAME}],
                          "knobs": [{"name": "panel", "value": 64, "model": 48,
                                     "others": [64, 32]}]}],
      "fusion": {
        "kernels": [
          {"hero": "elementwise", "ops": ["add", "mul"], "origins": [NAME]},
          {"hero": "dot", "ops": ["dot"], "origins": ["second"]}],
        "boundaries": [{"producer": 0, "consumer": 1, "reason": NAME,
                        "secondsSaved": 1e-6}]}}})json";
  std::string quoted = nlohmann::json(name).dump();
  for (size_t at = 0; (at = text.find("NAME", at)) != std::string::npos;
       at += quoted.size())
    text.replace(at, 4, quoted);
  return text;
}

TEST(Html, NamesAreEscaped) {
  std::string attack = "</title><script>alert('1')</script>\"&\x1b[31m";
  std::string page = reportHtml(description(attack));
  EXPECT_FALSE(has(page, "<script>alert"));
  EXPECT_FALSE(has(page, "</title><script>"));
  EXPECT_FALSE(has(page, "\x1b"));
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"
                        "&quot;&amp;"));
  // One script: ours.
  EXPECT_EQ(page.find("<script"), page.rfind("<script"));
}

TEST(Html, ShowsEverything) {
  std::string page = reportHtml(description("layer.0/Add"));
  for (const char *part :
       {"id=\"launches\"", "id=\"boundaries\"", "id=\"memory\"",
        "id=\"phases\"", "id=\"kernels\"", "id=\"search\"",
        "<td>layer.0/Add</td><td>elementwise</td><td>add mul</td><td>v16</td>",
        "with 1: layer.0/Add", "<td>1.00</td>", "0.250 s",
        "<rect x=\"0.00\" y=\"0.00\" width=\"1000.00\" height=\"130.00\">",
        "arena for layer.0/Add = 8: 1.0 kB", "2.0 MB", "2 variants",
        "64 by a tuning record, the model takes 48; also 32"})
    EXPECT_TRUE(has(page, part)) << part;
}

TEST(Html, NeedsNoNetwork) {
  std::string page = reportHtml(description("x"));
  for (const char *part : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_FALSE(has(page, part)) << part;
}

TEST(Html, OddDescriptionsAreShownAsFarAsTheyGo) {
  EXPECT_TRUE(has(reportHtml("no json"), "not readable"));
  for (const char *text :
       {"{}", "{\"launches\": 3}", "{\"memory\": {\"example\": []}}",
        "{\"report\": {\"fusion\": {\"boundaries\": [{\"producer\": 1e9}]}}}",
        "{\"launches\": [1, null, {\"choices\": [\"x\"]}]}"})
    EXPECT_TRUE(has(reportHtml(text), "</html>")) << text;
}

} // namespace
