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
  // What each step reads of all of them stands together: see `warm`.
  uint64_t id = 0;
  std::vector<int32_t> tokens; ///< prompt, then answer
  BlockList blocks;
  int32_t computed = 0;
  /// Of them, those whose full blocks others may have: what follows their keys
  /// was a number.
  int32_t publishable = 0;
  bool publishWaits = false; ///< some may not before the step that runs has run
  bool admitted = false;     ///< once at least
  bool running = false;
  bool jumped = false; ///< what the grammar forces next is in `tokens`
  /// Some of its blocks became others since the step was prepared.
  bool movedBlocks = false;
  /// Its part of the step that is prepared; -1: none.
  int32_t preparedPart = -1;
  /// Of the logits of the step that runs, where it draws from them: what
  /// StepBatch::source says of its token.
  int64_t row = -1;
  /// Tokens that the device gave the next step and that were others, or that
  /// its summary of the row did not tell.
  int32_t wrongGuesses = 0;
  /// Drawn in this step; sent when it is known whether the text goes on.
  std::vector<Token> unsent;
  Request request;

  TokenCounts counts;
  std::shared_ptr<const EventSink> sink; ///< shared with events under way
  int32_t cachedTokens = 0;              ///< of the first admission
  std::vector<Token> promptLogprobs;

  std::optional<GrammarFollower> grammar;

  std::optional<NgramLookup> lookup;
  AcceptanceRate acceptance;
  std::vector<int32_t> proposed; ///< to follow `tokens`, for this step
  int32_t drafted = 0; ///< tokens of which the draft model has the keys

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  int32_t answer() const {
    return length() - static_cast<int32_t>(request.prompt.size());
  }
  /// Whether the next step computes its last token alone.
  bool decodes() const { return running && computed + 1 == length(); }
  /// Asks for what a step reads of it: behind a step of milliseconds that is in
  /// no cache nearby, and line after line would be waited for.
  void warm() const {
    constexpr size_t line = 64;
    const auto *from = reinterpret_cast<const std::byte *>(&id);
    const auto *to = reinterpret_cast<const std::byte *>(&counts);
    for (; from < to; from += line)
      __builtin_prefetch(from);
  }
  /// The same of where its next token is written, once `warm` is done.
  void warmEnds() const {
    __builtin_prefetch(tokens.data() + tokens.size(), true);
    __builtin_prefetch(unsent.data(), true);
  }
};

} // namespace knapper::serving
