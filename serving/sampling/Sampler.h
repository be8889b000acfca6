// The next token of a row of logits.
#pragma once

#include "runtime/base/Error.h"
#include "serving/sampling/LogitChanges.h"

#include <span>

namespace knapper::serving {

/// Whether there is a bias or a penalty.
bool changesLogits(const SamplingOptions &options);
/// Whether the token that is drawn is the one of the largest logit.
bool drawsBest(const SamplingOptions &options);

/// Draws by the options, in this order: bias, penalties, temperature, min-p,
/// top-k, top-p. Of equal logits the smaller token comes first. `position`:
/// of the token that is drawn. `topLogprobs` as in Request; logprobs are those
/// of the logits as they came. `logits` is scratch afterwards. `allowed`: a bit
/// a token; those without one are not drawn (empty: all are). UserError where
/// the logits are not finite numbers (or all that are allowed are -inf).
Expected<Token> sampleToken(std::span<float> logits,
                            const SamplingOptions &options,
                            const TokenCounts &counts, uint64_t position,
                            int32_t topLogprobs,
                            std::span<const uint32_t> allowed = {});

/// Of logits from which none can be.
Error notFiniteError();

/// Whether a token could be drawn: no NaN, no +inf, and not all are -inf.
bool areFinite(std::span<const float> logits);

/// What `sampleToken` would say of the token if it had drawn it.
Token describeToken(std::span<const float> logits, int32_t token,
                    int32_t topLogprobs);

/// Log of the softmax at one token.
float logSoftmaxAt(std::span<const float> logits, int32_t token);

} // namespace knapper::serving
