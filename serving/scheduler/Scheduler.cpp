#include "serving/scheduler/Scheduler.h"

#include <algorithm>

namespace knapper::serving {
namespace {

bool comesBefore(const SequenceView &a, const SequenceView &b) {
  return a.priority != b.priority ? a.priority < b.priority : a.id < b.id;
}

struct Step {
  const SchedulerState &state;
  StepDecision decision = {};
  int32_t budget = state.budget, available = state.available;
  std::vector<SequenceView> running = state.running; ///< by rank
  std::vector<bool> gone = std::vector<bool>(running.size());

  int32_t blocksFor(int32_t tokens) const {
    return (tokens + state.blockTokens - 1) / state.blockTokens;
  }

  /// Preempts the last running sequence behind `rank` that has no part yet;
  /// false if there is none.
  bool preemptBehind(size_t rank) {
    for (size_t i = running.size(); i-- > rank + 1;) {
      if (gone[i] || hasPart(running[i].id))
        continue;
      preempt(i);
      return true;
    }
    return false;
  }
  void preempt(size_t i) {
    gone[i] = true;
    available += running[i].blocks;
    decision.preempted.push_back(running[i].id);
  }
  bool hasPart(uint64_t id) const {
    return std::any_of(decision.parts.begin(), decision.parts.end(),
                       [&](const auto &part) { return part.id == id; });
  }

  void runOne(size_t rank) {
    SequenceView &sequence = running[rank];
    int32_t tokens = std::min(sequence.tokens - sequence.computed, budget);
    if (gone[rank] || tokens <= 0)
      return;
    int32_t needed = blocksFor(sequence.computed + tokens) - sequence.blocks;
    while (needed > available)
      if (!preemptBehind(rank)) {
        // Nobody behind it: it gives way itself, unless it alone is left.
        preempt(rank);
        return;
      }
    available -= std::max(needed, 0);
    budget -= tokens;
    decision.parts.push_back({sequence.id, tokens, 0});
  }

  void admit() {
    std::vector<SequenceView> waiting = state.waiting;
    std::sort(waiting.begin(), waiting.end(), comesBefore);
    auto count =
        static_cast<int32_t>(running.size() - decision.preempted.size());
    for (const SequenceView &sequence : waiting) {
      if (budget <= 0 || count >= state.maxSequences ||
          !decision.preempted.empty())
        return;
      int32_t needed =
          blocksFor(sequence.tokens) - sequence.hitBlocks + sequence.hitIdle;
      // Nobody overtakes: a long prompt would wait for ever.
      if (needed + count > available)
        return;
      int32_t computed = sequence.hitBlocks * state.blockTokens;
      int32_t tokens = std::min(sequence.tokens - computed, budget);
      available -= needed;
      budget -= tokens;
      ++count;
      decision.admitted.push_back(sequence.id);
      decision.parts.push_back({sequence.id, tokens, 0});
    }
  }

  /// What nobody else needs is for proposed tokens.
  void propose() {
    if (!decision.preempted.empty())
      return;
    auto spare =
        static_cast<int32_t>(running.size() + decision.admitted.size());
    for (const SequenceView &sequence : running) {
      if (sequence.proposed <= 0)
        continue;
      auto part =
          std::find_if(decision.parts.begin(), decision.parts.end(),
                       [&](const auto &one) { return one.id == sequence.id; });
      if (part == decision.parts.end() ||
          part->tokens != sequence.tokens - sequence.computed)
        continue;
      int32_t held = std::max(sequence.blocks, blocksFor(sequence.tokens));
      int32_t room =
          (held + std::max(0, available - spare)) * state.blockTokens -
          sequence.tokens;
      int32_t tokens = std::min({sequence.proposed, budget, room});
      if (tokens <= 0)
        continue;
      available -= std::max(0, blocksFor(sequence.tokens + tokens) - held);
      budget -= tokens;
      part->proposed = tokens;
    }
  }

  StepDecision run() {
    std::sort(running.begin(), running.end(), comesBefore);
    decision.parts.reserve(running.size());
    for (bool single : {true, false})
      for (size_t i = 0; i < running.size(); ++i)
        if ((running[i].tokens - running[i].computed == 1) == single)
          runOne(i);
    admit();
    propose();
    return std::move(decision);
  }
};

} // namespace

StepDecision scheduleStep(const SchedulerState &state) {
  return Step{state}.run();
}

} // namespace knapper::serving
