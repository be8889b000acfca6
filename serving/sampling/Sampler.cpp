#include "serving/sampling/Sampler.h"

#include "runtime/base/Text.h"
#include "serving/sampling/DrawWeights.h"
#include "serving/sampling/Philox.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace knapper::serving {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// The largest logit; NaN if any is NaN or +inf, -inf if all are.
float largestOf(std::span<const float> logits) {
  // Of each lane by itself, so that the compiler makes vectors of them.
  constexpr size_t lanes = 16;
  std::array<float, lanes> most;
  most.fill(kNever);
  std::array<int32_t, lanes> broken{};
  auto look = [&](size_t lane, float logit) {
    most[lane] = logit > most[lane] ? logit : most[lane];
    broken[lane] |= !(logit < std::numeric_limits<float>::infinity());
  };
  size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes)
    for (size_t lane = 0; lane < lanes; ++lane)
      look(lane, logits[i + lane]);
  for (; i < logits.size(); ++i)
    look(0, logits[i]);
  bool isBroken = std::any_of(broken.begin(), broken.end(),
                              [](int32_t lane) { return lane != 0; });
  return isBroken ? std::numeric_limits<float>::quiet_NaN()
                  : *std::max_element(most.begin(), most.end());
}

double logSum(std::span<const float> logits, float largest,
              DrawWeights &weights) {
  weights.fill(logits, largest, 1);
  return largest + std::log(weights.sum());
}

/// Logits by rank: larger ones first, of equal ones the smaller token.
struct Better {
  std::span<const float> logits;
  bool operator()(int32_t a, int32_t b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

/// The best `count` places, best first.
std::vector<int32_t> bestPlaces(std::span<const float> logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, order.size());
  auto end = order.begin() + static_cast<long>(count);
  if (count < order.size())
    std::nth_element(order.begin(), end, order.end(), Better{logits});
  std::sort(order.begin(), end, Better{logits});
  order.resize(count);
  return order;
}

/// The same of a few: one look at each logit, since most are below all of them.
std::vector<int32_t> fewBest(std::span<const float> logits, size_t count) {
  std::vector<int32_t> best;
  if (count == 0)
    return best;
  best.reserve(count + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (best.size() == count && !(logits[i] > logits[best.back()]))
      continue;
    auto place = static_cast<int32_t>(i);
    best.insert(
        std::upper_bound(best.begin(), best.end(), place, Better{logits}),
        place);
    if (best.size() > count)
      best.pop_back();
  }
  return best;
}

/// Whether anything may have changed.
bool changeLogits(std::span<float> logits, const SamplingOptions &options,
                  const TokenCounts &counts) {
  std::vector<LogitChange> changes =
      logitChanges(options, counts, static_cast<int64_t>(logits.size()));
  for (const LogitChange &change : changes)
    logits[change.token] = change.of(logits[change.token]);
  return !changes.empty();
}

/// The first of the largest ones.
size_t greedy(std::span<const float> logits, float largest) {
  constexpr size_t together = 64;
  size_t from = 0;
  for (; from + together <= logits.size(); from += together) {
    int32_t found = 0;
    for (size_t i = 0; i < together; ++i)
      found |= logits[from + i] == largest;
    if (found)
      break;
  }
  return static_cast<size_t>(std::find(logits.begin() + static_cast<long>(from),
                                       logits.end(), largest) -
                             logits.begin());
}

/// Of the best places: as many as hold the share of `all`, at least one. Sorts
/// no more of them than it needs.
std::vector<int32_t> placesOfShare(std::span<const float> logits,
                                   const DrawWeights &weights, double share) {
  double wanted = share * weights.sum();
  for (size_t count = 64;; count *= 8) {
    std::vector<int32_t> places = bestPlaces(logits, count);
    double held = 0;
    size_t keep = 0;
    while (keep < places.size() && held < wanted)
      held += weights.at(static_cast<size_t>(places[keep++]));
    if (held < wanted && places.size() < logits.size())
      continue;
    places.resize(std::max<size_t>(keep, 1));
    return places;
  }
}

/// The place that is drawn. `logits` are those that may be.
size_t drawPlace(std::span<float> logits, const SamplingOptions &options,
                 float largest, uint64_t position) {
  double uniform = philoxUniform(options.seed, position);
  float scale = std::min(1 / options.temperature, 1e30f);
  if (options.minP > 0) {
    double bound = largest + options.temperature * std::log(options.minP);
    for (float &logit : logits)
      if (logit < bound)
        logit = kNever;
  }
  DrawWeights weights;
  if (options.topK <= 0 && options.topP >= 1) {
    weights.fill(logits, largest, scale);
    return weights.place(uniform);
  }
  std::vector<int32_t> places;
  std::vector<float> kept;
  auto take = [&] {
    kept.clear();
    for (int32_t place : places)
      kept.push_back(logits[static_cast<size_t>(place)]);
    weights.fill(kept, largest, scale);
  };
  if (options.topK > 0) {
    places = bestPlaces(logits, static_cast<size_t>(options.topK));
    take();
    if (options.topP < 1) {
      places.resize(placesOfShare(kept, weights, options.topP).size());
      take();
    }
  } else {
    weights.fill(logits, largest, scale);
    places = placesOfShare(logits, weights, options.topP);
    take();
  }
  return static_cast<size_t>(places[weights.place(uniform)]);
}

/// Moves the logits that may be drawn to the front; which tokens they are.
std::vector<int32_t> gather(std::span<float> logits,
                            std::span<const uint32_t> allowed) {
  std::vector<int32_t> tokens;
  size_t words = std::min(allowed.size(), (logits.size() + 31) / 32);
  for (size_t word = 0; word < words; ++word)
    for (uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      size_t token = word * 32 + static_cast<size_t>(std::countr_zero(bits));
      if (token >= logits.size())
        break;
      // Never behind what is still to be read.
      logits[tokens.size()] = logits[token];
      tokens.push_back(static_cast<int32_t>(token));
    }
  return tokens;
}

} // namespace

bool areFinite(std::span<const float> logits) {
  return largestOf(logits) > kNever;
}

Token describeToken(std::span<const float> logits, int32_t token,
                    int32_t topLogprobs) {
  DrawWeights weights;
  double all = logSum(logits, largestOf(logits), weights);
  Token made{token, static_cast<float>(logits[token] - all), {}};
  if (topLogprobs > 0)
    for (int32_t best : fewBest(logits, static_cast<size_t>(topLogprobs)))
      made.top.push_back({best, static_cast<float>(logits[best] - all)});
  return made;
}

float logSoftmaxAt(std::span<const float> logits, int32_t token) {
  return describeToken(logits, token, 0).logprob;
}

bool changesLogits(const SamplingOptions &options) {
  return options.frequencyPenalty != 0 || options.presencePenalty != 0 ||
         options.repetitionPenalty != 1 || !options.bias.empty();
}

bool drawsBest(const SamplingOptions &options) {
  return options.temperature <= 0 && !changesLogits(options);
}

Error notFiniteError() {
  return userError("the model gave logits that are not finite", "logits",
                   "check the weights: sums in float32 overflow, or a weight "
                   "is NaN");
}

Expected<Token> sampleToken(std::span<float> logits,
                            const SamplingOptions &options,
                            const TokenCounts &counts, uint64_t position,
                            int32_t topLogprobs,
                            std::span<const uint32_t> allowed) {
  float largest = largestOf(logits);
  if (!(largest > kNever))
    return notFiniteError();
  Token token;
  double all = 0;
  std::vector<float> given;
  if (topLogprobs >= 0) {
    DrawWeights weights;
    all = logSum(logits, largest, weights);
    for (int32_t best : fewBest(logits, static_cast<size_t>(topLogprobs)))
      token.top.push_back({best, static_cast<float>(logits[best] - all)});
    given.assign(logits.begin(), logits.end());
  }
  bool changed = changeLogits(logits, options, counts);
  std::vector<int32_t> tokens;
  if (!allowed.empty()) {
    tokens = gather(logits, allowed);
    logits = logits.first(tokens.size());
  }
  if (changed || !allowed.empty())
    largest = largestOf(logits);
  if (!(largest > kNever))
    return notFiniteError();
  size_t place = options.temperature <= 0
                     ? greedy(logits, largest)
                     : drawPlace(logits, options, largest, position);
  token.id = tokens.empty() ? static_cast<int32_t>(place) : tokens[place];
  if (topLogprobs >= 0)
    token.logprob = static_cast<float>(given[token.id] - all);
  return token;
}

} // namespace knapper::serving
