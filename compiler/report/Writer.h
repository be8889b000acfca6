//===- Writer.h - Pages whose text is always escaped ----------------------===//
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace knapper::report {

using Json = nlohmann::ordered_json;

/// Builds a page: `raw` takes markup that we wrote, `text` anything.
class Writer {
public:
  Writer &raw(std::string_view markup) {
    out += markup;
    return *this;
  }
  Writer &text(std::string_view text);
  Writer &cell(std::string_view content) {
    return raw("<td>").text(content).raw("</td>");
  }
  std::string take() { return std::move(out); }

private:
  std::string out;
};

/// Reading JSON that may have anything in it: absent and odd members are empty.
const Json &memberOf(const Json &object, const char *key);
/// An array.
const Json &listOf(const Json &object, const char *key);
double numberOf(const Json &object, const char *key);
/// A string as it is, anything else as JSON, "" if absent.
std::string textOf(const Json &object, const char *key);
/// "12.3 MB".
std::string bytesText(double bytes);

} // namespace knapper::report
