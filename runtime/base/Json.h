// A writer of JSON text: what inspection, profiles and devices answer in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace knapper {

/// Builds one JSON document. Commas are placed by the writer; the caller keeps
/// begin/end balanced. Strings are escaped, bytes that are not UTF-8 become
/// U+FFFD; numbers that JSON cannot hold (NaN, infinities) become null.
class JsonWriter {
public:
  JsonWriter &beginObject();
  JsonWriter &endObject();
  JsonWriter &beginArray();
  JsonWriter &endArray();
  JsonWriter &key(std::string_view name);
  JsonWriter &value(std::string_view text);
  JsonWriter &value(const char *text) { return value(std::string_view(text)); }
  JsonWriter &value(int64_t number);
  JsonWriter &value(uint64_t number);
  JsonWriter &value(int32_t number) { return value(int64_t(number)); }
  JsonWriter &value(uint32_t number) { return value(uint64_t(number)); }
  JsonWriter &value(double number);
  JsonWriter &value(bool flag);
  JsonWriter &null();
  /// `text` must be one JSON value already.
  JsonWriter &raw(std::string_view text);

  template <typename T> JsonWriter &field(std::string_view name, T &&v) {
    return key(name).value(static_cast<T &&>(v));
  }

  const std::string &text() const { return out; }
  std::string take() { return std::move(out); }

private:
  void separate();
  std::string out;
  bool needComma = false;
};

} // namespace knapper
