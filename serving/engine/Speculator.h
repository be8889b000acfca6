// Proposes tokens for the sequences that decode, and learns what that brought.
#pragma once

#include "serving/engine/DraftModel.h"
#include "serving/engine/Sequence.h"
#include "serving/speculate/SpeculationOptions.h"

namespace knapper::serving {

/// Used by the engine's thread alone, but for `prepare`.
class Speculator {
public:
  Speculator(SpeculationOptions options, ModelLimits limits,
             std::unique_ptr<DraftModel> draft)
      : options(options), limits(limits), draft(std::move(draft)) {}

  bool isOn() const { return options.kind != SpeculationKind::off; }
  /// Prepares a request, on any thread.
  void prepare(Sequence &sequence) const;
  /// Fills `proposed` of the sequences that decode. The draft model may take
  /// blocks for its keys. `budget`: tokens of one step of the draft model.
  void propose(std::span<Sequence *const> decoding, int32_t others,
               KvCache &cache, int32_t budget);
  /// Of a sequence's proposed tokens `verified` were verified, `right` right.
  void learn(Sequence &sequence, int32_t verified, int32_t right);
  /// A step that only decoded.
  void learn(int32_t tokens, double seconds) { times.add(tokens, seconds); }

private:
  int32_t room(const Sequence &sequence) const;
  void lookUp(std::span<Sequence *const> decoding, int32_t others);
  void draftAhead(std::span<Sequence *const> decoding, int32_t others,
                  KvCache &cache, int32_t budget);

  const SpeculationOptions options;
  const ModelLimits limits;
  std::unique_ptr<DraftModel> draft;
  StepTimes times, draftTimes;
  int32_t sincePlain = 0; ///< steps with proposals in a row
};

} // namespace knapper::serving
