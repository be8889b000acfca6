// A request in the engine. Used by the engine's thread alone, once submitted.
#pragma once

#include "serving/engine/Engine.h"
#include "serving/grammar/GrammarFollower.h"
#include "serving/kvcache/KvCache.h"
#include "serving/sampling/Sampler.h"
#include "serving/speculate/NgramLookup.h"
#include "serving/speculate/SpeculationGain.h"

#include <optional>

namespace knapper::serving {

struct Sequence {
  uint64_t id = 0;
  Request request;
  std::shared_ptr<const EventSink> sink; ///< shared with events under way
  std::vector<int32_t> tokens;           ///< prompt, then answer
  TokenCounts counts;
  BlockList blocks;
  int32_t computed = 0;
  int32_t cachedTokens = 0; ///< of the first admission
  bool admitted = false;    ///< once at least
  bool running = false;
  std::vector<TokenLogprob> promptLogprobs;

  std::optional<GrammarFollower> grammar;
  bool jumped = false; ///< what the grammar forces next is in `tokens`
  /// Drawn in this step; sent when it is known whether the text goes on.
  std::vector<Token> unsent;

  std::optional<NgramLookup> lookup;
  AcceptanceRate acceptance;
  std::vector<int32_t> proposed; ///< to follow `tokens`, for this step
  int32_t drafted = 0; ///< tokens of which the draft model has the keys

  /// Its part of the step that is prepared; -1: none.
  int32_t preparedPart = -1;
  /// Some of its blocks became others since the step was prepared.
  bool movedBlocks = false;

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  int32_t answer() const {
    return length() - static_cast<int32_t>(request.prompt.size());
  }
  /// Whether the next step computes its last token alone.
  bool decodes() const { return running && computed + 1 == length(); }
};

} // namespace knapper::serving
