#include "compiler/report/Writer.h"

#include "runtime/base/Printable.h"

#include <cstdio>

namespace knapper::report {

Writer &Writer::text(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    // Controls are not allowed in HTML, the others would hide what they are in.
    if (Hidden hidden = hiddenAt(text.substr(i));
        hidden.bytes && c != '\n' && c != '\t') {
      out += "\xef\xbf\xbd";
      i += hidden.bytes - 1;
      continue;
    }
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      out += c;
    }
  }
  return *this;
}

const Json &memberOf(const Json &object, const char *key) {
  static const Json nothing;
  if (!object.is_object())
    return nothing;
  auto it = object.find(key);
  return it == object.end() ? nothing : *it;
}

const Json &listOf(const Json &object, const char *key) {
  static const Json empty = Json::array();
  const Json &list = memberOf(object, key);
  return list.is_array() ? list : empty;
}

double numberOf(const Json &object, const char *key) {
  const Json &number = memberOf(object, key);
  return number.is_number() ? number.get<double>() : 0;
}

std::string textOf(const Json &object, const char *key) {
  const Json &value = memberOf(object, key);
  if (value.is_string())
    return value.get<std::string>();
  return value.is_null()
             ? std::string()
             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string bytesText(double bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit)
    bytes /= 1000;
  char text[32];
  snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

} // namespace knapper::report
