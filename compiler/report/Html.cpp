#include "compiler/report/Html.h"
#include <nlohmann/json.hpp>

namespace knapper {
namespace {

std::string escape(std::string_view text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += c;
    }
  return result;
}

/// Any JSON value as nested tables: what has no view of its own is still shown.
void showValue(const nlohmann::ordered_json &value, std::string &html) {
  if (value.is_object()) {
    html += "<table>";
    for (auto &[key, member] : value.items()) {
      html += "<tr><th>" + escape(key) + "</th><td>";
      showValue(member, html);
      html += "</td></tr>";
    }
    html += "</table>";
  } else if (value.is_array()) {
    html += "<details><summary>" + std::to_string(value.size()) +
            " entries</summary><ol>";
    for (const auto &member : value) {
      html += "<li>";
      showValue(member, html);
      html += "</li>";
    }
    html += "</ol></details>";
  } else if (value.is_string()) {
    html += "<pre>" + escape(value.get<std::string>()) + "</pre>";
  } else {
    html += escape(value.dump());
  }
}

} // namespace

std::string reportHtml(std::string_view descriptionJson) {
  auto json = nlohmann::ordered_json::parse(descriptionJson, nullptr,
                                            /*allow_exceptions=*/false);
  std::string html =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
      "<title>Knapper report</title><style>"
      "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:80em}"
      "table{border-collapse:collapse}th{text-align:left;vertical-align:top;"
      "padding:.1em .8em .1em 0;font-weight:600}pre{margin:0;white-space:"
      "pre-wrap}</style><h1>Knapper report</h1>";
  if (json.is_discarded())
    html += "<p>The module's description is not readable.</p>";
  else
    showValue(json, html);
  return html + "</html>\n";
}

} // namespace knapper
