#include "runtime/base/Json.h"

#include <cmath>
#include <cstdio>

namespace knapper {
namespace {

/// Length of the UTF-8 sequence at the start of `text`, 0 if there is none.
size_t utf8Length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  size_t length = first < 0x80                     ? 1
                  : first >= 0xC2 && first <= 0xDF ? 2
                  : (first & 0xF0) == 0xE0         ? 3
                  : first >= 0xF0 && first <= 0xF4 ? 4
                                                   : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
  // Overlong forms, surrogates, beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F))
    return 0;
  return length;
}

void appendQuoted(std::string &out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    unsigned char c = static_cast<unsigned char>(text[0]);
    size_t length = utf8Length(text);
    if (length == 0) {
      out += "\\ufffd";
      length = 1;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f || c == '<') {
      // '<' so that a document can stand inside an HTML script element.
      char buffer[8];
      snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out += '"';
}

} // namespace

void JsonWriter::separate() {
  if (needComma)
    out += ',';
  needComma = true;
}

JsonWriter &JsonWriter::beginObject() {
  separate();
  out += '{';
  needComma = false;
  return *this;
}
JsonWriter &JsonWriter::endObject() {
  out += '}';
  needComma = true;
  return *this;
}
JsonWriter &JsonWriter::beginArray() {
  separate();
  out += '[';
  needComma = false;
  return *this;
}
JsonWriter &JsonWriter::endArray() {
  out += ']';
  needComma = true;
  return *this;
}
JsonWriter &JsonWriter::key(std::string_view name) {
  separate();
  appendQuoted(out, name);
  out += ':';
  needComma = false;
  return *this;
}
JsonWriter &JsonWriter::value(std::string_view text) {
  separate();
  appendQuoted(out, text);
  return *this;
}
JsonWriter &JsonWriter::value(int64_t number) {
  separate();
  out += std::to_string(number);
  return *this;
}
JsonWriter &JsonWriter::value(uint64_t number) {
  separate();
  out += std::to_string(number);
  return *this;
}
JsonWriter &JsonWriter::value(double number) {
  if (!std::isfinite(number))
    return null();
  separate();
  char buffer[32];
  snprintf(buffer, sizeof buffer, "%.9g", number);
  out += buffer;
  return *this;
}
JsonWriter &JsonWriter::value(bool flag) {
  separate();
  out += flag ? "true" : "false";
  return *this;
}
JsonWriter &JsonWriter::null() {
  separate();
  out += "null";
  return *this;
}
JsonWriter &JsonWriter::raw(std::string_view text) {
  separate();
  out += text;
  return *this;
}

} // namespace knapper
