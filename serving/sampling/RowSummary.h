// A token drawn from what a device says of a row of logits, without the row.
#pragma once

#include "serving/sampling/SamplingOptions.h"

#include <limits>
#include <optional>
#include <span>

namespace knapper::serving {

/// What serving/models/SamplerProgram.h makes of one row. Tokens are drawn from
/// its logits after changes and without those that a mask leaves out (-inf);
/// what is said of them are log-probabilities of the logits as they were given.
struct RowSummary {
  int64_t vocabulary = 0;
  std::span<const float> values; ///< the largest to draw from, best first
  std::span<const int64_t> ids;  ///< their tokens
  float weightSum = 0; ///< of exp((logit - largest) * summaryScale)
  /// The first token where the running sum of these exceeds `summaryShare` of
  /// their sum.
  int64_t drawn = 0;
  /// How far that place is from the nearer end of the token's part of the
  /// running sum.
  float drawnMargin = 0;
  float drawnLogit = 0;

  float logSum = 0;             ///< log of the sum of exp of the given logits
  std::span<const float> given; ///< the given logits of `ids`
  float drawnGiven = 0;         ///< of `drawn`
  std::span<const float> bestGiven; ///< the largest given ones, best first
  std::span<const int64_t> bestIds; ///< their tokens
};

/// What the device is told of a draw.
float summaryScale(const SamplingOptions &options);
float summaryShare(const SamplingOptions &options, uint64_t position);

/// The whole of it, for a device that draws the token by itself.
struct DrawNumbers {
  float scale = 1, share = 0;
  int32_t topK = 0; ///< 0: no limit
  float topP = 1;
  /// How far below the largest logit another may be.
  float depth = -std::numeric_limits<float>::infinity();
};
DrawNumbers drawNumbers(const SamplingOptions &options, uint64_t position);

/// Whether a summary with `known` logits to draw from and `knownBest` given
/// ones may tell the token: no more of them are asked for.
bool mayUseSummary(const SamplingOptions &options, int32_t topLogprobs,
                   int64_t known, int64_t knownBest, int64_t vocabulary);

/// The token that `sampleToken` draws from the row; nothing where the summary
/// does not tell: the share of `topP` or the bound of `minP` reaches past the
/// logits it has, or logits are not finite. Nothing either where the place lies
/// so near the border of two tokens that rounding may have chosen between them.
std::optional<Token> drawFromSummary(const RowSummary &row,
                                     const SamplingOptions &options,
                                     uint64_t position, int32_t topLogprobs);

} // namespace knapper::serving
