//===- ServerEvents.h - The data lines of a stream of events --------------===//
//
// What a server streams as text/event-stream (WHATWG HTML, "Server-sent
// events"), as OpenAI's API uses it: each event is one line that begins with
// `data:`. For one thread; holds no more than a line and what is no event.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace knapper::cli {

/// A count of an answer's `usage`; 0 where there is none, or it is null.
inline int64_t usageCount(const nlohmann::ordered_json &usage,
                          const char *name) {
  auto it = usage.find(name);
  return it != usage.end() && it->is_number() ? it->get<int64_t>() : 0;
}

class ServerEvents {
public:
  /// `event` gets what stands behind `data:`; it is valid during the call.
  explicit ServerEvents(std::function<void(std::string_view)> event)
      : event(std::move(event)) {}

  /// The next bytes, cut anywhere.
  void push(std::string_view part) {
    held += part;
    size_t from = 0;
    for (size_t end; (end = held.find('\n', from)) != held.npos; from = end + 1)
      line(std::string_view(held).substr(from, end - from));
    held.erase(0, from);
  }
  /// What is no event: the body of a status other than 200.
  std::string rest() const { return other + held; }

private:
  void line(std::string_view text) {
    if (text.ends_with('\r'))
      text.remove_suffix(1);
    if (!text.starts_with("data:")) {
      other += text;
      return;
    }
    text.remove_prefix(text.starts_with("data: ") ? 6 : 5);
    event(text);
  }

  std::function<void(std::string_view)> event;
  std::string held, other;
};

} // namespace knapper::cli
