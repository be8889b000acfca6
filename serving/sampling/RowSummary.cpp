#include "serving/sampling/RowSummary.h"

#include "serving/sampling/DrawWeights.h"
#include "serving/sampling/Philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace knapper::serving {
namespace {

/// Of the sum of a row's weights: nearer to a border than this the host draws.
/// Running sums in float32, in the device's order, are off by some parts in
/// 10^7: a model of tree sums and block scans met 0.8 of this on a heavy token
/// among 151,936 light ones. No proof says that it cannot be more.
constexpr float kSumError = 0x1p-20f;

/// The ranks that may be drawn: the first `count`; whether the row has no
/// others.
struct Candidates {
  size_t count = 0;
  bool areAll = false;
};

/// Those that `minP` and `topK` leave; nothing where others may be among them.
std::optional<Candidates> candidatesOf(const RowSummary &row,
                                       const SamplingOptions &options) {
  Candidates found{row.values.size(),
                   static_cast<int64_t>(row.values.size()) == row.vocabulary};
  if (options.minP > 0) {
    double bound = row.values[0] + options.temperature * std::log(options.minP);
    auto end = std::partition_point(row.values.begin(), row.values.end(),
                                    [&](float v) { return v >= bound; });
    found.areAll |= end != row.values.end();
    found.count =
        std::min(found.count, static_cast<size_t>(end - row.values.begin()));
  }
  if (options.topK > 0) {
    auto most = static_cast<size_t>(options.topK);
    if (most > row.values.size() && !found.areAll)
      return std::nullopt;
    found.areAll |= most <= row.values.size();
    found.count = std::min(found.count, most);
  }
  return found;
}

/// The rank that is drawn, of the best tokens.
std::optional<size_t> rankOf(const RowSummary &row,
                             const SamplingOptions &options,
                             uint64_t position) {
  std::optional<Candidates> candidates = candidatesOf(row, options);
  bool needsAll = options.topP >= 1 || options.minP > 0;
  if (!candidates || (needsAll && !candidates->areAll))
    return std::nullopt;
  double uniform = philoxUniform(options.seed, position);
  float scale = summaryScale(options);
  std::span<const float> values = row.values.first(candidates->count);
  DrawWeights weights;
  if (options.topK <= 0 && options.topP >= 1) {
    // Token by token, as in a whole row.
    std::vector<size_t> ranks(values.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    std::sort(ranks.begin(), ranks.end(),
              [&](size_t a, size_t b) { return row.ids[a] < row.ids[b]; });
    std::vector<float> ordered;
    for (size_t rank : ranks)
      ordered.push_back(values[rank]);
    weights.fill(ordered, values[0], scale);
    return ranks[weights.place(uniform)];
  }
  weights.fill(values, values[0], scale);
  if (options.topP < 1) {
    double wanted =
        options.topP * (candidates->areAll ? weights.sum() : row.weightSum);
    double held = 0;
    size_t keep = 0;
    while (keep < values.size() && held < wanted)
      held += weights.at(keep++);
    // Of a sum that the device made: one rank more or less might be kept.
    double over = held - wanted, error = double(kSumError) * row.weightSum;
    if (!candidates->areAll &&
        (over < error || (keep > 0 && weights.at(keep - 1) - over < error)))
      return std::nullopt;
    values = values.first(std::max<size_t>(keep, 1));
    weights.fill(values, values[0], scale);
  }
  return weights.place(uniform);
}

} // namespace

float summaryScale(const SamplingOptions &options) {
  return options.temperature > 0 ? std::min(1 / options.temperature, 1e30f) : 1;
}

float summaryShare(const SamplingOptions &options, uint64_t position) {
  double uniform = philoxUniform(options.seed, position);
  constexpr float most = 0x1.fffffep-1f; // below 1
  return std::min(static_cast<float>(uniform), most);
}

DrawNumbers drawNumbers(const SamplingOptions &options, uint64_t position) {
  DrawNumbers numbers;
  numbers.scale = summaryScale(options);
  numbers.share = summaryShare(options, position);
  if (options.temperature <= 0) {
    numbers.topK = 1;
    return numbers;
  }
  numbers.topK = std::max(options.topK, 0);
  numbers.topP = options.topP;
  if (options.minP > 0)
    numbers.depth = options.temperature * std::log(options.minP);
  return numbers;
}

bool mayUseSummary(const SamplingOptions &options, int32_t topLogprobs,
                   int64_t known, int64_t knownBest, int64_t vocabulary) {
  bool draws = options.temperature > 0;
  return known == vocabulary ||
         (topLogprobs <= knownBest && (!draws || options.topK <= known));
}

std::optional<Token> drawFromSummary(const RowSummary &row,
                                     const SamplingOptions &options,
                                     uint64_t position, int32_t topLogprobs) {
  if (row.values.empty() || !std::isfinite(row.logSum) ||
      !std::isfinite(row.values[0]))
    return std::nullopt;
  Token token;
  float given;
  std::optional<Candidates> all = candidatesOf(row, options);
  bool whole = options.topK <= 0 && options.topP >= 1 && options.minP <= 0 &&
               all && !all->areAll;
  if (options.temperature > 0 && whole) {
    if (row.drawn < 0 || row.drawn >= row.vocabulary ||
        !(row.drawnMargin > kSumError * row.weightSum))
      return std::nullopt;
    token.id = static_cast<int32_t>(row.drawn);
    given = row.drawnGiven;
  } else {
    std::optional<size_t> rank = options.temperature > 0
                                     ? rankOf(row, options, position)
                                     : std::optional<size_t>(0);
    if (!rank)
      return std::nullopt;
    token.id = static_cast<int32_t>(row.ids[*rank]);
    given = row.given[*rank];
  }
  if (topLogprobs < 0)
    return token;
  token.logprob = given - row.logSum;
  size_t count =
      std::min(static_cast<size_t>(topLogprobs), row.bestGiven.size());
  for (size_t i = 0; i < count; ++i)
    token.top.push_back(
        {static_cast<int32_t>(row.bestIds[i]), row.bestGiven[i] - row.logSum});
  return token;
}

} // namespace knapper::serving
