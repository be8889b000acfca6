#include "serving/http/StopStrings.h"

#include <algorithm>

namespace knapper::serving {

std::string StopStrings::push(std::string_view text) {
  if (stopped)
    return {};
  if (stops.empty())
    return std::string(text);
  held += text;
  size_t first = std::string::npos;
  for (const std::string &stop : stops)
    if (size_t at = held.find(stop); at < first) {
      first = at;
      found = stop;
    }
  if (first != std::string::npos) {
    stopped = true;
    std::string shown = held.substr(0, first);
    held.clear();
    return shown;
  }
  size_t keep = 0;
  for (const std::string &stop : stops)
    for (size_t length = std::min(stop.size() - 1, held.size()); length > keep;
         --length)
      if (std::string_view(held).ends_with(
              std::string_view(stop).substr(0, length))) {
        keep = length;
        break;
      }
  std::string shown = held.substr(0, held.size() - keep);
  held.erase(0, held.size() - keep);
  return shown;
}

std::string StopStrings::finish() {
  std::string rest = std::move(held);
  held.clear();
  return stopped ? std::string() : rest;
}

} // namespace knapper::serving
