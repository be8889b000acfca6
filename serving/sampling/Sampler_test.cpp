#include "serving/sampling/Sampler.h"

#include "serving/sampling/Philox.h"
#include "serving/sampling/RowSummary.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

using namespace knapper;
using namespace knapper::serving;

namespace {

int32_t drawn(std::vector<float> logits, const SamplingOptions &options,
              uint64_t position = 0, const TokenCounts &counts = {}) {
  Expected<Token> token = sampleToken(logits, options, counts, position, -1);
  return token ? token->id : -1;
}

/// How often each of the tokens is drawn at 4,000 positions.
std::vector<double> shares(const std::vector<float> &logits,
                           const SamplingOptions &options) {
  std::vector<double> counts(logits.size());
  constexpr int draws = 4000;
  for (int i = 0; i < draws; ++i)
    counts[drawn(logits, options, i)] += 1.0 / draws;
  return counts;
}

// The known answers of the authors' library for ten rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                     0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t(0), {~0u, ~0u, ~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                     0x6d5451fd}));
}

TEST(Sampler, GreedyTakesTheSmallerOfEqualTokens) {
  SamplingOptions options;
  options.temperature = 0;
  EXPECT_EQ(drawn({1, 3, 3, 2}, options), 1);
}

TEST(Sampler, DrawsByTheSoftmaxAtTheTemperature) {
  SamplingOptions options;
  options.temperature = 2;
  std::vector<float> logits{2, 0, 4};
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit / 2);
  std::vector<double> counts = shares(logits, options);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(counts[i], std::exp(logits[i] / 2) / sum, 0.03) << i;
}

TEST(Sampler, KeepsTheBestTokensOnly) {
  std::vector<float> logits{3, 2.5, 2, 1};
  SamplingOptions options;
  options.topK = 2;
  std::vector<double> counts = shares(logits, options);
  EXPECT_GT(counts[0], counts[1]);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2] + counts[3], 0);
  options.topK = 0;
  options.topP = 0.5f; // the first has 0.48 of all
  counts = shares(logits, options);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2] + counts[3], 0);
  options.topP = 0.4f;
  EXPECT_NEAR(shares(logits, options)[0], 1, 1e-9);
  options.topP = 1;
  options.minP = 0.5f; // e^-0.5 = 0.61, e^-1 = 0.37
  counts = shares(logits, options);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2] + counts[3], 0);
  options.minP = 1; // what is as likely as the best
  counts = shares({3, 2.5, 3, 1}, options);
  EXPECT_NEAR(counts[0], 0.5, 0.05);
  EXPECT_NEAR(counts[2], 0.5, 0.05);
}

TEST(Sampler, SeedAndPositionDecide) {
  std::vector<float> logits(64, 0);
  SamplingOptions options;
  int same = 0;
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(drawn(logits, options, i), drawn(logits, options, i));
    SamplingOptions other = options;
    other.seed = 1;
    same += drawn(logits, options, i) == drawn(logits, other, i);
  }
  EXPECT_LT(same, 10);
}

TEST(Sampler, BiasAndPenalties) {
  SamplingOptions options;
  options.temperature = 0;
  options.bias = {{2, 5.0f}, {7, 100.0f}}; // one is no token
  EXPECT_EQ(drawn({1, 3, 0}, options), 2);
  options.bias.clear();
  TokenCounts counts;
  counts.prompt[1] = 1;
  options.repetitionPenalty = 4;
  EXPECT_EQ(drawn({1, 3, 0}, options, 0, counts), 0);
  EXPECT_EQ(drawn({-2, -1, -3}, options, 0, counts), 0) << "-1 becomes -4";
  options.repetitionPenalty = 1;
  options.presencePenalty = 2;
  EXPECT_EQ(drawn({2, 3, 0}, options, 0, counts), 1) << "of answers only";
  counts.answer[1] = 3;
  EXPECT_EQ(drawn({2, 3, 0}, options, 0, counts), 0);
  options.presencePenalty = 0;
  options.frequencyPenalty = 0.5f;
  EXPECT_EQ(drawn({2, 3, 0}, options, 0, counts), 0);
  options.frequencyPenalty = 0.3f;
  EXPECT_EQ(drawn({2, 3, 0}, options, 0, counts), 1);
}

TEST(Sampler, PenaltiesOfATokenOfPromptAndAnswerAdd) {
  SamplingOptions options;
  options.temperature = 0;
  options.repetitionPenalty = 2;
  TokenCounts counts;
  counts.prompt[1] = 1;
  EXPECT_EQ(drawn({1.4f, 3, 0}, options, 0, counts), 1) << "3 becomes 1.5";
  options.presencePenalty = 0.5f;
  EXPECT_EQ(drawn({1.4f, 3, 0}, options, 0, counts), 1) << "of answers only";
  counts.answer[1] = 1;
  EXPECT_EQ(drawn({1.4f, 3, 0}, options, 0, counts), 0);
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  std::vector<float> logits{0, 2, 1};
  SamplingOptions options;
  options.temperature = 0;
  options.bias = {{0, 10.0f}};
  Expected<Token> token = sampleToken(logits, options, {}, 0, 2);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->id, 0);
  double sum = std::log(1 + std::exp(1) + std::exp(2));
  EXPECT_NEAR(token->logprob, -sum, 1e-6);
  ASSERT_EQ(token->top.size(), 2u);
  EXPECT_EQ(token->top[0].token, 1);
  EXPECT_NEAR(token->top[0].logprob, 2 - sum, 1e-6);
  EXPECT_EQ(token->top[1].token, 2);
}

TEST(Sampler, TheBestFewAreThoseOfASort) {
  std::mt19937 random(5);
  for (int vocabulary : {1, 3, 19, 20, 21, 300})
    for (int32_t top : {0, 1, 5, 20}) {
      std::vector<float> logits;
      for (int i = 0; i < vocabulary; ++i) // many are equal
        logits.push_back(static_cast<float>(random() % 9) - 4);
      std::vector<int32_t> order(logits.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return logits[a] > logits[b];
      });
      order.resize(std::min<size_t>(order.size(), top));
      Token of = describeToken(logits, vocabulary / 2, top);
      EXPECT_EQ(of.logprob, logSoftmaxAt(logits, vocabulary / 2));
      std::vector<float> scratch = logits;
      auto drawn = sampleToken(scratch, {}, {}, 0, top);
      ASSERT_TRUE(drawn);
      for (const Token *token : {&of, &*drawn}) {
        ASSERT_EQ(token->top.size(), order.size());
        for (size_t i = 0; i < order.size(); ++i) {
          EXPECT_EQ(token->top[i].token, order[i]);
          EXPECT_EQ(token->top[i].logprob, logSoftmaxAt(logits, order[i]));
        }
      }
    }
}

// 3,000 tokens: more than a block of weights, with blocks of none.
TEST(Sampler, DrawsByTheSoftmaxOfManyTokens) {
  std::vector<float> logits(3000, -std::numeric_limits<float>::infinity());
  for (size_t i : {3u, 700u, 701u, 2900u})
    logits[i] = static_cast<float>(i % 7);
  std::vector<double> counts = shares(logits, {});
  double sum = 0, largest = 6;
  for (float logit : logits)
    sum += std::exp(logit - largest);
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(counts[i], std::exp(logits[i] - largest) / sum, 0.03) << i;
  SamplingOptions options;
  options.temperature = 1e-30f;
  EXPECT_EQ(drawn(logits, options), 3);
}

// Of 2,000 equal tokens: more than are sorted at first.
TEST(Sampler, AShareOfManyTokens) {
  std::vector<float> logits(2000, 1);
  SamplingOptions options;
  options.topP = 0.5f;
  std::vector<double> counts = shares(logits, options);
  double low = 0;
  for (size_t i = 0; i < 1000; ++i)
    low += counts[i];
  EXPECT_NEAR(low, 1, 1e-9);
  EXPECT_GT(*std::max_element(counts.begin() + 900, counts.begin() + 1000), 0);
}

TEST(Sampler, AMaskLeavesTheRestOfTheDistribution) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(i % 10) / 3;
  std::vector<uint32_t> allowed{0, 1u << 5 | 1u << 9, 0, ~0u};
  std::map<int32_t, double> counts;
  for (uint64_t i = 0; i < 4000; ++i) {
    std::vector<float> row = logits;
    Expected<Token> token = sampleToken(row, {}, {}, i, -1, allowed);
    ASSERT_TRUE(token);
    counts[token->id] += 1.0 / 4000;
  }
  double sum = 0;
  for (int32_t token : {37, 41, 96, 97, 98, 99})
    sum += std::exp(logits[static_cast<size_t>(token)]);
  EXPECT_EQ(counts.size(), 6u);
  for (auto [token, share] : counts)
    EXPECT_NEAR(share, std::exp(logits[static_cast<size_t>(token)]) / sum, 0.03)
        << token;
  SamplingOptions options;
  options.temperature = 0;
  Expected<Token> best = sampleToken(logits, options, {}, 0, 1, allowed);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->id, 99);
  EXPECT_EQ(best->top.front().token, 9) << "of the logits as they came";
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
  float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {std::nanf(""), infinity}) {
    std::vector<float> logits{0, bad, 1};
    Expected<Token> token = sampleToken(logits, {}, {}, 0, -1);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().kind, ErrorKind::user);
  }
  std::vector<float> none(3, -infinity);
  EXPECT_FALSE(sampleToken(none, {}, {}, 0, -1));
  std::vector<float> one{-infinity, 0, -infinity};
  Expected<Token> token = sampleToken(one, {}, {}, 0, -1);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->id, 1);
}

/// What a device says of a row: the best `known` tokens, and sums.
struct MadeSummary {
  MadeSummary(std::span<const float> logits, size_t known,
              const SamplingOptions &options, uint64_t position) {
    std::vector<int64_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return logits[a] > logits[b];
    });
    ids.assign(order.begin(), order.begin() + static_cast<long>(known));
    for (int64_t id : ids)
      values.push_back(logits[id]);
    double sum = 0;
    for (float logit : logits)
      sum += std::exp(double(logit) - values[0]);
    // In float32, block by block.
    std::vector<float> weights, ends;
    for (float logit : logits)
      weights.push_back(std::exp((logit - values[0]) * summaryScale(options)));
    float all = 0;
    for (size_t block = 0; block < logits.size(); block += 32) {
      float part = 0;
      for (size_t i = block; i < std::min(block + 32, logits.size()); ++i)
        ends.push_back(all + (part += weights[i]));
      all += part;
    }
    float wanted = summaryShare(options, position) * all;
    size_t place =
        std::upper_bound(ends.begin(), ends.end(), wanted) - ends.begin();
    row.vocabulary = int64_t(logits.size());
    row.values = row.given = row.bestGiven = values;
    row.ids = row.bestIds = ids;
    row.weightSum = all;
    row.drawn = int64_t(place);
    row.drawnMargin = -1;
    if (place < logits.size()) {
      float left = ends[place] - wanted;
      row.drawnMargin = std::min(left, weights[place] - left);
    }
    row.drawnLogit = row.drawnGiven = place < logits.size() ? logits[place] : 0;
    row.logSum = float(values[0] + std::log(sum));
  }
  std::vector<float> values;
  std::vector<int64_t> ids;
  RowSummary row;
};

TEST(RowSummary, DrawsWhatTheWholeRowWould) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  auto oneOf = [&](auto... values) {
    std::array list{values...};
    return list[random() % list.size()];
  };
  int told = 0, all = 0;
  for (int i = 0; i < 4000; ++i) {
    size_t vocabulary = oneOf(5, 40, 700, 1300), known = oneOf(4, 16, 64);
    known = std::min(known, vocabulary);
    std::vector<float> logits(vocabulary);
    for (float &logit : logits)
      logit = oneOf(0, 0, 0, 1) ? std::round(normal(random)) : normal(random);
    SamplingOptions options;
    options.temperature = oneOf(0.0f, 0.3f, 1.0f, 1.0f, 2.0f);
    options.topP = oneOf(1.0f, 1.0f, 0.9f, 0.5f);
    options.minP = oneOf(0.0f, 0.0f, 0.05f, 0.5f);
    options.topK = oneOf(0, 0, 1, 10, 100);
    options.seed = random();
    int32_t top = oneOf(-1, 0, 3);
    if (!mayUseSummary(options, top, int64_t(known), int64_t(known),
                       int64_t(vocabulary)))
      continue;
    ++all;
    auto position = uint64_t(random() % 5000);
    MadeSummary made(logits, known, options, position);
    std::optional<Token> token =
        drawFromSummary(made.row, options, position, top);
    if (!token)
      continue;
    ++told;
    Expected<Token> whole = sampleToken(logits, options, {}, position, top);
    ASSERT_TRUE(whole);
    ASSERT_EQ(token->id, whole->id)
        << i << ": temperature " << options.temperature << " topP "
        << options.topP << " minP " << options.minP << " topK " << options.topK;
    ASSERT_NEAR(token->logprob, whole->logprob, 1e-4);
    ASSERT_EQ(token->top.size(), whole->top.size());
    for (size_t t = 0; t < token->top.size(); ++t)
      ASSERT_EQ(token->top[t].token, whole->top[t].token);
  }
  EXPECT_GT(told, all / 2);
}

TEST(RowSummary, SaysWhereItDoesNotTell) {
  std::vector<float> logits(100, 0.0f); // all alike: 4 of 100 are known
  SamplingOptions options;
  auto tells = [&] {
    MadeSummary made(logits, 4, options, 1);
    return drawFromSummary(made.row, options, 1, -1).has_value();
  };
  EXPECT_TRUE(tells());
  options.topP = 0.5f;
  EXPECT_FALSE(tells());
  options.topP = 0.025f;
  EXPECT_TRUE(tells());
  options.topP = 0.03f; // three tokens or four, as sums are rounded
  EXPECT_FALSE(tells());
  options.topP = 0.0300001f; // four or three
  EXPECT_FALSE(tells());
  options.topP = 0.035f;
  EXPECT_TRUE(tells());
  options.topP = 1;
  options.minP = 0.5f;
  EXPECT_FALSE(tells());
  options.minP = 0;
  options.topK = 4;
  EXPECT_TRUE(tells());
  SamplingOptions more;
  more.topK = 5;
  EXPECT_FALSE(mayUseSummary(more, -1, 4, 4, 100));
  EXPECT_TRUE(mayUseSummary(more, -1, 100, 4, 100));
  EXPECT_FALSE(mayUseSummary({}, 5, 64, 4, 100));
  // What rounding left past the end, or near the border of two tokens.
  MadeSummary made(logits, 4, {}, 1);
  made.row.drawn = 100;
  EXPECT_FALSE(drawFromSummary(made.row, {}, 1, -1));
  made.row.drawn = 7;
  for (float margin : {-1.0f, 0.0f, 9e-5f, std::nanf("")}) { // of 100
    made.row.drawnMargin = margin;
    EXPECT_FALSE(drawFromSummary(made.row, {}, 1, -1)) << margin;
  }
  made.row.drawnMargin = 1.1e-4f;
  EXPECT_TRUE(drawFromSummary(made.row, {}, 1, -1));
  made.row.logSum = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(drawFromSummary(made.row, {}, 1, -1));
}

constexpr size_t kDeviceBlock = 512; // as in SamplerProgram.cpp

/// Running sums as a device makes them, in log2(n) rounds.
void scanInRounds(std::vector<float> &sums) {
  for (size_t distance = 1; distance < sums.size(); distance *= 2)
    for (size_t i = sums.size(); i-- > distance;)
      sums[i] += sums[i - distance];
}

/// Draws from weights as SamplerProgram.cpp does, in float32.
struct BlockDraw {
  explicit BlockDraw(std::vector<float> given) : weights(std::move(given)) {
    size_t blocks = (weights.size() + kDeviceBlock - 1) / kDeviceBlock;
    weights.resize(blocks * kDeviceBlock, 0.0f);
    for (size_t block = 0; block < blocks; ++block) {
      std::vector<float> part = chosen(block);
      for (size_t half = kDeviceBlock / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i)
          part[i] += part[i + half];
      parts.push_back(part[0]);
    }
    ends = parts;
    scanInRounds(ends);
  }
  std::vector<float> chosen(size_t block) const {
    auto begin = weights.begin() + static_cast<long>(block * kDeviceBlock);
    return {begin, begin + static_cast<long>(kDeviceBlock)};
  }
  static size_t countAtMost(const std::vector<float> &sums, float bound) {
    auto count = std::count_if(sums.begin(), sums.end(),
                               [&](float sum) { return sum <= bound; });
    return std::min(static_cast<size_t>(count), sums.size() - 1);
  }
  void draw(RowSummary &row, float share) const {
    float wanted = share * ends.back();
    size_t block = countAtMost(ends, wanted);
    float distance = wanted - (ends[block] - parts[block]);
    std::vector<float> within = chosen(block);
    scanInRounds(within);
    size_t place = countAtMost(within, distance);
    float left = within[place] - distance;
    row.weightSum = ends.back();
    row.drawn = static_cast<int64_t>(block * kDeviceBlock + place);
    row.drawnMargin =
        std::min(left, weights[block * kDeviceBlock + place] - left);
  }
  std::vector<float> weights, parts, ends;
};

// Half of all draws are the heavy token's, and places near its two borders are
// looked for: what is told there must be what the whole row tells.
TEST(RowSummary, MinPOfOneKeepsWhatIsAsLikelyAsTheBest) {
  std::vector<float> logits{1, 3, 2, 3, 0};
  SamplingOptions options;
  options.minP = 1;
  for (uint64_t position = 0; position < 50; ++position) {
    MadeSummary made(logits, 4, options, position);
    std::optional<Token> token =
        drawFromSummary(made.row, options, position, -1);
    ASSERT_TRUE(token);
    EXPECT_EQ(token->id, drawn(logits, options, position)) << position;
  }
}

TEST(RowSummary, TheShareIsBelowOne) {
  // Of the first such position the number in [0, 1) rounds to 1 in float32.
  constexpr uint64_t position = 38471471;
  ASSERT_EQ(static_cast<float>(philoxUniform(0, position)), 1);
  EXPECT_LT(summaryShare({}, position), 1);
}

TEST(RowSummary, AHeavyTokenAmongManyLightOnes) {
  constexpr size_t vocabulary = 151936, heavy = 76000;
  std::vector<float> logits(vocabulary, 0.0f);
  logits[heavy] = 12; // 162,755 light ones
  std::vector<float> weights;
  double sum = 0, before = 0;
  for (size_t i = 0; i < vocabulary; ++i) {
    weights.push_back(std::exp(logits[i] - logits[heavy]));
    before += i < heavy ? weights[i] : 0;
    sum += weights[i];
  }
  BlockDraw device(weights);
  MadeSummary made(logits, 64, {}, 0);
  int told = 0, untold = 0;
  for (uint64_t position = 0; position < 1000000; ++position) {
    double place = philoxUniform(0, position) * sum;
    double off =
        std::min(std::abs(place - before), std::abs(place - before - 1));
    if (position >= 100 && off > 4e-6 * sum)
      continue;
    device.draw(made.row, summaryShare({}, position));
    std::optional<Token> token = drawFromSummary(made.row, {}, position, -1);
    ++(token ? told : untold);
    if (token)
      ASSERT_EQ(token->id, drawn(logits, {}, position)) << position;
  }
  EXPECT_GT(told, 30);
  EXPECT_GT(untold, 0);
}

} // namespace
