// Draws the tokens of a step's sequences by several threads. A token depends on
// its row, its seed and its position alone, so that their number changes none.
#pragma once

#include "serving/grammar/MaskWorkers.h"
#include "serving/sampling/Sampler.h"

#include <optional>

namespace knapper::serving {

/// Of one thread. The workers must live longer.
class DrawAhead {
public:
  /// As sampleToken has them.
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
  /// The number is `finish`'s and `take`'s. What the draw points to must stay
  /// until one of these has returned, or `clear`.
  size_t add(const Draw &draw);
  /// Begins with those that were added, shared out over workers and caller.
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
