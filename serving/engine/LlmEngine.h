// The engine over a compiled decoder. One thread owns all that changes:
// sequences, blocks, the step's numbers. Others only put requests and
// cancellations into a bounded queue.
#pragma once

#include "serving/engine/Engine.h"
#include "serving/engine/ModelRunner.h"
#include "serving/kvcache/KvCache.h"
#include "serving/sampling/Sampler.h"
#include "serving/scheduler/Scheduler.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace knapper::serving {

struct LlmEngineSettings {
  ModelLimits limits = {};
  int32_t numBlocks = 0, blockTokens = 16;
  int32_t maxBatchedTokens = 512, maxSequences = 64, queueLimit = 1024;
  bool prefixCache = true;
  std::vector<int32_t> endTokens; ///< end of sequence, of the model
};

class LlmEngine final : public Engine {
public:
  LlmEngine(std::unique_ptr<ModelRunner> runner, LlmEngineSettings settings);
  /// Cancels what runs; waits for the step that is under way.
  ~LlmEngine() override;

  ModelLimits limits() const override { return settings.limits; }
  Expected<uint64_t> submit(Request request, EventSink sink) override;
  void cancel(uint64_t request) override;
  void drain() override;
  EngineStatistics statistics() const override;

private:
  struct Sequence {
    uint64_t id = 0;
    Request request;
    EventSink sink;
    std::vector<int32_t> tokens; ///< prompt, then answer
    TokenCounts counts;
    BlockList blocks;
    int32_t computed = 0;
    int32_t cachedTokens = 0; ///< of the first admission
    bool admitted = false;    ///< once at least
    bool running = false;
    std::vector<TokenLogprob> promptLogprobs;
    std::unique_ptr<GrammarCursor> grammar; ///< behind the last token
    GrammarCursor::Next next;               ///< what it allows there

    int32_t length() const { return static_cast<int32_t>(tokens.size()); }
    int32_t answer() const {
      return length() - static_cast<int32_t>(request.prompt.size());
    }
  };
  struct Part {
    Sequence *sequence;
    int32_t tokens;
    int64_t firstRow, rows; ///< of the logits
  };

  void loop();
  /// Takes what was submitted and cancelled meanwhile; false: the end.
  bool takeMessages();
  SchedulerState view();
  /// One step; false if nothing could be done.
  bool step();
  void admit(Sequence &sequence);
  void preempt(Sequence &sequence);
  /// Adds a part to the batch, if its blocks are there.
  void addPart(Sequence &sequence, int32_t tokens);
  void buildTable();
  void take(const Part &part);
  void readPrompt(Sequence &sequence, int32_t first, int32_t count,
                  std::span<float> logits);
  /// The next token of a sequence of which all is computed.
  void sample(Sequence &sequence, int64_t row);
  /// The token of a row of the step's logits.
  Expected<Token> draw(Sequence &sequence, int64_t row);
  bool lookAhead(Sequence &sequence, const std::vector<Token> &tokens);
  bool stops(const Sequence &sequence, int32_t token) const;
  void finish(Sequence &sequence, FinishReason reason, Error error = {},
              std::vector<Token> tokens = {});
  /// Fills in what every event of the sequence says.
  void describe(const Sequence &sequence, Event &event) const;
  void send(Sequence &sequence, Event event);
  void checkLedger();
  void publishStatistics(double seconds);

  const LlmEngineSettings settings;
  std::unique_ptr<ModelRunner> runner;
  KvCache cache;
  std::map<uint64_t, std::unique_ptr<Sequence>> sequences; ///< not finished
  StepBatch batch;
  std::vector<Part> parts;
  EngineStatistics counters; ///< of the engine's thread

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable woken;
  std::deque<std::unique_ptr<Sequence>> submitted;
  std::vector<uint64_t> cancelled;
  uint64_t nextId = 1;
  int32_t queued = 0; ///< submitted, and those that wait
  bool draining = false, ending = false;
  EngineStatistics published;
  double lastProgress = 0; ///< seconds of the steady clock
  std::thread thread;
};

} // namespace knapper::serving
