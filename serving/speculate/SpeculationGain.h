// Whether proposed tokens are worth verifying, by what was measured: how many
// of them were right, and what steps of so many tokens take.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace knapper::serving {

/// Times of steps by their tokens, smoothed. Of one thread.
class StepTimes {
public:
  void add(int32_t tokens, double seconds);
  /// What a step of so many tokens takes. Between and beyond the sizes that
  /// were seen it is on their line; as long as one size alone was seen it is
  /// the same, so that others are tried. 0: nothing was seen.
  double seconds(int32_t tokens) const;

private:
  struct Bucket {
    double tokens = 0, seconds = 0;
    int32_t count = 0;
  };
  static size_t bucketOf(int32_t tokens);
  std::array<Bucket, 40> buckets; ///< 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
};

/// How often a sequence's proposed tokens are right. What has failed is asked
/// less and less often.
class AcceptanceRate {
public:
  double rate() const { return value; }
  /// Of the tokens that were verified, in order, so many were right.
  void add(int32_t verified, int32_t right);
  /// Proposals were not worth it; true: time for another trial.
  bool pass();

private:
  static constexpr double kFirst = 0.6;
  static constexpr int32_t kLeast = 16, kMost = 1024;
  double value = kFirst;
  int32_t passed = 0, patience = kLeast;
};

struct Proposal {
  double rate;    ///< see AcceptanceRate
  int32_t tokens; ///< that are proposed
};

/// How many tokens of each proposal to verify in a step that has `others`
/// tokens besides, so that the step gives the most tokens a second. The tokens
/// of a proposal are right one after the other, each with its rate.
std::vector<int32_t> chooseVerified(std::span<const Proposal> proposals,
                                    int32_t others, const StepTimes &times);

/// How many tokens to draft for each of `rates`, up to `most`, where every
/// round of drafting takes a step of the draft model.
int32_t chooseRounds(std::span<const double> rates, int32_t others,
                     int32_t most, const StepTimes &times,
                     const StepTimes &draftTimes);

} // namespace knapper::serving
