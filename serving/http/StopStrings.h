// Texts that end an answer, found across the borders of tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace knapper::serving {

class StopStrings {
public:
  StopStrings() = default;
  explicit StopStrings(std::vector<std::string> stops)
      : stops(std::move(stops)) {}

  /// Takes a text that follows and returns what can be shown: it holds back
  /// what may be the begin of a stop string. After a hit nothing is shown.
  std::string push(std::string_view text);
  /// What was held back, at the end.
  std::string finish();
  /// Whether there are any.
  bool any() const { return !stops.empty(); }
  /// Whether a stop string was met; the first one of those that end first.
  bool hit() const { return stopped; }
  const std::string &stop() const { return found; }

private:
  std::vector<std::string> stops;
  std::string held, found;
  bool stopped = false;
};

} // namespace knapper::serving
