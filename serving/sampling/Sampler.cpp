#include "serving/sampling/Sampler.h"

#include "runtime/base/Text.h"
#include "serving/sampling/Philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace knapper::serving {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// The largest logit; NaN if any is NaN or +inf, -inf if all are.
float largestOf(std::span<const float> logits) {
  float largest = kNever;
  bool broken = false;
  for (float logit : logits) {
    largest = logit > largest ? logit : largest;
    broken |= !(logit < std::numeric_limits<float>::infinity());
  }
  return broken ? std::numeric_limits<float>::quiet_NaN() : largest;
}

double logSum(std::span<const float> logits, float largest) {
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

/// The best `count` tokens, best first.
std::vector<int32_t> bestTokens(std::span<const float> logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<long>(count),
                    order.end(), [&](int32_t a, int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  order.resize(count);
  return order;
}

void changeLogits(std::span<float> logits, const SamplingOptions &options,
                  const TokenCounts &counts) {
  auto inside = [&](int32_t token) {
    return token >= 0 && static_cast<size_t>(token) < logits.size();
  };
  for (auto [token, bias] : options.bias)
    if (inside(token))
      logits[token] += bias;
  if (options.repetitionPenalty != 1) {
    auto repeat = [&](int32_t token) {
      float &logit = logits[token];
      logit = logit > 0 ? logit / options.repetitionPenalty
                        : logit * options.repetitionPenalty;
    };
    for (auto [token, count] : counts.prompt)
      if (inside(token))
        repeat(token);
    for (auto [token, count] : counts.answer)
      if (inside(token) && !counts.prompt.contains(token))
        repeat(token);
  }
  if (options.frequencyPenalty != 0 || options.presencePenalty != 0)
    for (auto [token, count] : counts.answer)
      if (inside(token))
        logits[token] -= options.frequencyPenalty * static_cast<float>(count) +
                         options.presencePenalty;
}

int32_t greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

/// Walks along weights until the drawn share of their sum is reached.
template <typename Tokens, typename WeightOf>
int32_t draw(const Tokens &tokens, WeightOf weightOf, double sum,
             double uniform) {
  double left = uniform * sum;
  int32_t last = tokens.front();
  for (int32_t token : tokens) {
    double weight = weightOf(token);
    if (weight <= 0)
      continue;
    last = token;
    left -= weight;
    if (left < 0)
      break;
  }
  return last;
}

int32_t drawToken(std::span<float> logits, const SamplingOptions &options,
                  float largest, uint64_t position) {
  double uniform = philoxUniform(options.seed, position);
  auto weight = [&](int32_t token) {
    return std::exp((double(logits[token]) - largest) / options.temperature);
  };
  if (options.minP > 0) {
    double bound = largest + options.temperature * std::log(options.minP);
    for (float &logit : logits)
      if (logit < bound)
        logit = kNever;
  }
  bool sorted = options.topK > 0 || options.topP < 1;
  std::vector<int32_t> tokens;
  if (sorted) {
    tokens =
        bestTokens(logits, options.topK > 0 ? static_cast<size_t>(options.topK)
                                            : logits.size());
  } else {
    tokens.resize(logits.size());
    std::iota(tokens.begin(), tokens.end(), 0);
  }
  std::vector<double> weights;
  weights.reserve(tokens.size());
  for (int32_t token : tokens)
    weights.push_back(weight(token));
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.topP < 1) {
    // The fewest of the best that hold the share, at least one.
    double held = 0;
    size_t keep = 0;
    while (keep < tokens.size() && held < options.topP * sum)
      held += weights[keep++];
    tokens.resize(std::max<size_t>(keep, 1));
    sum = std::max(held, weights.front());
  }
  return draw(tokens, weight, sum, uniform);
}

} // namespace

float logSoftmaxAt(std::span<const float> logits, int32_t token) {
  return static_cast<float>(logits[token] - logSum(logits, largestOf(logits)));
}

Expected<Token> sampleToken(std::span<float> logits,
                            const SamplingOptions &options,
                            const TokenCounts &counts, uint64_t position,
                            int32_t topLogprobs,
                            std::span<const uint32_t> allowed) {
  auto broken = [] {
    return userError("the model gave logits that are not finite", "logits",
                     "check the weights: sums in float32 overflow, or a weight "
                     "is NaN");
  };
  float largest = largestOf(logits);
  if (!(largest > kNever))
    return broken();
  Token token;
  double all = 0;
  if (topLogprobs >= 0) {
    all = logSum(logits, largest);
    for (int32_t best : bestTokens(logits, static_cast<size_t>(topLogprobs)))
      token.top.push_back({best, static_cast<float>(logits[best] - all)});
  }
  std::vector<float> given;
  if (topLogprobs >= 0)
    given.assign(logits.begin(), logits.end());
  changeLogits(logits, options, counts);
  if (!allowed.empty())
    for (size_t i = 0; i < logits.size(); ++i)
      if (i / 32 >= allowed.size() || !(allowed[i / 32] >> (i % 32) & 1))
        logits[i] = kNever;
  largest = largestOf(logits);
  if (!(largest > kNever))
    return broken();
  token.id = options.temperature <= 0
                 ? greedy(logits)
                 : drawToken(logits, options, largest, position);
  if (topLogprobs >= 0)
    token.logprob = static_cast<float>(given[token.id] - all);
  return token;
}

} // namespace knapper::serving
