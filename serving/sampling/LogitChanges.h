// What penalties and biases do to logits, token by token.
#pragma once

#include "serving/sampling/SamplingOptions.h"

#include <cstddef>
#include <unordered_map>

namespace knapper::serving {

/// How often a sequence has each token: what penalties look at. Empty where
/// they do not.
struct TokenCounts {
  std::unordered_map<int32_t, int32_t> prompt, answer;
};

struct LogitChange {
  int32_t token;
  float bias = 0;       ///< is added
  float repetition = 1; ///< then divides what is above 0, multiplies the rest
  float penalty = 0;    ///< then is subtracted

  float of(float logit) const {
    logit += bias;
    return (logit > 0 ? logit / repetition : logit * repetition) - penalty;
  }
};

/// Whether it matters how often the prompt, the answer has a token.
bool needsPromptCounts(const SamplingOptions &options);
bool needsAnswerCounts(const SamplingOptions &options);

/// No more than so many, without making them.
size_t mostLogitChanges(const SamplingOptions &options,
                        const TokenCounts &counts);

/// One for each token below `vocabulary` whose logit changes.
std::vector<LogitChange> logitChanges(const SamplingOptions &options,
                                      const TokenCounts &counts,
                                      int64_t vocabulary);

} // namespace knapper::serving
