// A smaller model of the same vocabulary, whose tokens are proposed to the one
// that is served. Its keys lie in blocks of the same numbers, in pools of its
// own.
#pragma once

#include "serving/engine/ModelRunner.h"
#include "serving/engine/Sequence.h"

namespace knapper::serving {

/// Of the engine's thread.
class DraftModel {
public:
  DraftModel(std::unique_ptr<ModelRunner> runner, ModelLimits limits,
             int32_t blockTokens)
      : runner(std::move(runner)), limits(limits), blockTokens(blockTokens) {}

  /// Whether the sequence is within its context.
  bool serves(const Sequence &sequence) const {
    return sequence.length() < limits.contextLength;
  }
  /// Up to `rounds` tokens for each, drawn as the sequence's own are: with its
  /// options, seed and positions. A sequence of which it lacks the keys of more
  /// than `budget` tokens gets those first, and no tokens. A step of it that
  /// fails proposes none.
  void propose(std::span<Sequence *const> sequences, int32_t rounds,
               int32_t budget, StepTimes &times);

private:
  struct Part {
    Sequence *sequence;
    bool wanted; ///< its logits
  };
  int32_t tokenAt(const Sequence &sequence, int32_t place) const;
  void add(Sequence &sequence, int32_t end, bool wanted);
  /// Of a row of its step; none where its logits are not finite.
  std::optional<int32_t> tokenOf(const Sequence &sequence, int64_t row);
  /// Whether its step was computed.
  bool run(StepTimes &times);

  std::unique_ptr<ModelRunner> runner;
  const ModelLimits limits;
  const int32_t blockTokens;
  StepBatch batch;
  std::vector<Part> parts;
};

} // namespace knapper::serving
