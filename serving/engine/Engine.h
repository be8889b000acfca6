// The engine as the HTTP server, the C API and the command line see it:
// requests in, events out. Thread-safe.
#pragma once

#include "runtime/base/Error.h"
#include "serving/grammar/TokenGrammar.h"
#include "serving/sampling/SamplingOptions.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace knapper::serving {

/// One sequence to continue.
struct Request {
  std::vector<int32_t> prompt; ///< not empty
  SamplingOptions sampling;
  int32_t maxTokens = 16;          ///< at most this many new tokens
  std::vector<int32_t> stopTokens; ///< end of sequence and the user's; not sent
  bool ignoreEos = false;
  int32_t topLogprobs =
      -1; ///< -1: none; 0..20: of the token and so many others
  bool promptLogprobs = false; ///< with as many others
  int32_t priority = 0; ///< smaller runs first
  /// What the answer follows; null: anything. The answer ends where nothing may
  /// follow, and fails where that is no end.
  std::shared_ptr<const TokenGrammar> grammar;
  /// Prompts share keys and values with those of the same salt only: whose is
  /// another learns nothing of them, neither by time nor by `cachedTokens`.
  std::string salt;
  /// Whether tokens may be proposed for it. They change no token that is drawn.
  bool speculate = true;
  /// When it ends unless it has ended: with an error whose `where` is
  /// "deadline", at the next step.
  std::chrono::steady_clock::time_point deadline =
      std::chrono::steady_clock::time_point::max();
};

enum class FinishReason : uint8_t { none, stop, length, cancelled, error };

struct Event {
  uint64_t request = 0;
  std::vector<Token> tokens; ///< in order; may be empty at the end
  FinishReason finish = FinishReason::none;
  /// Of FinishReason::error, and of no other: events are moved a token.
  std::optional<Error> error;
  int32_t cachedTokens = 0; ///< of the prompt, found in the prefix cache
  /// Of promptLogprobs, with the first event: all tokens but the first one,
  /// which follows nothing.
  std::vector<Token> prompt;
};

/// Called on a thread of the engine, in the order of the events, never two at
/// once. Must only put the event into a queue, and throw nothing.
using EventSink = std::function<void(Event)>;

struct ModelLimits {
  int32_t contextLength; ///< tokens of a prompt and its answer
  int32_t vocabulary;
  int32_t embeddingLength;
};

struct EngineStatistics {
  uint64_t steps = 0, promptTokens = 0, cachedTokens = 0, generatedTokens = 0;
  uint64_t preemptions = 0, finished = 0, failed = 0, cancelled = 0;
  uint64_t ledgerFaults = 0; ///< blocks that the ledger had to quarantine
  /// Proposed tokens that were verified, those that were right, and tokens
  /// that a grammar decided alone.
  uint64_t verifiedTokens = 0, acceptedTokens = 0, forcedTokens = 0;
  uint64_t deviceDraws = 0;   ///< tokens drawn where the logits lie
  uint64_t preparedSteps = 0; ///< decided while the step before them ran
  uint64_t earlySteps = 0;    ///< of them, submitted then
  /// Computed by such a step for requests that had ended.
  uint64_t discardedTokens = 0;
  /// Processor time of the engine's thread for the view, decision and batch of
  /// steps.
  uint64_t prepareNanoseconds = 0;
  /// Wall time from the end of a step on the device to the start of the next,
  /// where there was one to do and it was not submitted early.
  uint64_t betweenNanoseconds = 0;
  /// The same between all steps by the device's clock, where it has one.
  uint64_t idleNanoseconds = 0;
  int32_t running = 0, waiting = 0;
  int64_t blocksTotal = 0, blocksFree = 0, blocksCached = 0;
  double lastStepSeconds = 0; ///< of the latest step
  double secondsSinceProgress = 0;
  bool deviceLost = false;        ///< no step will succeed any more
  bool rebuilding = false;        ///< LastingEngine: between two engines
  uint64_t rebuilds = 0;          ///< LastingEngine: engines after the first
  uint64_t deadlinesExceeded = 0; ///< of `failed`
};

/// Of a request whose deadline is over.
inline Error deadlineError() {
  return deviceError("the request was not finished by its deadline", "deadline",
                     "a longer one, or less load");
}

class Embedder;

class Engine {
public:
  virtual ~Engine() = default;
  virtual ModelLimits limits() const = 0;
  /// Queues a request and returns its number. Refuses: an empty prompt, a token
  /// outside the vocabulary, a prompt beyond the context, a full queue (the
  /// error's `where` is "queue"), an engine that drains ("draining") or is
  /// built again ("rebuilding").
  virtual Expected<uint64_t> submit(Request request, EventSink sink) = 0;
  /// Ends a request at the next step: its last event says `cancelled`.
  virtual void cancel(uint64_t request) = 0;
  /// Refuses new requests from now on.
  virtual void drain() = 0;
  virtual EngineStatistics statistics() const = 0;
  /// What makes vectors, of a model that makes no text; null for others. It is
  /// part of the engine.
  virtual Embedder *embedder() { return nullptr; }
};

} // namespace knapper::serving
