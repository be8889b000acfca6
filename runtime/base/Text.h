// Assembling messages.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace knapper {

/// cat("input '", name, "' has rank ", 3): strings as they are, integers in
/// decimal.
template <typename... Parts> std::string cat(const Parts &...parts) {
  std::string text;
  auto append = [&](const auto &part) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part)>>)
      text += std::to_string(part);
    else
      text += std::string_view(part);
  };
  (append(parts), ...);
  return text;
}

} // namespace knapper
