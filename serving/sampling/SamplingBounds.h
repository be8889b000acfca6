// What requests may ask of sampling: the one table that requests, the
// defaults of models (generation_config.json), the engine and /openapi.json
// read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace knapper::serving {

struct SamplingBound {
  std::string_view field; ///< as requests call it
  double least, most;
  double otherwise; ///< where neither the request nor the model says
  bool isWhole;     ///< an integer
  bool isOfModels;  ///< generation_config.json may say it
  bool isCut;       ///< larger values of a model have a meaning, and are cut
  constexpr bool holds(double value) const {
    return value >= least && value <= most;
  }
  /// Of a value that was rounded.
  constexpr bool holds(float value) const {
    return value >= static_cast<float>(least) &&
           value <= static_cast<float>(most);
  }
  constexpr bool holds(int32_t value) const {
    return holds(static_cast<double>(value));
  }
};

inline constexpr SamplingBound samplingBounds[] = {
    {"temperature", 0, 2, 1, false, true, true},
    // 0: nothing but the most likely token.
    {"top_p", 0, 1, 1, false, true, false},
    // 0: all of them; -1 is vLLM's word for it.
    {"top_k", -1, INT32_MAX, 0, true, true, false},
    {"min_p", 0, 1, 0, false, true, false},
    {"frequency_penalty", -2, 2, 0, false, false, false},
    {"presence_penalty", -2, 2, 0, false, false, false},
    {"repetition_penalty", 0.01, 10, 1, false, true, true},
    {"logit_bias", -100, 100, 0, false, false, false}, // of one token
};

/// The row of a field, which must be one of the table.
consteval const SamplingBound &samplingBound(std::string_view field) {
  for (const SamplingBound &bound : samplingBounds)
    if (bound.field == field)
      return bound;
  throw "no such field";
}

/// "0 to 2"; "-1 or more" where there is no bound above but the type's.
std::string rangeText(double least, double most);

} // namespace knapper::serving
