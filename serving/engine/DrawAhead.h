// Draws the tokens of a step's sequences on several threads. A token depends on
// its row, seed and position alone, so the number of threads changes no token.
#pragma once

#include "serving/grammar/MaskWorkers.h"
#include "serving/sampling/Sampler.h"

#include <optional>

namespace knapper::serving {

/// Used by one thread. The workers must outlive it.
class DrawAhead {
public:
  /// The arguments of sampleToken.
  struct Draw {
    std::span<float> logits; ///< of this draw alone: it changes them
    const SamplingOptions &options;
    const TokenCounts &counts;
    uint64_t position;
    int32_t topLogprobs;
    std::span<const uint32_t> allowed;
  };

  explicit DrawAhead(MaskWorkers &workers) : workers(workers) {}
  ~DrawAhead() { clear(); }

  /// Whether so many rows of so many logits are worth waking a thread.
  static bool pays(size_t rows, int64_t vocabulary);
  /// Returns the draw's number, for `finish` and `take`. What the draw points
  /// to must stay alive until one of these, or `clear`, has returned.
  size_t add(const Draw &draw);
  /// Starts the added draws, shared out over the workers and the caller.
  void start();
  void finish(size_t number);
  /// Waits for the token. DeviceError where memory ran out.
  Expected<Token> take(size_t number);
  /// Waits for all, and forgets them.
  void clear();

private:
  struct Entry {
    explicit Entry(const Draw &draw) : draw(draw) {}
    Draw draw;
    std::optional<Expected<Token>> token;
    std::shared_ptr<MaskWorkers::Job> job; ///< null: it was not started
  };
  static void work(Entry &entry);

  MaskWorkers &workers;
  std::vector<std::unique_ptr<Entry>> entries;
};

} // namespace knapper::serving
