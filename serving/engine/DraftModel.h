// The draft model of speculative decoding: a smaller model of the same
// vocabulary that proposes tokens to the served model. Its keys and values lie
// in pools of its own, in blocks of the same numbers.
#pragma once

#include "serving/engine/ModelRunner.h"
#include "serving/engine/Sequence.h"

namespace knapper::serving {

/// Used by the engine's thread alone.
class DraftModel {
public:
  DraftModel(std::unique_ptr<ModelRunner> runner, ModelLimits limits,
             int32_t blockTokens)
      : runner(std::move(runner)), limits(limits), blockTokens(blockTokens) {}

  /// Whether the sequence is within its context.
  bool serves(const Sequence &sequence) const {
    return sequence.length() < limits.contextLength;
  }
  /// Proposes up to `rounds` tokens for each sequence, drawn with its options,
  /// seed and positions. Where keys of more than `budget` tokens are missing,
  /// the call computes these and proposes nothing for the sequence. A step that
  /// fails proposes nothing.
  void propose(std::span<Sequence *const> sequences, int32_t rounds,
               int32_t budget, StepTimes &times);

private:
  struct Part {
    Sequence *sequence;
    bool wanted; ///< its logits
  };
  int32_t tokenAt(const Sequence &sequence, int32_t place) const;
  void add(Sequence &sequence, int32_t end, bool wanted);
  /// The token of a row of the step; none where its logits are not finite.
  std::optional<int32_t> tokenOf(const Sequence &sequence, int64_t row);
  /// Runs the batch; whether it succeeded.
  bool run(StepTimes &times);

  std::unique_ptr<ModelRunner> runner;
  const ModelLimits limits;
  const int32_t blockTokens;
  StepBatch batch;
  std::vector<Part> parts;
};

} // namespace knapper::serving
