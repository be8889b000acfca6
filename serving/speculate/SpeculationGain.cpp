#include "serving/speculate/SpeculationGain.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace knapper::serving {

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

size_t StepTimes::bucketOf(int32_t tokens) {
  if (tokens <= 3)
    return static_cast<size_t>(std::max(tokens, 1) - 1);
  int log = 31 - __builtin_clz(static_cast<unsigned>(tokens));
  bool upper = tokens >= 3 << (log - 1);
  return std::min<size_t>(static_cast<size_t>(2 * log - 1 + upper), 39);
}

void StepTimes::add(int32_t tokens, double seconds) {
  Bucket &bucket = buckets[bucketOf(tokens)];
  // The first step of a size also plans its memory.
  if (++bucket.count <= 2) {
    bucket.tokens = tokens;
    bucket.seconds =
        bucket.count == 1 ? seconds : std::min(bucket.seconds, seconds);
    return;
  }
  // One step that the machine held up counts no more than twice.
  double bounded = std::clamp(seconds, bucket.seconds / 2, bucket.seconds * 2);
  constexpr double share = 0.1;
  bucket.seconds += share * (bounded - bucket.seconds);
  bucket.tokens += share * (tokens - bucket.tokens);
}

double StepTimes::seconds(int32_t tokens) const {
  const Bucket *below = nullptr, *before = nullptr, *above = nullptr;
  for (const Bucket &bucket : buckets) {
    if (bucket.count == 0)
      continue;
    if (bucket.tokens <= tokens) {
      before = below;
      below = &bucket;
    } else if (!above) {
      above = &bucket;
    }
  }
  if (!below)
    return above ? above->seconds : 0;
  const Bucket *from = below, *to = above;
  if (!above) { // beyond all: on the line of the last two
    from = before;
    to = below;
  }
  if (!from || to->tokens <= from->tokens)
    return below->seconds;
  double slope = std::max(0.0, (to->seconds - from->seconds) /
                                   (to->tokens - from->tokens));
  return below->seconds + slope * (tokens - below->tokens);
}

//===----------------------------------------------------------------------===//
// Rates
//===----------------------------------------------------------------------===//

void AcceptanceRate::add(int32_t verified, int32_t right) {
  constexpr double share = 0.15;
  for (int32_t i = 0; i < right; ++i)
    value += share * (1 - value);
  if (right < verified)
    value += share * (0 - value);
  passed = 0;
  if (right > 0)
    patience = kLeast;
  else
    patience = std::min(2 * patience, kMost);
}

bool AcceptanceRate::pass() {
  if (++passed < patience)
    return false;
  passed = 0;
  return true;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

std::vector<int32_t> chooseVerified(std::span<const Proposal> proposals,
                                    int32_t others, const StepTimes &times) {
  struct One {
    double gain;
    size_t proposal;
  };
  std::vector<One> all; // of one proposal none gains more than the one before
  for (size_t i = 0; i < proposals.size(); ++i) {
    double gain = 1;
    for (int32_t j = 0; j < proposals[i].tokens; ++j)
      all.push_back({gain *= proposals[i].rate, i});
  }
  std::sort(all.begin(), all.end(),
            [](const One &a, const One &b) { return a.gain > b.gain; });
  double made = others, best = made / std::max(times.seconds(others), 1e-9);
  size_t count = 0;
  for (size_t m = 0; m < all.size(); ++m) {
    made += all[m].gain;
    double speed =
        made /
        std::max(times.seconds(others + static_cast<int32_t>(m) + 1), 1e-9);
    if (speed > best) {
      best = speed;
      count = m + 1;
    }
  }
  std::vector<int32_t> chosen(proposals.size());
  for (size_t m = 0; m < count; ++m)
    ++chosen[all[m].proposal];
  return chosen;
}

int32_t chooseRounds(std::span<const double> rates, int32_t others,
                     int32_t most, const StepTimes &times,
                     const StepTimes &draftTimes) {
  auto count = static_cast<int32_t>(rates.size());
  double made = others, best = made / std::max(times.seconds(others), 1e-9);
  std::vector<double> gains(rates.size(), 1);
  int32_t rounds = 0;
  for (int32_t k = 1; k <= most; ++k) {
    for (size_t i = 0; i < rates.size(); ++i)
      made += gains[i] *= rates[i];
    double seconds = times.seconds(others + k * count) +
                     k * draftTimes.seconds(std::max(count, 1));
    double speed = made / std::max(seconds, 1e-9);
    if (speed > best) {
      best = speed;
      rounds = k;
    }
  }
  return rounds;
}

} // namespace knapper::serving
