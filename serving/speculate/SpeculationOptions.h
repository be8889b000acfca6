// Where proposed tokens come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace knapper::serving {

enum class SpeculationKind : uint8_t {
  off,
  lookup, ///< what followed the last tokens earlier in the sequence
  draft,  ///< a smaller model of the same vocabulary
};

/// "off", "ngram" or "draft".
inline std::optional<SpeculationKind> parseSpeculation(std::string_view name) {
  if (name == "off")
    return SpeculationKind::off;
  if (name == "ngram")
    return SpeculationKind::lookup;
  if (name == "draft")
    return SpeculationKind::draft;
  return std::nullopt;
}

struct SpeculationOptions {
  SpeculationKind kind = SpeculationKind::off;
  int32_t tokens = 8; ///< that are proposed at once, at most
  /// Verify what is worth it by what was measured; else all that is proposed.
  bool measured = true;
};

} // namespace knapper::serving
