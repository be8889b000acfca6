// What the next step computes: a pure function of what is known of all
// sequences. The same state gives the same decision, whatever the clock says.
#pragma once

#include <cstdint>
#include <vector>

namespace knapper::serving {

/// A sequence as the policy sees it.
struct SequenceView {
  uint64_t id = 0;      ///< in the order of arrival
  int32_t priority = 0; ///< smaller first
  int32_t tokens = 0;   ///< prompt and answer so far
  int32_t computed = 0; ///< of these, whose keys are there
  int32_t blocks = 0;   ///< that it holds
  /// Tokens that are proposed to follow: of one that needs one token.
  int32_t proposed = 0;
  /// Of one that waits: blocks of its beginning that are cached, and how many
  /// of them count as available.
  int32_t hitBlocks = 0, hitIdle = 0;
};

struct SchedulerState {
  int32_t budget = 0; ///< tokens of a step
  int32_t blockTokens = 16;
  int32_t available = 0;    ///< blocks that are free or may be evicted
  int32_t maxSequences = 0; ///< that run at once
  std::vector<SequenceView> running, waiting;
};

struct StepDecision {
  struct Part {
    uint64_t id;
    int32_t tokens;
    int32_t proposed = 0; ///< of its proposed tokens, verified behind those
  };
  std::vector<Part> parts;         ///< in this order; each at least one token
  std::vector<uint64_t> admitted;  ///< of the waiting ones, with a part or not
  std::vector<uint64_t> preempted; ///< give all blocks back and wait again
};

/// Running sequences first: those that need one token, then rests of prompts in
/// chunks, by priority and arrival; then waiting ones as long as the whole
/// prompt and a spare block for every running sequence find room. Where blocks
/// run out, the last of the running ones (lowest priority, newest) is
/// preempted. Proposed tokens get what is left of the budget, and of the blocks
/// beyond a spare one for every running sequence.
StepDecision scheduleStep(const SchedulerState &state);

} // namespace knapper::serving
