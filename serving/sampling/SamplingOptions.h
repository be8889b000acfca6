// How tokens are drawn, and what is said of each.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace knapper::serving {

/// How the next token is drawn. The defaults are OpenAI's.
struct SamplingOptions {
  float temperature = 1;         ///< 0: greedy
  float topP = 1;                ///< (0, 1]
  float minP = 0;                ///< [0, 1]
  int32_t topK = 0;              ///< 0: all
  float frequencyPenalty = 0;    ///< [-2, 2]
  float presencePenalty = 0;     ///< [-2, 2]
  float repetitionPenalty = 1;   ///< > 0
  uint64_t seed = 0;             ///< with the position: the stream of Philox
  std::map<int32_t, float> bias; ///< added to the logit of a token
};

struct TokenLogprob {
  int32_t token;
  float logprob; ///< natural logarithm
};

/// One new token of a request.
struct Token {
  int32_t id;
  float logprob = 0;
  std::vector<TokenLogprob> top; ///< most likely first
};

} // namespace knapper::serving
