// The engine over a compiled encoder. It makes vectors, and no text.
#pragma once

#include "runtime/execute/Module.h"
#include "serving/engine/Embedder.h"
#include "serving/engine/Engine.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace knapper::serving {

class TextEncoder final : public Engine, public Embedder {
public:
  struct Settings {
    ModelLimits limits = {};
    int32_t maxBatchedTokens = 512; ///< of one step, or one text
    int32_t queueLimit = 1024;      ///< requests that wait
  };
  TextEncoder(std::shared_ptr<Module> module, Settings settings);
  ~TextEncoder() override;

  ModelLimits limits() const override { return settings.limits; }
  Expected<uint64_t> submit(Request request, EventSink sink) override;
  void cancel(uint64_t) override {}
  void drain() override;
  EngineStatistics statistics() const override;
  Embedder *embedder() override { return this; }

  Status embed(std::vector<std::vector<int32_t>> texts, Done done,
               std::shared_ptr<const std::atomic<bool>> gone) override;
  int32_t width() const override { return settings.limits.embeddingLength; }

private:
  struct Job {
    std::vector<std::vector<int32_t>> texts;
    Done done;
    std::shared_ptr<const std::atomic<bool>> gone; ///< nobody wants it
  };
  void loop();
  Expected<std::vector<float>> encode(const Job &job);
  /// Texts of one length into their places of `vectors`.
  Status step(const Job &job, std::span<const size_t> texts,
              std::vector<float> &vectors);

  const Settings settings;
  const std::shared_ptr<Module> module;
  RunResult result; ///< of the engine's thread

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool draining = false, ending = false;
  EngineStatistics published;
  double stepBegan = 0; ///< seconds of the steady clock; 0: none runs
  std::thread thread;   // the last member: it uses the others
};

} // namespace knapper::serving
